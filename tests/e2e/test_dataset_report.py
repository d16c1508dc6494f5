"""The page of a version in a real browser, opened from the disk: readable, whole, and quiet whatever rows say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from pipeline.dataset_card import CardFacts, documents
from pipeline.dataset_card.facts import AttemptYield
from pipeline.schemas import TERMINAL, to_arrow
from pipeline.snapshots import Draft, SnapshotVersion, publish
from tests.e2e.browsers import chromium
from tests.unit.recorded_view import HOSTILE

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium())
        yield started
        started.close()


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> SnapshotVersion:
    """Rows whose names try to break out of the page."""
    names = ("domain", "family", "language", "license", "agent", "model")
    rows = [
        {"trajectory_id": f"t{n}", "n_turns": n + 1, "n_tokens": 10 * n, "split": "train", **dict.fromkeys(names, word)}
        for n, word in enumerate([HOSTILE, "plain", "plain", "w" * 400])
    ]
    attempts = (AttemptYield(domain=HOSTILE, agent="bash", model=HOSTILE, attempts=3, judged=2, passed=1),)
    facts = CardFacts(attempts=attempts, licences=(HOSTILE,))

    def describe(draft: Draft) -> dict[str, str | bytes]:
        return dict(documents(draft, facts))

    return publish(
        tmp_path_factory.mktemp("data"),
        "terminal",
        to_arrow(TERMINAL, rows),
        schema_version=TERMINAL.version,
        parents=[],
        code_commit=None,
        run_id=None,
        describe=describe,
        summary={},
    )


def opened(browser: Browser, version: SnapshotVersion, deeds: list[str], **options: object) -> Page:
    page = browser.new_context(**options).new_page()  # type: ignore[arg-type]
    page.on("dialog", lambda dialog: (deeds.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: deeds.append(f"request {request.url[:60]}"))
    page.on("console", lambda message: deeds.append(f"console {message.text}"))
    file = (version.path / "report.html").as_uri()
    page.goto(file)
    deeds[:] = [deed for deed in deeds if not deed.startswith((f"request {file}"[:68], "request data:image/png"))]
    return page


def test_hostile_names_are_shown_and_do_nothing(browser: Browser, version: SnapshotVersion) -> None:
    deeds: list[str] = []
    page = opened(browser, version, deeds)
    expect(page).to_have_title("Verified terminal trajectories: terminal v0001")
    expect(page.get_by_role("rowheader", name="<script>document.title='owned'").first).to_be_visible()
    assert page.evaluate("window.owned") is None
    assert deeds == []


def test_every_picture_is_there_and_has_a_text_and_a_table(browser: Browser, version: SnapshotVersion) -> None:
    page = opened(browser, version, [])
    pictures = page.locator("img").evaluate_all("all => all.map(one => [one.naturalWidth, one.alt])")
    assert len(pictures) == 7 and all(width > 500 and text for width, text in pictures)
    assert page.locator(".exhibit").count() == page.locator(".exhibit:has(img):has(table)").count() == 7


def test_it_is_read_without_script_on_a_small_screen(browser: Browser, version: SnapshotVersion) -> None:
    page = opened(browser, version, [], java_script_enabled=False, viewport={"width": 390, "height": 800})
    page.get_by_role("link", name="Licences").click()
    expect(page.get_by_role("heading", name="Licences")).to_be_in_viewport()
    box = page.locator("main").bounding_box()
    assert box is not None and box["x"] + box["width"] <= 390


def test_a_page_in_the_dark_is_dark(browser: Browser, version: SnapshotVersion) -> None:
    colours = [
        opened(browser, version, [], color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert colours == ["rgb(255, 255, 255)", "rgb(21, 24, 28)"]
