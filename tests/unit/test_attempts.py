"""Which attempts are made, by whom and how freely; and the budgets of one of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.agents import MODELLED
from pipeline.agents.bash import BashAgent
from pipeline.agents.calling import prompt_sha256
from pipeline.agents.terminus import TerminusAgent
from pipeline.attempts import Attempt, SamplesConfig, passed_by_policy, rounds, wanted
from pipeline.environment import StepOutcome
from pipeline.errors import ConfigurationError
from pipeline.llm.protocol import Completion, Message, ModelUnavailable, Sampling
from pipeline.rollout import RolloutConfig, rollout
from pipeline.rows import trajectory_of, trajectory_row
from pipeline.schemas import to_rows
from pipeline.stages.rollouts import passed_so_far
from pipeline.tables import Store
from pipeline.types import TaskInstance, Trajectory
from sandbox.types import FileChange
from tests.unit.recorded_clients import RecordedModel, alternates, said

PROJECT = Path(__file__).resolve().parents[2]
LS = "```bash\nls\n```"


def tasks(task: TaskInstance, count: int) -> list[TaskInstance]:
    return [task.model_copy(update={"instruction": f"Task {number}."}) for number in range(count)]


def made(task: TaskInstance, config: SamplesConfig, *agents: str, instances: int = 1) -> list[list[Attempt]]:
    return list(rounds(tasks(task, instances), agents, RecordedModel("DONE"), config))


class TestRounds:
    def test_every_round_is_one_sample_of_everything(self, task: TaskInstance) -> None:
        found = made(task, SamplesConfig(count=3), "bash", "terminus", instances=2)
        assert [[(one.instance.instruction, one.agent.name, one.sample) for one in each] for each in found] == [
            [(f"Task {number}.", name, sample) for number in range(2) for name in ("bash", "terminus")]
            for sample in range(3)
        ]

    def test_agents_without_a_model_attempt_once(self, task: TaskInstance) -> None:
        found = made(task, SamplesConfig(count=3), "noop", "bash", "oracle")
        assert [[one.agent.name for one in each] for each in found] == [["noop", "bash", "oracle"], ["bash"], ["bash"]]
        assert len(made(task, SamplesConfig(count=3), "noop", "oracle")) == 1

    def test_a_model_attempts_instances_of_the_chosen_difficulties_only(self, task: TaskInstance) -> None:
        config = SamplesConfig(count=1, difficulties=("medium", "hard"))
        tasks = [task.model_copy(update={"difficulty": level}) for level in ("easy", "medium", "hard")]
        (found,) = rounds(tasks, ["oracle", "bash"], RecordedModel("DONE"), config)
        assert [(one.instance.difficulty, one.agent.name) for one in found] == [
            ("easy", "oracle"),
            *((level, name) for level in ("medium", "hard") for name in ("oracle", "bash")),
        ]

    @pytest.mark.parametrize("name", sorted(MODELLED))
    def test_an_agent_that_needs_a_model_is_refused_without_one(self, task: TaskInstance, name: str) -> None:
        with pytest.raises(ConfigurationError, match=rf"{name} needs a model"):
            list(rounds([task], ["oracle", name], None, SamplesConfig()))

    def test_temperatures_begin_again_when_there_are_more_samples(self, task: TaskInstance) -> None:
        found = made(task, SamplesConfig(count=5, temperatures=(0.1, 0.9)), "bash")
        assert [one.agent.sampling["temperature"] for each in found for one in each] == [0.1, 0.9, 0.1, 0.9, 0.1]

    def test_no_two_attempts_share_a_seed_or_a_name(self, task: TaskInstance) -> None:
        found = [one for each in made(task, SamplesConfig(count=20), "bash", "terminus", instances=50) for one in each]
        assert len({one.agent.sampling["seed"] for one in found}) == len(found) == 2_000
        assert len({one.trajectory_id for one in found}) == len(found)
        assert all(0 <= one.agent.sampling["seed"] < 2**31 for one in found)

    def test_another_seed_gives_other_attempts(self, task: TaskInstance) -> None:
        one, other = (made(task, SamplesConfig(count=1, seed=seed), "bash")[0][0] for seed in (0, 1))
        assert one.agent.sampling["seed"] != other.agent.sampling["seed"]
        assert one.trajectory_id != other.trajectory_id

    def test_seeds_and_names_are_the_same_in_another_process(self, task: TaskInstance) -> None:
        script = (
            "import json, sys\n"
            "from pipeline.attempts import SamplesConfig, rounds\n"
            "from pipeline.types import TaskInstance\n"
            "from tests.unit.recorded_clients import RecordedModel\n"
            "task = TaskInstance.model_validate_json(sys.stdin.read())\n"
            "found = rounds([task], ['bash', 'terminus'], RecordedModel('DONE'), SamplesConfig(count=3))\n"
            "print(json.dumps([[a.agent.sampling['seed'], a.trajectory_id] for each in found for a in each]))\n"
        )
        command = [sys.executable, "-c", script]
        there = subprocess.run(
            command,
            input=task.model_dump_json(),
            capture_output=True,
            text=True,
            cwd=PROJECT,
            check=True,
            timeout=60,
            env={"PYTHONHASHSEED": "7"},
        )
        attempts = [one for each in made_of(task) for one in each]
        assert json.loads(there.stdout) == [[one.agent.sampling["seed"], one.trajectory_id] for one in attempts]

    def test_details_of_tokens_are_no_part_of_the_policy(self, task: TaskInstance) -> None:
        one, other = (made(task, SamplesConfig(count=1, token_details=kept), "bash")[0][0] for kept in (False, True))
        assert one.trajectory_id == other.trajectory_id


def made_of(task: TaskInstance) -> list[list[Attempt]]:
    return list(rounds([task], ["bash", "terminus"], RecordedModel("DONE"), SamplesConfig(count=3)))


class TestEnough:
    CONFIG = SamplesConfig(count=4, enough=2)

    def kept(self, task: TaskInstance, passed: dict[tuple[str, str, str | None], int]) -> list[str]:
        (first, *_) = rounds([task], ["oracle", "bash", "terminus"], RecordedModel("DONE"), self.CONFIG)
        return [one.agent.name for one in wanted(first, passed, self.CONFIG)]

    def test_an_instance_that_was_solved_often_enough_is_left_to_the_others(self, task: TaskInstance) -> None:
        assert self.kept(task, {(task.instance_id, "bash", "recorded"): 2}) == ["oracle", "terminus"]
        assert self.kept(task, {(task.instance_id, "bash", "recorded"): 1}) == ["oracle", "bash", "terminus"]

    def test_what_another_model_solved_does_not_count(self, task: TaskInstance) -> None:
        assert self.kept(task, {(task.instance_id, "bash", "another"): 9}) == ["oracle", "bash", "terminus"]

    def test_agents_without_a_model_attempt_all_the_same(self, task: TaskInstance) -> None:
        assert self.kept(task, {(task.instance_id, "oracle", None): 9}) == ["oracle", "bash", "terminus"]

    def test_without_it_all_attempts_are_made(self, task: TaskInstance) -> None:
        (first, *_) = made_of(task)
        assert wanted(first, {(task.instance_id, "bash", "recorded"): 9}, SamplesConfig()) == first

    def test_only_passed_verdicts_count(self) -> None:
        one, two = ("task-1", "bash", "m"), ("task-1", "bash", "n")
        rows = [(one, "passed"), (one, "failed"), (one, "error"), (one, "None"), (two, "passed"), (one, "passed")]
        assert passed_by_policy(rows) == {one: 2, two: 1}


def test_what_passed_is_counted_from_the_verdicts_on_record(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rows: list[dict[str, Any]] = []
    verdicts: list[dict[str, Any]] = []
    for number, (model, outcome) in enumerate(
        [("m", "passed"), ("m", "passed"), ("m", "failed"), ("m", "error"), ("n", "passed"), (None, "passed")]
    ):
        key = {"item_key": f"traj-{number}", "trajectory_id": f"traj-{number}", "attempt": 1}
        rows.append({**key, "instance_id": "task-1", "agent": "bash" if model else "oracle", "model": model})
        verdicts.append({**key, "outcome": outcome})
    gone = {"item_key": "traj-9", "attempt": 1, "failure_class": "infrastructure", "instance_id": "task-1"}
    rows.append({**gone, "agent": "bash", "model": "m"})
    rows.append({"item_key": "traj-8", "trajectory_id": "traj-8", "attempt": 1, "agent": "bash", "model": "m"})
    store.append("trajectories", rows, app_id="a", sequence=1)
    store.append("verifications", verdicts, app_id="b", sequence=1)
    assert passed_so_far(store) == {
        ("task-1", "bash", "m"): 2,
        ("task-1", "bash", "n"): 1,
        ("task-1", "oracle", None): 1,
    }


class Room:
    """An environment that answers every command with the same."""

    def __init__(self, seconds: float = 0.5) -> None:
        self.commands: list[str] = []
        self.frozen: list[str] = []
        self._seconds = seconds

    def reset(self) -> str:
        return "Current Terminal Screen:\n# "

    def step(self, command: str) -> StepOutcome:
        self.commands.append(command)
        return StepOutcome(observation="out", exit_code=0, seconds=self._seconds)

    def changes(self) -> tuple[FileChange, ...]:
        return ()

    def outcome(self, reference: str) -> str:
        self.frozen.append(reference)
        return reference

    def close(self) -> None:
        pass


def attempt(task: TaskInstance, *answers: str | Completion, room: Room | None = None, **budget: Any) -> Trajectory:
    agent = BashAgent(RecordedModel(*answers), Sampling())
    return rollout(task, agent, room or Room(), RolloutConfig.model_validate(budget))


class TestBudgets:
    def test_tokens_are_those_of_prompts_and_answers(self, task: TaskInstance) -> None:
        found = attempt(task, LS, max_tokens=36)
        assert (found.stop_reason, len(found.steps)) == ("max_tokens", 3)
        assert attempt(task, LS, max_tokens=37).steps[-1].index == 3

    def test_cost(self, task: TaskInstance) -> None:
        found = attempt(task, said(LS, cost_usd=0.25), max_cost_usd=0.5)
        assert (found.stop_reason, len(found.steps)) == ("max_cost", 2)

    def test_time_is_that_of_answers_and_commands(self, task: TaskInstance) -> None:
        found = attempt(task, LS, max_seconds=4.5)
        assert (found.stop_reason, len(found.steps)) == ("max_seconds", 3)

    def test_steps_count_answers_that_were_none(self, task: TaskInstance) -> None:
        found = attempt(task, "Hm.", max_steps=4)
        assert (found.stop_reason, len(found.steps), found.steps[-1].action) == ("max_steps", 4, "")

    def test_the_context(self, task: TaskInstance) -> None:
        model = RecordedModel("x" * 100_000, context=10_000)
        found = rollout(task, BashAgent(model, Sampling()), Room(), RolloutConfig())
        assert (found.stop_reason, len(found.steps)) == ("max_context", 1)
        assert alternates([(one["role"], one["content"]) for one in found.messages])

    def test_a_hand_in_with_the_last_of_a_budget_is_a_hand_in(self, task: TaskInstance) -> None:
        assert attempt(task, LS, "DONE", max_steps=2).stop_reason == "submitted"
        assert attempt(task, said("DONE", cost_usd=9.0), max_cost_usd=0.5).stop_reason == "submitted"

    @pytest.mark.parametrize("budget", [{"max_tokens": 1}, {"max_cost_usd": 1e-9}])
    def test_a_server_that_does_not_count_leaves_the_other_budgets(
        self, task: TaskInstance, budget: dict[str, Any]
    ) -> None:
        silent = said(LS, prompt_tokens=None, completion_tokens=None)
        assert attempt(task, silent, max_steps=3, **budget).stop_reason == "max_steps"

    def test_the_state_is_frozen_once_however_it_ends(self, task: TaskInstance) -> None:
        budgets: list[dict[str, Any]] = [{"max_steps": 1}, {"max_tokens": 1}, {"max_seconds": 0.1}]
        for budget in budgets:
            room = Room()
            found = attempt(task, LS, room=room, **budget)
            assert room.frozen == [found.trajectory_id]


class Unreachable(RecordedModel):
    """Answers once."""

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        if self.asked:
            raise ModelUnavailable("the server is gone")
        return super().complete(messages, sampling)


@pytest.mark.parametrize("kind", [BashAgent, TerminusAgent])
def test_a_model_that_is_gone_leaves_no_trajectory(task: TaskInstance, kind: type[BashAgent | TerminusAgent]) -> None:
    room = Room()
    with pytest.raises(ModelUnavailable):
        rollout(task, kind(Unreachable(LS), Sampling()), room, RolloutConfig())
    assert room.frozen == []


HOSTILE = "\x00 \ud83d \udcff \x1b[31m </think> ``` {{x}} \u202e 日本語 " + "x" * 10_000


@pytest.mark.parametrize("answers", [(HOSTILE, f"```bash\necho '{HOSTILE}'\n```", "DONE"), ("DONE",), ("",)])
def test_an_attempt_survives_its_table(task: TaskInstance, answers: tuple[str, ...], tmp_path: Path) -> None:
    found = attempt(task, *answers, max_steps=5)
    store = Store(tmp_path)
    store.append("trajectories", [{**trajectory_row(found), "item_key": "k", "attempt": 1}], app_id="a", sequence=1)
    (row,) = to_rows(store.read("trajectories"))
    read = trajectory_of(row)
    assert read.trajectory_id == found.trajectory_id
    assert read.messages == found.messages
    assert [step.action for step in read.steps] == [step.action for step in found.steps]
    (call, *_) = read.steps[-1].extra["calls"]
    sent = [Message.model_validate(one) for one in read.messages[:-1]]
    assert call["prompt_sha256"] == prompt_sha256(sent)
