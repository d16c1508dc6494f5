"""Words that try to break out of a card are only shown: in Markdown, on the page and in pictures."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import characters, sampled_from, text
from markdown_it import MarkdownIt

from pipeline.curation_report import FindingCount
from pipeline.dataset_card import documents
from pipeline.dataset_card.facts import AttemptYield
from pipeline.dataset_card.markdown import MOST_CELL, escaped
from pipeline.dataset_card.plots import short
from pipeline.exports.html.marks import visible_text
from pipeline.instance_report import GateYield, Yield
from tests.unit.drafted_version import COLUMNS, FULL, drafted
from tests.unit.recorded_view import HOSTILE

HOSTILE_WORDS = [
    HOSTILE,
    "a | b |\n| --- |\n# head",
    "`x` ``y`` *b* _i_ **c** ~~d~~ [l](http://127.0.0.1:9) ![p](x.png) <http://127.0.0.1:9>",
    "\\` \\| \\\\",
    "$\\frac{1}{0}$ &amp; &#124; http://127.0.0.1:9/ www.e.example a@b.example",
    "[x]: http://127.0.0.1:9\n\n[x]",
    "</td></tr></table><script>alert(1)</script>",
    " ",
    "",
]


READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


class Shown(HTMLParser):
    """The cells of the tables of a page, and every element in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.urls: list[str] = []
        self.cells: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.urls += [str(value) for name, value in attrs if name in ("src", "href", "srcset", "action")]
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


def in_a_line(text: str) -> str:
    return visible_text(text).replace("\n", "\\n").replace("\t", "\\t")


def shown_in_a_cell(text: str) -> Shown:
    return Shown(READER.render(f"| a | b |\n| --- | --- |\n| {escaped(text)} | end |\n"))


@pytest.mark.parametrize("text", [word for word in HOSTILE_WORDS if len(word) < MOST_CELL] + HOSTILE.split("\n"))
def test_hostile_words_in_a_cell_of_markdown_are_only_shown(text: str) -> None:
    shown = shown_in_a_cell(text)
    assert shown.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert [cell.strip() for cell in shown.cells] == ["a", "b", in_a_line(text).strip(), "end"]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(text(alphabet=characters(codec="utf-8") | sampled_from("\\\\|`*_[]()<>!&#~${}:/@\n\t "), max_size=60))
def test_no_text_leaves_its_cell(words: str) -> None:
    shown = shown_in_a_cell(words)
    assert shown.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert [cell.split() for cell in shown.cells] == [["a"], ["b"], in_a_line(words).split(), ["end"]]


def test_a_long_text_is_cut() -> None:
    assert len(escaped("x" * 100_000)) < 2 * MOST_CELL


def test_hostile_words_everywhere_leave_both_documents_whole(tmp_path: Path) -> None:
    count = len(HOSTILE_WORDS)
    words: list[object] = [word.replace("\x00", "") for word in HOSTILE_WORDS]
    names = ("domain", "family", "language", "license", "agent", "model", "generator", "stop_reason")
    draft = drafted(tmp_path / "v", {name: words for name in names} | {"n_turns": list(range(1, count + 1))})
    facts = FULL.model_copy(
        update={
            "by_domain": {HOSTILE: Yield(written=1, admitted=1, rate=1.0)},
            "gates": {HOSTILE: GateYield(reached=1, passed=1, rate=1.0)},
            "by_finding": {HOSTILE: FindingCount(rows=1, replaced=1, planted=0)},
            "attempts": (AttemptYield(domain=HOSTILE, agent=HOSTILE, model=HOSTILE, attempts=1, judged=1, passed=0),),
            "verified_by_licence": ((HOSTILE, 1),),
            "licences": (HOSTILE,),
        }
    )
    plain = documents(
        drafted(
            tmp_path / "w",
            {**{name: [f"w{n}" for n in range(count)] for name in names}, "n_turns": list(range(1, count + 1))},
        ),
        FULL,
    )
    found = documents(draft, facts)
    for name, told in (("README.md", found["README.md"]), ("report.html", found["report.html"])):
        before = plain[name]
        assert isinstance(told, str) and isinstance(before, str)
        if name == "README.md":
            told, before = (READER.render(text.split("---\n", 2)[2]) for text in (told, before))
        assert Shown(told).tags - {"i"} == Shown(before).tags
        assert [url for url in Shown(told).urls if not url.startswith(("data:image/png", "#", "plots/"))] == []


def test_a_page_needs_no_script_and_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = documents(drafted(tmp_path / "v", COLUMNS), FULL)["report.html"]
    assert isinstance(page, str)
    assert "script" not in Shown(page).tags and "default-src &#39;none&#39;" in page
    assert all(url.startswith(("data:image/png;base64,", "#")) for url in Shown(page).urls)


def test_names_in_pictures_are_short_and_in_one_line() -> None:
    assert short("a\nb  c") == "a b c"
    assert short("") == "(empty)"
    assert len(short("x" * 500)) <= 34 and short("x" * 500).count("…") == 1
    assert short("\u65e5") == "□" and short("\u202eabc") == "\\u202eabc"
