"""What a data folder alone knows, copied while runs go on, and brought back into an empty one.

Kept: working tables and journal, published versions, the trees that rows name, what is known of hubs, score models,
versions of trained models, and Dagster's files. Not kept, for it can be had again: images, clones, downloaded archives,
caches, evaluations, runs of training, and frozen states, which are regained from the recorded commands. Nor are
secrets.

The journal and the list of the tables' files are taken in one moment at which no table grows: an older journal would
write items again, a newer one would miss rows. All that is listed never changes, so it is copied afterwards. Every file
is there with its hash, and is checked before anything is put in place.

Not here: how a database server is dumped and filled (assets/postgres_dump.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
from pydantic import ValidationError

from pipeline.disk import sync
from pipeline.errors import PipelineError
from pipeline.schemas import TABLES
from pipeline.snapshots.publishing import UNFINISHED
from pipeline.tables import Store, readable
from pipeline.types import Record
from sandbox.locks import exclusive

FORMAT = 1
MANIFEST = "backup.json"
DATA, SERVER = "data", "server"
"""Folders of a back-up: what comes from the data folder, and what comes from a database server."""
DATABASES = ("tables/journal.sqlite", "crawl/*.sqlite", "dagster/**/*.db")
PLAIN = ("snapshots/**/*", "sources/*.tar", "score_models/**/*", "models/*/v*/**/*", "dagster/alive/*")
_CHUNK = 1 << 20


class BackupDamaged(PipelineError):
    """A back-up is not what was written, or cannot go where it shall. The text names the file and the remedy."""


class BackedUpFile(Record):
    """One file of a back-up."""

    path: str
    """Relative to the back-up."""
    bytes: int
    sha256: str


class Backup(Record):
    """The manifest of a back-up."""

    format: int = FORMAT
    created_at: str
    """ISO time, UTC."""
    rows: dict[str, int]
    """Rows of each working table."""
    versions: tuple[str, ...]
    """Published versions, as NAME/vNNNN."""
    server: dict[str, int] | None
    """Rows of each table of the database server; None where Dagster's storage is in files."""
    files: tuple[BackedUpFile, ...]


