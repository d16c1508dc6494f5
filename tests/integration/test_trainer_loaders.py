"""Exports in the trainers' own loaders, with every hostile row that an export carries: no row is lost or changed.

The trainers are in the environments that `infra/peers.sh trainers` makes, which takes minutes: `make test-peers`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.integration.loaders import hashed
from tests.unit.hostile_rows import hostile_rows, verified_row, version_of
from tests.unit.test_exports import FORMS

pytestmark = pytest.mark.peers

LOADERS = Path(__file__).with_name("loaders.py")
LIMIT_S = 600


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each form, of all hostile rows."""
    folder = tmp_path_factory.mktemp("exports")
    version = version_of(folder / "version", list(hostile_rows().values()))
    for name in ("messages", "sharegpt", "verl", "skyrl"):
        FORMS[name].write(version, folder / name)
    return folder


def loaded(data_folder: Path, trainer: str, loader: str, folder: Path) -> list[tuple[str, int]]:
    """Hash and number of trained tokens of each row, as the trainer has it."""
    venv = data_folder / "peers" / "trainers" / trainer
    if not (venv / ".stamp").exists():
        pytest.fail("call `make peers`, or `infra/peers.sh trainers`, before these tests")
    place = folder.parent / f"home-{loader}"
    offline = {"HF_HOME": str(place), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "TQDM_DISABLE": "1"}
    offline |= {"HOME": str(place), "PATH": os.environ["PATH"], "PYTHONPATH": "", "USE_TORCH": "1"}
    command = [str(venv / "bin" / "python"), str(LOADERS), loader, str(folder)]
    done = subprocess.run(command, env=offline, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])]


def conversations(folder: Path) -> list[str]:
    """Hashes of what the export holds, in order."""
    rows: list[Any] = pq.read_table(folder / "messages" / "train.parquet").to_pylist()
    return [hashed(row["messages"]) for row in rows]


@pytest.mark.parametrize(
    ("trainer", "loader", "form"),
    [
        ("llamafactory", "llamafactory", "sharegpt"),
        ("llamafactory", "llamafactory", "messages"),
        ("verl", "verl_sft", "messages"),
        ("trl", "trl", "messages"),
    ],
)
def test_a_trainer_has_every_conversation_and_learns_from_it(
    trainer: str, loader: str, form: str, exports: Path, data_folder: Path
) -> None:
    rows = loaded(data_folder, trainer, loader, exports / form)
    assert [told for told, _ in rows] == conversations(exports)
    assert all(trained for _, trained in rows)


def test_llamafactorys_openai_converter_keeps_every_row_and_adds_to_its_system_prompt(
    exports: Path, data_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(exports / "messages", tmp_path / "openai")
    info = json.loads((folder / "dataset_info.json").read_text())
    for entry in info.values():
        entry["formatting"] = "openai"
    (folder / "dataset_info.json").write_text(json.dumps(info))
    rows = loaded(data_folder, "llamafactory", "llamafactory", folder)
    assert len(rows) == len(conversations(exports)) and all(trained for _, trained in rows)
    assert [told for told, _ in rows] != conversations(exports)


@pytest.mark.parametrize(("trainer", "loader", "form"), [("verl", "verl_rl", "verl"), ("trl", "skyrl", "skyrl")])
def test_a_trainer_has_every_task_with_what_to_judge_by(
    trainer: str, loader: str, form: str, exports: Path, data_folder: Path
) -> None:
    rows = loaded(data_folder, trainer, loader, exports / form)
    found: list[Any] = pq.read_table(exports / form / "train.parquet").to_pylist()
    judged = "reward_model" if form == "verl" else "reward_spec"
    assert rows == [(hashed(row["prompt"]), len(row[judged]["ground_truth"])) for row in found]


def test_a_json_text_of_tools_is_what_verl_refuses(data_folder: Path, tmp_path: Path) -> None:
    FORMS["messages"].write(version_of(tmp_path / "v", [verified_row("a")]), tmp_path / "out")
    path = tmp_path / "out" / "train.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("tools", [["[]"]]), path)
    with pytest.raises(AssertionError, match="Tools should"):
        loaded(data_folder, "verl", "verl_sft", tmp_path / "out")
