"""The gates `stability`, `order_independence` and `time_independence`: the verifier again and again on one end state.

Each time it is a process of its own. What it judges differs in nothing; so must what it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.admission.attempts import Attempts, EndState
from pipeline.admission.records import Gate
from pipeline.admission.verdicts import said, tests_of
from sandbox.errors import VerifierBroken
from sandbox.types import USUAL, Conditions

DAY_S = 86_400
ORDERS = (
    Conditions(order="reversed"),
    Conditions(order="shuffled", seed=1),
    Conditions(order="shuffled", seed=2),
    Conditions(order="shuffled", seed=3),
)
CLOCKS = (Conditions(clock_offset_s=400 * DAY_S), Conditions(clock_offset_s=-400 * DAY_S))


@dataclass(frozen=True)
class Repeated:
    """What the gates say together."""

    gates: tuple[Gate, ...]
    flake_rate: float


def repeated(attempts: Attempts, end: EndState, expected: tuple[str, ...], times: int) -> Repeated:
    """Judge what the oracle left `times` times, some of them in other orders and at other dates; stop after a failure.

    `expected` are the tests that have to pass. Raises SandboxUnavailable, ImageMissing.
    """
    orders = ORDERS if len(expected) > 1 else ()
    usual = [USUAL] * max(times - len(orders) - len(CLOCKS), 1)
    rows: tuple[tuple[str, str, Sequence[Conditions]], ...] = (
        ("stability", "in processes of their own", usual),
        ("order_independence", "reversed and shuffled", orders),
        ("time_independence", "400 days later and earlier (the verifier's own clock)", CLOCKS),
    )
    gates: list[Gate] = []
    judged = failed = 0
    for name, how, conditions in rows:
        faults = [fault for one in conditions if (fault := _fault(attempts, end, expected, one))]
        judged, failed = judged + len(conditions), failed + len(faults)
        count = f"{len(conditions) - len(faults)} of {len(conditions)} judgements passed, {how}"
        if not conditions:
            count = "there is one test"
        gates.append(Gate(gate=name, passed=not faults, evidence=count + (f": {faults[0]}" if faults else "")))
        if faults:
            break
    return Repeated(tuple(gates), failed / judged)


def _fault(attempts: Attempts, end: EndState, expected: tuple[str, ...], conditions: Conditions) -> str:
    """How a judgement differs from that every expected test passes; empty when in nothing."""
    try:
        judgement = attempts.judge(end, conditions)
    except VerifierBroken as error:
        return f"the verifier broke: {error}"
    if any(test.outcome != "passed" for test in judgement.tests):
        return said(judgement)
    found = tests_of(judgement)
    return "" if found == expected else f"other tests: {', '.join(found)}"
