"""What the report of rollouts counts, and how it estimates pass@k."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from assets.report import report
from assets.rollout_figures import rollout_figures, rollout_tables
from pipeline.attempts import SamplesConfig
from pipeline.pass_rates import Tally, pass_at_k, pass_rates
from pipeline.rollout_report import RolloutReport, rollout_report
from pipeline.schemas import Row
from pipeline.tables import Store

FOUR = SamplesConfig(count=4)
CALL = {"seconds": 1.5, "model": "m", "answer": "x"}
STEP: Row = {"index": 0, "action": "ls", "seconds": 0.25, "tokens": 5, "extra": {"calls": [CALL, CALL]}}


class Folder:
    """A data folder that is filled attempt by attempt."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        self._rows: dict[str, list[Row]] = {}

    def attempt(self, instance: str, outcome: str | None, *, agent: str = "bash", **columns: object) -> str:
        """Returns the trajectory id; an outcome of `broken` is an attempt without a trajectory."""
        made = self._rows.setdefault("trajectories", [])
        name = f"traj-{len(made)}"
        recorded: Row = {"trajectory_id": name, "stop_reason": "submitted", "n_turns": 1, "n_tokens": 5}
        recorded |= {"n_prompt_tokens": 100, "cost_usd": 0.5, "steps": [STEP]}
        row: Row = {"instance_id": instance, "agent": agent, "model": "m", "sample": 0}
        made.append(self._batch(name) | row | ({} if outcome == "broken" else recorded) | columns)
        if outcome not in {None, "broken"}:
            failure = {"failure_class": "verifier_broken"} if outcome == "error" else {}
            self.put("verifications", {"trajectory_id": name, "outcome": outcome, **failure}, name)
        return name

    def instance(self, name: str, **columns: object) -> None:
        row: Row = {"instance_id": name, "difficulty": "easy", "language": "go", "domain": "general", "admitted": True}
        self.put("instances", row | columns, name)

    def put(self, table: str, row: Row, key: str) -> None:
        self._rows.setdefault(table, []).append(self._batch(key) | row)

    def report(self, samples: SamplesConfig = FOUR) -> RolloutReport:
        for table, rows in self._rows.items():
            self.store.append(table, rows, app_id="test", sequence=1)
        return rollout_report(self.store, samples)

    def _batch(self, key: str) -> Row:
        return {"item_key": key, "attempt": 1, "reason": ""}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "data")


@pytest.mark.parametrize(("samples", "passed", "k"), [(4, 0, 1), (4, 1, 1), (6, 2, 4), (6, 2, 5), (5, 5, 3), (4, 1, 4)])
def test_pass_at_k_is_the_share_of_choices_of_k_attempts_with_one_that_passed(
    samples: int, passed: int, k: int
) -> None:
    choices = list(itertools.combinations([True] * passed + [False] * (samples - passed), k))
    assert pass_at_k(samples, passed, k) == pytest.approx(sum(map(any, choices)) / len(choices))


@pytest.mark.parametrize(("samples", "passed", "k"), [(3, 1, 4), (3, 4, 1), (0, 0, 1), (3, 1, 0)])
def test_pass_at_k_of_too_few_attempts_is_refused(samples: int, passed: int, k: int) -> None:
    with pytest.raises(ValueError, match="say nothing"):
        pass_at_k(samples, passed, k)


def test_rates_are_means_over_instances_and_not_over_attempts() -> None:
    found = pass_rates([Tally(8, 8, 8), Tally(4, 4, 0)])
    assert (found.pass_at_1, found.pass_at_4, found.samples, found.passed) == (0.5, 0.5, 12, 8)
    low, high = found.intervals["pass_at_1"]
    assert (low, high) == (0.0, 1.0)


def test_the_interval_is_the_same_each_time_and_narrower_over_more_instances() -> None:
    few, many = [Tally(4, 4, 1), Tally(4, 4, 3)], [Tally(4, 4, 1), Tally(4, 4, 3)] * 20
    assert pass_rates(many) == pass_rates(many)
    (low, high), (lowest, highest) = (pass_rates(one).intervals["pass_at_1"] for one in (many, few))
    assert lowest < low < 0.5 < high < highest


@pytest.mark.parametrize(("instances", "bound"), [(1, 0.975), (32, 0.109), (300, 0.0122)])
def test_what_never_or_always_passed_is_not_certain(instances: int, bound: float) -> None:
    never, always = ([Tally(4, 4, passed)] * instances for passed in (0, 4))
    assert pass_rates(never).intervals["pass_at_1"] == (0.0, pytest.approx(bound, rel=0.01))
    assert pass_rates(always).intervals["pass_at_4"] == (pytest.approx(1 - bound, rel=0.01), 1.0)


def test_an_instance_with_fewer_samples_than_k_is_left_out_and_counted() -> None:
    found = pass_rates([Tally(4, 4, 4), Tally(4, 3, 0), Tally(4, 0, 0)])
    assert (found.instances, found.pass_at_1, found.pass_at_4) == (2, 0.5, 1.0)
    assert found.left_out == {"pass_at_1": 0, "pass_at_4": 1}


