"""The pages of `touchstone view` in a real browser, opened from the disk."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from pipeline.exports.html.marks import visible_text
from pipeline.exports.html.pages import page_name
from pipeline.exports.html.site import write_view
from pipeline.tables import Store
from pipeline.types import TaskInstance
from tests.e2e.browsers import chromium
from tests.unit.recorded_view import HOSTILE, OWN, plain_attempt, record, record_hostile, repository, task_of, verdict

pytestmark = pytest.mark.browser

MANY = 240


class Watched:
    """A tab, and all that a page in it tried to do beyond being looked at."""

    def __init__(self, context: BrowserContext) -> None:
        self.page = context.new_page()
        self.done: list[str] = []
        self.page.on("dialog", lambda dialog: (self.done.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.done.append(f"request {request.url}"))
        self.page.on("console", lambda message: self.done.append(f"console {message.text}"))
        self.page.on("pageerror", lambda error: self.done.append(f"error {error}"))
        self.page.on("popup", lambda popup: self.done.append(f"popup {popup.url}"))

    def open(self, file: Path) -> Page:
        """Show a file; the request for it is no deed of the page."""
        self.page.goto(file.as_uri())
        self.done.remove(f"request {file.as_uri()}")
        return self.page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium())
        yield started
        started.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(20_000)
    yield Watched(context)
    context.close()


@pytest.fixture
def index(task: TaskInstance, tmp_path: Path) -> Path:
    """Three instances: 80 attempts each, a fourth of them passed, the first attempt of all not judged."""
    found = repository()
    words = ("alpha lines", "beta numbers", "gamma lines")
    tasks = [task_of(found, task, f"Count {word} in the file.") for word in words]
    attempts = [
        plain_attempt(one, *(("bash", "small") if sample % 2 else ("oracle", None)), sample)
        for one in tasks
        for sample in range(MANY // len(tasks))
    ]
    verdicts = [verdict(one, passed=one.sample % 4 == 0) for one in attempts[1:]]
    store = Store(tmp_path / "data")
    record(store, tasks, attempts, verdicts)
    return write_view(store, tmp_path / "view").index


def test_hostile_text_does_nothing_and_is_read(tab: Watched, task: TaskInstance, tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    attempts = record_hostile(store, task)
    index = write_view(store, tmp_path / "view").index
    page = tab.open(index)
    assert page.title() == "Trajectories · Touchstone"
    assert page.locator("script, link, iframe, img, svg, meta[http-equiv=refresh], base").count() == 2
    for attempt in attempts:
        page = tab.open(index.parent / "trajectories" / page_name(attempt.trajectory_id))
        page.keyboard.press("e")  # unfolds all
        assert page.title() == f"{attempt.trajectory_id} · Touchstone"
        assert page.locator("script, link, iframe, img, svg, meta[http-equiv=refresh], base").count() == 1
        assert page.locator("pre.thought").first.text_content() == visible_text(HOSTILE)
        assert page.evaluate("window.owned") is None
        page.wait_for_timeout(200)
    assert tab.done == []


def test_a_script_that_got_into_a_page_would_neither_run_nor_reach_anything(
    tab: Watched, task: TaskInstance, tmp_path: Path
) -> None:
    store = Store(tmp_path / "data")
    attempt = plain_attempt(task)
    record(store, [task], [attempt])
    file = write_view(store, tmp_path / "view").index.parent / "trajectories" / page_name(attempt.trajectory_id)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        own = OWN.replace("127.0.0.1:9", address)
        smuggled = f'<script>{own}</script><img src="http://{address}/i.png" onerror="{own}"><b style="color:red">x</b>'
        file.write_text(file.read_text().replace("<main>", f"<main>{smuggled}"))
        page = tab.open(file)
        page.wait_for_timeout(300)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert page.title() == f"{attempt.trajectory_id} · Touchstone"
    assert page.evaluate("window.owned") is None
    refused = [one for one in tab.done if one.startswith("console ")]
    assert len(refused) >= 3 and all("Content Security Policy" in one for one in refused)
    assert not [one for one in tab.done if one.startswith(("dialog", "popup"))]


def test_words_and_choices_narrow_the_list_and_its_counts(tab: Watched, index: Path) -> None:
    page = tab.open(index)
    counts = page.locator("#counts")
    expect(counts).to_contain_text("240 of 240 attempts · 59 passed · 180 failed · 1 unjudged · pass rate 24.7 %")
    page.fill("#q", "LINES -gamma")
    expect(counts).to_contain_text("80 of 240 attempts")
    page.select_option("#agent", "oracle")
    expect(counts).to_contain_text("40 of 240 attempts")
    expect(page.locator("#verdict option", has_text="failed")).to_have_text("failed (20)")
    page.select_option("#verdict", "failed")
    expect(counts).to_contain_text("20 of 240 attempts · 0 passed · 20 failed · pass rate 0.0 % of 20 judged")
    assert set(page.locator("#rows .v").all_inner_texts()) == {"failed"}
    page.click("#reset")
    expect(counts).to_contain_text("240 of 240 attempts")
    assert tab.done == []


def test_a_column_sorts_up_and_down(tab: Watched, index: Path) -> None:
    page = tab.open(index)
    samples = page.locator("#rows tr td:nth-child(6)")
    page.click("#heads button:has-text('Sample')")
    assert samples.first.inner_text() == "79"
    page.click("#heads button:has-text('Sample')")
    assert samples.first.inner_text() == "0"
    expect(page.locator("#heads th[aria-sort=ascending]")).to_have_text("Sample ↑")


def test_rows_are_made_when_somebody_looks_for_them(tab: Watched, index: Path) -> None:
    page = tab.open(index)
    assert page.locator("#rows tr").count() == 100
    page.locator("#more").scroll_into_view_if_needed()
    expect(page.locator("#rows tr")).to_have_count(200)


def test_the_keyboard_alone_finds_and_reads_an_attempt(tab: Watched, index: Path) -> None:
    page = tab.open(index)
    page.keyboard.press("/")
    page.keyboard.type("beta")
    expect(page.locator("#counts")).to_contain_text("80 of 240 attempts")
    for key in ("ArrowDown", "j", "k", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("section pre").first).to_have_text("Count beta numbers in the file.")
    first = page.url
    page.keyboard.press("j")
    expect(page.locator("#step-0")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("#step-1")).to_be_focused()
    page.keyboard.press("n")
    page.wait_for_url(lambda url: url != first)
    page.keyboard.press("p")
    page.wait_for_url(first)
    page.go_back(), page.go_back(), page.go_back()
    expect(page.locator("#counts")).to_contain_text("80 of 240 attempts")
    assert page.input_value("#q") == "beta"


def test_an_attempt_is_read_without_scripts(browser: Browser, index: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(next((index.parent / "trajectories").iterdir()).as_uri())
    expect(page.locator(".step pre.command")).to_have_text("wc -l a")
    expect(page.locator(".step pre.told")).to_have_text("That is no command.")
    context.close()
