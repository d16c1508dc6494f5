"""What a judgement means for a gate: passed by all tests, or by which not."""

from __future__ import annotations

from sandbox.types import Judgement


def passes(judgement: Judgement) -> bool:
    """Whether every test passed, and there was one."""
    return bool(judgement.tests) and all(test.outcome == "passed" for test in judgement.tests)


def failures(judgement: Judgement) -> int:
    """How many tests did not pass."""
    return sum(test.outcome != "passed" for test in judgement.tests)


def said(judgement: Judgement) -> str:
    """Every test that did not pass, with its message."""
    bad = [test for test in judgement.tests if test.outcome != "passed"]
    return "; ".join(f"{test.test_id} {test.outcome}: {test.message[:160]}" for test in bad) or "no test ran"


def tests_of(judgement: Judgement) -> tuple[str, ...]:
    """Ids of the tests, sorted."""
    return tuple(sorted(test.test_id for test in judgement.tests))
