"""What goes with an exported task and writes the reward, with a launcher that only pretends to judge."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pipeline.exports.harbor_judge import main

LAUNCHER = """#!{python}
import hashlib, hmac, json, sys, time
nonce = sys.stdin.buffer.read(32)
request = json.loads(sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8), "big")))
assert request["files"] == {{"test_state.py": "tests"}} and request["conditions"] == {{"order": "usual"}}
verdict = {verdict!r}
time.sleep({late})
body = json.dumps(verdict).encode()
print(hmac.new(nonce + {salt!r}, body, hashlib.sha256).hexdigest(), body.decode())
"""
PASSED = ["test_state.py::test_a", "passed", ""]


class Trial:
    """The folders that Harbor gives, and a runtime that answers as it is told."""

    def __init__(self, folder: Path) -> None:
        self.runtime, self.tests, self.out = (folder / name for name in ("runtime", "tests", "out"))
        for place in (self.runtime / "bin", self.tests / "verifier", self.out):
            place.mkdir(parents=True)
        (self.tests / "verifier" / "test_state.py").write_text("tests")

    def reward(self, *tests: list[str], complete: bool = True, salt: bytes = b"", late: float = 0) -> object:
        expected = {"passing_tests": [PASSED[0]], "timeout_s": 5 if not late else 0.2, "conditions": {"order": "usual"}}
        (self.tests / "expected.json").write_text(json.dumps(expected))
        verdict = {"complete": complete, "exit_code": 0, "seconds": 0.1, "tests": list(tests)}
        launcher = self.runtime / "bin" / "launch"
        launcher.write_text(LAUNCHER.format(python=sys.executable, verdict=verdict, salt=salt, late=late))
        launcher.chmod(0o755)
        code = main([str(self.runtime), str(self.tests), str(self.out)])
        reward = json.loads((self.out / "reward.json").read_text())
        assert code == (0 if reward == {"reward": 1} else 1)
        return reward["reward"]


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def test_the_reward_is_one_when_exactly_the_recorded_tests_passed(trial: Trial) -> None:
    assert trial.reward(PASSED) == 1
    assert json.loads((trial.out / "tests.json").read_text())["tests"] == [PASSED]


@pytest.mark.parametrize(
    "tests",
    [
        [],
        [["test_state.py::test_a", "failed", "why"]],
        [["test_state.py::test_a", "skipped", "why"]],
        [["test_state.py::test_b", "passed", ""]],
        [PASSED, ["test_state.py::test_b", "passed", ""]],
        [PASSED, ["test_state.py::test_b", "xfailed", ""]],
    ],
)
def test_the_reward_is_zero_for_any_other_outcome(trial: Trial, tests: list[list[str]]) -> None:
    assert trial.reward(*tests) == 0


def test_the_reward_is_zero_when_not_every_test_could_speak(trial: Trial) -> None:
    assert trial.reward(PASSED, complete=False) == 0


def test_what_nobody_signed_is_no_verdict(trial: Trial) -> None:
    assert trial.reward(PASSED, salt=b"other") == 0


def test_a_verifier_that_is_late_gives_no_reward(trial: Trial) -> None:
    assert trial.reward(PASSED, late=30) == 0
    assert "no verdict within" in json.loads((trial.out / "tests.json").read_text())["fault"]


def test_a_judge_that_breaks_leaves_the_reward_at_zero(trial: Trial) -> None:
    (trial.tests / "expected.json").write_text("no json")
    with pytest.raises(json.JSONDecodeError):
        main([str(trial.runtime), str(trial.tests), str(trial.out)])
    assert json.loads((trial.out / "reward.json").read_text()) == {"reward": 0}
