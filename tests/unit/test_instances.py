"""Admission over recorded judgements: what is admitted, what is rejected by which gate, and what is never concluded."""

from __future__ import annotations

import pytest

from pipeline.admission.leaks import leak_gate
from pipeline.admission.lint import lint_gate
from pipeline.generators.protocol import Candidate
from pipeline.instances import InstancesConfig, admit, each_once, select_different
from pipeline.types import TaskInstance, Verifier, VerifierFile
from sandbox.errors import SandboxUnavailable, VerifierBroken
from sandbox.protocol import Sandbox
from sandbox.terminals.terminal import Terminal
from sandbox.types import USUAL, Conditions, ExecResult, FileChange, FrozenState, Judgement, Limits, TestOutcome

GOOD = 'from pathlib import Path\n\n\ndef test_count():\n    assert Path("count.txt").read_text() == "3"\n'


class RecordedSandbox:
    """Answers every command in the same way; keeps what was run."""

    image_digest = "sha256:1"

    def __init__(self, exit_code: int) -> None:
        self.commands: list[str] = []
        self._exit_code = exit_code

    def execute(self, command: str, *, timeout_s: float) -> ExecResult:
        self.commands.append(command)
        return ExecResult(
            exit_code=self._exit_code, output="said", output_bytes=4, truncated=False, timed_out=False, seconds=0.0
        )

    def terminal(self, *, rows: int = 24, columns: int = 80) -> Terminal:
        raise AssertionError("admission opens no terminal")

    def put(self, files: dict[str, bytes], *, mode: int = 0o644) -> None:
        raise AssertionError("admission writes no files")

    def get(self, path: str, *, max_bytes: int) -> bytes | None:
        return None

    def changes(self) -> list[FileChange]:
        return []

    def freeze(self, reference: str, *, keep: bool = True) -> FrozenState:
        kind = "noop" if self.commands in ([], ["pwd"]) else "oracle"
        return FrozenState(reference=f"{kind}-{reference}", image_digest="sha256:1")

    def close(self) -> None:
        return None


class RecordedBackend:
    """Judges states by what was recorded for the untouched one and for each run of the solution."""

    name = "recorded"

    def __init__(self, noop: list[dict[str, str]], oracle: list[dict[str, str]], *, exit_code: int = 0) -> None:
        """The last judgement of each is given again and again."""
        self._recorded = {"noop": noop, "oracle": oracle}
        self._exit_code = exit_code
        self.sandboxes: list[RecordedSandbox] = []
        self.kept: set[str] = set()

    def start(self, image_digest: str, limits: Limits) -> RecordedSandbox:
        self.sandboxes.append(RecordedSandbox(self._exit_code))
        return self.sandboxes[-1]

    def restore(self, state: FrozenState, limits: Limits) -> RecordedSandbox:
        raise AssertionError("admission restores nothing by itself")

    def judge(
        self,
        state: FrozenState,
        files: dict[str, str],
        *,
        limits: Limits,
        timeout_s: float,
        conditions: Conditions = USUAL,
    ) -> Judgement:
        self.kept.add(state.reference)
        if files.keys() == {"test_probe.py"}:
            return Judgement(tests=(), exit_code=0, seconds=0.1)
        recorded = self._recorded[state.reference.split("-")[0]]
        outcomes = recorded.pop(0) if len(recorded) > 1 else recorded[0]
        if "broken" in outcomes:
            raise VerifierBroken(outcomes["broken"])
        if "unavailable" in outcomes:
            raise SandboxUnavailable(outcomes["unavailable"])
        tests = tuple(TestOutcome.model_validate({"test_id": i, "outcome": o}) for i, o in outcomes.items())
        return Judgement(tests=tests, exit_code=0, seconds=0.1)

    def judge_live(
        self,
        sandbox: Sandbox,
        files: dict[str, str],
        *,
        limits: Limits,
        timeout_s: float,
        conditions: Conditions = USUAL,
    ) -> Judgement:
        del sandbox, files, limits, timeout_s
        raise AssertionError("no recorded task needs services")

    def has_state(self, reference: str) -> bool:
        return reference in self.kept

    def discard(self, reference: str) -> None:
        self.kept.discard(reference)

    def reap(self) -> int:
        return 0


@pytest.fixture
def instance(task: TaskInstance) -> TaskInstance:
    """A task that was not admitted yet."""
    return task.model_copy(update={"verifier": Verifier(files=(VerifierFile(path="test_state.py", content=GOOD),))})


FAILED, PASSED = {"t::a": "failed"}, {"t::a": "passed"}


def test_what_noop_fails_twice_and_the_oracle_passes_twice_is_admitted(instance: TaskInstance) -> None:
    backend = RecordedBackend([FAILED, FAILED], [PASSED, PASSED])
    admission = admit(instance, backend)
    assert admission.admitted
    assert admission.passing_tests == ("t::a",)
    assert admission.flake_rate == 0.0
    assert [g.gate for g in admission.gates] == [
        *("verifier_lint", "no_solution_text", "network_off", "noop", "oracle", "no_answer_in_image"),
        *("stability", "order_independence", "time_independence", "weak_solutions", "other_solutions"),
    ]


def test_each_run_of_the_oracle_has_a_fresh_sandbox_and_no_state_is_left(instance: TaskInstance) -> None:
    backend = RecordedBackend([FAILED, FAILED], [PASSED, PASSED])
    admit(instance, backend)
    solved = [s.commands for s in backend.sandboxes if s.commands not in ([], ["pwd"])]
    assert solved == [list(instance.solution)] * 2
    assert backend.kept == set()


