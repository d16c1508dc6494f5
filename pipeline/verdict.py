"""From per-test outcomes to a verdict: the one rule that admission, verification and replay share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sandbox.errors import VerifierBroken
from sandbox.types import TestOutcome

Verdict = Literal["passed", "failed"]


def verdict(tests: Sequence[TestOutcome], expected: Sequence[str]) -> Verdict:
    """`passed` only when exactly the expected tests ran and every one of them passed.

    A skipped or expected-to-fail test never counts as passed. That pytest's exit code agrees with the outcomes needs
    no second look: a backend has a judgement only of a signed answer in which it does. `expected` is the set that
    passed on the oracle's state at admission. Raises VerifierBroken when no test ran, when nothing is expected, or
    when other tests ran than at admission: then the verifier is not the one that was proven.
    """
    ran = {test.test_id for test in tests if test.outcome != "skipped"}
    if not ran:
        raise VerifierBroken("no test ran")
    if not expected:
        raise VerifierBroken("the verifier has no recorded passing set: the instance was never admitted")
    if not ran <= set(expected):
        raise VerifierBroken(f"tests that were not there at admission: {sorted(ran - set(expected))}")
    passed = {test.test_id for test in tests if test.outcome == "passed"}
    return "passed" if passed == set(expected) and len(tests) == len(passed) else "failed"
