"""Published versions of a data set: plain Parquet files, a manifest and a card, written once and never changed.

`data/snapshots/NAME/v0001/` holds manifest.json, README.md and data/train-00000.parquet … Readers need nothing of
ours. A version appears by one rename, complete or not at all, and only when the rows differ from the latest one.

Not here: which rows are worth publishing, and the text of the card; the caller brings both.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.cards import front_matter
from pipeline.disk import sync
from pipeline.errors import PipelineError
from pipeline.schemas import RUN_DEPENDENT, canonical_json, clean_text, content_sha256, schema_sha256
from pipeline.types import Record
from sandbox.locks import exclusive

GROUP_ROWS = 100
GROUP_BYTES = 64 * 1024 * 1024
"""Largest row group: one whose texts exceed 2 GiB cannot be read back."""
SHARD_BYTES = 512 * 1024 * 1024
"""Size of a file before compression at which the next one begins."""

Card = Callable[[int, Mapping[str, object]], str]
"""Number of rows and summary -> Markdown below the head of the card."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_VERSION = re.compile(r"v(\d{4,})")
_TEMPORARY = ".unfinished-"


class SnapshotDamaged(PipelineError):
    """A published version is not what its manifest says. The text names each difference."""


class FileEntry(Record):
    """One data file of a version."""

    path: str
    """Relative to the folder of the version."""
    sha256: str
    bytes: int
    rows: int


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
    columns_not_hashed: tuple[str, ...] = tuple(sorted(RUN_DEPENDENT))
    """Columns, nested ones too, that `content_sha256` leaves out since they differ from run to run."""
    files: tuple[FileEntry, ...]
    card_sha256: str
    """Of README.md."""
    parents: tuple[str, ...]
    """What it was made from."""
    code_commit: str | None
    run_id: str | None
    created_at: str
    """ISO time, UTC."""
    summary: dict[str, object]

    def sealed(self) -> str:
        """The text of manifest.json: the fields and their own hash."""
        fields = self.model_dump(mode="json")
        fields["manifest_sha256"] = _text_sha256(canonical_json(fields))
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class SnapshotVersion:
    """A version on disk."""

    name: str
    version: str
    path: Path
    created: bool
    """False when the rows were those of this version already and nothing was written."""
    rows: int
    sha256: str
    """Content hash of the rows."""


def publish(
    root: Path,
    name: str,
    rows: pa.Table,
    *,
    schema_version: int,
    parents: Sequence[str],
    code_commit: str | None,
    run_id: str | None,
    summary: Mapping[str, object],
    card: Card,
) -> SnapshotVersion:
    """Write the next version below the data folder `root`, unless the latest holds the same rows.

    `card` writes the text below the head of README.md; `summary` goes into the manifest as JSON.

    Raises ValueError for no rows or an unusable name, SnapshotDamaged when the latest manifest or what was just
    written cannot be read back. Publishers of one name take turns; what a killed one left is removed.
    """
    if rows.num_rows == 0:
        raise ValueError(f"snapshot {name!r} would have no rows; a version is published only when there are some")
    if not _NAME.fullmatch(name):
        raise ValueError(f"snapshot name {name!r} may hold lower-case letters, digits, '-' and '_' only")
    rows = rows.replace_schema_metadata(None)
    content = content_sha256([rows])
    folder = root.resolve() / "snapshots" / name
    with exclusive(root.resolve() / "locks" / f"snapshot-{name}.lock", f"snapshot {name}"):
        folder.mkdir(parents=True, exist_ok=True)
        _remove_unfinished(folder)
        present = versions(root, name)
        if present and _same(manifest_of(present[-1].path), content, schema_version, rows.schema):
            return present[-1]
        version = f"v{int(present[-1].version[1:]) + 1 if present else 1:04d}"
        unfinished = folder / f"{_TEMPORARY}{version}"
        files = _write_files(unfinished, rows)
        head = front_matter(name, rows, sum(file.bytes for file in files))
        text = clean_text(f"{head}\n{card(rows.num_rows, summary)}")
        manifest = Manifest(
            name=name,
            version=version,
            schema_version=schema_version,
            schema_hash=schema_sha256(rows.schema),
            rows=rows.num_rows,
            content_sha256=content,
            files=files,
            card_sha256=_text_sha256(text),
            parents=tuple(parents),
            code_commit=code_commit,
            run_id=run_id,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            summary=json.loads(clean_text(canonical_json(summary))),
        )
        (unfinished / "README.md").write_text(text, encoding="utf-8")
        (unfinished / "manifest.json").write_text(manifest.sealed(), encoding="utf-8")
        _seal(unfinished)
        unfinished.rename(folder / version)  # fails when that version exists: a version is never empty
        sync(folder)
    return SnapshotVersion(name, version, folder / version, True, rows.num_rows, content)


def versions(root: Path, name: str) -> list[SnapshotVersion]:
    """The versions of a name, oldest first; none when there is none. Raises SnapshotDamaged for a bad manifest."""
    folder = root.resolve() / "snapshots" / name
    if not folder.is_dir():
        return []
    found = sorted((path for path in folder.iterdir() if _VERSION.fullmatch(path.name)), key=lambda p: int(p.name[1:]))
    manifests = [(path, manifest_of(path)) for path in found]
    return [SnapshotVersion(m.name, path.name, path, False, m.rows, m.content_sha256) for path, m in manifests]


