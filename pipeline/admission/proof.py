"""All gates of one instance, cheap ones first, until one says no."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from pipeline.admission.attempts import Attempts, EndState
from pipeline.admission.generic import Made, rewritten, weak_files
from pipeline.admission.image_search import image_gate
from pipeline.admission.leaks import leak_gate
from pipeline.admission.lint import lint_gate
from pipeline.admission.network import network_gate
from pipeline.admission.outputs import MAX_BYTES, Outputs, named_paths, outputs_of
from pipeline.admission.pristine import Pristine
from pipeline.admission.records import Admission, AdmissionConfig, Gate
from pipeline.admission.repeats import repeated
from pipeline.admission.variants import right_gate, weak_gate
from pipeline.admission.verdicts import failures, said, tests_of
from pipeline.types import TaskInstance, Variant
from sandbox.errors import VerifierBroken
from sandbox.protocol import Backend, Sandbox
from sandbox.types import Judgement

MAX_INPUTS = 12


class Proof:
    """Puts one instance through the gates."""

    def __init__(
        self,
        instance: TaskInstance,
        backend: Backend,
        config: AdmissionConfig,
        pristine: Pristine,
        *,
        right: Sequence[Variant] = (),
        weak: Sequence[Variant] = (),
        undone: Sequence[Judgement] = (),
    ) -> None:
        """`undone` are the judgements of the untouched state, where they were made together with those of others."""
        self._instance = instance
        self._backend = backend
        self._config = config
        self._pristine = pristine
        self._right, self._weak, self._undone = right, weak, undone
        self._attempts = Attempts(instance, backend, step_timeout_s=config.step_timeout_s)
        self._outputs: Outputs | None = None
        self._tests: tuple[str, ...] = ()
        self._flake_rate: float | None = None

    def admission(self) -> Admission:
        """What the gates say. Raises SandboxUnavailable, ImageMissing: then nothing is known."""
        gates: list[Gate] = []
        with ExitStack() as stack:
            for gate in self._gates(stack):
                gates.append(gate)
                if not gate.passed:
                    break
        passed = gates[-1].passed
        tests = self._tests if passed else ()
        return Admission(admitted=passed, gates=tuple(gates), passing_tests=tests, flake_rate=self._flake_rate)

    def _gates(self, stack: ExitStack) -> Iterator[Gate]:
        # What a verdict that changes by itself says about other solutions is worth nothing: they come last.
        yield from text_gates(self._instance)
        yield self._noop()
        gate, end = self._oracle(stack)
        yield gate
        if end is None or self._outputs is None:
            return
        named = named_paths(self._instance.instruction, self._pristine.workdir)
        yield image_gate(self._instance, self._outputs, named, self._pristine, self._backend)
        done = repeated(self._attempts, end, self._tests, self._config.repeats_on_state)
        self._flake_rate = done.flake_rate
        yield from done.gates
        before = self._pristine.contents(tuple(sorted(named)[:MAX_INPUTS]), max_bytes=MAX_BYTES)
        changed = {change.path for change in self._outputs.changes}
        inputs = {path: content for path, content in before.items() if path not in changed and content}
        generic = weak_files(self._outputs, before, inputs, live=self._attempts.is_live)
        yield weak_gate(self._attempts, end, [*self._weak, *generic])
        again = rewritten(self._instance, self._outputs)
        right: list[Variant | Made] = [*self._right, *([again] if again else [])]
        yield right_gate(self._attempts, end, right)

    def _noop(self) -> Gate:
        """Doing nothing must fail."""
        try:
            judgements = self._undone or [self._untouched() for _ in range(self._config.repeats)]
        except VerifierBroken as error:
            return Gate(gate="noop", passed=False, evidence=f"the verifier broke: {error}")
        failed = [failures(judgement) for judgement in judgements]
        if not all(failed):
            return Gate(gate="noop", passed=False, evidence="all tests pass when nothing is done")
        total = len(judgements[0].tests)
        return Gate(gate="noop", passed=True, evidence=f"failed {', '.join(map(str, failed))} of {total} tests")

    def _untouched(self) -> Judgement:
        if not self._attempts.is_live:
            return self._attempts.judge(EndState(self._pristine.state, ""))
        with ExitStack() as stack:
            return self._attempts.judge(self._attempts.make(stack, ()))

    def _oracle(self, stack: ExitStack) -> tuple[Gate, EndState | None]:
        """The reference solution must pass every test, the same ones each time; what it left last stays."""
        seen: list[tuple[str, ...]] = []
        for number in range(self._config.repeats):
            last = number == self._config.repeats - 1
            own = stack if last else ExitStack()
            try:
                end = self._attempts.make(own, self._instance.solution, after=self._look if last else None)
                if end.fault:
                    return Gate(gate="oracle", passed=False, evidence=end.fault), None
                judgement = self._attempts.judge(end)
            except VerifierBroken as error:
                return Gate(gate="oracle", passed=False, evidence=f"the verifier broke: {error}"), None
            finally:
                if not last:
                    own.close()
            if failures(judgement) or not judgement.tests:
                return Gate(gate="oracle", passed=False, evidence=said(judgement)), None
            seen.append(tests_of(judgement))
        if len(set(seen)) > 1:
            return Gate(gate="oracle", passed=False, evidence=f"other tests in each run: {seen}"), None
        self._tests = seen[0]
        return Gate(gate="oracle", passed=True, evidence=f"{len(seen[0])} tests passed, {len(seen)} times"), end

    def _look(self, sandbox: Sandbox) -> None:
        self._outputs = outputs_of(sandbox, self._instance.instruction, self._pristine.workdir)


def text_gates(instance: TaskInstance) -> Iterator[Gate]:
    """The gates that need no sandbox."""
    yield lint_gate(instance.verifier, services=instance.state_scope == "live")
    yield leak_gate(instance)
    yield network_gate(instance)
