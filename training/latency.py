"""Seconds in place of tokens: what the steps of token_report.py take on a machine where reading and writing were timed.

A call takes so much for each token that is read, for the square of their number, and for each token that is written;
calls of a step follow one another. What a server keeps of earlier prompts is not thought of: with it, a history that
only grows is read anew at every step for its newest part alone. The speed is measured by measure_latency.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.types import Record
from training.token_report import POLICIES, Policy, StepTokens, TokenReport

WELL_KNOWN = 5
"""Trajectories that must reach a step for it to have a say in where one policy becomes the cheaper one."""


class Speed(Record):
    """Of one model on one machine."""

    prefill_s_per_token: float
    prefill_s_per_token_squared: float
    """For the square of the tokens of a prompt: attention looks from each at those before it."""
    decode_s_per_token: float


class Measured(Record):
    """The speed of one model on one machine, from questions that were timed."""

    model: dict[str, str]
    questions: int
    speed: Speed
    left_over: float
    """Root mean square of what the speed does not explain, as a share of the seconds of a question."""


class StepSeconds(Record):
    """Mean seconds of the calls at one step."""

    flat: float
    hrl: float
    step_hrl: float
    n: int
    """Trajectories that reach it."""


class Latency(Record):
    """The steps of a report in seconds."""

    model: dict[str, str]
    speed: Speed
    cheaper_from_step: int | None
    """See crossover."""
    per_step: dict[int, StepSeconds]


class TimedReport(TokenReport):
    """A report of tokens with what it comes to in time."""

    cheaper_from_step: int | None
    """In prompt tokens; see crossover."""
    latency: Latency | None
    """None where no machine was measured."""


def timed(report: TokenReport, found: Measured | None) -> TimedReport:
    """Add the seconds on the machine that was measured."""
    latency = None
    if found is not None:
        curve = latency_curve(report, found.speed)
        latency = Latency(model=found.model, speed=found.speed, cheaper_from_step=crossover(curve), per_step=curve)
    own = {name: getattr(report, name) for name in TokenReport.model_fields}
    return TimedReport(**own, cheaper_from_step=crossover(report.per_step), latency=latency)


def latency_curve(report: TokenReport, speed: Speed) -> dict[int, StepSeconds]:
    """By the number of the step, from 1."""
    found = {}
    for step, read in report.per_step.items():
        parts = read, report.squares_per_step[step], report.written_per_step[step]
        seconds = {policy: _seconds(policy, speed, *parts) for policy in POLICIES}
        found[step] = StepSeconds.model_validate(seconds | {"n": read.n})
    return found


def crossover(curve: Mapping[int, StepTokens | StepSeconds]) -> int | None:
    """The step from which on `step_hrl` costs less than `flat` at each step that is WELL_KNOWN; None for never."""
    known: Sequence[int] = sorted(step for step, one in curve.items() if one.n >= WELL_KNOWN)
    dearer = [step for step in known if curve[step].step_hrl >= curve[step].flat]
    behind = [step for step in known if not dearer or step > dearer[-1]]
    return behind[0] if behind else None


def _seconds(policy: Policy, speed: Speed, read: StepTokens, squares: StepTokens, written: StepTokens) -> float:
    prefill = speed.prefill_s_per_token * float(getattr(read, policy))
    attention = speed.prefill_s_per_token_squared * float(getattr(squares, policy))
    return round(prefill + attention + speed.decode_s_per_token * float(getattr(written, policy)), 4)
