"""The folder that `touchstone view` writes, as text; what a browser makes of it is tested in tests/e2e."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from assets.cli import touchstone
from assets.resources import open_workshop
from pipeline.errors import ConfigurationError
from pipeline.exports.html.attempts import NothingToShow
from pipeline.exports.html.marks import MOST_CHARACTERS, marked, marked_line, visible_text
from pipeline.exports.html.pages import page_name
from pipeline.exports.html.site import write_view
from pipeline.tables import Store
from pipeline.types import TaskInstance, VerificationResult
from tests.unit.recorded_view import (
    HOSTILE,
    plain_attempt,
    record,
    record_hostile,
    record_second_opinions,
    repository,
    task_of,
    verdict,
)


class Elements(HTMLParser):
    """Names of the elements of a page, and what of it is text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data")


def viewed(store: Store, only: str = "") -> Path:
    return write_view(store, store.root / "view", only).index.parent


def data_of(folder: Path) -> dict[str, list[dict[str, object]]]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', (folder / "index.html").read_text())
    assert found
    return dict(json.loads(found[1]))


def test_a_page_tells_the_whole_attempt(store: Store, task: TaskInstance) -> None:
    task = task_of(repository(), task, "Count the lines\nof words.txt.")
    attempt = plain_attempt(task)
    record(store, [task], [attempt], [verdict(attempt, passed=False)])
    text = Elements((viewed(store) / "trajectories" / page_name(attempt.trajectory_id)).read_text()).text
    told = (task.instruction, "Count.", "wc -l a", "exit 3", "12 a", "0.50 s", "33 tokens", "That is no command.")
    asked = ("812 tokens read (512 from the cache)", "33 written", "$0.500000", "temperature", "Handed in.")
    judged = ("AssertionError: 12 is not 3", "test_state.py::test_count", "local/words", "cd data", "def test_count")
    changed = ("1 paths differ from the image", "added", "0644")
    assert [part for part in (*told, *asked, *judged, *changed) if part not in text] == []


def test_an_observation_stands_under_the_command_that_brought_it(store: Store, task: TaskInstance) -> None:
    attempt = plain_attempt(task)
    record(store, [task], [attempt])
    page = (viewed(store) / "trajectories" / page_name(attempt.trajectory_id)).read_text()
    steps = page.split('class="step"')
    assert "12 a" in steps[1] and "12 a" not in steps[2]


def test_what_a_pass_needs_and_was_not_run_is_named(store: Store, task: TaskInstance) -> None:
    attempt = plain_attempt(task)
    result = VerificationResult(trajectory_id=attempt.trajectory_id, outcome="failed", tests=(), seconds=1.0)
    record(store, [task], [attempt], [result])
    text = Elements((viewed(store) / "trajectories" / page_name(attempt.trajectory_id)).read_text()).text
    assert "Not run, though a pass needs them:\ntest_state.py::test_count" in text


def test_what_a_model_thinks_and_what_a_replay_found_stand_beside_the_verdict(store: Store, task: TaskInstance) -> None:
    attempt = plain_attempt(task)
    record(store, [task], [attempt], [verdict(attempt, passed=False)])
    record_second_opinions(store, attempt)
    folder = viewed(store)
    text = Elements((folder / "trajectories" / page_name(attempt.trajectory_id)).read_text()).text
    assert [part for part in ("judge-model", "It looks right.", "A file was late.") if part not in text] == []
    assert [one["verdict"] for one in data_of(folder)["attempts"]] == ["failed"]


def test_the_index_knows_verdicts_and_attempts_that_broke_off(store: Store, task: TaskInstance) -> None:
    attempts = [plain_attempt(task, sample=sample) for sample in range(3)]
    verdicts = [verdict(attempts[0], passed=True), verdict(attempts[1], passed=False)]
    record(store, [task], attempts, verdicts)
    data = data_of(viewed(store))
    assert [one["verdict"] for one in data["attempts"]] == ["passed", "failed", "unjudged"]
    assert data["lost"] == {"infrastructure": 1}


@pytest.mark.parametrize("beginning", ["trajectory", "instance", "repository_id", "full_name"])
def test_only_takes_the_beginning_of_any_name(store: Store, task: TaskInstance, beginning: str) -> None:
    found = repository("other/one")
    wanted, unwanted = task_of(found, task, "This one."), task.model_copy(update={"instruction": "Not this one."})
    attempt = plain_attempt(wanted)
    record(store, [wanted, unwanted], [attempt, plain_attempt(unwanted)], of=found)
    names = {
        "trajectory": attempt.trajectory_id,
        "instance": wanted.instance_id,
        "repository_id": found.repository_id,
        "full_name": "other/",
    }
    folder = viewed(store, names[beginning])
    assert [page.name for page in (folder / "trajectories").iterdir()] == [page_name(attempt.trajectory_id)]
    assert len(data_of(folder)["attempts"]) == 1


