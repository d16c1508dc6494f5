"""Repositories that are in no future version: their licence forbids it, somebody has a claim, or the owner asked.

Published versions are immutable and stay as they are; which of them still hold rows of a denied repository is said
here, so that somebody can remove them.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import Field

from pipeline.snapshots import batches, versions
from pipeline.types import Record


class Denied(Record):
    """One entry of the list."""

    repository: str = Field(min_length=1)
    """`full_name` or `source/full_name`; `*` and `?` stand for any characters, case does not matter."""
    why: Literal["licence", "dmca", "owner"]
    date: date
    """Since when."""
    note: str = ""

    def covers(self, source: str, full_name: str) -> bool:
        pattern = self.repository.lower()
        names = (full_name.lower(), f"{source}/{full_name}".lower())
        return any(fnmatch.fnmatchcase(name, pattern) for name in names)


def denied(repositories: Iterable[tuple[str, str]], entries: Sequence[Denied]) -> dict[tuple[str, str], Denied]:
    """The first entry for each of these (source, full name) that is on the list."""
    return {
        (source, full_name): entry
        for source, full_name in set(repositories)
        if (entry := next((one for one in entries if one.covers(source, full_name)), None)) is not None
    }


def still_published(root: Path, name: str, entries: Sequence[Denied]) -> dict[str, int]:
    """Rows of denied repositories in each published version that has some. Raises SnapshotDamaged."""
    found: dict[str, int] = {}
    for version in versions(root, name) if entries else []:
        rows = 0
        for part in batches(version.path, ["source", "full_name"]):
            columns = (part.column("source").to_pylist(), part.column("full_name").to_pylist())
            pairs = [(str(source), str(full_name)) for source, full_name in zip(*columns, strict=True)]
            listed = denied(pairs, entries)
            rows += sum(pair in listed for pair in pairs)
        if rows:
            found[version.version] = rows
    return found
