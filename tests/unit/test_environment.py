"""What a command in a sandbox tells the agent and the row."""

from __future__ import annotations

from pipeline.agents import FIXED
from pipeline.environment import StepOutcome, told
from pipeline.rollout import RolloutConfig, rollout
from pipeline.types import TaskInstance
from sandbox.types import ExecResult, FileChange

PLAIN = ExecResult(exit_code=0, output="out\n", output_bytes=4, truncated=False, timed_out=False, seconds=2.0)


def test_a_plain_command_leaves_no_mark() -> None:
    assert told(PLAIN) == StepOutcome(observation="out\n", exit_code=0, seconds=2.0)


def test_a_replaced_shell_is_told_to_both() -> None:
    outcome = told(PLAIN.model_copy(update={"shell_restarted": True}))
    assert outcome.extra == {"shell_restarted": True}
    assert outcome.observation.startswith("out\n\n[the shell ended")


def test_a_time_limit_and_a_kill_for_memory_are_told() -> None:
    outcome = told(PLAIN.model_copy(update={"exit_code": None, "timed_out": True, "oom_killed": True}))
    assert outcome.extra == {"oom_killed": True}
    assert outcome.observation == "out\n\n[stopped after 2 s: time limit]"


def test_an_agent_reads_what_a_terminal_would_show() -> None:
    written = "\x1b[1;31mred\x1b[0m\r\n 10%\r 99%\r100%\n\x1b]0;title\x07done\x00\n"
    assert told(PLAIN.model_copy(update={"output": written})).observation == "red\n100%\ndone\n"


class Marked:
    """An environment whose every step has a mark."""

    def reset(self) -> str:
        return ""

    def step(self, command: str) -> StepOutcome:
        return told(PLAIN.model_copy(update={"shell_restarted": True}))

    def changes(self) -> tuple[FileChange, ...]:
        return ()

    def outcome(self, reference: str) -> str:
        return reference

    def close(self) -> None:
        return None


def test_the_mark_stands_on_the_step_of_the_trajectory(task: TaskInstance) -> None:
    *acted, submitted = rollout(task, FIXED["oracle"], Marked(), RolloutConfig()).steps
    assert [step.extra for step in acted] == [{"shell_restarted": True}] * len(task.solution)
    assert submitted.extra == {}