def test_an_attempt_is_shown_although_its_instance_is_gone(store: Store, task: TaskInstance) -> None:
    attempt = plain_attempt(task)
    record(store, [], [attempt])
    assert "no row of this instance" in (viewed(store) / "trajectories" / page_name(attempt.trajectory_id)).read_text()


def test_hostile_text_makes_no_element_and_no_attribute(store: Store, task: TaskInstance, tmp_path: Path) -> None:
    harmless, hostile = Store(tmp_path / "harmless"), store
    record_hostile(harmless, task, "harmless")
    record_hostile(hostile, task)
    names = [
        sorted(
            (sorted(elements.names), sorted(name for name, _ in elements.attributes))
            for page in viewed(one).rglob("*.html")
            for elements in [Elements(re.sub(r"</?i>", "", page.read_text()))]
        )
        for one in (harmless, hostile)
    ]
    assert names[0] == names[1]


def test_no_page_holds_a_character_that_cannot_be_seen(store: Store, task: TaskInstance) -> None:
    record_hostile(store, task)
    for page in viewed(store).rglob("*.html"):
        odd = {one for one in page.read_text() if not one.isprintable() and one != "\n"}
        assert not odd, page


def test_marks_tell_what_cannot_be_seen() -> None:
    assert visible_text("a\x1b[31mb\x00\x00\x00\x00\x00\u202e\r\n\u2028é漢 ") == (
        "a\\x1b[31mb\\x00×5\\u202e\\r\n\\u2028é漢 "
    )
    assert marked("<\x07>") == "&lt;<i>\\x07</i>&gt;"
    assert marked_line("ls\n\t") == "ls<i>\\n</i><i>\\t</i>"


def test_a_picture_is_shown_and_bytes_hidden_behind_it_are_not() -> None:
    assert visible_text("⚠\ufe0f") == "⚠\ufe0f"
    assert visible_text("⚠\ufe01\U000e0100") == "⚠\\ufe01\\U000e0100"


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    text = str(marked("b" + "x" * 3 * MOST_CHARACTERS + "e"))
    assert text.startswith("bxx") and text.endswith("xxe") and "40,002 characters are not shown" in text
    assert len(text) < MOST_CHARACTERS + 100


def test_an_odd_id_cannot_leave_the_folder() -> None:
    assert page_name("traj-0123") == "traj-0123.html"
    assert re.fullmatch(r"[0-9a-f]{64}\.html", page_name("../../x"))


def test_a_second_view_replaces_the_first_and_leaves_nothing(store: Store, task: TaskInstance) -> None:
    attempts = [plain_attempt(task, sample=sample) for sample in range(2)]
    record(store, [task], attempts)
    viewed(store)
    folder = viewed(store, attempts[0].trajectory_id)
    assert len(list((folder / "trajectories").iterdir())) == 1
    assert not [path for path in folder.parent.iterdir() if path.name.startswith(".")]


def test_a_folder_with_something_else_is_refused_unharmed(store: Store, task: TaskInstance, tmp_path: Path) -> None:
    record(store, [task], [plain_attempt(task)])
    (tmp_path / "index.html").write_text("<p>mine</p>")
    with pytest.raises(ConfigurationError, match="something else"):
        write_view(store, tmp_path)
    assert (tmp_path / "index.html").read_text() == "<p>mine</p>"


def test_nothing_to_show_is_said_and_leaves_the_earlier_view(store: Store, task: TaskInstance) -> None:
    with pytest.raises(NothingToShow, match="touchstone run"):
        viewed(store)
    record(store, [task], [plain_attempt(task)])
    folder = viewed(store)
    with pytest.raises(NothingToShow, match="'none'"):
        viewed(store, "none")
    assert (folder / "index.html").is_file()


def test_the_command_writes_beside_the_tables_and_says_where(
    task: TaskInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("TOUCHSTONE_DATA", "TOUCHSTONE_CONFIG"):
        monkeypatch.setenv(variable, "")
    (tmp_path / "touchstone.toml").write_text("")
    record(Store(tmp_path / "data"), [task], [plain_attempt(task)])
    open_workshop.cache_clear()
    place = ["--config", str(tmp_path / "touchstone.toml"), "--data", str(tmp_path / "data")]
    result = CliRunner().invoke(touchstone, ["view", *place])
    open_workshop.cache_clear()
    assert result.output == f"1 trajectories in {tmp_path}/data/view/index.html\n"
    assert (tmp_path / "data/view/index.html").is_file()


def test_the_hostile_text_reaches_the_pages(store: Store, task: TaskInstance) -> None:
    attempts = record_hostile(store, task)
    text = Elements((viewed(store) / "trajectories" / page_name(attempts[0].trajectory_id)).read_text()).text
    assert text.count(visible_text(HOSTILE).splitlines()[0]) > 30