@pytest.mark.parametrize(
    ("noop", "oracle", "gate"),
    [
        ([PASSED, PASSED], [], "noop"),
        ([FAILED, PASSED], [], "noop"),
        ([{}, {}], [], "noop"),
        ([{"broken": "no test ran"}], [], "noop"),
        ([FAILED, FAILED], [FAILED], "oracle"),
        ([FAILED, FAILED], [PASSED, FAILED], "oracle"),
        ([FAILED, FAILED], [{"t::a": "passed", "t::b": "skipped"}], "oracle"),
        ([FAILED, FAILED], [{"t::a": "xfailed"}], "oracle"),
        ([FAILED, FAILED], [{"t::a": "xpassed"}], "oracle"),
        ([FAILED, FAILED], [PASSED, {"t::b": "passed"}], "oracle"),
        ([FAILED, FAILED], [{}], "oracle"),
        ([FAILED, FAILED], [{"broken": "crashed"}], "oracle"),
    ],
)
def test_anything_else_is_rejected_by_its_gate(
    instance: TaskInstance, noop: list[dict[str, str]], oracle: list[dict[str, str]], gate: str
) -> None:
    admission = admit(instance, RecordedBackend(noop, oracle))
    assert not admission.admitted
    assert admission.passing_tests == ()
    assert [g.gate for g in admission.gates if not g.passed] == [gate]


def test_the_share_of_judgements_that_failed_is_kept(instance: TaskInstance) -> None:
    flaky = [PASSED, PASSED, PASSED, FAILED, FAILED, PASSED]
    admission = admit(instance, RecordedBackend([FAILED, FAILED], flaky), InstancesConfig(repeats_on_state=10))
    assert [g.gate for g in admission.gates if not g.passed] == ["stability"]
    assert admission.flake_rate == 2 / 8


def test_a_task_that_wants_a_network_is_rejected(instance: TaskInstance) -> None:
    online = instance.model_copy(update={"limits": Limits(network="bridge")})
    assert [g.gate for g in admit(online, RecordedBackend([], [])).gates if not g.passed] == ["network_off"]


def test_variants_of_a_family_are_not_compared_with_each_other_but_with_all_others(instance: TaskInstance) -> None:
    family = {"domain": "sql", "family": "report"}
    one = instance.model_copy(update=family)
    twin = instance.model_copy(update={**family, "repository_id": "repo-2"})
    assert select_different([one, twin], []) == {}
    assert select_different([twin], [instance]).keys() == {twin.instance_id}


def test_a_solution_that_fails_is_rejected_with_the_command_and_its_output(instance: TaskInstance) -> None:
    admission = admit(instance, RecordedBackend([FAILED, FAILED], [], exit_code=3))
    assert "exit code 3" in admission.gates[-1].evidence
    assert "said" in admission.gates[-1].evidence


def test_a_fault_of_the_machinery_is_no_rejection(instance: TaskInstance) -> None:
    with pytest.raises(SandboxUnavailable):
        admit(instance, RecordedBackend([{"unavailable": "engine gone"}], []))


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("def test_a(:\n    assert 1", "does not parse"),
        ("x = 1\n", "no test"),
        ("def test_a():\n    return False\n", "returns a value"),
        ("def test_a():\n    if x:\n        assert y\n", "asserts nothing"),
        ("def test_a():\n    assert x\n\n\ndef test_a():\n    assert x\n", "share a name"),
        ("import pytest\n\n\n@pytest.mark.skip\ndef test_a():\n    assert x\n", "decorated"),
        ("import requests\n\n\ndef test_a():\n    assert x\n", "imports requests"),
        ("import socket\n\n\ndef test_a():\n    assert x\n", "imports socket"),
        ("import time\n\n\ndef test_a():\n    assert x\n", "imports time"),
        ("from .helper import x\n\n\ndef test_a():\n    assert x\n", "relative"),
        ("def test_a():\n    assert eval('x')\n", "calls eval"),
        ("def test_a():\n    assert True\n", "always true"),
    ],
)
def test_the_lint_names_what_is_wrong_with_a_verifier(code: str, fault: str) -> None:
    gate = lint_gate(Verifier(files=(VerifierFile(path="test_a.py", content=code),)))
    assert not gate.passed
    assert fault in gate.evidence


def test_an_instruction_that_holds_a_command_of_the_solution_leaks(instance: TaskInstance) -> None:
    leaking = instance.model_copy(update={"instruction": "Do this: wc  -l < words.txt and keep the number."})
    assert not leak_gate(leaking).passed
    assert leak_gate(instance).passed


def test_near_copies_of_admitted_instances_are_found(instance: TaskInstance) -> None:
    twin = instance.model_copy(update={"repository_id": "repo-2"})
    assert select_different([instance, twin], []).keys() == {max(instance.instance_id, twin.instance_id)}
    assert select_different([twin], [instance]).keys() == {twin.instance_id}


def test_a_task_that_a_generator_makes_twice_is_refused_the_second_time(instance: TaskInstance) -> None:
    other = instance.model_copy(update={"instruction": "Write yes."})
    first, second, third = each_once(
        [
            Candidate(document="a", line=number, excerpt="", instance=one)
            for number, one in enumerate([instance, other, instance])
        ]
    )
    assert (first.instance, second.instance, third.instance) == (instance, other, None)
    assert (third.failure_class, third.line, third.reason) == ("same_task", 2, f"it is {instance.instance_id} again")
