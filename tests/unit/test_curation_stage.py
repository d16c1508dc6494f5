"""Verified attempts in the working tables are looked through once, and the report counts what follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from assets.curation_figures import curation_figures
from assets.report import report
from assets.resources import open_workshop
from pipeline.batch import StageReport
from pipeline.candidates import candidates
from pipeline.curation.benchmarks import BenchmarkTask
from pipeline.curation.decisions import DatasetConfig
from pipeline.curation.own_host import HostFacts
from pipeline.curation_report import CurationReport, curation_report, decisions_of
from pipeline.journal import Journal
from pipeline.rows import instance_row, trajectory_row
from pipeline.schemas import Row, to_rows
from pipeline.stages.curating import curate, looked_with
from pipeline.stages.options import Options
from pipeline.tables import Store
from pipeline.types import Step, TaskInstance, Trajectory
from tests.detectors import DETECTOR

HOST = HostFacts(paths=("/srv/factory/data",))
BENCHMARK = BenchmarkTask(
    name="held-1",
    instruction="Recover the lost ledger.",
    tests="",
    solution="openssl enc with the seven keys then tar the ledger and sign it twice over",
)
COMMANDS = ("head words.txt", "wc -l < words.txt > count.txt", "cat count.txt")


class Folder:
    """A data folder that is filled attempt by attempt."""

    def __init__(self, path: Path, task: TaskInstance) -> None:
        self.store = Store(path)
        self._task = task
        self._sequence = 0
        with Journal(self.store.root):
            pass  # tables without a journal are refused
        repository: Row = {"repository_id": task.repository_id, "source": "registry", "full_name": "debian/wc"}
        self.put("repositories", "repo", repository | {"license": "MIT", "warnings": []})
        self.put("instances", "task", instance_row(task) | {"admitted": True})

    def attempt(
        self, commands: tuple[str, ...] = COMMANDS, *, sample: int = 0, outcome: str = "passed", **fields: object
    ) -> str:
        """Returns its trajectory id."""
        steps = tuple(Step(index=i, observation="", action=command) for i, command in enumerate((*commands, "")))
        made = Trajectory.model_validate(
            {
                "instance_id": self._task.instance_id,
                "agent": "bash",
                "model": "m",
                "sample": sample,
                "steps": steps,
                "stop_reason": "submitted",
                "state_reference": "s",
            }
            | fields
        )
        name = made.trajectory_id
        self.put("trajectories", name, trajectory_row(made))
        self.put("verifications", name, {"trajectory_id": name, "outcome": outcome, "tests": [], "integrity": []})
        return name

    def put(self, table: str, key: str, row: Row, attempt: int = 1) -> None:
        self._sequence += 1
        batch: Row = {"item_key": key, "attempt": attempt, "reason": ""}
        self.store.append(table, [row | batch], app_id="test", sequence=self._sequence)

    def curate(self, *benchmarks: BenchmarkTask) -> StageReport:
        return curate(self.store, benchmarks, HOST, DETECTOR, Options())

    def rows(self) -> dict[str, Row]:
        return {str(row["trajectory_id"]): row for row in to_rows(self.store.current("curations"))}

    def report(self, *benchmarks: BenchmarkTask, config: DatasetConfig | None = None) -> CurationReport:
        looked = looked_with(benchmarks)
        return curation_report(self.store, config or DatasetConfig(), self.store.root, looked, "terminal")


@pytest.fixture
def folder(tmp_path: Path, task: TaskInstance) -> Folder:
    return Folder(tmp_path / "data", task)


def test_each_attempt_that_passed_is_looked_through_once(folder: Folder) -> None:
    passed = folder.attempt()
    folder.attempt(sample=1, outcome="failed")
    first, second = folder.curate(), folder.curate()
    assert (first.total, first.done, first.skipped, second.skipped) == (1, 1, 0, 1)
    assert list(folder.rows()) == [passed]


def test_other_benchmarks_and_a_new_attempt_are_another_look(folder: Folder) -> None:
    name = folder.attempt()
    folder.curate()
    assert folder.curate(BENCHMARK).skipped == 0
    row = to_rows(folder.store.current("trajectories"))[0]
    del row["item_key"], row["attempt"], row["reason"]
    folder.put("trajectories", name, row, attempt=2)
    assert folder.curate(BENCHMARK).skipped == 0
    assert {row["trajectory_attempt"] for row in to_rows(folder.store.current("curations"))} == {1, 2}


def test_findings_are_kept_with_their_placeholders_and_counted(folder: Folder) -> None:
    folder.attempt(("ls /srv/factory/data/x", *COMMANDS))
    folder.curate()
    (row,) = folder.rows().values()
    assert [(one["kind"], one["placeholder"]) for one in row["findings"]] == [("host.path", "/SCRUBBED_PATH_1")]  # type: ignore[attr-defined]
    assert row["unscrubbable"] is None
    found = folder.report().by_finding["host.path"]
    assert (found.rows, found.planted) == (1, 0) and found.replaced >= 1


def test_copies_and_quotations_are_out_and_the_report_counts_them(folder: Folder) -> None:
    best = folder.attempt(COMMANDS[:2])
    same = folder.attempt(("head  words.txt", "$ wc -l < words.txt > count.txt"), sample=1)
    oracle = folder.attempt(COMMANDS[:2], agent="oracle", model=None)
    quoting = folder.attempt((f"echo {BENCHMARK.solution}", "wc -l < words.txt > count.txt"), sample=2)
    folder.curate(BENCHMARK)
    found = folder.report(BENCHMARK)
    assert {step.step: step.excluded for step in found.steps} == {
        "denied": 0,
        "licence": 0,
        "contaminated": 1,
        "scrub": 0,
        "exact_copy": 2,
        "near_copy": 0,
    }
    assert (found.verified, found.kept, found.copy_groups) == (4, 1, 1)
    kept = found.copies[0]
    assert {kept.kept, *kept.ids} == {best, same, oracle} and oracle != kept.kept
    assert found.by_licence["MIT"].model_dump() == {"verified": 4, "kept": 1}
    decisions = decisions_of(folder.store, DatasetConfig(), folder.store.root, looked_with([BENCHMARK]))
    assert [(one.trajectory_id, one.other) for one in decisions.excluded if one.step == "contaminated"] == [
        (quoting, "held-1")
    ]


def test_an_attempt_that_was_not_looked_through_is_out(folder: Folder) -> None:
    folder.attempt()
    assert [step.excluded for step in folder.report().steps] == [0, 0, 0, 1, 0, 0]


def test_the_licence_of_a_context_counts(folder: Folder, task: TaskInstance) -> None:
    folder.attempt()
    folder.put("instances", "task", instance_row(task) | {"admitted": True, "context_ids": ["context-1"]}, attempt=2)
    folder.put("contexts", "c", {"context_id": "context-1", "name": "manual", "license": "GFDL-1.3"})
    (one,) = candidates(folder.store, looked_with([]))
    assert [(context.name, context.license) for context in one.contexts] == [("manual", "GFDL-1.3")]
    assert folder.report().steps[1].excluded == 1


def test_what_a_rule_says_of_the_task_counts_for_its_attempts(folder: Folder, task: TaskInstance) -> None:
    name = folder.attempt()
    folder.curate(BENCHMARK)
    sha256 = looked_with([BENCHMARK]).benchmark_sha256
    row: Row = {"instance_id": task.instance_id, "benchmark_sha256": sha256, "decision": "review", "task": "held-1"}
    folder.put("contaminations", "c", row)
    assert [one.trajectory_id for one in folder.report(BENCHMARK).queue] == [name]
    (folder.store.root / "reviews.csv").write_text(f"id,decision,who,why\n{task.instance_id},keep,ada,\n")
    config = DatasetConfig(reviews=Path("reviews.csv"))
    assert folder.report(BENCHMARK, config=config).kept == 1


@pytest.mark.parametrize(
    "commands",
    [
        (),
        tuple(f"echo {i}" for i in range(10_000)),
        ("printf 'a\0b'", "\ufffd\ufffd"),
        ("<script>alert(1)</script>", "\x1b[2J\x1b]0;x\x07", "'" * 1_001, "cat <<EOF\nno end"),
    ],
)
def test_a_hostile_attempt_is_a_row(folder: Folder, commands: tuple[str, ...]) -> None:
    folder.attempt(commands)
    done = folder.curate(BENCHMARK)
    assert (done.done, done.failed) == (1, {})
    assert folder.report(BENCHMARK).verified == 1


def test_an_attempt_at_a_screen_is_read_by_its_keys(folder: Folder) -> None:
    batches = [json.dumps([{"keystrokes": f"{one}\n", "duration": wait}]) for one in COMMANDS for wait in (1.0,)]
    folder.attempt(tuple(batches), interface="terminal", agent="terminus")
    folder.attempt(
        tuple(one.replace("1.0", "2.0") for one in batches), interface="terminal", agent="terminus", sample=1
    )
    folder.attempt()
    folder.curate()
    assert [step.excluded for step in folder.report().steps] == [0, 0, 0, 0, 1, 0]


@pytest.fixture(scope="module")
def curated(tmp_path_factory: pytest.TempPathFactory, task: TaskInstance) -> Folder:
    """Two attempts that say the same, looked through once; tests only read it."""
    folder = Folder(tmp_path_factory.mktemp("curated") / "data", task)
    folder.attempt()
    folder.attempt(sample=1)
    folder.curate()
    return folder


@pytest.fixture
def place(curated: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Options that name a configuration and the data folder."""
    for variable in ("TOUCHSTONE_DATA", "TOUCHSTONE_CONFIG"):
        monkeypatch.setenv(variable, "")  # what a command puts there is taken back afterwards
    (tmp_path / "touchstone.toml").write_text(
        '[[dataset.deny]]\nrepository = "own/*"\nwhy = "owner"\ndate = 2026-11-02\n'
    )
    open_workshop.cache_clear()
    yield ["--config", str(tmp_path / "touchstone.toml"), "--data", str(curated.store.root)]
    open_workshop.cache_clear()


def test_json_is_one_line(place: list[str]) -> None:
    answer = CliRunner().invoke(report, ["curation", "--json", *place], catch_exceptions=False)
    assert answer.stdout.count("\n") == 1
    found = json.loads(answer.stdout)
    assert (found["verified"], found["kept"], found["copy_groups"], found["queue"]) == (2, 1, 1, [])


def test_the_tables_show_steps_licences_and_rules(place: list[str]) -> None:
    answer = CliRunner().invoke(report, ["curation", *place], catch_exceptions=False)
    for shown in ("exact_copy", "MIT", "largest groups of copies", "1 of 2 verified attempts are kept; rules 1+scrub"):
        assert shown in answer.stdout


def test_the_figures_of_the_asset_are_tables_and_counts(curated: Folder) -> None:
    figures = curation_figures(curated.report())
    assert figures["kept"] == dg.MetadataValue.int(1)
    steps = figures["by_step"]
    assert isinstance(steps, dg.TableMetadataValue)
    assert steps.records[4] == dg.TableRecord({"step": "exact_copy", "came": 2, "excluded": 1, "left": 1})
