"""What became of every row of a version in an export: carried, carried by another row, or refused with a reason.

An export of a version ends with export.json, which says where its rows came from and how many there are, and has
refused.jsonl beside it when a row was refused. No row is left out without a word.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Literal

from pipeline.disk import sync
from pipeline.errors import PipelineError
from pipeline.exports.folders import ExportDamaged
from pipeline.exports.published import PublishedRow, PublishedVersion
from pipeline.exports.tasks import NothingToExport
from pipeline.schemas import canonical_json
from pipeline.types import Record

Unit = Literal["trajectory_id", "instance_id"]
"""What one row of an export is: an attempt, or a task however many attempts at it are published."""


_MANY = 100
"""Files and folders above which one flush of everything costs less than one of each."""


class RowRefused(PipelineError):
    """This format cannot carry this row. The text says why."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule
        """In snake_case, the same for all rows that are refused for that."""


class VersionExport(Record):
    """What was written."""

    format: str
    format_version: str
    source: str
    """NAME@VERSION."""
    content_sha256: str
    """Of the rows of that version."""
    unit: Unit
    read: int
    """Rows of the version in the splits that were asked for."""
    written: dict[str, int]
    """Rows of the export by their split."""
    repeated: int
    """Rows whose task an earlier row carries already."""
    refused: int
    rules: dict[str, int]
    """Refused rows by what they were refused for."""
    ids_sha256: str
    """Of the ids of the rows that were written, sorted, each with a line feed behind it."""
    folder: str


class Account:
    """Follows the rows of one export. Its ids and hashes are all that is kept of a row."""

    def __init__(self, version: PublishedVersion, unit: Unit) -> None:
        self.version = version
        self.unit = unit
        self._read: Counter[str] = Counter()
        self._carried: dict[str, dict[str, bytes]] = {}
        self._split_of: dict[str, str] = {}
        self._repeated = 0
        self._refused: list[dict[str, str]] = []

    def carry(self, found: PublishedRow, key: str, digest: bytes) -> bool:
        """Whether a row of the export has to be written for this one. Raises RowRefused.

        `digest` is of all that the row of the export has to give back.
        """
        before = self._split_of.get(key)
        if before is None:
            self._read[found.split] += 1
            self._split_of[key] = found.split
            self._carried.setdefault(found.split, {})[key] = digest
            return True
        if self.unit == "trajectory_id":
            raise RowRefused("same_id", f"an earlier row has the id {key} already")
        if self._carried[before][key] != digest:
            raise RowRefused("other_task", f"an earlier row has another task under the id {key}")
        self._read[found.split] += 1
        self._repeated += 1
        return False

    def refuse(self, found: PublishedRow, error: RowRefused) -> None:
        self._read[found.split] += 1
        line = {"trajectory_id": found.trajectory_id, "split": found.split, "rule": error.rule, "reason": str(error)}
        self._refused.append(line)

    def expected(self, split: str) -> dict[str, bytes]:
        """The ids that have to be found in what was written for a split, in order, and what each has to give back."""
        return self._carried.get(split, {})

    def close(self, part: Path, *, format: str, format_version: str, splits: tuple[str, ...]) -> VersionExport:
        """Write export.json and refused.jsonl, and put all files on disk.

        Raises NothingToExport when no row could be carried, ExportDamaged when rows of the version are unaccounted for.
        """
        have = self.version.manifest.splits
        for split in splits:
            if self._read[split] != have[split]:
                told = f"{self.version.reference} has {have[split]} rows in {split}"
                raise ExportDamaged(f"{told}, of which {self._read[split]} could be read")
        if not self._split_of:
            raise NothingToExport(self._nothing(splits))
        made = VersionExport(
            format=format,
            format_version=format_version,
            source=self.version.reference,
            content_sha256=self.version.manifest.content_sha256,
            unit=self.unit,
            read=self._read.total(),
            written={split: len(self.expected(split)) for split in splits},
            repeated=self._repeated,
            refused=len(self._refused),
            rules=dict(Counter(line["rule"] for line in self._refused)),
            ids_sha256=hashlib.sha256("".join(f"{key}\n" for key in sorted(self._split_of)).encode()).hexdigest(),
            folder="",
        )
        if self._refused:
            lines = "".join(json.dumps(line) + "\n" for line in self._refused)
            (part / "refused.jsonl").write_text(lines, encoding="ascii")
        text = json.dumps(made.model_dump(exclude={"folder"}), indent=1) + "\n"
        (part / "export.json").write_text(text, encoding="ascii")
        _put_on_disk(part)
        return made

    def _nothing(self, splits: tuple[str, ...]) -> str:
        if not self._refused:
            return f"{self.version.reference} has no rows in {', '.join(splits)}"
        first = self._refused[0]
        return (
            f"none of the {len(self._refused)} rows of {self.version.reference} can be exported so; "
            f"{first['trajectory_id']}: {first['reason']}"
        )


def _put_on_disk(folder: Path) -> None:
    paths = [*folder.rglob("*"), folder]
    if len(paths) > _MANY:
        os.sync()
        return
    for path in paths:
        sync(path)


def digest_of(value: object) -> bytes:
    """Raises RowRefused for a text that is no valid Unicode."""
    try:
        return hashlib.sha256(canonical_json(value).encode()).digest()
    except UnicodeEncodeError as error:
        raise RowRefused("not_unicode", f"a text holds {error.object[error.start]!a}, half of a character") from error
