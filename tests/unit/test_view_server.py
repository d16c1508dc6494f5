"""What `touchstone view --serve` serves, to whom, and that it is as new as the tables."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from assets.cli import touchstone
from assets.view_server import ViewPages, view_server
from pipeline.exports.html.pages import page_name
from pipeline.rows import trajectory_row
from pipeline.tables import Store
from pipeline.types import TaskInstance
from tests.unit.recorded_view import plain_attempt, record


@pytest.fixture
def store(task: TaskInstance, tmp_path: Path) -> Store:
    made = Store(tmp_path / "data")
    record(made, [task], [plain_attempt(task)])
    return made


@pytest.fixture
def browser(store: Store, tmp_path: Path) -> Iterator[httpx.Client]:
    with view_server(ViewPages(store, tmp_path / "view", ""), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with httpx.Client(base_url=f"http://127.0.0.1:{server.server_address[1]}", trust_env=False) as client:
            yield client
        server.shutdown()


def test_the_index_and_the_pages_of_attempts_are_served(browser: httpx.Client, task: TaskInstance) -> None:
    page = browser.get(f"/trajectories/{page_name(plain_attempt(task).trajectory_id)}")
    assert page.status_code == 200 and task.instruction in page.text
    assert "Touchstone" in browser.get("/").text


def test_an_attempt_that_came_since_is_there_when_somebody_asks(
    browser: httpx.Client, store: Store, task: TaskInstance
) -> None:
    later = plain_attempt(task, "later")
    place = f"/trajectories/{page_name(later.trajectory_id)}"
    assert browser.get(place).status_code == 404
    row = trajectory_row(later) | {"item_key": "later", "attempt": 1, "recorded_at": datetime(2026, 11, 3, tzinfo=UTC)}
    store.append("trajectories", [row], app_id="later", sequence=1)
    assert browser.get(place).status_code == 200


@pytest.mark.parametrize("path", ["/trajectories/", "/../touchstone.toml", "/%2e%2e/data/tables", "/none"])
def test_nothing_but_pages_is_served(browser: httpx.Client, path: str) -> None:
    assert browser.get(path).status_code == 404


@pytest.mark.parametrize("name", ["elsewhere.example", "127.0.0.1.elsewhere.example", ""])
def test_a_page_of_another_name_reads_nothing(browser: httpx.Client, name: str) -> None:
    assert browser.get("/", headers={"Host": f"{name}:80"}).status_code == 403


def test_a_port_that_is_taken_is_named(store: Store, options: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        answer = CliRunner().invoke(touchstone, ["view", *options, "--serve", "--port", port])
    assert answer.exit_code == 1 and f"port {port} of 127.0.0.1 cannot be used" in answer.output
