"""Products in the format of the original release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ConfigurationError
from training.environments.shop.released import read_products
from training.environments.webshop import make

MUG: dict[str, Any] = {
    "asin": "B07AAAAAAA",
    "name": "Hearthly Travel Mug",
    "category": "garden",
    "query": "Travel Mugs",
    "product_category": "Home & Kitchen › Kitchen & Dining › Travel Mugs",
    "small_description": ["Keeps warm for hours.", "Lead free."],
    "full_description": "A mug for the road.",
    "pricing": "$1,012.50$1,020.00",
    "customization_options": {
        "Color": [{"value": " Red ", "image": None}, {"value": "Navy  Blue"}],
        "Size": None,
    },
}
PLAIN: dict[str, Any] = {
    "asin": "B07BBBBBBB",
    "name": "Homelle Cup",
    "category": "garden",
    "query": "cup",
    "attributes": ["Lead Free"],
}


def written(folder: Path, items: object) -> Path:
    file = folder / "items_shuffle_1000.json"
    file.write_text(json.dumps(items), encoding="utf-8")
    return file


def test_what_the_release_says_of_a_product_is_read(tmp_path: Path) -> None:
    told = {"B07AAAAAAA": {"attributes": ["double wall", "Lead Free"]}}
    (tmp_path / "items_ins_v2_1000.json").write_text(json.dumps(told))
    unknown = MUG | {"asin": "B07CCCCCCC"}
    mug, plain = read_products(written(tmp_path, [MUG, unknown, PLAIN, MUG | {"name": "the same once more"}]))
    assert (mug.title, mug.query, mug.category) == ("Hearthly Travel Mug", "travel mugs", "garden")
    assert mug.path == ("Home & Kitchen", "Kitchen & Dining", "Travel Mugs")
    assert mug.attributes == ("double wall", "lead free")
    assert mug.options == {"color": ("red", "navy blue")}
    assert (mug.price, plain.price) == (1020.0, 100.0)
    assert mug.features == ("Keeps warm for hours.", "Lead free.") and plain.features == ()


def test_a_shop_of_such_products_is_played(tmp_path: Path) -> None:
    cups = [PLAIN | {"asin": f"B07BBBBBB{number}", "pricing": f"${number + 5}.00"} for number in range(3)]
    mug = MUG | {"attributes": ["double wall"], "category": "fashion"}
    game = make(written(tmp_path, [*cups, mug]))
    tasks = list(game.candidates())
    assert [task.variation for task in tasks] == ["B07AAAAAAA", *(cup["asin"] for cup in cups)]
    opening = game.start("fashion", "B07AAAAAAA")
    assert "double wall travel mugs in color" in opening.task
    assert [game.act(action).score for action in game.gold()][-1] == 1.0


@pytest.mark.parametrize("items", [{"a": 1}, [{"name": "no asin", "attributes": ["x"]}], "text", [1], None])
def test_another_file_is_named(tmp_path: Path, items: object) -> None:
    file = written(tmp_path, items)
    with pytest.raises(ConfigurationError, match=r"items_shuffle_1000\.json is no list of products like WebShop's"):
        read_products(file)
    with pytest.raises(ConfigurationError, match=r"missing\.json"):
        make(tmp_path / "missing.json")
