"""The splits files of the games: their order, fair shares of few, and what is said of a bad file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from training.environments.game import GameTask
from training.environments.levels import levelled
from training.environments.task_lists import lines_of, tasks_of


def game_task(task_type: str, variation: str, split: str = "train", steps: int = 3) -> GameTask:
    return GameTask.model_validate(
        {
            "task_type": task_type,
            "variation": variation,
            "split": split,
            "gold_steps": steps,
            "difficulty": "easy",
        }
    )


def written(folder: Path, tasks: list[GameTask]) -> None:
    (folder / "scienceworld.jsonl").write_text(lines_of(tasks), encoding="utf-8")


def test_numbers_in_variations_are_in_their_own_order(tmp_path: Path) -> None:
    tasks = [game_task("b", "seed-10"), game_task("b", "seed-9"), game_task("a", "x"), game_task("b", "2")]
    written(tmp_path, tasks)
    found = [(task.task_type, task.variation) for task in tasks_of("scienceworld", folder=tmp_path)]
    assert found == [("a", "x"), ("b", "2"), ("b", "seed-9"), ("b", "seed-10")]


def test_few_tasks_come_from_all_templates_alike(tmp_path: Path) -> None:
    tasks = [game_task(kind, str(number)) for kind, count in (("a", 9), ("b", 2), ("c", 9)) for number in range(count)]
    written(tmp_path, tasks)
    few = tasks_of("scienceworld", ("train",), 7, tmp_path)
    assert Counter(task.task_type for task in few) == {"a": 3, "b": 2, "c": 2}
    assert tasks_of("scienceworld", ("train",), 100, tmp_path) == tasks_of("scienceworld", ("train",), None, tmp_path)
    assert tasks_of("scienceworld", ("unseen",), None, tmp_path) == []


def test_levels_are_thirds_and_equal_lengths_are_equally_hard() -> None:
    raw = [{"task_type": "t", "variation": str(n), "split": "train", "gold_steps": n // 2 + 1} for n in range(12)]
    levels = {task.gold_steps: task.difficulty for task in levelled(raw)}
    assert levels == {1: "easy", 2: "easy", 3: "medium", 4: "medium", 5: "hard", 6: "hard"}
    assert list(levelled([])) == []


@pytest.mark.parametrize("text", ['{"task_type": "a"}\n', "no json\n"])
def test_a_file_that_is_none_of_ours_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "scienceworld.jsonl").write_text(text)
    with pytest.raises(ConfigurationError, match=r"scienceworld\.jsonl does not give the tasks of scienceworld"):
        tasks_of("scienceworld", folder=tmp_path)


def test_a_game_without_a_file_and_one_that_is_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"scienceworld\.jsonl"):
        tasks_of("scienceworld", folder=tmp_path)
    with pytest.raises(ConfigurationError, match="there is no game 'chess'"):
        tasks_of("chess")
