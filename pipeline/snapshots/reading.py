"""Finds versions, reads their rows part by part, and says whether a version is what its manifest says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.schemas import content_sha256 as json_sha256
from pipeline.schemas import schema_sha256
from pipeline.snapshots.contents import content_sha256, row_digests
from pipeline.snapshots.manifest import MANIFEST, FileEntry, Manifest, SnapshotDamaged, file_sha256, manifest_of

NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
VERSION = re.compile(r"v(\d{4,})")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
LATEST = "latest"
"""The tag of the newest version, which needs not be set."""


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


def folder_of(root: Path, name: str) -> Path:
    """Where the versions of a name are, below the data folder `root`."""
    return root.resolve() / "snapshots" / name


def versions(root: Path, name: str) -> list[SnapshotVersion]:
    """The versions of a name, oldest first; none when there is none. Raises SnapshotDamaged for a bad manifest."""
    folder = folder_of(root, name)
    if not folder.is_dir():
        return []
    found = sorted((path for path in folder.iterdir() if VERSION.fullmatch(path.name)), key=lambda p: int(p.name[1:]))
    manifests = [(path, manifest_of(path)) for path in found]
    return [SnapshotVersion(m.name, path.name, path, False, m.rows, m.content_sha256) for path, m in manifests]


def locate(root: Path, reference: str) -> Path:
    """Folder of NAME (its latest version), NAME@VERSION, NAME@TAG, or NAME@YYYY-MM-DD: the newest one of that day.

    The newest of a day is the last one published on it or before it, UTC. Raises ValueError, naming what there is.
    """
    name, _, version = reference.replace("/", "@", 1).partition("@")
    present = versions(root, name) if NAME.fullmatch(name) else []
    tags = tags_of(root, name) if present else {}
    wanted = tags.get(version, version)
    for candidate in reversed(present):
        if wanted in ("", LATEST, candidate.version):
            return candidate.path
        if _DATE.fullmatch(wanted) and manifest_of(candidate.path).created_at[:10] <= wanted:
            return candidate.path
    known = ", ".join([*(candidate.version for candidate in present), *sorted(tags)]) or "no version"
    raise ValueError(f"there is no snapshot {reference!r}; {name!r} has {known}")


def tags_of(root: Path, name: str) -> dict[str, str]:
    """Tag -> version, without `latest`: one small file for each in the folder `tags`."""
    folder = folder_of(root, name) / "tags"
    if not folder.is_dir():
        return {}
    return {path.name: path.read_text().strip() for path in sorted(folder.iterdir()) if not path.name.startswith(".")}


def batches(path: Path, columns: Sequence[str] | None = None, split: str | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of the version in this folder, a row group at a time. Its files are taken as they are: see `check`.

    Raises SnapshotDamaged for a file that is missing or cannot be read, ValueError for a split it does not have.
    """
    manifest = manifest_of(path)
    if split is not None and split not in manifest.splits:
        raise ValueError(f"{manifest.name}@{manifest.version} has no split {split!r}; it has {_listed(manifest)}")
    for entry in manifest.files:
        if split in (None, entry.split or "train"):
            try:
                with pq.ParquetFile(path / entry.path) as file:
                    for number in range(file.num_row_groups):
                        yield from file.read_row_group(number, columns=columns).to_batches()
            except (OSError, pa.ArrowException) as error:
                raise SnapshotDamaged(f"{path}: {entry.path} cannot be read: {error}") from error


def _listed(manifest: Manifest) -> str:
    return ", ".join(f"{name} ({count})" for name, count in manifest.splits.items())


def load(path: Path) -> pa.Table:
    """The rows of the version in this folder. Raises SnapshotDamaged when a file is not the one published."""
    manifest = manifest_of(path)
    if problems := [text for file in manifest.files if (text := file_problem(path, file))]:
        raise SnapshotDamaged(f"{path}: {'; '.join(problems)}")
    return pa.concat_tables(pq.read_table(path / file.path, partitioning=None) for file in manifest.files)


def check(path: Path) -> list[str]:
    """Every difference between the version in this folder and its manifest, in words; empty when it is unharmed."""
    try:
        manifest = manifest_of(path)
    except SnapshotDamaged as error:
        return [str(error)]
    problems = [text for file in manifest.files if (text := file_problem(path, file))]
    problems += [text for file in manifest.documents if (text := file_problem(path, file))]
    if manifest.card_sha256 is not None and not (path / "README.md").is_file():
        problems.append("README.md is missing")
    elif manifest.card_sha256 is not None and file_sha256(path / "README.md") != manifest.card_sha256:
        problems.append("README.md was changed")
    expected = {"README.md", MANIFEST, *(file.path for file in (*manifest.files, *manifest.documents))}
    found = {str(file.relative_to(path)) for file in path.rglob("*") if not file.is_dir()}
    problems += [f"{name} does not belong to this version" for name in sorted(found - expected)]
    if manifest.version != path.name:
        problems.append(f"the manifest is that of {manifest.version}")
    if not problems and not _same_rows(path, manifest):
        problems.append("the rows are not those of the manifest")
    return problems


def _same_rows(path: Path, manifest: Manifest) -> bool:
    """Whether the files hold the rows that were published, by their own hash."""
    schemas = {schema_sha256(pq.read_schema(path / file.path)) for file in manifest.files}
    if schemas != {manifest.schema_hash}:
        return False
    if manifest.row_hash == "json":
        return json_sha256(batches(path)) == manifest.content_sha256
    digests = [digest for batch in batches(path) for digest in row_digests(pa.Table.from_batches([batch]))]
    return len(digests) == manifest.rows and content_sha256(digests) == manifest.content_sha256


def file_problem(path: Path, file: FileEntry) -> str | None:
    """What is wrong with one file of the version in this folder."""
    if not (path / file.path).is_file():
        return f"{file.path} is missing"
    return None if file_sha256(path / file.path) == file.sha256 else f"{file.path} was changed"
