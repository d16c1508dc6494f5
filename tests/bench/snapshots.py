"""`make bench-snapshots`: a large version written, filtered, compared and pulled. The last line is one JSON object.

The same made-up rows go through a plain pyarrow writer (same codec, row groups, file sizes and fsync) and through
`publish`, which hashes every row and reads every file back, one after the other in the same run. Rows come from an
Arrow file that was made before, so that making them costs neither. Memory is the most that this process held after
the rows were made. Ends with 1 when a version does not check clean or gives back another number of rows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.disk import sync
from pipeline.schemas import TERMINAL
from pipeline.snapshots import Draft, SnapshotVersion, batches, check, manifest_of, publish
from pipeline.snapshots.diffing import difference
from pipeline.snapshots.pulling import pull
from pipeline.snapshots.writing import CODEC, GROUP_ROWS, SHARD_BYTES
from tests.bench.synthetic_rows import Rows

NAME = "terminal"
CHANGED_SHARE = 100
"""One row of so many has another text in the second version."""
PARTS = 20
"""Stretches of the rows whose cost is compared."""
FILTER = """SELECT language, count(*), avg(n_turns), sum(list_sum([length(s.observation) FOR s IN steps]))
FROM read_parquet(?) WHERE license = 'MIT' AND n_turns > 20 GROUP BY language ORDER BY language"""


class Memory:
    """The most that this process holds while it watches, GB."""

    def __init__(self) -> None:
        self.peak_gb = 0.0
        self._stop = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            status = Path("/proc/self/status").read_text()
            held = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
            self.peak_gb = max(self.peak_gb, int(held.split()[1]) / 1e6)


def made(path: Path, tables: Iterable[pa.Table]) -> None:
    """Keep rows in an Arrow file, from which reading them costs next to nothing."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, TERMINAL.arrow) as writer:
        for table in tables:
            writer.write_table(table)


def rows_of(path: Path) -> Iterator[pa.Table]:
    with pa.OSFile(str(path)) as file:
        for batch in pa.ipc.open_stream(file):
            yield pa.Table.from_batches([batch])


def plain(folder: Path, tables: Iterable[pa.Table]) -> float:
    """Seconds that a plain writer takes."""
    folder.mkdir()
    began, writer, size, number = time.monotonic(), None, 0, 0
    path = folder
    for table in tables:
        for start in range(0, table.num_rows, GROUP_ROWS):
            group = table.slice(start, GROUP_ROWS)
            if writer is None or size + group.nbytes > SHARD_BYTES:
                if writer is not None:
                    writer.close()
                    sync(path)
                path = folder / f"train-{number:05d}.parquet"
                writer, size, number = pq.ParquetWriter(path, TERMINAL.arrow, compression=CODEC), 0, number + 1
            writer.write_table(group, row_group_size=GROUP_ROWS)
            size += group.nbytes
    if writer is not None:
        writer.close()
        sync(path)
    return time.monotonic() - began


def published(root: Path, tables: Iterable[pa.Table]) -> SnapshotVersion:
    def described(draft: Draft) -> dict[str, str]:
        return {"README.md": f"{draft.rows} rows\n"}

    return publish(
        root,
        NAME,
        tables,
        schema_version=TERMINAL.version,
        parents=(),
        code_commit=None,
        run_id=None,
        describe=described,
        summary={},
    )


def check_pulled(folder: Path, version: SnapshotVersion) -> list[str]:
    """What differs between a pulled version and the one it was pulled from."""
    whole = manifest_of(folder).content_sha256 == version.sha256
    return (
        []
        if whole and sum(batch.num_rows for batch in batches(folder, ["trajectory_id"])) == version.rows
        else ["pulled"]
    )


def timed(tables: Iterable[pa.Table], seconds: list[float]) -> Iterator[pa.Table]:
    """The rows; when each part was asked for goes to `seconds`."""
    for table in tables:
        seconds.append(time.monotonic())
        yield table


def growth(seconds: list[float]) -> float:
    """Cost of a row in the last stretches beside that in the first ones, after the very first."""
    step = max(1, (len(seconds) - 1) // PARTS)
    costs = [seconds[at + step] - seconds[at] for at in range(0, len(seconds) - step, step)]
    middle = len(costs) // 2
    early, late = costs[1:middle], costs[middle:]
    return (sum(late) / len(late)) / (sum(early) / len(early)) if early and late else 1.0


def run(folder: Path, rows: int, *, part: int = 500, show: Callable[[str], None] = print) -> dict[str, object]:
    """The figures over so many rows."""
    source, second = folder / "rows.arrow", folder / "changed.arrow"
    maker = Rows(7, part)
    made(source, maker.tables(rows))
    shorter = max(part, (rows - rows // 50) // part * part)
    made(second, maker.tables(shorter, frozenset(range(0, rows, CHANGED_SHARE))))
    text_gb = source.stat().st_size / 1e9
    show(f"{rows} rows, {text_gb:.1f} GB of text and numbers")
    memory, seconds = Memory(), list[float]()
    with memory.watched():
        plain_s = plain(folder / "plain-1", rows_of(source))
        began = time.monotonic()
        first = published(folder, timed(rows_of(source), seconds))
        publish_s = time.monotonic() - began
        plain_s = (plain_s + plain(folder / "plain-2", rows_of(source))) / 2
        show(f"plain {plain_s:.1f} s, published in {publish_s:.1f} s")
        began = time.monotonic()
        files = [str(path) for path in sorted((first.path / "data").iterdir())]
        with duckdb.connect(config={"memory_limit": "1GB", "temp_directory": str(folder / "duckdb")}) as connection:
            found = connection.execute(FILTER, [files]).fetchall()
        filter_s = time.monotonic() - began
        other = published(folder, rows_of(second))
        began = time.monotonic()
        differs = difference(first.path, other.path, limit=1)
        diff_s = time.monotonic() - began
        began = time.monotonic()
        pull(folder, f"{NAME}@{first.version}", target=folder / "pulled")
        pull_s = time.monotonic() - began
    problems = [*check(first.path), *check_pulled(folder / "pulled", first)]
    return {
        "rows": first.rows,
        "text_gb": round(text_gb, 2),
        "write_ratio_vs_pyarrow": round(plain_s / publish_s, 3),
        "mb_per_s": round(1000 * text_gb / publish_s, 1),
        "peak_gb": round(memory.peak_gb, 2),
        "cost_growth": round(growth(seconds), 2),
        "filter_s": round(filter_s, 2),
        "filter_groups": len(found),
        "diff_s": round(diff_s, 2),
        "diff_rows": {name: getattr(differs, name) for name in ("added", "removed", "changed", "moved", "same")},
        "pull_s": round(pull_s, 2),
        "problems": problems,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-snapshots", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, help="Where room for four times the rows is (default: a temporary one).")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        found = run(Path(folder), chosen.rows)
    print(json.dumps(found))
    return 1 if found["problems"] or found["rows"] != chosen.rows else 0


if __name__ == "__main__":
    raise SystemExit(main())
