"""Judges final states by running code, and replays recorded attempts to see whether the verdict holds."""

from __future__ import annotations

import time
from typing import Literal

from pipeline.environment import SandboxEnvironment
from pipeline.interfaces import environment_of
from pipeline.terminal_environment import TerminalEnvironment
from pipeline.types import Record, TaskInstance, Trajectory, VerificationResult
from pipeline.verdict import verdict
from sandbox.errors import ImageMissing, VerifierBroken
from sandbox.protocol import Backend
from sandbox.types import FrozenState, Judgement, Limits

VERIFIER_BROKEN = "verifier_broken"
"""Failure class of a verifier that crashed or ran no test."""
STATE_REGAINED = "state_regained"
"""Integrity flag: the frozen state was lost, and made again from the recorded commands."""
JUDGED_LIVE = "judged_live"
"""Integrity flag: the tests need running services, which no frozen state has, so that the verdict is on the recorded
commands carried out again, while what they started still ran."""
JUDGE_LIFETIME_MARGIN_S = 60
"""How long a judging sandbox may outlive the time limit of its verifier, s."""


def judge(task: TaskInstance, state: FrozenState, backend: Backend) -> Judgement:
    """Run the task's verifier on a frozen state. Raises VerifierBroken, ImageMissing or SandboxUnavailable."""
    verifier = task.verifier
    return backend.judge(state, verifier.texts, limits=_judging_limits(task), timeout_s=verifier.timeout_s)


def verify(
    task: TaskInstance, trajectory: Trajectory, backend: Backend, *, command_timeout_s: float
) -> VerificationResult:
    """The verdict on the frozen final state of an attempt.

    A state that is gone is regained by carrying out the recorded commands again, and the row is flagged so. A broken
    verifier is an `error` with its class, never a failed attempt. Raises SandboxUnavailable and ImageMissing, from
    which nothing may be concluded.
    """
    started = time.monotonic()

    def result(outcome: Literal["passed", "failed", "error"], **fields: object) -> VerificationResult:
        return VerificationResult.model_validate(
            {
                "trajectory_id": trajectory.trajectory_id,
                "outcome": outcome,
                "tests": (),
                "seconds": time.monotonic() - started,
                "backend": backend.name,
                **fields,
            }
        )

    state = FrozenState(reference=trajectory.state_reference, image_digest=task.image)
    integrity: tuple[str, ...] = ()
    if task.state_scope == "live":
        integrity = (JUDGED_LIVE,)
    elif not backend.has_state(state.reference):
        integrity = (STATE_REGAINED,)
        act_again(task, trajectory, backend, state.reference, keep=True, command_timeout_s=command_timeout_s)
    try:
        if task.state_scope == "live":
            judgement, _ = judge_live(task, trajectory, backend, command_timeout_s=command_timeout_s)
        else:
            judgement = judge(task, state, backend)
        outcome = verdict(judgement.tests, task.verifier.passing_tests)
    except VerifierBroken as error:
        return result("error", failure_class=VERIFIER_BROKEN, integrity=integrity, log_tail=str(error))
    return result(outcome, tests=judgement.tests, integrity=integrity, log_tail=judgement.log_tail)


class Replay(Record):
    """A recorded verdict beside the verdict of the same commands carried out again."""

    trajectory_id: str
    recorded: Literal["passed", "failed"]
    replayed: Literal["passed", "failed", "error"]
    reason: str = ""
    """Why the two differ, or why there is no second verdict; empty when they agree."""

    @property
    def same(self) -> bool:
        return self.recorded == self.replayed


def replay(
    task: TaskInstance,
    trajectory: Trajectory,
    recorded: Literal["passed", "failed"],
    backend: Backend,
    *,
    command_timeout_s: float,
) -> Replay:
    """Carry out the recorded commands in a fresh sandbox and judge again. Nothing recorded is changed.

    A missing image or a broken verifier is a differing row with its reason. Raises SandboxUnavailable.
    """

    def compared(replayed: Literal["passed", "failed", "error"], reason: str = "") -> Replay:
        return Replay(trajectory_id=trajectory.trajectory_id, recorded=recorded, replayed=replayed, reason=reason)

    reference = f"replay-{trajectory.trajectory_id}"
    try:
        if task.state_scope == "live":
            judgement, differing = judge_live(task, trajectory, backend, command_timeout_s=command_timeout_s)
        else:
            state, differing = act_again(
                task, trajectory, backend, reference, keep=False, command_timeout_s=command_timeout_s
            )
            judgement = judge(task, state, backend)
        again = verdict(judgement.tests, task.verifier.passing_tests)
    except (ImageMissing, VerifierBroken) as error:
        return compared("error", str(error))
    finally:
        backend.discard(reference)
    if again == recorded:
        return compared(again)
    failed = [test.test_id for test in judgement.tests if test.outcome != "passed"]
    return compared(again, "; ".join([f"tests not passed: {failed}", *differing]))


def act_again(
    task: TaskInstance,
    trajectory: Trajectory,
    backend: Backend,
    reference: str,
    *,
    keep: bool,
    command_timeout_s: float,
) -> tuple[FrozenState, list[str]]:
    """Carry out the recorded commands in a fresh sandbox and freeze its final state under `reference`.

    Returns the state and a line for each command whose exit code is another one this time.
    Raises SandboxUnavailable and ImageMissing.
    """
    with _again(task, trajectory, backend, command_timeout_s) as environment:
        differing = _carry_out(trajectory, environment)
        return environment.sandbox.freeze(reference, keep=keep), differing


def judge_live(
    task: TaskInstance, trajectory: Trajectory, backend: Backend, *, command_timeout_s: float
) -> tuple[Judgement, list[str]]:
    """Carry out the recorded commands in a fresh sandbox and run the verifier while their services are up.

    Returns what it saw and a line for each command whose exit code is another one this time.
    Raises VerifierBroken, SandboxUnavailable and ImageMissing.
    """
    verifier = task.verifier
    with _again(task, trajectory, backend, command_timeout_s) as environment:
        differing = _carry_out(trajectory, environment)
        limits, timeout_s = _judging_limits(task), verifier.timeout_s
        judgement = backend.judge_live(environment.sandbox, verifier.texts, limits=limits, timeout_s=timeout_s)
        return judgement, differing


def _judging_limits(task: TaskInstance) -> Limits:
    """Of the sandbox in which the verifier runs."""
    return task.limits.model_copy(update={"lifetime_s": task.verifier.timeout_s + JUDGE_LIFETIME_MARGIN_S})


def _again(
    task: TaskInstance, trajectory: Trajectory, backend: Backend, command_timeout_s: float
) -> SandboxEnvironment | TerminalEnvironment:
    return environment_of(task, backend, trajectory.interface, command_timeout_s=command_timeout_s)


def _carry_out(trajectory: Trajectory, environment: SandboxEnvironment | TerminalEnvironment) -> list[str]:
    environment.reset()
    differing = []
    for step in trajectory.steps:
        if not step.action:
            continue
        outcome = environment.step(step.action)
        if outcome.exit_code != step.exit_code:
            differing.append(f"step {step.index} ended with {outcome.exit_code}, recorded {step.exit_code}")
    return differing
