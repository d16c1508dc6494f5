"""What purchases are worth, with numbers reckoned by hand, and that instructions fit one product alone."""

from __future__ import annotations

import pytest

from tests.unit.shop_products import product
from training.environments.shop.goals import goal_of
from training.environments.shop.product import Product
from training.environments.shop.reward import Goal, reward, type_reward

WANTED = product(
    "B1",
    "Hearthly Alba travel mug, lead free",
    "double wall",
    "lead free",
    options={"color": ("red", "blue"), "size": ("8 oz", "12 oz")},
)
GOAL = Goal(WANTED, ("double wall", "lead free"), {"color": "red", "size": "8 oz"}, 20.0, "")
OTHER_PATH = ("outdoor", "bags", "backpack")


@pytest.mark.parametrize(
    ("chosen", "worth"),
    [
        ({"color": "red", "size": "8 oz"}, 1.0),
        ({"color": "red"}, 4 / 5),
        ({"color": "blue", "size": "12 oz"}, 3 / 5),
        ({"size": "8 oz", "color": "blue"}, 4 / 5),
        # The right word for the wrong option is no match.
        ({"size": "red"}, 3 / 5),
    ],
)
def test_each_option_that_was_asked_for_counts_once(chosen: dict[str, str], worth: float) -> None:
    assert reward(WANTED, chosen, GOAL) == pytest.approx(worth)


def test_missing_attributes_and_a_price_over_the_limit_take_their_parts() -> None:
    both = {"color": "red", "size": "8 oz"}
    assert reward(product("B2", "Hearthly mug", "lead free"), both, GOAL) == pytest.approx(4 / 5)
    assert reward(product("B3", "Hearthly mug", "lead free", price=20.01), both, GOAL) == pytest.approx(3 / 5)
    assert reward(product("B4", "Hearthly mug", "lead free", price=20.0), both, GOAL) == pytest.approx(4 / 5)


# The title of the wanted one has four nouns: hearthly, alba, travel, mug; `lead free` is an attribute.
@pytest.mark.parametrize(
    ("other", "worth"),
    [
        (product("B5", "Ridgeway Nova backpack", query="backpack", path=OTHER_PATH), 0.0),
        (product("B6", "Ridgeway Nova pack, lead free", query="backpack", path=OTHER_PATH), 0.0),
        # A quarter of the nouns is more than a fifth.
        (product("B7", "Ridgeway travel pack", query="backpack", path=OTHER_PATH), 1.0),
        # Without a noun in common neither the search term nor the department helps.
        (product("B8", "Ivorane cup"), 0.0),
    ],
)
def test_the_kind_of_thing_is_told_by_titles(other: Product, worth: float) -> None:
    assert type_reward(other, WANTED) == worth


def long_titled(shared: int, **told: object) -> Product:
    """Its title has `shared` words in common with the one of `twenty`."""
    words = [f"{'abcdefghijklmnopqrst'[number]}word" for number in range(shared)]
    return product("B9", " ".join([*words, "stranger"]), **told)  # type: ignore[arg-type]


def test_titles_with_little_in_common_are_judged_by_search_term_and_departments() -> None:
    twenty = long_titled(19)
    assert len(twenty.title.split()) == 20
    far = {"query": "backpack", "path": OTHER_PATH}
    near = {"query": "backpack", "path": ("home", "kitchen", "cup")}
    # One word of twenty (`stranger`) is less than a tenth, two are a tenth, four a fifth, five more than that.
    assert [type_reward(long_titled(n, **far), twenty) for n in (0, 1, 3, 4)] == [0.1, 0.5, 0.5, 1.0]
    assert [type_reward(long_titled(n, **near), twenty) for n in (0, 1)] == [0.1, 1.0]
    assert type_reward(long_titled(1, query="mug", path=OTHER_PATH), twenty) == 1.0


def test_an_instruction_asks_for_more_until_no_other_product_fits() -> None:
    colors = {"color": ("red",)}
    first = product("B1", "Hearthly mug", "cork base", "lead free", options=colors)
    second = product("B2", "Homelle mug", "double wall", "lead free", options=colors)
    dearer = product("B3", "Homelle mug", "cork base", "lead free", options=colors, price=500.0)
    goal = goal_of(first, (first, second, dearer))
    assert goal is not None and "cork base" in goal.attributes and goal.options == {"color": "red"}
    assert first.price < goal.most_price < 50
    assert all(word in goal.instruction for word in ("cork base", "mug", "color red", f"{goal.most_price:.2f} dollars"))
    # Nothing that is true of this one alone.
    assert goal_of(second, (second, product("B4", "Oakmere mug", "double wall", "lead free", options=colors))) is None
    assert goal_of(second, ()) is not None
