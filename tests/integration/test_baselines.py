"""The baselines in a real game: a model from scratch is cloned once, arms go on from it, and all have one table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SETTINGS = """
environments = ["textcraft"]
max_gold_steps = 2
judged = 2
max_steps = 3
answer_tokens = 8
seats = 2
hidden = 32
layers = 1
"""
ARMS = ("random", "oracle", "bc", "more_bc", "rft", "best_of_n", "best_of_n_value", "eto", "dmpo", "glider", "grpo")


def experiment(folder: Path, *arguments: str) -> dict[str, object]:
    place = ["--data", str(folder / "data"), "--results", str(folder / "results"), "--json"]
    command = [sys.executable, "-m", "assets.cli", "experiment", "baselines", *arguments, *place]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, timeout=300, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found: dict[str, object] = json.loads(answer.stdout.splitlines()[-1])
    return found


def test_arms_begin_from_one_clone_and_spend_one_budget(tmp_path: Path) -> None:
    settings = tmp_path / "small.toml"
    settings.write_text(SETTINGS)
    told = ("--settings", str(settings), "--budget", "16000", "--seeds", "0")
    found = experiment(tmp_path, *told, "--arms", ",".join(ARMS))
    arms = found["environments"]["textcraft"]["arms"]  # type: ignore[index]  # JSON
    assert tuple(arms) == ARMS and found["cells_done"] == found["cells_planned"] == len(ARMS)
    assert arms["oracle"]["groups"]["unseen"]["mean"] == 1.0
    spent = {name: arm["spent"] for name, arm in arms.items()}
    clone = spent["bc"]["tokens"]["learned"]
    assert clone >= 0.85 * 16_000 and spent["best_of_n"]["tokens"]["learned"] == clone
    for name in ("more_bc", "rft", "best_of_n_value", "eto", "dmpo", "grpo"):
        assert spent[name]["tokens"]["learned"] >= clone and spent[name]["budget"] >= 16_000, name
    acted = {name for name, one in spent.items() if one["environment_steps"] > 0}
    assert acted == {"rft", "best_of_n_value", "eto", "dmpo", "glider", "grpo"}
    assert (tmp_path / "results/baselines/plot.png").stat().st_size > 10_000

    again = experiment(tmp_path, *told, "--arms", "ppo,rloo")
    assert again["setting"] == found["setting"] and again["cells_done"] == len(ARMS) + 2
