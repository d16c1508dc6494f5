"""The one rule from per-test outcomes to a verdict."""

from __future__ import annotations

import pytest

from pipeline.verdict import verdict
from sandbox.errors import VerifierBroken
from sandbox.types import TestOutcome


def outcomes(**by_name: str) -> list[TestOutcome]:
    return [TestOutcome.model_validate({"test_id": name, "outcome": outcome}) for name, outcome in by_name.items()]


def test_all_expected_tests_passed_is_passed() -> None:
    assert verdict(outcomes(a="passed", b="passed"), ["a", "b"]) == "passed"


@pytest.mark.parametrize("outcome", ["failed", "error", "skipped", "xfailed", "xpassed"])
def test_one_test_that_did_not_pass_is_failed(outcome: str) -> None:
    assert verdict(outcomes(a="passed", b=outcome), ["a", "b"]) == "failed"


def test_an_expected_test_that_did_not_run_is_failed() -> None:
    assert verdict(outcomes(a="passed"), ["a", "b"]) == "failed"


@pytest.mark.parametrize(
    ("tests", "expected"),
    [({}, ["a"]), ({"a": "skipped"}, ["a"]), ({"a": "passed"}, []), ({"a": "passed", "z": "passed"}, ["a"])],
    ids=["no test", "all skipped", "nothing expected", "a foreign test"],
)
def test_what_proves_nothing_is_a_broken_verifier(tests: dict[str, str], expected: list[str]) -> None:
    with pytest.raises(VerifierBroken):
        verdict(outcomes(**tests), expected)
