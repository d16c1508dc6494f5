"""What a cookbook says of recipes, with recipes that can be followed by hand."""

from __future__ import annotations

import pytest

from training.environments.crafting import Cookbook, Recipe

OAK = Recipe("oak planks", 4, (("oak log", 1),))
ASH = Recipe("ash planks", 4, (("ash bark", 2), ("ash log", 1)))
STICK = Recipe("stick", 4, (("planks", 2),))
TORCH = Recipe("torch", 4, (("stick", 1), ("coal", 1)))
LADDER = Recipe("ladder", 3, (("stick", 7),))
CAMP = Recipe("camp", 1, (("torch", 2), ("ladder", 1), ("planks", 3)))
ALL = (CAMP, LADDER, TORCH, STICK, ASH, OAK)


@pytest.fixture
def cookbook() -> Cookbook:
    return Cookbook(ALL, {"planks": ("ash planks", "oak planks")})


def test_depth_counts_the_crafts_that_have_to_follow_each_other(cookbook: Cookbook) -> None:
    names = ("coal", "oak planks", "planks", "stick", "torch", "camp")
    assert [cookbook.depth(name) for name in names] == [0, 1, 1, 2, 3, 4]


def test_what_several_need_is_made_once_for_all_of_them(cookbook: Cookbook) -> None:
    # 1 + 7 sticks are 2 crafts and 4 planks; with the 3 planks of the camp that is 2 crafts of planks.
    assert cookbook.path("camp") == (
        "get 2 oak log",
        "craft 4 oak planks using 1 oak log",
        "craft 4 oak planks using 1 oak log",
        "craft 4 stick using 2 oak planks",
        "craft 4 stick using 2 oak planks",
        "get 1 coal",
        "craft 4 torch using 1 stick, 1 coal",
        "craft 3 ladder using 7 stick",
        "craft 1 camp using 2 torch, 1 ladder, 3 oak planks",
    )


def test_the_shorter_of_two_recipes_is_taken_whatever_their_order() -> None:
    dyes = [Recipe("dye", 1, (("poppy", 1), ("beet", 1))), Recipe("dye", 2, (("rose", 1),))]
    for recipes in (dyes, dyes[::-1]):
        assert Cookbook(recipes, {}).path("dye") == ("get 1 rose", "craft 2 dye using 1 rose")


def test_a_recipe_in_a_circle_is_never_gone_round() -> None:
    circle = [Recipe("white bed", 1, (("wool", 3),)), Recipe("wool", 1, (("string", 4),))]
    dyed = [Recipe("wool", 3, (("white bed", 1),))]
    assert Cookbook(circle + dyed, {}).path("white bed")[-1] == "craft 1 white bed using 3 wool"
    assert "craft 3 wool using 1 white bed" not in Cookbook(circle + dyed, {}).path("white bed")


def test_recipes_behind_and_beside_an_item(cookbook: Cookbook) -> None:
    assert set(cookbook.behind("torch")) == {TORCH, STICK, OAK, ASH}
    # The ladder needs sticks too, and the camp planks.
    assert cookbook.beside(cookbook.behind("torch")) == (CAMP, LADDER)


def test_a_group_can_be_any_of_its_members(cookbook: Cookbook) -> None:
    assert [way.text for way in cookbook.ways(STICK)] == [
        "craft 4 stick using 2 ash planks",
        "craft 4 stick using 2 oak planks",
    ]
    assert not cookbook.can_be_got("planks") and not cookbook.can_be_got("stick") and cookbook.can_be_got("coal")


def test_what_can_never_be_made_is_named() -> None:
    with pytest.raises(ValueError, match="nothing that can be got leads to egg, hen"):
        Cookbook([Recipe("egg", 1, (("hen", 1),)), Recipe("hen", 1, (("egg", 1), ("corn", 1)))], {})
