"""WebShop with its own catalogue: every task is solved by its path, and by nothing else that is sold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from training.environments.shop.catalogue import generated
from training.environments.shop.goals import goal_of
from training.environments.shop.reward import reward
from training.environments.task_lists import FOLDER, lines_of, tasks_of
from training.environments.webshop import WebShop, make

READ_SOME = """
import hashlib
from training.environments.task_lists import tasks_of
from training.environments.webshop import make
game, read = make(), hashlib.sha256()
for task in tasks_of("webshop", per_split=30):
    opening = game.start(task.task_type, task.variation)
    played = [(game.admissible(), game.act(action)) for action in game.gold()]
    read.update(repr((opening, played)).encode())
print(read.hexdigest())
"""


@pytest.fixture(scope="module")
def game() -> WebShop:
    return make()


def test_the_file_is_what_the_rules_make_and_each_path_in_it_buys_for_the_full_score(game: WebShop) -> None:
    tasks = list(game.candidates())
    assert lines_of(tasks) == (FOLDER / "webshop.jsonl").read_text(encoding="utf-8")
    assert {task.difficulty for task in tasks} == {"easy", "medium", "hard"}


def test_whole_categories_are_held_out() -> None:
    tasks = tasks_of("webshop")
    splits = {split: [task for task in tasks if task.split == split] for split in ("train", "seen", "unseen")}
    assert {split: len(some) for split, some in splits.items()} == {"train": 416, "seen": 96, "unseen": 96}
    kinds = {split: {task.task_type for task in some} for split, some in splits.items()}
    assert kinds["seen"] == kinds["train"] and not kinds["unseen"] & kinds["train"]
    assert len({task.variation for task in tasks}) == len(tasks)


def test_no_other_product_is_worth_the_full_score() -> None:
    products = generated()
    by_asin = {product.asin: product for product in products}
    for task in tasks_of("webshop", per_split=20):
        goal = goal_of(by_asin[task.variation], products)
        assert goal is not None
        worth = [reward(product, _best(product.options, goal.options), goal) for product in products]
        assert [product for product, value in zip(products, worth, strict=True) if value == 1.0] == [goal.product]


def _best(offered: object, wanted: object) -> dict[str, str]:
    assert isinstance(offered, dict) and isinstance(wanted, dict)
    return {name: value for name, value in wanted.items() if value in offered.get(name, ())}


def test_texts_do_not_depend_on_the_order_of_sets() -> None:
    read = {
        subprocess.run(
            ["env", f"PYTHONHASHSEED={seed}", sys.executable, "-c", READ_SOME],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    }
    assert len(read) == 1 and len(read.pop().strip()) == 64


def test_what_the_page_does_not_have_is_rejected_and_the_page_stays(game: WebShop) -> None:
    task = tasks_of("webshop", ("train",), 1)[0]
    opening = game.start(task.task_type, task.variation)
    for action in ("click[buy now]", "click[< prev]", "search[]", "click[ ]", "buy now", f"search{'[' * 5000}"):
        played = game.act(action)
        assert played.rejected and not played.done and played.score == 0.0, action
        assert played.observation.splitlines()[1:] == opening.observation.splitlines()
    game.act(game.gold()[0])
    assert game.act("search[mug]").rejected
    assert not game.act("click[BACK TO SEARCH]").rejected


def test_buying_too_early_is_worth_less_and_ends_the_attempt(game: WebShop) -> None:
    task = next(one for one in tasks_of("webshop", ("train",)) if one.gold_steps >= 6)
    game.start(task.task_type, task.variation)
    gold = game.gold()
    for action in gold[:2]:
        game.act(action)
    bought = game.act("click[buy now]")
    assert bought.done and 0.0 < bought.score < 1.0 and not bought.rejected
    after = game.act("click[back to search]")
    assert after.done and after.rejected and after.score == bought.score
    assert game.admissible() == ()
    game.start(task.task_type, task.variation)
    assert [game.act(action).score for action in gold] == [0.0] * (len(gold) - 1) + [1.0]


def test_every_action_of_a_path_is_offered_and_everything_offered_is_taken(game: WebShop) -> None:
    for task in tasks_of("webshop", per_split=3):
        game.start(task.task_type, task.variation)
        gold = game.gold()
        for number, action in enumerate(gold):
            offered = game.admissible()
            assert action in offered
            for other in offered:
                game.start(task.task_type, task.variation)
                for before in gold[:number]:
                    game.act(before)
                assert not game.act(other).rejected, other
            game.start(task.task_type, task.variation)
            for before in gold[: number + 1]:
                game.act(before)


@pytest.mark.parametrize(("task_type", "variation"), [("shampoo", "B0"), ("shampoo", ""), ("boat", "B0E4LSOGR6")])
def test_a_task_that_there_is_not_is_refused(game: WebShop, task_type: str, variation: str) -> None:
    with pytest.raises(ValueError, match="WebShop has no"):
        game.start(task_type, variation)
