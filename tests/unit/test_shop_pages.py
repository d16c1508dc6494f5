"""Searching the shop and going through its pages."""

from __future__ import annotations

import pytest

from tests.unit.shop_products import product
from training.environments.shop.catalogue import generated
from training.environments.shop.pages import Page, buttons, clicked, text
from training.environments.shop.search import MOST_RESULTS, Index

MUG = product(
    "B0MUG", "Hearthly mug, lead free", "lead free", options={"color": ("red", "blue"), "size": ("8 oz", "12 oz")}
)
CUP = product("B0CUP", "Homelle cup with a very long title that says little", "lead free", "cork base")
PAN = product("B0PAN", "Oakmere pan", "cork base")


def test_products_with_more_and_rarer_words_come_first() -> None:
    index = Index([PAN, CUP, MUG])
    assert [one.asin for one in index.found("lead free mug")] == ["B0MUG", "B0CUP"]
    # Both have the words; in the shorter text they weigh more.
    assert [one.asin for one in index.found("Cork BASE!")] == ["B0PAN", "B0CUP"]
    assert index.found("unicorn") == () and index.found("") == ()


def test_the_weight_of_a_word_is_that_of_the_formula() -> None:
    index = Index([PAN, CUP, MUG])
    # Words: 4 (oakmere pan cork base), 13 and 6; one of three products has `mug`, so idf = ln(1 + 2.5 / 1.5).
    (number, weight), *rest = index._weights["mug"]
    assert number == 2 and not rest
    assert weight == pytest.approx(1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 6 / (24 / 3))))


def test_no_more_than_fifty_are_found_and_equally_good_ones_keep_their_order() -> None:
    same = [product(f"B{number}", "Hearthly mug") for number in range(60)]
    assert [one.asin for one in Index(same).found("mug")] == [f"B{number}" for number in range(MOST_RESULTS)]
    assert Index([]).found("mug") == ()


def test_results_are_told_ten_to_a_page() -> None:
    found = tuple(product(f"B{number}", f"mug {number}") for number in range(23))
    first = Page(kind="results", found=found)
    assert buttons(first) == ("Back to Search", "Next >", *(f"B{number}" for number in range(10)))
    second = clicked(first, "Next >")
    assert text(second).splitlines()[:3] == [
        "Results: 23. Page 2 of 3.",
        "[Back to Search] [< Prev] [Next >]",
        "[B10] mug 10. $12.50",
    ]
    third = clicked(second, "Next >")
    assert buttons(third) == ("Back to Search", "< Prev", "B20", "B21", "B22")
    assert clicked(third, "< Prev") == second
    assert text(Page(kind="results")) == "Results: 0. Page 1 of 1.\n[Back to Search]"


def test_choices_stay_while_its_pages_are_read_and_are_gone_for_the_next_product() -> None:
    item = clicked(Page(kind="results", found=(MUG, CUP)), "B0MUG")
    assert buttons(item) == (
        *("Back to Search", "< Prev", "red", "blue", "8 oz", "12 oz"),
        *("Description", "Features", "Reviews", "Buy Now"),
    )
    chosen = clicked(clicked(clicked(item, "red"), "blue"), "8 oz")
    assert chosen.chosen == {"color": "blue", "size": "8 oz"}
    assert "color: [red] [blue] (chosen: blue)" in text(chosen).splitlines()
    features = clicked(chosen, "Features")
    assert text(features) == "[Back to Search] [< Prev]\n- lead free"
    assert text(clicked(chosen, "Reviews")).endswith("- No reviews.")
    assert text(clicked(chosen, "Description")).endswith("No description.")
    assert clicked(features, "< Prev") == chosen
    assert clicked(clicked(chosen, "< Prev"), "B0CUP").chosen == {}
    assert clicked(chosen, "Back to Search") == Page()


def test_the_catalogue_has_no_two_products_of_one_name() -> None:
    products = generated()
    assert len({one.asin for one in products}) == len(products) == 1500
    for one in products:
        values = [value for options in one.options.values() for value in options]
        assert len(set(values)) == len(values), one.title
        assert set(one.features) == set(one.attributes)
