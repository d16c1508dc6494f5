"""What the command line answers to a mistake, and what text of repositories may do to a terminal: nothing."""

from __future__ import annotations

import contextlib
import io
import logging
import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console, Group

from assets.cli import command_line, touchstone
from assets.progress import ProgressBars
from assets.resources import Workshop, open_workshop
from assets.settings import Settings
from assets.show import explain
from pipeline.errors import ConfigurationError
from pipeline.funnel import funnel
from pipeline.schemas import TERMINAL, Row, to_arrow, to_rows
from pipeline.snapshots import publish
from pipeline.stages.listing import list_day
from pipeline.tables import Store
from pipeline.types import Checkout, Repository

DAY = "2026-11-02"
HOSTILE = "bell\x07 clear\x1b[2J \x9b31m [/nothing] [red]name\u202e"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Options of a command that name a configuration and a data folder of this test."""
    for variable in ("TOUCHSTONE_DATA", "TOUCHSTONE_CONFIG", "DAGSTER_HOME"):
        monkeypatch.setenv(variable, "")  # what a command puts there is taken back afterwards
    (tmp_path / "touchstone.toml").write_text('[sources]\nuse = ["local"]\n')
    open_workshop.cache_clear()
    yield ["--config", str(tmp_path / "touchstone.toml"), "--data", str(tmp_path / "data")]
    open_workshop.cache_clear()


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "--data", ""],
        ["status", "--config", ""],
        ["run", "--day", ""],
        ["run", "--streams", ""],
        ["run", "--retry", "all", "--only", ""],
        ["run", "--agents", ""],
        ["run", "--local-model", ""],
        ["show", ""],
        ["replay", ""],
    ],
)
def test_an_empty_value_does_not_mean_everything(place: list[str], arguments: list[str]) -> None:
    answer = CliRunner().invoke(touchstone, [arguments[0], *place, *arguments[1:]])
    assert answer.exit_code == 2
    assert "it is empty" in answer.output


@pytest.mark.parametrize("name", ["rust", "language", "ALL", "go,c"])
def test_streams_that_there_are_not_are_refused_with_the_names_that_there_are(place: list[str], name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"names no streams; give one of all, languages, domains, go, .* sql"):
        CliRunner().invoke(touchstone, ["run", *place, "--streams", name], catch_exceptions=False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--agents", "oracle,bush"], "there is no agent bush; there are act, "),
        (["--agents", "noop,bash"], "bash needs a model"),
        (["--agents", "bash", "--local-model", "none.gguf"], r"\[model\] local: .*none\.gguf cannot be read"),
    ],
)
def test_agents_that_cannot_act_are_refused_before_anything_is_run(
    place: list[str], tmp_path: Path, options: list[str], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        CliRunner().invoke(touchstone, ["run", *place, *options], catch_exceptions=False)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_data_folder_that_is_a_file_is_named(tmp_path: Path, place: list[str], below: str) -> None:
    (tmp_path / "data").write_text("not a folder")
    with pytest.raises(ConfigurationError, match=f"{tmp_path}/data is no folder"):
        CliRunner().invoke(
            touchstone, ["status", *place[:2], "--data", str(tmp_path / "data" / below)], catch_exceptions=False
        )


def test_a_data_folder_that_cannot_be_written_to_is_named(tmp_path: Path, place: list[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dagster").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"data cannot be written to"):
        CliRunner().invoke(touchstone, ["run", *place], catch_exceptions=False)


def test_a_history_of_runs_that_dagster_cannot_open_is_named_with_its_remedy(tmp_path: Path, place: list[str]) -> None:
    history = tmp_path / "data" / "dagster" / "history"
    history.mkdir(parents=True)
    (history / "runs.db").write_text("no database")
    with pytest.raises(ConfigurationError, match=r"data/dagster .* move it away"):
        CliRunner().invoke(touchstone, ["run", *place], catch_exceptions=False)


def test_processes_that_prepare_the_home_of_dagster_at_once_leave_it_usable(tmp_path: Path) -> None:
    shop = Workshop(Settings(), tmp_path, tmp_path / "data")
    forks = multiprocessing.get_context("fork")
    started = [forks.Process(target=shop.dagster_instance) for _ in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join(timeout=60)
    assert [process.exitcode for process in started] == [0, 0, 0]
    with sqlite3.connect(tmp_path / "data" / "dagster" / "history" / "runs.db") as history:
        assert len(history.execute("SELECT * FROM alembic_version").fetchall()) == 1


@pytest.mark.parametrize("harmed", ["manifest.json", "data/train-00000.parquet"])
def test_a_damaged_version_is_named_with_its_remedy(
    tmp_path: Path, place: list[str], harmed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = to_arrow(TERMINAL, [{"trajectory_id": "t", "split": "train", "language": "python"}])
    version = publish(
        tmp_path / "data",
        "terminal",
        rows,
        schema_version=TERMINAL.version,
        parents=(),
        code_commit=None,
        run_id=None,
        summary={},
        describe=lambda draft: {"README.md": ""},
    ).path
    path = version / harmed
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-20])
    monkeypatch.setattr("sys.argv", ["touchstone", "status", *place])
    with pytest.raises(SystemExit) as end:
        command_line()
    assert end.value.code == 1
    assert str(version) in (said := capsys.readouterr().err)
    assert said.count("\n") == 1 and "move it away" in said


def test_a_command_ends_with_its_exit_code_after_the_exit_functions_of_python(tmp_path: Path, place: list[str]) -> None:
    code = (
        "import atexit, sys; sys.argv[0] = 'touchstone'; atexit.register(print, 'left in order')\n"
        "from assets.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "show", "traj-none", *place]
    end = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert (end.returncode, end.stdout) == (1, "left in order\n")
    assert "traj-none" in end.stderr


def test_status_of_an_empty_folder_says_which_one(tmp_path: Path, place: list[str]) -> None:
    answer = CliRunner().invoke(touchstone, ["status", *place], catch_exceptions=False)
    assert f"No snapshot in {tmp_path}/data yet" in answer.output


def repository(number: int, name: str = "fruit") -> Repository:
    return Repository(
        source="named", full_name=f"local/{name}{number}", commit=f"{number:040d}", language="python", locator=name
    )


class Named:
    """A source of given repositories; it waits before it answers when told so."""

    name = "named"

    def __init__(self, *repositories: Repository, together: threading.Barrier | None = None) -> None:
        self._repositories = repositories
        self._together = together

    def repositories(self, since: datetime | None) -> Iterator[Repository]:
        if self._together is not None:
            with contextlib.suppress(threading.BrokenBarrierError):
                self._together.wait(0.3)
        yield from self._repositories

    def fetch(self, repository: Repository, destination: Path) -> Checkout:
        raise NotImplementedError


def test_what_a_repository_says_cannot_act_on_the_terminal_that_shows_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    list_day(store, [Named(repository(1, HOSTILE))], DAY, ["python"], today=DAY)
    shown = io.StringIO()
    Console(file=shown, force_terminal=True, color_system=None, width=200).print(Group(*explain(store, "local/")))
    assert r"bell\x07 clear\x1b[2J \x9b31m [/nothing] [red]name\u202e" in shown.getvalue()
    assert not set("\x07\x1b\x9b\u202e") & set(shown.getvalue())


def test_a_warning_with_text_of_a_repository_is_shown_and_does_no_harm() -> None:
    shown = io.StringIO()
    with ProgressBars(Console(file=shown, width=200)):
        logging.getLogger("pipeline.sources.local").warning("refused: %s", HOSTILE)
    assert r"clear\x1b[2J \x9b31m [/nothing] [red]name" in shown.getvalue()


class Closed(io.StringIO):
    """A terminal whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_closed_terminal_does_not_disturb_who_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", (tmp_path / "stdout").open("w"))  # Rich points it at nothing
    bars = ProgressBars(Console(file=Closed(), width=200))
    bars.emit(logging.LogRecord("pipeline", logging.WARNING, __file__, 1, "trying again", None, None))


