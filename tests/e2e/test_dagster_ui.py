"""The Dagster UI in a real browser, over a real run: one partition materialized from its dialog, then looked at."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect, sync_playwright

from assets.view_server import ViewPages, view_server
from assets.viewer_links import VIEWER_PORT
from pipeline.tables import Store
from tests.e2e.browsers import chromium
from tests.integration.projects import LEDGER_README, PROJECT, Project, ledger

pytestmark = [pytest.mark.browser, pytest.mark.docker]

GROUPS = ("repositories", "images", "models", "instances", "trajectories", "datasets")
PATIENCE_S = 300
PATIENCE_MS = 1_000 * PATIENCE_S
"""For a run, or for the services, on a machine that is busy; nothing waits longer than it must."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One repository that documents one command."""
    made = Project(tmp_path_factory.mktemp("ui") / "project")
    made.settings = "[instances.files]\nmax_tasks = 0\n[scoring]\nthreshold = 0.0\n"
    files = ledger("ledger")
    del files["Dockerfile"]
    made.add("ledger", files | {"README.md": LEDGER_README.partition("## Keeping")[0]})
    return made


@pytest.fixture(scope="module")
def address(project: Project) -> Iterator[str]:
    """Web server, daemon and code location of the project, as `make ui` starts them."""
    home = project.data / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_bytes((PROJECT / "infra" / "dagster.yaml").read_bytes())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    places = {
        "DAGSTER_HOME": str(home),
        "TOUCHSTONE_DATA": str(project.data),
        "TOUCHSTONE_CONFIG": str(project.folder / "touchstone.toml"),
    }
    log = project.folder / "ui.log"
    served = ["dev", "--workspace", "workspace.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            # A shell that started the tests in its background has them ignore the signals that end it.
            ["env", "--default-signal", sys.executable, "-m", "dagster", *served],
            cwd=PROJECT,
            env=project.environment() | places,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_it_answers(f"http://127.0.0.1:{port}/server_info", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        finally:
            # Also what it left behind: the group is its own.
            _kill_group(process.pid)


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        started = playwright.chromium.launch(executable_path=chromium(), args=flags)
        yield started
        started.close()


@pytest.fixture
def abroad() -> list[str]:
    """Addresses outside of this machine that a page asked for."""
    return []


@pytest.fixture
def page(browser: Browser, abroad: list[str]) -> Iterator[Page]:
    """A tab that reaches this machine only."""
    context = browser.new_context(viewport={"width": 1500, "height": 950})
    context.set_default_timeout(PATIENCE_MS)

    def only_here(route: Route) -> None:
        if urlsplit(route.request.url).hostname == "127.0.0.1":
            route.continue_()
        else:
            abroad.append(route.request.url)
            route.abort()

    context.route(re.compile("^https?://"), only_here)
    yield context.new_page()
    context.close()


@contextmanager
def viewer(page: Page, project: Project) -> Iterator[None]:
    """`touchstone view --serve`, on a port that is free here: links lead there from the usual one."""
    with view_server(ViewPages(Store(project.data), project.folder / "view", ""), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        there = f"127.0.0.1:{server.server_address[1]}"

        def lead(route: Route) -> None:
            route.continue_(url=urlsplit(route.request.url)._replace(netloc=there).geturl())

        page.context.route(f"http://127.0.0.1:{VIEWER_PORT}/**", lead)
        yield
        server.shutdown()


def materialize(page: Page, address: str, selection: str, stream: str) -> None:
    """Launch the selected assets for the newest day and one stream, then open their run."""
    page.goto(f"{address}/asset-groups")
    page.locator(".CodeMirror").click()
    page.keyboard.type(selection)
    page.keyboard.press("Enter")
    expect(page.get_by_text("datasets", exact=True)).to_have_count(0, timeout=PATIENCE_MS)
    page.get_by_role("button", name="Materialize").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Latest").click()
    dialog.get_by_text("Select a partition").click()
    page.get_by_role("menuitem").filter(has_text=stream).click()
    page.keyboard.press("Escape")
    dialog.get_by_role("button", name="Launch 1 run").click()
    expect(dialog).to_have_count(0, timeout=PATIENCE_MS)
    page.locator("a[href='/runs']").click()
    page.locator("a[href^='/runs/']").filter(has_text=re.compile("^[0-9a-f]{8}$")).first.click()


def entry(page: Page, key: str) -> Locator:
    """The row of a metadata entry."""
    return page.get_by_role("row").filter(has=page.get_by_text(key, exact=True))


def picture_of(page: Page, key: str) -> tuple[int, int]:
    """Open the picture of a metadata entry; its width and height as they were drawn."""
    entry(page, key).get_by_text("[Show Markdown]").click()
    picture = page.get_by_role("dialog").get_by_role("img", name=key)
    expect(picture).to_be_visible(timeout=PATIENCE_MS)
    assert str(picture.get_attribute("src")).startswith("data:image/png;base64,")
    width, height = picture.evaluate("one => [one.naturalWidth, one.naturalHeight]")
    return width, height


def test_a_partition_is_materialized_in_the_ui_and_shows_its_plot_its_checks_and_its_attempts(
    page: Page, address: str, project: Project, abroad: list[str], tmp_path: Path
) -> None:
    materialize(page, address, '+key:"verifications"', "python")
    expect(page.get_by_text("Success", exact=True)).to_be_visible(timeout=PATIENCE_MS)

    page.goto(f"{address}/asset-groups?expanded={','.join(f'global@global:{group}' for group in GROUPS)}")
    for asset in ("repositories", "verifications", "terminal_snapshot"):
        page.get_by_text(asset, exact=True).last.wait_for()
    page.screenshot(path=tmp_path / "graph.png")

    page.goto(f"{address}/assets/verifications")
    width, height = picture_of(page, "trend")
    assert width > 300 and height > 150
    page.screenshot(path=tmp_path / "plot.png")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=PATIENCE_MS)
    page.screenshot(path=tmp_path / "asset.png", full_page=True)

    with viewer(page, project):
        entry(page, "preview").get_by_role("row").filter(has_text="passed").get_by_role("link").click()
        expect(page).to_have_title(re.compile("^traj-.* · Touchstone$"), timeout=PATIENCE_MS)
        expect(page.get_by_text("python3 ledger.py balance bookings.csv").first).to_be_visible(timeout=PATIENCE_MS)
        page.screenshot(path=tmp_path / "viewer.png")

    page.goto(f"{address}/assets/verifications?view=checks")
    for check in ("doing_nothing_never_passes", "every_item_has_a_row"):
        page.get_by_text(check, exact=True).first.click()
        expect(page.get_by_text("Passed", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    page.screenshot(path=tmp_path / "checks.png")
    assert abroad == []
