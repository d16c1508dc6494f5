"""Publishes the next version of a name: all of it or nothing, and nothing when the rows are those of the latest one."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.disk import sync
from pipeline.schemas import canonical_json, clean_text, schema_sha256
from pipeline.snapshots.keys import ID, KEY
from pipeline.snapshots.manifest import MANIFEST, FileEntry, Manifest, file_sha256, manifest_of
from pipeline.snapshots.reading import NAME, VERSION, SnapshotVersion, folder_of, versions
from pipeline.snapshots.writing import CODEC, GROUP_ROWS, VersionWriter, Written
from sandbox.locks import exclusive

REMOVED = "removed"
"""Folder with the manifests of versions that are gone; their numbers are never given again."""
EXCLUDED = pa.schema([(name, pa.string()) for name in (ID, "step", "reason", "other")])
"""`other` names what the row copies, or is too near to. Where an attempt has several rows, the attempt is named."""
UNFINISHED = ".unfinished-"
"""Begins the folder of a version that is not whole; publishers and `touchstone gc` remove it."""


@dataclass(frozen=True)
class Draft:
    """A version whose rows are written, for whoever describes it."""

    name: str
    version: str
    folder: Path
    """With the data files, ids.parquet and excluded.parquet; what is written elsewhere in it is removed."""
    schema: pa.Schema
    files: tuple[FileEntry, ...]
    bytes_by_split: Mapping[str, int]
    """Before compression."""
    parents: tuple[str, ...]
    filters: Mapping[str, object]
    summary: Mapping[str, object]

    @property
    def rows(self) -> int:
        return sum(file.rows or 0 for file in self.files)


Describe = Callable[[Draft], Mapping[str, str | bytes]]
"""Path in the version -> content of each document, README.md among them."""


def publish(
    root: Path,
    name: str,
    rows: pa.Table | Iterable[pa.Table],
    *,
    schema_version: int,
    parents: Sequence[str],
    code_commit: str | None,
    run_id: str | None,
    describe: Describe,
    summary: Mapping[str, object],
    filters: Mapping[str, object] | None = None,
    excluded: Iterable[pa.Table] = (),
    key: Sequence[str] = KEY,
    group_rows: int = GROUP_ROWS,
) -> SnapshotVersion:
    """Write the next version below the data folder `root`, unless the latest holds the same rows.

    `rows` come in parts of any size, all with the schema of the first one; those with a column `split` go to a file of
    that split. `excluded` (schema EXCLUDED), which is asked for after the rows, `filters` and `summary` are kept beside
    them, but do not make a new version. `key` are the columns that name a row; small rows may be more in a row group
    than `group_rows`, so that there are fewer groups.

    Raises ValueError for no rows, an id that is there twice or an unusable name, SnapshotDamaged when the latest
    manifest or what was just written cannot be read back. Publishers of one name take turns; what a killed one left
    is removed.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"snapshot name {name!r} may hold lower-case letters, digits, '-' and '_' only")
    folder = folder_of(root, name)
    with exclusive(root.resolve() / "locks" / f"snapshot-{name}.lock", f"snapshot {name}"):
        _remove_unfinished(folder)
        present = versions(root, name)
        version = _next(folder)
        unfinished = folder / f"{UNFINISHED}{version}"
        try:
            parts = (part for part in ([rows] if isinstance(rows, pa.Table) else rows) if part.num_rows)
            first = next(iter(parts), None)
            if first is None:
                raise ValueError(f"snapshot {name!r} would have no rows; no version is published without any")
            schema = first.schema.remove_metadata()
            with VersionWriter(unfinished, schema, key, group_rows) as writer:
                writer.write(first)
                for part in parts:
                    writer.write(part)
                written = writer.finish()
            if present and _same(manifest_of(present[-1].path), written, schema_version, schema, key):
                return present[-1]
            draft = Draft(
                name=name,
                version=version,
                folder=unfinished,
                schema=schema,
                files=written.files,
                bytes_by_split=written.bytes_by_split,
                parents=tuple(parents),
                filters=json.loads(clean_text(canonical_json(filters or {}))),
                summary=json.loads(clean_text(canonical_json(summary))),
            )
            tables = [_ids(unfinished, written), _excluded(unfinished, excluded)]
            manifest = Manifest(
                name=name,
                version=version,
                schema_version=schema_version,
                schema_hash=schema_sha256(schema),
                rows=draft.rows,
                content_sha256=written.content_sha256,
                row_hash="arrow",
                key=tuple(key),
                files=written.files,
                documents=(*tables, *_documents(draft, describe)),
                parents=draft.parents,
                code_commit=code_commit,
                run_id=run_id,
                created_at=datetime.now(UTC).isoformat(timespec="seconds"),
                filters=dict(draft.filters),
                summary=dict(draft.summary),
            )
            (unfinished / MANIFEST).write_text(manifest.sealed(), encoding="utf-8")
            _seal(unfinished)
            unfinished.rename(folder / version)  # fails when that version exists: a version is never empty
            sync(folder)
        finally:
            _remove_unfinished(folder)
    return SnapshotVersion(name, version, folder / version, True, manifest.rows, manifest.content_sha256)


def _next(folder: Path) -> str:
    """The number after all that were ever given."""
    places = [folder, folder / REMOVED]
    names = [path.name.removesuffix(".json") for place in places if place.is_dir() for path in place.iterdir()]
    return f"v{max([int(name[1:]) for name in names if VERSION.fullmatch(name)], default=0) + 1:04d}"


def _same(latest: Manifest, written: Written, schema_version: int, schema: pa.Schema, key: Sequence[str]) -> bool:
    return (latest.row_hash, latest.content_sha256, latest.schema_version, latest.schema_hash, latest.key) == (
        "arrow",
        written.content_sha256,
        schema_version,
        schema_sha256(schema),
        tuple(key),
    )


def _ids(folder: Path, written: Written) -> FileEntry:
    pq.write_table(written.ids, folder / "ids.parquet", compression=CODEC)
    return _entry(folder, "ids.parquet", written.ids.num_rows)


def _excluded(folder: Path, parts: Iterable[pa.Table]) -> FileEntry:
    rows = 0
    with pq.ParquetWriter(folder / "excluded.parquet", EXCLUDED, compression=CODEC) as writer:
        for part in parts:
            writer.write_table(part.cast(EXCLUDED))
            rows += part.num_rows
    return _entry(folder, "excluded.parquet", rows)


def _documents(draft: Draft, describe: Describe) -> list[FileEntry]:
    found = []
    for name, content in sorted(describe(draft).items()):
        place = draft.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(clean_text(content).encode() if isinstance(content, str) else content)
        found.append(_entry(draft.folder, name, None))
    return found


def _entry(folder: Path, name: str, rows: int | None) -> FileEntry:
    place = folder / name
    return FileEntry(path=name, sha256=file_sha256(place), bytes=place.stat().st_size, rows=rows)


def _seal(folder: Path) -> None:
    """Put all of it on disk and take the permission to write away, innermost first."""
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        sync(path)
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)


def _remove_unfinished(folder: Path) -> None:
    for unfinished in folder.glob(f"{UNFINISHED}*"):
        remove_version(unfinished)


def remove_version(folder: Path) -> None:
    """Remove the folder of a version, which nobody may write to."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o200)
    shutil.rmtree(folder)
