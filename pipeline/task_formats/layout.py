"""Where our own exports keep, in a Harbor task folder, what Harbor has no place for; written and read in two rooms."""

from __future__ import annotations

import re

COMMANDS = "solution/commands.json"
"""The solution as the list of its commands; solve.sh is the same as one script."""
EXPECTED = "tests/expected.json"
"""The tests that have to pass, and under which conditions."""
VERIFIER = "tests/verifier/"
"""Folder of the verifier's files, byte by byte."""

_CANARY = re.compile(r"\s*(?:<!--|#).*canary", re.IGNORECASE)


def shown(instruction: str) -> str:
    """The text of instruction.md. Harbor takes marks against training ("canary") from the beginning of a file.

    An empty line before saves a first line that looks like one.
    """
    return f"\n{instruction}\n" if _CANARY.match(instruction) else f"{instruction}\n"


def instruction_of(text: str) -> str:
    """What `shown` was given."""
    return text.removesuffix("\n").removeprefix("\n" if _CANARY.match(text) else "")
