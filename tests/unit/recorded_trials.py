"""Attempts of every kind, made by the real agents with a scripted model and an environment with recorded answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from pipeline.agents import FIXED
from pipeline.agents.bash import BashAgent
from pipeline.agents.protocol import Agent
from pipeline.agents.terminus import TerminusAgent
from pipeline.environment import StepOutcome
from pipeline.exports.recorded import RecordedAttempt
from pipeline.llm.protocol import Completion, ContextOverflow, Message, Sampling
from pipeline.llm.scripted import ScriptedModel
from pipeline.rollout import RolloutConfig, rollout
from pipeline.types import TaskInstance, VerificationResult
from sandbox.types import FileChange, TestOutcome

HOSTILE = "\x1b[2J\x1b]0;owned\x07</script>\x9b31m[red]\udcff\rover"
KINDS = ("shell", "terminal", "told", "summary", "fixed", "nothing")
RECORDED_AT = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


class CountingModel(ScriptedModel):
    """Says what each answer took; one token has no chance at all."""

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        counted = {"prompt_tokens": 40, "completion_tokens": 3, "cached_tokens": 8, "seconds": 5.0, "cost_usd": 0.25}
        ids = {"prompt_token_ids": (1, 2), "completion_token_ids": (3, 4, 5), "logprobs": (-0.5, float("-inf"), 0.0)}
        return super().complete(messages, sampling).model_copy(update=counted | ids)


class RecordedEnvironment:
    """Gives its observations in turn; the first is that of the start."""

    def __init__(self, observations: Sequence[str], extra: dict[str, str]) -> None:
        self._observations = iter(observations)
        self._extra = extra

    def reset(self) -> str:
        return next(self._observations)

    def step(self, command: str) -> StepOutcome:
        return StepOutcome(observation=next(self._observations), exit_code=3, seconds=0.5, extra=self._extra)

    def changes(self) -> tuple[FileChange, ...]:
        return (FileChange(path="/work/count.txt", kind="added", type="file", sha256="0" * 64, size=2, mode=0o644),)

    def outcome(self, reference: str) -> str:
        return reference

    def close(self) -> None:
        pass


def attempt(kind: str, task: TaskInstance, *, outcome: str | None = "passed") -> RecordedAttempt:
    """An attempt of that kind with a verdict, or without one."""
    agent, environment = _agent(kind), RecordedEnvironment(*_seen(kind))
    trajectory = rollout(task, agent, environment, RolloutConfig(), sample=KINDS.index(kind))
    verdict = None
    if outcome is not None:
        verdict = VerificationResult.model_validate(
            {
                "trajectory_id": trajectory.trajectory_id,
                "outcome": outcome,
                "tests": [TestOutcome(test_id="test_state.py::test_count", outcome="failed", message=HOSTILE)],
                "seconds": 1.5,
                "integrity": ("a mark",),
                "failure_class": "verifier_broken" if outcome == "error" else None,
                "log_tail": "the end of the log",
            }
        )
    return RecordedAttempt(task, trajectory.model_copy(update={"backend": "overlay"}), verdict, RECORDED_AT)


def _agent(kind: str) -> Agent:
    sampling = Sampling(temperature=0.5, seed=7, token_details=True)
    if kind == "fixed":
        return FIXED["oracle"]
    if kind == "nothing":
        return FIXED["noop"]
    if kind in ("shell", "told"):
        command = "Look first.\n\n```bash\nprintf '\\033' > a\nls\n```\nI guess there are many."
        first = command if kind == "shell" else "I am not sure."
        # One of them asks a server that counts nothing.
        model = CountingModel if kind == "shell" else ScriptedModel
        return BashAgent(model([first, command, "DONE"]), sampling)
    keys = [{"keystrokes": "ls\n", "duration": 0.5}, {"keystrokes": "C-c", "duration": 3.0}]
    typed = json.dumps({"analysis": "A shell.", "plan": "Look.", "commands": keys})
    done = json.dumps({"analysis": "Done.", "plan": "", "commands": [], "task_complete": True})
    answers: list[str | Exception] = [typed, typed, done, done]
    if kind == "summary":
        answers[1:1] = [ContextOverflow("too long"), "So far I listed files."]
    return TerminusAgent(CountingModel(answers), sampling)


def _seen(kind: str) -> tuple[list[str], dict[str, str]]:
    if kind in ("terminal", "summary"):
        screens = [
            "Current Terminal Screen:\n$",
            f"New Terminal Output:\nls\n{HOSTILE}\n$ ",
            "Current Terminal Screen:\nx",
        ]
        return screens, {"terminal": "done"}
    return ["", f"{HOSTILE}\nlast line", "more"], {}