def test_an_instance_that_was_solved_often_enough_to_be_stopped_is_in_neither_rate() -> None:
    tallies = [Tally(1, 1, 1), Tally(4, 4, 1), Tally(2, 2, 0)]
    found = pass_rates(tallies, count=4, enough=1)
    assert (found.stopped, found.instances, found.pass_at_1) == (1, 3, 0.125)
    assert pass_rates(tallies, count=4).stopped == 0


def test_an_empty_folder_has_no_rates_and_no_failures(folder: Folder) -> None:
    found = folder.report()
    assert (found.model, found.instances, found.pass_at_1, found.policies, found.judges, found.replays) == (
        None,
        0,
        None,
        (),
        (),
        None,
    )
    assert found.by_failure == {"agent": {}, "environment": {}, "infrastructure": {}}


def test_the_head_is_the_policy_with_a_model_that_has_most_samples(folder: Folder) -> None:
    for agent, outcomes in (("bash", ["passed"]), ("terminus", ["passed", "failed"])):
        for outcome in outcomes:
            folder.attempt("a", outcome, agent=agent)
    for instance in "abc":
        folder.attempt(instance, "passed", agent="oracle", model=None)
    found = folder.report()
    assert (found.agent, found.model, found.samples, found.pass_at_1) == ("terminus", "m", 2, 0.5)
    assert [one.agent for one in found.policies] == ["terminus", "bash", "oracle"]


def test_failures_are_of_the_agent_the_environment_or_our_infrastructure(folder: Folder) -> None:
    folder.attempt("a", "failed")
    folder.attempt("a", "failed", stop_reason="max_steps")
    folder.attempt("a", "passed", stop_reason="max_steps")
    folder.attempt("a", "error")
    folder.attempt("a", "broken", failure_class="infrastructure")
    folder.attempt("a", "broken", failure_class="unknown")
    folder.attempt("a", "broken", failure_class="image_unusable")
    folder.attempt("a", "broken", failure_class="prompt_refused")
    folder.attempt("a", None)
    (found,) = folder.report().policies
    assert found.by_failure == {
        "agent": {"max_steps": 1, "wrong_result": 1},
        "environment": {"image_unusable": 1, "verifier_broken": 1},
        "infrastructure": {"infrastructure": 1, "prompt_refused": 1, "unknown": 1},
    }
    assert (found.attempts, found.samples, found.passed, found.unjudged) == (9, 3, 1, 1)
    assert found.stop_reasons == {"submitted": 3, "max_steps": 2}


def test_a_broken_attempt_is_no_sample_of_pass_at_k(folder: Folder) -> None:
    folder.attempt("a", "passed")
    folder.attempt("a", "error")
    folder.attempt("a", "broken", failure_class="infrastructure")
    assert folder.report().pass_at_1 == 1.0


def test_tokens_cost_and_seconds_are_those_of_all_recorded_attempts(folder: Folder) -> None:
    folder.attempt("a", "passed")
    folder.attempt("b", "failed", cost_usd=None, steps=[{"index": 0, "seconds": 1.0, "extra": {}}, STEP])
    folder.attempt("b", "broken", failure_class="infrastructure")
    (found,) = folder.report().policies
    assert found.spent.model_dump() == {
        "attempts": 2,
        "turns": 2,
        "prompt_tokens": 200,
        "completion_tokens": 10,
        "cost_usd": 0.5,
        "model_seconds": 6.0,
        "command_seconds": 1.5,
    }


def test_tokens_are_told_apart_by_what_the_model_was_asked_for(folder: Folder) -> None:
    calls: list[Row] = [
        {"purpose": "plan", "prompt_tokens": 100, "completion_tokens": 4},
        {"purpose": "decision", "prompt_tokens": 50, "completion_tokens": 3},
        {"purpose": "plan", "prompt_tokens": 200},
        CALL,
    ]
    step: Row = {"index": 0, "action": "ls", "extra": {"calls": calls}}
    folder.attempt("a", "passed", agent="step_hrl", steps=[step, {"index": 1, "action": "ls", "extra": {}}])
    folder.attempt("b", "failed", agent="step_hrl", steps=[step])
    folder.attempt("c", "broken", agent="step_hrl", failure_class="infrastructure")
    folder.attempt("a", "passed", agent="oracle", model=None, steps=[{"index": 0, "action": "ls", "extra": {}}])
    of_step_hrl, of_oracle = folder.report().policies
    assert {name: asked.model_dump() for name, asked in of_step_hrl.by_purpose.items()} == {
        "plan": {"calls": 4, "prompt_tokens": 600, "completion_tokens": 8},
        "decision": {"calls": 4, "prompt_tokens": 100, "completion_tokens": 6},
    }
    assert of_oracle.by_purpose == {}
    (table,) = (one for one in rollout_tables(folder.report()) if one.title == "tokens by policy")
    assert list(table.columns[3].cells) == ["100 (14.3%)", "600 (85.7%)"]


