"""Command lines of the reference solutions of this pack, and the small changes that make wrong ones of them."""

from __future__ import annotations


def python(script: str) -> str:
    """A shell command that runs a script with the Python of the image."""
    return f"python3 - <<'SCRIPT'\n{script.strip()}\nSCRIPT"


def changed(text: str, *changes: tuple[str, str]) -> str:
    """The text with pieces replaced. Raises ValueError when a piece is not there, so that no change is lost."""
    for old, new in changes:
        if old not in text:
            raise ValueError(f"not in the text: {old}")
        text = text.replace(old, new)
    return text
