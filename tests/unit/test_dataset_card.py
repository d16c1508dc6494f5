"""The card of a version: its figures from hand-made rows, its sections and its documents."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import yaml
from markdown_it import MarkdownIt

from pipeline.cards import front_matter
from pipeline.columns import TERMINAL
from pipeline.dataset_card import CardFacts, documents
from pipeline.dataset_card.content import Exhibit, Section, Table, percent
from pipeline.dataset_card.figures import Figures, bin_edges, figures_of
from pipeline.dataset_card.meanings import MEANINGS, fields_of
from pipeline.dataset_card.sections import card_of
from pipeline.snapshots import Draft
from tests.unit.drafted_version import COLUMNS, FULL, drafted


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    return figures_of(drafted(tmp_path_factory.mktemp("figures"), COLUMNS, out={"licence": 2, "near_copy": 1}))


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Draft:
    return drafted(tmp_path_factory.mktemp("draft"), COLUMNS)


@pytest.fixture(scope="module")
def whole(draft: Draft) -> Mapping[str, str | bytes]:
    """All documents of that draft, written once."""
    return documents(draft, FULL)


def tables(draft: Draft, facts: CardFacts = CardFacts()) -> dict[str, Table]:  # noqa: B008 - frozen
    """The tables of a card by their captions."""
    blocks = [block for section in card_of(draft, figures_of(draft), facts).sections for block in section.blocks]
    found = [block.table if isinstance(block, Exhibit) else block for block in blocks]
    return {table.caption: table for table in found if isinstance(table, Table)}


def section(draft: Draft, title: str, facts: CardFacts) -> Section | None:
    sections = card_of(draft, figures_of(draft), facts).sections
    return next((one for one in sections if one.title == title), None)


def test_every_published_column_and_field_has_a_meaning() -> None:
    missing = [name for name, _, meaning in fields_of(pa.schema(list(TERMINAL.items()))) if not meaning]
    assert missing == []


def test_every_meaning_is_that_of_a_published_column() -> None:
    assert set(MEANINGS) <= {name for name, _, _ in fields_of(pa.schema(list(TERMINAL.items())))}


def test_things_are_counted_once_each_in_all_and_in_each_split(figures: Figures) -> None:
    assert (figures.rows, figures.distinct) == (4, {"repositories": 2, "tasks": 3, "families": 3})
    assert [(one.name, one.rows, one.distinct) for one in figures.splits] == [
        ("test", 1, {"repositories": 1, "tasks": 1, "families": 1}),
        ("train", 2, {"repositories": 1, "tasks": 1, "families": 1}),
        ("validation", 1, {"repositories": 1, "tasks": 1, "families": 1}),
    ]


def test_values_are_counted_most_first_and_nothing_last(figures: Figures) -> None:
    assert figures.counts["domain"] == (("sql", 3), ("qemu", 1))
    assert figures.counts["language"] == (("go", 2), ("c", 1), (None, 1))
    assert figures.counts["license"] == (("MIT", 2), ("ISC", 1), (None, 1))
    assert figures.policies == (("bash", "m", 2), ("bash", "n", 1), ("oracle", None, 1))


def test_the_spread_of_a_number_has_its_quantiles_and_bins(figures: Figures) -> None:
    turns = figures.spreads["n_turns"]
    assert (turns.rows, turns.without, turns.total) == (4, 0, 19)
    assert (turns.least, turns.median, turns.mean, turns.p90, turns.most) == (2, 4, 4.75, 9, 9)
    assert {one.low: one.rows for one in turns.bins if one.rows} == {2: 1, 4: 2, 9: 1}


def test_rows_without_tokens_are_told_apart_from_short_ones(figures: Figures) -> None:
    tokens = figures.spreads["n_tokens"]
    assert (tokens.rows, tokens.without, tokens.total, tokens.least) == (3, 1, 91_600, 100)
    assert [(one.name, one.rows) for one in tokens.bins if one.rows] == [
        ("51–100", 1),
        ("1,001–2,000", 1),
        ("50,001–100,000", 1),
    ]
    assert sum(one.rows for one in tokens.bins) == 3


def test_scrubbed_flagged_and_excluded_rows_are_counted(figures: Figures) -> None:
    assert figures.scrubbed is not None
    assert (figures.scrubbed.rows, figures.scrubbed.places, figures.flagged) == (2, 7, 1)
    assert figures.excluded == {"licence": 2, "near_copy": 1}


@pytest.mark.parametrize(("least", "most"), [(1, 1), (3, 23), (1, 400), (7, 123_456), (100, 399), (1000, 1001)])
def test_bins_hold_every_number_once(least: int, most: int) -> None:
    edges = bin_edges(least, most)
    assert edges[0][0] <= least and edges[-1][1] >= most and len(edges) <= 21
    assert all(high + 1 == low for (_, high), (low, _) in itertools.pairwise(edges))
    assert all(low <= most and high >= least for low, high in edges)


def test_a_share_that_is_not_all_does_not_read_as_all() -> None:
    assert [percent(*pair) for pair in [(9999, 10_000), (1, 10_000), (0, 5), (5, 5), (0, 0), (1, 3)]] == [
        "> 99.9%",
        "< 0.1%",
        "0.0%",
        "100.0%",
        "–",
        "33.3%",
    ]


def test_steps_of_curation_are_counted_from_what_is_excluded_where_nothing_else_says_it(tmp_path: Path) -> None:
    table = tables(drafted(tmp_path, COLUMNS, out={"licence": 2, "near_copy": 1}))["Attempts in and out, by step"]
    assert [row for row in table.rows if row[2]] == [("licence", 7, 2, 5), ("near_copy", 5, 1, 4)]
    assert table.rows[0] == ("denied", 7, 0, 7) and table.rows[-1][3] == 4


def test_the_facts_of_the_tables_stand_in_the_card(tmp_path: Path) -> None:
    found = tables(drafted(tmp_path, COLUMNS), FULL)
    assert found["From repositories to rows"].rows[0] == ("repositories listed", 900)
    assert found["From repositories to rows"].rows[-1] == ("rows of this version", 4)
    assert found["Gates of a task"].rows[0][2:] == (60, 50, "83.3%")
    assert found["Attempts in and out, by step"].rows == (("denied", 9, 2, 7), ("licence", 7, 3, 4))
    assert found["How well verdicts hold: share"].rows == (
        ("flaky verifiers", 3, 60, "5.0%"),
        ("replays with the same verdict", 7, 8, "87.5%"),
        ("judged attempts that were replayed", 8, 16, "50.0%"),
    )
    assert found["Tasks by domain: admitted of the written tasks"].rows[0] == ("sql", 30, 40, "75.0%")
    assert found["Attempts by agent: passed of the judged"].rows == (
        ("bash, m", 3, 10, "30.0%"),
        ("oracle", 6, 6, "100.0%"),
    )
    assert found["What was found, by kind"].rows == (("key", 1, 0, 9), ("email", 2, 5, 1))
    assert found["Verified attempts, and those of them that are here"].rows == (
        ("MIT", 6, 2),
        ("none or several", 3, 1),
    )


def test_lengths_and_their_bins_stand_in_the_card(tmp_path: Path) -> None:
    found = tables(drafted(tmp_path, COLUMNS))
    lengths = {str(row[0]).split()[0]: row[1:] for row in found["Length of trajectories"].rows}
    assert lengths == {
        "turns": (2, 4, 4.75, 9, 9, 9, 19),
        "tokens": (100, 1500, 91_600 / 3, 90_000, 90_000, 90_000, 91_600),
    }
    bins = found["Tokens: trajectories by tokens that the model wrote"]
    assert (bins.rows[0], bins.rows[-1]) == (("51–100", 1, "25.0%"), ("none", 1, "25.0%"))
    assert bins.numeric == (False, True, True)


def test_many_values_are_one_row_of_others(tmp_path: Path) -> None:
    names = [f"f{number:02}" for number in range(30) for _ in range(31 - number)]
    table = tables(drafted(tmp_path, {"family": [*names]}))["Families of tasks"]
    assert (len(table.rows), table.rows[0][:2], table.rows[-1][:2]) == (21, ("f00", 31), ("(10 others)", 65))


def test_a_version_of_few_columns_and_no_facts_has_the_sections_that_it_can(tmp_path: Path) -> None:
    draft = drafted(tmp_path, {"trajectory_id": ["a"]})
    titles = [one.title for one in card_of(draft, figures_of(draft), CardFacts()).sections]
    assert titles == ["What it is", "Known limits", "Columns", "How to load it", "How to replay a row", "Provenance"]
    assert set(documents(draft, CardFacts())) == {"README.md", "report.html"}


def test_a_card_says_when_nothing_was_compared_with_benchmarks(tmp_path: Path) -> None:
    found = section(drafted(tmp_path, COLUMNS), "Decontamination", CardFacts(compared=False))
    assert found is not None and "compared with none" in str(found.blocks)


def test_equal_rows_and_facts_give_equal_documents(whole: Mapping[str, str | bytes], tmp_path: Path) -> None:
    assert documents(drafted(tmp_path, COLUMNS), FULL) == whole


def test_pictures_are_those_that_the_card_names(whole: Mapping[str, str | bytes]) -> None:
    pictures = {path: content for path, content in whole.items() if path.startswith("plots/")}
    assert set(pictures) == {
        f"plots/{name}.png"
        for name in (
            *("funnel", "curation", "turns", "tokens", "domains", "languages", "licences", "agents"),
            *("yields_domains", "yields_agents", "rates", "scrubbed"),
        )
    }
    readme = whole["README.md"]
    assert isinstance(readme, str) and all(f"]({path})" in readme for path in pictures)
    for content in pictures.values():
        assert isinstance(content, bytes)
        width, height = struct.unpack(">II", content[16:24])
        assert 500 < width < 1200 and 100 < height < 1200


def test_a_folder_whose_name_is_a_pattern_is_read(tmp_path: Path) -> None:
    draft = drafted(tmp_path / "a[b]*=1", COLUMNS, out={"licence": 2})
    assert (figures_of(draft).distinct["tasks"], figures_of(draft).excluded) == (3, {"licence": 2})
    assert 'license: ["isc", "mit", "other"]' in front_matter(draft)


def test_loaders_find_the_splits_by_the_head_and_the_lines_on_loading_work(
    draft: Draft, whole: Mapping[str, str | bytes]
) -> None:
    readme = whole["README.md"]
    assert isinstance(readme, str)
    head = yaml.safe_load(readme.split("---\n")[1])
    assert [one["split"] for one in head["configs"][0]["data_files"]] == ["test", "train", "validation"]
    lines = [
        token.content.replace("DIR", str(draft.folder))
        for token in MarkdownIt().parse(readme)
        if token.info == "python"
    ]
    (with_duckdb,) = (code for code in lines if "duckdb" in code)
    (with_pyarrow,) = (code for code in lines if "pyarrow" in code)
    scope: dict[str, object] = {}
    exec(with_duckdb.replace("duckdb.sql", "found = duckdb.sql"), scope)
    assert isinstance(scope["found"], duckdb.DuckDBPyRelation)
    assert sorted(scope["found"].fetchall()) == [("qemu", 1), ("sql", 3)]
    exec(with_pyarrow.replace("...", "seen = batch"), scope)
    assert isinstance(scope["seen"], pa.RecordBatch) and scope["seen"].schema.names == ["trajectory_id"]