def test_two_runs_that_list_a_day_at_once_list_each_repository_once(tmp_path: Path) -> None:
    store, together = Store(tmp_path), threading.Barrier(2)
    one = Named(repository(1), repository(2), together=together)
    other = Named(repository(3), repository(2), repository(1), together=together)
    runs = [
        threading.Thread(target=list_day, args=(store, [source], DAY, ["python"]), kwargs={"today": DAY})
        for source in (one, other)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    rows = to_rows(store.read("listings"))
    assert sorted(str(row["full_name"]) for row in rows) == ["local/fruit1", "local/fruit2", "local/fruit3"]


def test_a_limit_takes_the_first_of_each_stream_and_a_later_run_without_it_the_others(tmp_path: Path) -> None:
    store, source = Store(tmp_path), Named(*(repository(number) for number in range(1, 5)))

    def names(limit: int | None) -> list[str]:
        return [one.full_name for one in list_day(store, [source], DAY, ["python"], today=DAY, limit=limit)]

    assert names(2) == names(1) == ["local/fruit1", "local/fruit2"]
    assert names(None) == names(3) == [f"local/fruit{number}" for number in range(1, 5)]


def test_tables_without_their_journal_are_not_filled_a_second_time(tmp_path: Path) -> None:
    store = Store(tmp_path)
    list_day(store, [Named(repository(1))], DAY, ["python"], today=DAY)
    (tmp_path / "tables" / "journal.sqlite").unlink()
    with pytest.raises(ConfigurationError, match=r"no journal\.sqlite"):
        list_day(store, [Named(repository(1), repository(2))], DAY, ["python"], today=DAY)
    assert store.read("listings").num_rows == 1


def test_a_repository_kept_by_two_scorers_counts_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    score: Row = {"repository_id": "repo-1", "score": 1.0, "kept": True, "attempt": 1, "reason": ""}
    rows = [score | {"scorer": scorer, "item_key": f"repo-1/{scorer}"} for scorer in ("static-1", "static-2")]
    store.append("scores", rows, app_id="test", sequence=1)
    assert funnel(store).kept == 1


def test_a_domain_adds_no_language_to_those_with_an_image(tmp_path: Path) -> None:
    store = Store(tmp_path)
    listed: list[Row] = [
        {"repository_id": "repo-1", "source": "context", "full_name": "context/sql", "language": "python"},
        {"repository_id": "repo-2", "source": "local", "full_name": "local/fruit", "language": "go"},
    ]
    batch: Row = {"attempt": 1, "reason": ""}
    for table, columns in (("repositories", {}), ("image_builds", {"status": "built", "smoke_ok": True})):
        kept = {"repository_id"} if columns else set(listed[0])
        rows = [
            {**{name: row[name] for name in kept}, **columns, **batch, "item_key": row["repository_id"]}
            for row in listed
        ]
        store.append(table, rows, app_id="test", sequence=1)
    counts = funnel(store)
    assert (counts.images_built, counts.languages) == (2, ("go",))


def test_a_context_is_explained_by_its_id(tmp_path: Path) -> None:
    store = Store(tmp_path)
    row: Row = {"context_id": "context-0123", "repository_id": "repo-1", "name": "penguins", "license": "CC0-1.0"}
    store.append("contexts", [{**row, "item_key": "repo-1", "attempt": 1, "reason": ""}], app_id="test", sequence=1)
    shown = io.StringIO()
    Console(file=shown, width=200).print(Group(*explain(store, "context-01")))
    assert "contexts, attempt 1" in shown.getvalue() and "license: CC0-1.0" in shown.getvalue()
    assert explain(store, "context-99") == []


def test_a_long_list_of_contexts_names_each_of_them(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rows: list[Row] = [
        {"context_id": f"context-{number}", "repository_id": "repo-1", "item_key": "repo-1", "attempt": 1, "reason": ""}
        for number in range(5)
    ]
    store.append("contexts", rows, app_id="test", sequence=1)
    shown = io.StringIO()
    Console(file=shown, width=200).print(Group(*explain(store, "repo-1")))
    assert all(f"context-{number}" in shown.getvalue() for number in range(5))