def back_up(root: Path, target: Path, dump: Callable[[Path], Mapping[str, int]] | None) -> Backup:
    """Write a back-up of the data folder `root` to the new folder `target`; complete or not at all.

    `dump` writes what the database server holds into a folder, and returns the rows of its tables. It goes first: the
    history of runs must not speak of rows that the back-up does not have. Raises BackupDamaged when `target` is there.
    """
    if target.exists():
        raise BackupDamaged(f"{target} is there already; name a new folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        (unfinished / DATA).mkdir(parents=True)
        server = None
        if dump is not None:
            (unfinished / SERVER).mkdir()
            server = dict(dump(unfinished / SERVER))
        rows, versions = _copy(Store(root), unfinished / DATA)
        files = tuple(_described(unfinished, path) for path in _below(unfinished))
        made = Backup(
            created_at=datetime.now(UTC).isoformat(), rows=rows, versions=versions, server=server, files=files
        )
        (unfinished / MANIFEST).write_text(made.model_dump_json(indent=1))
        sync(unfinished / MANIFEST)
        unfinished.rename(target)
        sync(target.parent)
    except FileNotFoundError as error:
        raise BackupDamaged(f"{error.filename} was removed while it was copied; make the back-up again") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return made


def read_backup(target: Path) -> Backup:
    """The manifest of a back-up, once every file of it was found as it was written. Raises BackupDamaged."""
    try:
        made = Backup.model_validate_json((target / MANIFEST).read_bytes())
    except (OSError, ValidationError) as error:
        raise BackupDamaged(f"{target} is no back-up: {MANIFEST} cannot be read ({error})") from error
    if made.format != FORMAT:
        raise BackupDamaged(f"{target} has format {made.format}, this code knows {FORMAT}: use the code that wrote it")
    for file in made.files:
        path = target / file.path
        if not path.is_file() or _described(target, path) != file:
            raise BackupDamaged(f"{path} is not what was written; take another back-up")
    return made


def restore(target: Path, root: Path, fill: Callable[[Path], Mapping[str, int]] | None) -> Backup:
    """Bring a back-up into the data folder `root`, which must hold nothing of its kind.

    `fill` brings a dump into the database server, in one transaction, and returns the rows of its tables. Before that
    nothing is changed; afterwards files are only renamed. Nobody may use the folder meanwhile. Raises BackupDamaged.
    """
    if standing := next(occupied(root), None):
        raise BackupDamaged(f"{standing} is there already; a back-up goes into an empty data folder only")
    made = read_backup(target)
    if (made.server is None) != (fill is None):
        kept, here = ("files", "PostgreSQL") if fill is not None else ("PostgreSQL", "files")
        raise BackupDamaged(f"runs are known from {kept} in {target}, and from {here} here: see TOUCHSTONE_POSTGRES")
    root.mkdir(parents=True, exist_ok=True)
    staged = root / f".restored-{secrets.token_hex(4)}"
    try:
        shutil.copytree(target / DATA, staged)
        _check_tables(Store(staged), made)
        if fill is not None and (found := dict(fill(target / SERVER))) != made.server:
            raise BackupDamaged(f"the database has other numbers of rows than {target}: {found}, not {made.server}")
        for path in _below(staged):
            place = root / path.relative_to(staged)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.rename(place)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return made


def occupied(root: Path) -> Iterator[Path]:
    """Files in a data folder that a back-up would bring."""
    for pattern in ("tables/**/*", *DATABASES, *PLAIN):
        yield from (path for path in root.glob(pattern) if path.is_file())


def _copy(store: Store, place: Path) -> tuple[dict[str, int], tuple[str, ...]]:
    """Rows of each table, and the versions."""
    root = store.root
    listed: list[Path] = []
    rows: dict[str, int] = {}
    with contextlib.ExitStack() as held:
        for name in sorted(TABLES):
            held.enter_context(exclusive(store.lock(f"table-{name}"), f"table {name}"))
        for pattern in DATABASES:
            for database in sorted(root.glob(pattern)):
                _copy_database(database, place / database.relative_to(root))
        for name in sorted(TABLES):
            files = [Path(file) for file in store.files(name)]
            rows[name] = sum(pq.read_metadata(file).num_rows for file in files)
            # The pointer to the last checkpoint is written anew by every one of them, and readers do without it.
            log = store.path(name) / "_delta_log"
            listed += [*files, *(path for path in log.glob("*") if path.name != "_last_checkpoint")]
        for pattern in PLAIN:
            listed += (path for path in root.glob(pattern) if path.is_file() and UNFINISHED not in str(path))
    for path in listed:
        copy = place / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    versions = sorted({f"{path.parent.parent.name}/{path.parent.name}" for path in listed if _is_version(path)})
    return rows, tuple(versions)


def _is_version(path: Path) -> bool:
    return path.name == "manifest.json" and path.parent.parent.parent.name == "snapshots"


def _copy_database(source: Path, copy: Path) -> None:
    """By SQLite itself: what other processes write meanwhile is in it as a whole or not at all."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    with (
        contextlib.closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True, timeout=60)) as read,
        contextlib.closing(sqlite3.connect(copy)) as written,
    ):
        read.backup(written)
        written.execute("PRAGMA journal_mode = DELETE")


def _check_tables(store: Store, made: Backup) -> None:
    """The tables open, and have the rows that they had."""
    for name, rows in made.rows.items():
        files = store.files(name)
        with readable(name):
            found = sum(pq.read_metadata(file).num_rows for file in files)
        if found != rows:
            raise BackupDamaged(f"table {name} has {found} rows in the back-up, and had {rows}; take another one")


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _described(target: Path, path: Path) -> BackedUpFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BackedUpFile(path=str(path.relative_to(target)), bytes=path.stat().st_size, sha256=digest)
