"""What a version says of itself: its files with their hashes, what it was made from, and how its rows are hashed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import Field

from pipeline.errors import PipelineError
from pipeline.schemas import RUN_DEPENDENT, canonical_json
from pipeline.snapshots.keys import KEY
from pipeline.types import Record

MANIFEST = "manifest.json"


class SnapshotDamaged(PipelineError):
    """A published version is not what its manifest says. The text names each difference."""


class FileEntry(Record):
    """One file of a version."""

    path: str
    """Relative to the folder of the version."""
    sha256: str
    bytes: int
    rows: int | None
    """None for a file that is no table."""
    split: str | None = None
    """Of a data file; None in versions without splits."""


class Manifest(Record):
    """What a version is, where it came from, and how to see that it is unharmed."""

    name: str
    version: str
    schema_version: int
    schema_hash: str
    """Of names and types of the columns."""
    rows: int
    content_sha256: str
    """Of the rows, whatever their order and the division into files."""
    row_hash: Literal["json", "arrow"] = "json"
    """How a row is hashed: as JSON text in the first versions, since then as contents.py says."""
    columns_not_hashed: tuple[str, ...] = tuple(sorted(RUN_DEPENDENT))
    """Columns, nested ones too, that `content_sha256` leaves out since they differ from run to run."""
    key: tuple[str, ...] = Field(default=KEY, min_length=1)
    """Columns that name a row. The usual ones are not written, as in the first versions."""
    files: tuple[FileEntry, ...]
    """Data files."""
    documents: tuple[FileEntry, ...] = ()
    """All other files but the manifest itself: the card, plots, ids.parquet, excluded.parquet."""
    card_sha256: str | None = None
    """Of README.md, in versions whose manifest has no `documents`."""
    parents: tuple[str, ...]
    """What it was made from."""
    code_commit: str | None
    run_id: str | None
    created_at: str
    """ISO time, UTC."""
    filters: dict[str, object] = Field(default_factory=dict)
    """What decided which rows are here."""
    summary: dict[str, object]

    def sealed(self) -> str:
        """The text of manifest.json: the fields and their own hash."""
        fields = self.model_dump(mode="json", exclude={"key"} if self.key == KEY else None)
        fields["manifest_sha256"] = text_sha256(canonical_json(fields))
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"

    @property
    def splits(self) -> dict[str, int]:
        """Rows by split; the one split is called train in versions without any."""
        found: dict[str, int] = {}
        for file in self.files:
            found[file.split or "train"] = found.get(file.split or "train", 0) + (file.rows or 0)
        return found


def manifest_of(path: Path) -> Manifest:
    """The manifest in the folder of a version. Raises SnapshotDamaged."""
    try:
        return parsed((path / MANIFEST).read_text(encoding="utf-8"), f"{path}/{MANIFEST}")
    except (OSError, UnicodeDecodeError) as error:
        raise SnapshotDamaged(f"{path}/{MANIFEST} cannot be read: {error}") from error


def parsed(text: str, place: str) -> Manifest:
    """A manifest from its text; `place` is what errors call it. Raises SnapshotDamaged."""
    try:
        fields = json.loads(text)
        expected = fields.pop("manifest_sha256")
        manifest = Manifest.model_validate(fields)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise SnapshotDamaged(f"{place} cannot be read: {error}") from error
    if expected != text_sha256(canonical_json(fields)):
        raise SnapshotDamaged(f"{place} was changed after it was published")
    return manifest


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
