"""Small versions for tests of what is done with versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.schemas import content_sha256, schema_sha256
from pipeline.snapshots import Draft, FileEntry, Manifest, SnapshotVersion, publish
from pipeline.snapshots.manifest import file_sha256
from pipeline.snapshots.publishing import EXCLUDED

SCHEMA = pa.schema([("trajectory_id", pa.string()), ("text", pa.string()), ("split", pa.string())])


def rows(*keys: str, split: str = "train", text: str = "x") -> pa.Table:
    return pa.Table.from_pylist([{"trajectory_id": key, "text": text, "split": split} for key in keys], schema=SCHEMA)


def put(
    root: Path,
    *parts: str | pa.Table,
    name: str = "terminal",
    parents: Sequence[str] = (),
    excluded: Sequence[tuple[str, ...]] = (),
    filters: Mapping[str, object] | None = None,
    schema_version: int = 1,
) -> SnapshotVersion:
    """Publish a version of these rows; a text stands for a row with that id."""
    found = [dict(zip(EXCLUDED.names, one, strict=False)) for one in excluded]  # `other` may be left out
    left_out = pa.Table.from_pylist(found, schema=EXCLUDED)
    return publish(
        root,
        name,
        pa.concat_tables([rows(part) if isinstance(part, str) else part for part in parts]),
        schema_version=schema_version,
        parents=parents,
        code_commit="abc",
        run_id=None,
        describe=_described,
        summary={},
        filters=filters,
        excluded=[left_out],
    )


def _described(draft: Draft) -> Mapping[str, str | bytes]:
    splits = sorted({str(file.split) for file in draft.files})
    files = "\n".join(f"  - split: {split}\n    path: data/{split}-*.parquet" for split in splits)
    return {"README.md": f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}\n---\n{draft.rows} rows\n"}


def put_first_layout(root: Path, table: pa.Table) -> Path:
    """A version as earlier code wrote it: row hashes of JSON text, no ids.parquet, no list of documents."""
    folder = root / "snapshots" / "terminal" / "v0001"
    (folder / "data").mkdir(parents=True)
    file = folder / "data" / "train-00000.parquet"
    pq.write_table(table, file)
    (folder / "README.md").write_text("card")
    manifest = Manifest(
        name="terminal",
        version="v0001",
        schema_version=1,
        schema_hash=schema_sha256(table.schema),
        rows=table.num_rows,
        content_sha256=content_sha256([table]),
        files=(
            FileEntry(
                path="data/train-00000.parquet",
                sha256=file_sha256(file),
                bytes=file.stat().st_size,
                rows=table.num_rows,
            ),
        ),
        card_sha256=file_sha256(folder / "README.md"),
        parents=(),
        code_commit=None,
        run_id=None,
        created_at="2026-01-01T00:00:00+00:00",
        summary={},
    )
    (folder / "manifest.json").write_text(manifest.sealed())
    return folder
