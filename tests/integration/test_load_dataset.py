"""A pulled version in the loader that its card is written for: every row of every split, with our column types.

The loader is in the environment of a trainer that `infra/peers.sh trainers` makes: `make test-peers`.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.cards import front_matter
from pipeline.hierarchy.attempts import COLUMNS
from pipeline.hierarchy.columns import BENCHMARK, DATASETS
from pipeline.hierarchy.rules import NAMES
from pipeline.schemas import TERMINAL, to_arrow
from pipeline.snapshots import load, publish
from pipeline.snapshots.attempts import VersionAttempts
from pipeline.snapshots.pulling import pull
from pipeline.stages.annotating import RULES, annotate_all
from pipeline.stages.benchmarks import BenchmarkPublication, publish_benchmark
from pipeline.stages.hierarchical import HierarchicalPublication, publish_hierarchical
from pipeline.stages.options import Options
from pipeline.tables import Store
from tests.unit.hierarchical_attempts import game_row, put, terminal_row

pytestmark = pytest.mark.peers

LOAD = """
import json, sys
from datasets import load_dataset
found = load_dataset(sys.argv[1])
ids = {split: rows["trajectory_id"][:] for split, rows in found.items()}
print(json.dumps({"ids": ids, "columns": sorted(found["train"].column_names), "step": found["train"][0]["steps"][0]}))
"""
LOAD_FILES = """
import json, sys
from datasets import load_dataset
told = {}
for folder in sys.argv[1:]:
    whole = load_dataset(folder)
    files = load_dataset("parquet", data_files=folder + "/data/*.parquet")["train"]
    assert sorted(files.column_names) == sorted(whole["train"].column_names)
    assert len(files) == sum(map(len, whole.values()))
    told[folder] = {split: {name: str(kind) for name, kind in rows.features.items()} for split, rows in whole.items()}
    told[folder] = [{split: len(rows) for split, rows in whole.items()}, told[folder]["train"]]
print(json.dumps(told))
"""
LIMIT_S = 600


def run_there(data_folder: Path, place: Path, program: str, *folders: Path) -> Any:
    """What the program prints last, run with the packages of a trainer and no network."""
    python = data_folder / "peers" / "trainers" / "trl" / "bin" / "python"
    if not python.exists():
        pytest.fail("call `make peers`, or `infra/peers.sh trainers`, before these tests")
    environment = {"HF_HOME": str(place / "home"), "HF_HUB_OFFLINE": "1", "HOME": str(place / "home")}
    environment |= {"PATH": os.environ["PATH"], "TQDM_DISABLE": "1"}
    command = [str(python), "-c", program, *map(str, folders)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_pulled_version_is_loaded_with_its_splits_and_columns(data_folder: Path, tmp_path: Path) -> None:
    step = {"index": 0, "action": "ls", "exit_code": 0, "seconds": 0.5, "extra": "{}"}
    splits = {"train": ["a", "b"], "test": ["c"], "validation": ["d"]}
    rows = [
        {"trajectory_id": key, "split": split, "license": "MIT", "steps": [step], "solution": ["ls"]}
        for split, keys in splits.items()
        for key in keys
    ]
    publish(
        tmp_path,
        "terminal",
        to_arrow(TERMINAL, rows),
        schema_version=TERMINAL.version,
        parents=[],
        code_commit=None,
        run_id=None,
        describe=lambda draft: {"README.md": front_matter(draft)},
        summary={},
    )
    found = pull(tmp_path, "terminal", tmp_path / "copy")
    loaded = run_there(data_folder, tmp_path, LOAD, found.path)
    assert loaded["ids"] == splits
    assert loaded["columns"] == sorted(TERMINAL.arrow.names)
    assert {key: value for key, value in loaded["step"].items() if value is not None} == step


def test_data_sets_of_hierarchies_and_benchmarks_are_loaded_as_folders_and_as_files(
    data_folder: Path, tmp_path: Path
) -> None:
    put(tmp_path, "games", game_row("a"), game_row("b", split="seen", instance_id="task-b"))
    put(tmp_path, "terminal", terminal_row("c"))
    store = Store(tmp_path)
    versions = [VersionAttempts(tmp_path, name, COLUMNS) for name in ("games", "terminal")]
    annotate_all(store, versions, RULES, Options())
    five = publish_hierarchical(
        store, tmp_path, HierarchicalPublication(("games", "terminal"), NAMES), code_commit=None, run_id=None
    )
    tasks = BenchmarkPublication("textcraft", "games", NAMES, max_steps=30)
    benchmark = publish_benchmark(store, tmp_path, tasks, code_commit=None, run_id=None)
    schemas = {str(version.path): DATASETS[name] for name, version in five.items()}
    schemas[str(benchmark.path)] = BENCHMARK
    loaded = run_there(data_folder, tmp_path, LOAD_FILES, *map(Path, schemas))
    for folder, schema in schemas.items():
        counts, features = loaded[folder]
        assert sorted(features) == sorted(schema.arrow.names)
        assert sum(counts.values()) == (2 if schema is BENCHMARK else len(load(Path(folder))))
    assert loaded[str(five["system1"].path)][1]["group_actions"] == "List(Value('string'))"
    assert loaded[str(five["step_low"].path)][1]["rejected"] == "Value('bool')"
    assert loaded[str(five["step_low"].path)][1]["reward"] == "Value('float64')"
