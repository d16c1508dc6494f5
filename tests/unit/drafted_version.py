"""A version whose rows are written, and all that working tables may say of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.columns import TERMINAL
from pipeline.curation.decisions import StepCount
from pipeline.curation_report import FindingCount
from pipeline.dataset_card import CardFacts
from pipeline.dataset_card.facts import AttemptYield, Flakes
from pipeline.funnel import Funnel
from pipeline.instance_report import GateYield, Yield
from pipeline.replay_rate import ReplayRate
from pipeline.snapshots import Draft, FileEntry

FULL = CardFacts(
    code_commit="c0ffee",
    schema_version=3,
    funnel=Funnel(
        repositories=900,
        kept=80,
        images_built=70,
        languages=("go",),
        instances=60,
        instances_admitted=50,
        rollouts=40,
        trajectories_verified=9,
    ),
    gates={"noop": GateYield(reached=60, passed=50, rate=0.8333)},
    by_domain={"sql": Yield(written=40, admitted=30, rate=0.75), "qemu": Yield(written=20, admitted=20, rate=1.0)},
    attempts=(
        AttemptYield(domain="qemu", agent="bash", model="m", attempts=5, judged=4, passed=1),
        AttemptYield(domain="sql", agent="bash", model="m", attempts=8, judged=6, passed=2),
        AttemptYield(domain="sql", agent="oracle", model=None, attempts=6, judged=6, passed=6),
    ),
    flakes=Flakes(checked=60, flaky=3),
    replays=ReplayRate(replayed=8, same_verdict=7, rate=0.875, judged=16, broken=2),
    licences=("MIT", "ISC"),
    steps=(StepCount(step="denied", came=9, excluded=2, left=7), StepCount(step="licence", came=7, excluded=3, left=4)),
    waiting=1,
    by_finding={
        "email": FindingCount(rows=2, replaced=5, planted=1),
        "key": FindingCount(rows=1, replaced=0, planted=9),
    },
    verified_by_licence=(("MIT", 6), (None, 3)),
    compared=True,
)

COLUMNS: dict[str, list[object]] = {
    "trajectory_id": ["t1", "t2", "t3", "t4"],
    "instance_id": ["i1", "i1", "i2", "i3"],
    "repository_id": ["r1", "r1", "r1", "r2"],
    "domain": ["sql", "sql", "qemu", "sql"],
    "family": ["join", "join", "join", "index"],
    "language": ["go", "c", "go", None],
    "license": ["MIT", "ISC", "MIT", None],
    "agent": ["bash", "bash", "oracle", "bash"],
    "model": ["m", "m", None, "n"],
    "n_turns": [2, 4, 4, 9],
    "n_tokens": [100, 1500, 0, 90_000],
    "split": ["train", "train", "validation", "test"],
    "scrubbed": [0, 3, 0, 4],
    "integrity": [[], ["moved_clock"], [], []],
}


def drafted(place: Path, columns: Mapping[str, list[object]], *, out: Mapping[str, int] | None = None) -> Draft:
    """Write rows as the data files of a version in a new folder, and how many each step left out."""
    (place / "data").mkdir(parents=True)
    types = {name: TERMINAL.get(name, pa.string()) for name in columns}
    table = pa.table({name: pa.array(cells, types[name]) for name, cells in columns.items()})
    files = []
    for split in sorted(set(map(str, columns.get("split", ["train"])))):
        part = table.filter(pc.equal(table["split"], split)) if "split" in columns else table
        path = f"data/{split}-00000.parquet"
        pq.write_table(part, place / path)
        files.append(FileEntry(path=path, sha256="0", bytes=1_500_000, rows=part.num_rows, split=split))
    steps = [step for step, count in (out or {}).items() for _ in range(count)]
    pq.write_table(pa.table({"step": pa.array(steps, pa.string())}), place / "excluded.parquet")
    return Draft(
        name="terminal",
        version="v0002",
        folder=place,
        schema=table.schema,
        files=tuple(files),
        bytes_by_split={file.split or "train": 7_000_000 for file in files},
        parents=("terminal/v0001",),
        filters={"licences": ["MIT"]},
        summary={},
    )
