"""Makes the tasks of one repository: runs the generators, and admits what doing nothing fails and the solution passes.

Cheap gates come first; only candidates that differ from each other cost sandboxes. How tasks are made is in
generators/, the comparison across repositories is `select_different` below.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from pydantic import Field

from pipeline.admission.attempts import Attempts
from pipeline.admission.leaks import leak_gate
from pipeline.admission.lint import lint_gate
from pipeline.admission.records import Admission, AdmissionConfig, Gate
from pipeline.admission.variants import right_gate, weak_gate
from pipeline.curation.dedup import THRESHOLD, NearCopy, Signature, TaskText, closest_of, near_copies, signature
from pipeline.generators.documented import Documented, DocumentedConfig
from pipeline.generators.protocol import Candidate, Generator, GeneratorInput
from pipeline.types import Record, Repository, TaskInstance, Variant
from sandbox.errors import VerifierBroken
from sandbox.protocol import Backend, Sandbox
from sandbox.types import FrozenState, Judgement, Limits

log = logging.getLogger(__name__)

MAX_BATCH_S = 600


class InstancesConfig(AdmissionConfig):
    """How tasks are made and admitted."""

    documented: DocumentedConfig = DocumentedConfig()
    per_repository: int = Field(default=8, gt=0)
    """Most admitted instances of one repository."""


class InstanceRow(Record):
    """One row of the table: an instance, admitted or not, or a documented place that gave none."""

    repository_id: str
    document: str
    line: int
    excerpt: str
    instance: TaskInstance | None = None
    """With the recorded passing tests when admitted."""
    admitted: bool = False
    gates: tuple[Gate, ...] = ()
    failure_class: str | None = None
    reason: str = ""
    near_copy_of: str | None = None
    similarity: float | None = None


def make_instances(
    repository: Repository, tree: Path, image_digest: str, backend: Backend, config: InstancesConfig | None = None
) -> list[InstanceRow]:
    """All rows of one repository, in the order of the generator.

    Raises SandboxUnavailable and ImageMissing when the machinery fails, ItemRejected when the image or the tree
    cannot be worked with at all.
    """
    config = config or InstancesConfig()
    given = GeneratorInput(repository=repository, tree=tree, image_digest=image_digest)
    generators: Sequence[Generator] = (Documented(config.documented),)
    candidates = [c for g in generators for c in g.instances(given, lambda: backend.start(image_digest, Limits()))]
    admitting = _Admitting(backend, config, image_digest)
    try:
        rows = admitting.rows(repository.repository_id, candidates)
    finally:
        admitting.close()
    log.info("%s: %d admitted of %d candidates", repository.full_name, sum(r.admitted for r in rows), len(rows))
    return rows


def admit(
    instance: TaskInstance,
    backend: Backend,
    config: InstancesConfig | None = None,
    *,
    right: Sequence[Variant] = (),
    weak: Sequence[Variant] = (),
) -> Admission:
    """Put one instance through all gates, with the right and the weak solutions that its generator knows.

    Raises SandboxUnavailable and ImageMissing: then nothing is known.
    """
    admitting = _Admitting(backend, config or InstancesConfig(), instance.image_digest)
    try:
        return admitting.admit(instance, right, weak)
    finally:
        admitting.close()


def select_different(new: Iterable[TaskInstance], admitted: Iterable[TaskInstance]) -> dict[str, NearCopy]:
    """Near copies among the new instances of any number of repositories, by instance id; pure.

    Instances in `admitted` stay whatever comes; new ones are compared with them and with each other in the order
    of their ids, so the order of arrival changes nothing.
    """
    return near_copies(map(task_text, new), map(task_text, admitted))


def task_text(instance: TaskInstance) -> TaskText:
    """What near-copy removal compares."""
    code = "\n".join(f.content for f in instance.verifier.files if f.path.endswith(".py"))
    return TaskText(instance_id=instance.instance_id, instruction=instance.instruction, verifier=code)


class _Admitting:
    """Runs the gates for the instances of one image; keeps the pristine state between them."""

    def __init__(self, backend: Backend, config: InstancesConfig, image_digest: str) -> None:
        self._backend = backend
        self._config = config
        self._image_digest = image_digest
        self._pristine: FrozenState | None = None
        self._undone: dict[str, list[Judgement]] = {}
        """Judgements of the pristine state, by instance id."""

    def rows(self, repository_id: str, candidates: Sequence[Candidate]) -> list[InstanceRow]:
        kept: dict[str, Signature] = {}
        sound = [c.instance for c in candidates if c.instance and _lint(c.instance).passed]
        self._judge_undone(sound)
        rows = []
        for candidate in candidates:
            row = InstanceRow(
                repository_id=repository_id,
                document=candidate.document,
                line=candidate.line,
                excerpt=candidate.excerpt,
                instance=candidate.instance,
                failure_class=candidate.failure_class,
                reason=candidate.reason,
            )
            rows.append(self._judged(row, candidate, candidate.instance, kept) if candidate.instance else row)
        return rows

    def _judged(
        self, row: InstanceRow, candidate: Candidate, instance: TaskInstance, kept: dict[str, Signature]
    ) -> InstanceRow:
        if len(kept) >= self._config.per_repository:
            gate = Gate(gate="quota", passed=False, evidence=f"{len(kept)} instances of this repository are admitted")
            return _rejected(row, (gate,))
        made = signature(task_text(instance))
        closest = closest_of(made, kept)
        if closest is not None and closest[1] >= THRESHOLD:
            gate = Gate(gate="near_copy", passed=False, evidence=f"{closest[1]:.2f} like {closest[0]}")
            return _rejected(row, (gate,)).model_copy(update={"near_copy_of": closest[0], "similarity": closest[1]})
        admission = self.admit(instance, candidate.right, candidate.weak)
        if not admission.admitted:
            return _rejected(row, admission.gates)
        proven = instance.verifier.model_copy(update={"passing_tests": admission.passing_tests})
        admitted = instance.model_copy(update={"verifier": proven})
        kept[admitted.instance_id] = made
        return row.model_copy(update={"instance": admitted, "admitted": True, "gates": admission.gates})

    def admit(self, instance: TaskInstance, right: Sequence[Variant], weak: Sequence[Variant]) -> Admission:
        gates: list[Gate] = []
        for gate in (_lint(instance), leak_gate(instance)):
            gates.append(gate)
            if not gate.passed:
                return Admission(admitted=False, gates=tuple(gates))
        gates.append(self._noop(instance))
        if not gates[-1].passed:
            return Admission(admitted=False, gates=tuple(gates))
        gate, tests = self._oracle(instance)
        gates.append(gate)
        attempts = Attempts(instance, self._backend, step_timeout_s=self._config.step_timeout_s)
        if gates[-1].passed:
            gates.append(weak_gate(attempts, weak))
        if gates[-1].passed:
            gates.append(right_gate(attempts, right))
        passed = gates[-1].passed
        return Admission(admitted=passed, gates=tuple(gates), passing_tests=tests if passed else ())

    def _judge_undone(self, instances: Sequence[TaskInstance]) -> None:
        """Judge the pristine state by the verifiers of all these instances at once, as often as noop must fail.

        Each time it is a fresh copy of the state. Verifiers that break each other are judged one by one later.
        """
        files: dict[str, str] = {}
        for number, instance in enumerate(instances):
            files |= {f"test_{number}_{f.path}": f.content for f in instance.verifier.files}
        if not files:
            return
        limit = min(MAX_BATCH_S, sum(i.verifier.timeout_s for i in instances))
        try:
            together = [
                self._backend.judge(self._untouched(), files, limits=Limits(), timeout_s=limit)
                for _ in range(self._config.repeats)
            ]
        except VerifierBroken as error:
            log.info("the verifiers of %s are judged one by one: %s", self._image_digest, error)
            return
        for number, instance in enumerate(instances):
            beginning = f"test_{number}_"
            parts = [[t for t in j.tests if t.test_id.startswith(beginning)] for j in together]
            if all(parts):
                self._undone[instance.instance_id] = [
                    j.model_copy(update={"tests": tuple(p)}) for j, p in zip(together, parts, strict=True)
                ]

    def _untouched(self) -> FrozenState:
        if self._pristine is None:
            self._pristine = self._run((), "noop")[0]
        return self._pristine

    def _noop(self, instance: TaskInstance) -> Gate:
        """Doing nothing must fail."""
        try:
            judgements = self._undone.get(instance.instance_id) or [
                self._unsolved(instance) for _ in range(self._config.repeats)
            ]
        except VerifierBroken as error:
            return Gate(gate="noop", passed=False, evidence=f"the verifier broke: {error}")
        failed = [sum(t.outcome != "passed" for t in j.tests) for j in judgements]
        if not all(failed):
            return Gate(gate="noop", passed=False, evidence="all tests pass when nothing is done")
        total = len(judgements[0].tests)
        return Gate(gate="noop", passed=True, evidence=f"failed {', '.join(map(str, failed))} of {total} tests")

    def _oracle(self, instance: TaskInstance) -> tuple[Gate, tuple[str, ...]]:
        """The reference solution must pass every test, the same ones each time."""
        seen: list[tuple[str, ...]] = []
        for _ in range(self._config.repeats):
            try:
                judgement, fault = self._solved(instance)
            except VerifierBroken as error:
                return Gate(gate="oracle", passed=False, evidence=f"the verifier broke: {error}"), ()
            if judgement is None:
                return Gate(gate="oracle", passed=False, evidence=fault), ()
            bad = [t for t in judgement.tests if t.outcome != "passed"]
            if bad or not judgement.tests:
                said = "; ".join(f"{t.test_id} {t.outcome}: {t.message[:160]}" for t in bad) or "no test ran"
                return Gate(gate="oracle", passed=False, evidence=said), ()
            seen.append(tuple(sorted(t.test_id for t in judgement.tests)))
        if len(set(seen)) > 1:
            return Gate(gate="oracle", passed=False, evidence=f"other tests in each run: {seen}"), ()
        return Gate(gate="oracle", passed=True, evidence=f"{len(seen[0])} tests passed, {len(seen)} times"), seen[0]

    def _unsolved(self, instance: TaskInstance) -> Judgement:
        """What the verifier says when nothing was done. Raises VerifierBroken."""
        if instance.state_scope != "live":
            return self._judge(self._untouched(), instance)
        with closing(self._backend.start(self._image_digest, Limits())) as sandbox:
            return self._judge_live(sandbox, instance)

    def _solved(self, instance: TaskInstance) -> tuple[Judgement | None, str]:
        """What the verifier says after the reference solution; None, and what went wrong, when a command failed.

        Raises VerifierBroken.
        """
        if instance.state_scope == "live":
            with closing(self._backend.start(self._image_digest, Limits())) as sandbox:
                fault = self._carry_out(instance.solution, sandbox)
                return (None, fault) if fault else (self._judge_live(sandbox, instance), "")
        state, fault = self._run(instance.solution, "oracle")
        try:
            return (None, fault) if fault else (self._judge(state, instance), "")
        finally:
            self._backend.discard(state.reference)

    def _run(self, commands: Sequence[str], purpose: str) -> tuple[FrozenState, str]:
        """The frozen state after the commands, and what went wrong with them, if anything."""
        with closing(self._backend.start(self._image_digest, Limits())) as sandbox:
            fault = self._carry_out(commands, sandbox)
            return sandbox.freeze(f"admission-{purpose}-{secrets.token_hex(8)}", keep=False), fault

    def _carry_out(self, commands: Sequence[str], sandbox: Sandbox) -> str:
        """Run commands until one fails; what went wrong with that one."""
        for command in commands:
            result = sandbox.execute(command, timeout_s=self._config.step_timeout_s)
            if result.exit_code != 0:
                return f"exit code {result.exit_code} of {command[:80]!r}: {result.output[-160:]}"
        return ""

    def _judge(self, state: FrozenState, instance: TaskInstance) -> Judgement:
        verifier = instance.verifier
        return self._backend.judge(state, verifier.texts, limits=instance.limits, timeout_s=verifier.timeout_s)

    def _judge_live(self, sandbox: Sandbox, instance: TaskInstance) -> Judgement:
        verifier = instance.verifier
        return self._backend.judge_live(sandbox, verifier.texts, limits=instance.limits, timeout_s=verifier.timeout_s)

    def close(self) -> None:
        if self._pristine is not None:
            self._backend.discard(self._pristine.reference)
            self._pristine = None


def _lint(instance: TaskInstance) -> Gate:
    return lint_gate(instance.verifier, services=instance.state_scope == "live")


def _rejected(row: InstanceRow, gates: tuple[Gate, ...]) -> InstanceRow:
    failed = next(g for g in gates if not g.passed)
    return row.model_copy(update={"gates": gates, "failure_class": failed.gate, "reason": failed.evidence})