def test_parts_have_rates_of_their_own(folder: Folder) -> None:
    folder.instance("a")
    folder.instance("b", difficulty="hard", domain="sql")
    folder.put("instances", {"instance_id": "a", "difficulty": "easy", "language": "go", "domain": "general"}, "again")
    folder.attempt("a", "passed")
    folder.attempt("b", "failed")
    (found,) = folder.report().policies
    assert {name: one.pass_at_1 for name, one in found.by_difficulty.items()} == {"easy": 1.0, "hard": 0.0}
    assert {name: one.samples for name, one in found.by_domain.items()} == {"general": 1, "sql": 1}
    assert found.by_language["go"].samples == 2


def test_the_judge_is_set_beside_the_verdicts_and_changes_none(folder: Folder) -> None:
    verdicts = ["passed", "passed", "failed", "failed", "failed", "error"]
    opinions = ["passed", "failed", "passed", "failed", "error", "passed"]
    for verdict, said in zip(verdicts, opinions, strict=True):
        name = folder.attempt("a", verdict)
        row: Row = {"trajectory_id": name, "model": "j", "prompt_sha256": "p", "outcome": said, "cost_usd": 0.25}
        folder.put("judgements", row, name)
    folder.put("judgements", {"trajectory_id": name, "model": "j", "prompt_sha256": "p"}, "unreachable")
    found = folder.report()
    (judge,) = found.judges
    assert (judge.both_passed, judge.judge_only, judge.execution_only, judge.both_failed) == (1, 1, 1, 1)
    assert (judge.compared, judge.agreement, judge.kappa, judge.cost_usd) == (4, 0.5, 0.0, 1.5)
    assert (judge.unreadable, judge.unavailable) == (1, 1)
    assert (found.samples, found.pass_at_1) == (5, 0.4)


def test_the_replay_rate_is_that_of_the_newest_replays(folder: Folder) -> None:
    one, other, third, broken, unmade = (folder.attempt("a", "passed") for _ in range(5))
    row: Row = {"recorded": "passed", "replayed": "failed", "number": 1}
    for name, columns in (
        (one, {}),
        (one, {"number": 2, "replayed": "passed"}),
        (other, {}),
        (third, {"recorded": "failed"}),
        (broken, {"replayed": None, "failure_class": "infrastructure"}),
    ):
        folder.put("replays", row | {"trajectory_id": name} | columns, f"{name}/{columns.get('number', 1)}")
    found = folder.report().replays
    assert found is not None and unmade
    assert found.model_dump() == {"replayed": 2, "same_verdict": 1, "rate": 0.5, "judged": 5, "broken": 1}


@pytest.fixture
def place(folder: Folder, tmp_path: Path, options: list[str]) -> list[str]:
    """Options that name a data folder with attempts, which were stopped when an instance was solved once."""
    (tmp_path / "touchstone.toml").write_text("[rollout.samples]\nenough = 1\n")
    for outcome in ("failed", "failed", "failed", "passed"):
        name = folder.attempt("a", outcome, model="bell\x07[/none]")
    folder.attempt("b", "passed", model="bell\x07[/none]")
    folder.instance("a")
    folder.put("judgements", {"trajectory_id": name, "model": "j", "prompt_sha256": "p", "outcome": "passed"}, name)
    folder.put("replays", {"trajectory_id": name, "number": 1, "recorded": "passed", "replayed": "passed"}, f"{name}/1")
    folder.report()
    return options


def test_json_is_one_line_with_the_promised_names(place: list[str]) -> None:
    answer = CliRunner().invoke(report, ["rollouts", "--json", *place], catch_exceptions=False)
    assert answer.stdout.count("\n") == 1
    found = json.loads(answer.stdout)
    named = {"model", "instances", "samples", "pass_at_1", "pass_at_4", "intervals", "by_failure"}
    assert found.keys() >= named
    assert (found["pass_at_1"], found["pass_at_4"], found["by_failure"]["agent"]) == (0.25, 1.0, {"wrong_result": 3})


def test_the_tables_say_what_was_stopped_and_show_no_control_characters(place: list[str]) -> None:
    answer = CliRunner().invoke(report, ["rollouts", *place], catch_exceptions=False, env={"COLUMNS": "200"})
    for shown in (r"bell\x07[/none]", "wrong_result", "too low", "1 of 1", "kappa"):
        assert shown in answer.stdout
    assert "\x07" not in answer.stdout


def test_the_metadata_of_dagster_carry_rates_by_policy(place: list[str]) -> None:
    figures = rollout_figures(rollout_report(Store(Path(place[-1])), FOUR))
    assert figures["pass_at_1"].value == 0.625
    table = figures["policies"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data["samples"] for record in table.records] == [5]


def test_the_metadata_of_nothing_have_no_rates(tmp_path: Path) -> None:
    figures = rollout_figures(rollout_report(Store(tmp_path), FOUR))
    assert "pass_at_1" not in figures and figures["samples"].value == 0
