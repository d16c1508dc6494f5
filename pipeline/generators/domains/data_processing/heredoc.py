"""Commands of solutions that are small programs."""

from __future__ import annotations


def python(script: str) -> str:
    """The command that runs a script with Python."""
    return f"python3 - <<'EOF'\n{script.strip()}\nEOF"


def altered(text: str, *changes: tuple[str, str]) -> str:
    """A solution with other words in some places. Raises ValueError for a place that is not there."""
    for old, new in changes:
        if old not in text:
            raise ValueError(f"no {old!r} to be changed")
        text = text.replace(old, new)
    return text
