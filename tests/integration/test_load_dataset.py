"""A pulled version in the loader that its card is written for: every row of every split, with our column types.

The loader is in the environment of a trainer that `infra/peers.sh trainers` makes: `make test-peers`.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from pipeline.cards import front_matter
from pipeline.schemas import TERMINAL, to_arrow
from pipeline.snapshots import publish
from pipeline.snapshots.pulling import pull

pytestmark = pytest.mark.peers

LOAD = """
import json, sys
from datasets import load_dataset
found = load_dataset(sys.argv[1])
ids = {split: rows["trajectory_id"][:] for split, rows in found.items()}
print(json.dumps({"ids": ids, "columns": sorted(found["train"].column_names), "step": found["train"][0]["steps"][0]}))
"""
LIMIT_S = 600


def test_a_pulled_version_is_loaded_with_its_splits_and_columns(data_folder: Path, tmp_path: Path) -> None:
    python = data_folder / "peers" / "trainers" / "trl" / "bin" / "python"
    if not python.exists():
        pytest.fail("call `make peers`, or `infra/peers.sh trainers`, before these tests")
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
    environment = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path / "home")}
    environment |= {"PATH": os.environ["PATH"], "TQDM_DISABLE": "1"}
    command = [str(python), "-c", LOAD, str(found.path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert loaded["ids"] == splits
    assert loaded["columns"] == sorted(TERMINAL.arrow.names)
    assert {key: value for key, value in loaded["step"].items() if value is not None} == step
