"""ALFWorld over game files of one's own, as the package's data have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training.environments.alfworld import make
from training.environments.game import GameTask


def test_game_files_in_a_folder_are_the_tasks(tmp_path: Path) -> None:
    game, _ = make()._made("pick_and_place_simple", "1")
    place = tmp_path / "valid_seen" / "pick_and_place_simple-Mug-None-Desk-1" / "trial"
    place.mkdir(parents=True)
    (place / "game.tw-pddl").write_text(json.dumps(game), encoding="utf-8")
    own = make(tmp_path)
    tasks = list(own.candidates())
    variation = place.relative_to(tmp_path).as_posix()
    assert [(task.task_type, task.variation, task.split) for task in tasks] == [
        ("pick_and_place_simple", variation, "seen")
    ]
    assert isinstance(tasks[0], GameTask) and tasks[0].gold_steps >= 3
    with pytest.raises(ValueError, match="has no game"):
        own.start("pick_and_place_simple", "elsewhere")