def locate(root: Path, reference: str) -> Path:
    """Folder of `NAME/VERSION`, or of the latest version of `NAME`. Raises ValueError, naming what there is."""
    name, _, version = reference.partition("/")
    present = versions(root, name) if _NAME.fullmatch(name) else []
    for candidate in reversed(present):
        if version in ("", candidate.version):
            return candidate.path
    known = ", ".join(candidate.version for candidate in present) or "no version"
    raise ValueError(f"there is no snapshot {reference!r}; {name!r} has {known}")


def manifest_of(path: Path) -> Manifest:
    """The manifest in the folder of a version. Raises SnapshotDamaged."""
    try:
        fields = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
        expected = fields.pop("manifest_sha256")
        manifest = Manifest.model_validate(fields)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise SnapshotDamaged(f"{path}/manifest.json cannot be read: {error}") from error
    if expected != _text_sha256(canonical_json(fields)):
        raise SnapshotDamaged(f"{path}/manifest.json was changed after it was published")
    return manifest


def load(path: Path) -> pa.Table:
    """The rows of the version in this folder. Raises SnapshotDamaged when a file is not the one published."""
    manifest = manifest_of(path)
    if problems := [text for file in manifest.files if (text := _file_problem(path, file))]:
        raise SnapshotDamaged(f"{path}: {'; '.join(problems)}")
    return pa.concat_tables(pq.read_table(path / file.path) for file in manifest.files)


def check(path: Path) -> list[str]:
    """Every difference between the version in this folder and its manifest, in words; empty when it is unharmed."""
    try:
        manifest = manifest_of(path)
    except SnapshotDamaged as error:
        return [str(error)]
    problems = [text for file in manifest.files if (text := _file_problem(path, file))]
    card = path / "README.md"
    if not card.is_file():
        problems.append("README.md is missing")
    elif _file_sha256(card) != manifest.card_sha256:
        problems.append("README.md was changed")
    expected = {"README.md", "manifest.json", *(file.path for file in manifest.files)}
    found = {str(file.relative_to(path)) for file in path.rglob("*") if not file.is_dir()}
    problems += [f"{name} does not belong to this version" for name in sorted(found - expected)]
    if manifest.version != path.name:
        problems.append(f"the manifest is that of {manifest.version}")
    if not problems:
        rows = load(path)
        if not _same(manifest, content_sha256([rows]), manifest.schema_version, rows.schema):
            problems.append("the rows are not those of the manifest")
    return problems


def _same(manifest: Manifest, content: str, schema_version: int, schema: pa.Schema) -> bool:
    return (manifest.content_sha256, manifest.schema_version, manifest.schema_hash) == (
        content,
        schema_version,
        schema_sha256(schema),
    )


def _file_problem(path: Path, file: FileEntry) -> str | None:
    if not (path / file.path).is_file():
        return f"{file.path} is missing"
    return None if _file_sha256(path / file.path) == file.sha256 else f"{file.path} was changed"


def _write_files(folder: Path, rows: pa.Table) -> tuple[FileEntry, ...]:
    """Write the data files and read each back. Raises SnapshotDamaged when one does not give its rows again."""
    (folder / "data").mkdir(parents=True)
    files = []
    for number, groups in enumerate(_shards(rows)):
        path = folder / "data" / f"train-{number:05d}.parquet"
        with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
            for group in groups:
                writer.write_table(group, row_group_size=group.num_rows)
        written, again = pa.concat_tables(groups), pq.read_table(path)
        if not again.equals(written) and content_sha256([again]) != content_sha256([written]):  # NaN equals nothing
            raise SnapshotDamaged(f"{path} does not give back the rows written to it")
        relative = str(path.relative_to(folder))
        size = path.stat().st_size
        files.append(FileEntry(path=relative, sha256=_file_sha256(path), bytes=size, rows=again.num_rows))
    return tuple(files)


def _shards(rows: pa.Table) -> Iterator[list[pa.Table]]:
    shard: list[pa.Table] = []
    size = 0
    for start in range(0, rows.num_rows, GROUP_ROWS):
        for group in _groups(rows.slice(start, GROUP_ROWS)):
            if shard and size + group.nbytes > SHARD_BYTES:
                yield shard
                shard, size = [], 0
            shard.append(group)
            size += group.nbytes
    yield shard


def _groups(rows: pa.Table) -> Iterator[pa.Table]:
    if rows.num_rows > 1 and rows.nbytes > GROUP_BYTES:
        middle = rows.num_rows // 2
        yield from _groups(rows.slice(0, middle))
        yield from _groups(rows.slice(middle))
    else:
        yield rows


def _seal(folder: Path) -> None:
    """Put all of it on disk and take the permission to write away, innermost first."""
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        sync(path)
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)


def _remove_unfinished(folder: Path) -> None:
    for unfinished in folder.glob(f"{_TEMPORARY}*"):
        for path in [unfinished, *unfinished.rglob("*")]:
            path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o200)
        shutil.rmtree(unfinished)


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text_sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
