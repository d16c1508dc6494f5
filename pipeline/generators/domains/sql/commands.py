"""Commands of solutions that ask a database."""

from __future__ import annotations


def sqlite(base: str, script: str) -> str:
    """Run a script on a database file; the first error ends it."""
    return f"sqlite3 -bail {base} <<'EOF'\n{script.strip()}\nEOF"
