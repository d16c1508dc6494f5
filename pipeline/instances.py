"""Makes the tasks of one repository: runs its generators, and admits what passes every gate.

Cheap gates come first; only candidates that differ from each other cost sandboxes. How tasks are made is in
generators/, what the gates are in admission/, the comparison across repositories is `select_different` below.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import Field

from pipeline.admission.pristine import Pristine
from pipeline.admission.proof import Proof, text_gates
from pipeline.admission.records import Admission, AdmissionConfig, Gate
from pipeline.curation.dedup import (
    THRESHOLD,
    NearCopy,
    Signature,
    TaskText,
    closest_of,
    may_be_alike,
    near_copies,
    signature,
)
from pipeline.generators.choice import generators_for
from pipeline.generators.documented import DocumentedConfig
from pipeline.generators.domain_tasks import Build, DomainsConfig
from pipeline.generators.file_tasks import GENERATOR as FILES
from pipeline.generators.file_tasks import FilesConfig
from pipeline.generators.llm import Llm, LlmConfig
from pipeline.generators.protocol import Candidate, GeneratorInput, refusal
from pipeline.llm.protocol import ChatModel
from pipeline.types import Record, Repository, TaskInstance, Variant
from sandbox.errors import VerifierBroken
from sandbox.protocol import Backend
from sandbox.types import Judgement, Limits

log = logging.getLogger(__name__)

MAX_BATCH_S = 600


class InstancesConfig(AdmissionConfig):
    """How tasks are made and admitted."""

    documented: DocumentedConfig = DocumentedConfig()
    files: FilesConfig = FilesConfig()
    domains: DomainsConfig = DomainsConfig()
    llm: LlmConfig | None = None
    """Tasks that the model of `[model]` writes from each repository; None for none."""
    per_repository: int = Field(default=8, gt=0)
    """Most admitted instances of one repository of the world."""
    per_family: int = Field(default=4, gt=0)
    """Most admitted instances of one family of a domain."""


class InstanceRow(Record):
    """One row of the table: an instance, admitted or not, or a documented place that gave none."""

    repository_id: str
    document: str
    line: int
    excerpt: str
    instance: TaskInstance | None = None
    """With the recorded passing tests when admitted."""
    right: tuple[Variant, ...] = ()
    weak: tuple[Variant, ...] = ()
    admitted: bool = False
    gates: tuple[Gate, ...] = ()
    flake_rate: float | None = None
    failure_class: str | None = None
    reason: str = ""
    near_copy_of: str | None = None
    similarity: float | None = None


def make_instances(
    repository: Repository,
    tree: Path,
    image_digest: str,
    backend: Backend,
    config: InstancesConfig | None = None,
    *,
    build: Build,
    model: ChatModel | None = None,
) -> list[InstanceRow]:
    """All rows of one repository, in the order of the generators. Tasks with images of their own get them by `build`.

    `model` writes tasks where the configuration asks for it. Raises SandboxUnavailable, ImageMissing and
    ModelUnavailable when the machinery fails, ItemRejected when the image or the tree cannot be worked with at all.
    """
    config = config or InstancesConfig()
    given = GeneratorInput(repository=repository, tree=tree, image_digest=image_digest)
    admitting = _Admitting(backend, config)
    written = Llm(model, admitting.admit, config.llm) if model is not None and config.llm is not None else None
    generators = generators_for(
        repository, build, documented=config.documented, files=config.files, domains=config.domains, written=written
    )
    try:
        candidates = [c for g in generators for c in g.instances(given, lambda: backend.start(image_digest, Limits()))]
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
    admitting = _Admitting(backend, config or InstancesConfig())
    try:
        return admitting.admit(instance, right=right, weak=weak)
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
    return TaskText(
        instance_id=instance.instance_id, instruction=instance.instruction, verifier=code, group=_variants_of(instance)
    )


def _variants_of(instance: TaskInstance) -> str:
    """The family whose tasks are declared to be variants of each other; empty for a task that is one of its kind.

    Tasks about files are short and alike in all but what matters; each is of another family or another repository.
    """
    if instance.generator == FILES:
        return FILES
    return f"{instance.domain}/{instance.family}" if instance.domain != "general" else ""


class _Admitting:
    """Decides about the candidates of one repository; knows what it said about an instance before."""

    def __init__(self, backend: Backend, config: InstancesConfig) -> None:
        self._backend = backend
        self._config = config
        self._pristine: Pristine | None = None
        self._undone: dict[str, list[Judgement]] = {}
        """Judgements of the untouched state, by instance id."""
        self._known: dict[tuple[str, tuple[Variant, ...], tuple[Variant, ...]], Admission] = {}
        self._kept: dict[str, tuple[str, Signature]] = {}
        """Group and signature of what is admitted, by instance id."""
        self._counts: Counter[str] = Counter()

    def rows(self, repository_id: str, candidates: Sequence[Candidate]) -> list[InstanceRow]:
        """A row for each candidate."""
        candidates = each_once(candidates)
        sound = [c.instance for c in candidates if c.instance and all(gate.passed for gate in text_gates(c.instance))]
        shared = Counter(instance.image_digest for instance in sound)
        rows = []
        for candidate in candidates:
            row = InstanceRow(
                repository_id=repository_id,
                document=candidate.document,
                line=candidate.line,
                excerpt=candidate.excerpt,
                instance=candidate.instance,
                right=candidate.right,
                weak=candidate.weak,
                failure_class=candidate.failure_class,
                reason=candidate.reason,
            )
            if candidate.instance is not None:
                image = candidate.instance.image
                if shared.pop(image, 1) > 1:
                    self._judge_undone(image, [one for one in sound if one.image == image])
                row = self._judged(row, candidate.instance)
            rows.append(row)
        return rows

    def admit(
        self, instance: TaskInstance, *, right: Sequence[Variant] = (), weak: Sequence[Variant] = ()
    ) -> Admission:
        """What all gates say about one instance; said once. Raises SandboxUnavailable, ImageMissing."""
        key = (instance.instance_id, tuple(right), tuple(weak))
        if key not in self._known:
            undone = self._undone.get(instance.instance_id, [])
            pristine = self._pristine_of(instance.image)
            proof = Proof(instance, self._backend, self._config, pristine, right=right, weak=weak, undone=undone)
            self._known[key] = proof.admission()
        return self._known[key]

    def _judged(self, row: InstanceRow, instance: TaskInstance) -> InstanceRow:
        group = _variants_of(instance)
        quota = group if instance.domain != "general" else ""
        most = self._config.per_family if quota else self._config.per_repository
        if self._counts[quota] >= most:
            of = f"of the family {group}" if quota else "of this repository"
            return _rejected(row, (Gate(gate="quota", passed=False, evidence=f"{most} instances {of} are admitted"),))
        made = signature(task_text(instance))
        others = {key: sign for key, (other, sign) in self._kept.items() if may_be_alike(group, other)}
        closest = closest_of(made, others)
        if closest is not None and closest[1] >= THRESHOLD:
            gate = Gate(gate="near_copy", passed=False, evidence=f"{closest[1]:.2f} like {closest[0]}")
            return _rejected(row, (gate,)).model_copy(update={"near_copy_of": closest[0], "similarity": closest[1]})
        admission = self.admit(instance, right=row.right, weak=row.weak)
        row = row.model_copy(update={"flake_rate": admission.flake_rate})
        if not admission.admitted:
            return _rejected(row, admission.gates)
        proven = instance.verifier.model_copy(update={"passing_tests": admission.passing_tests})
        admitted = instance.model_copy(update={"verifier": proven})
        self._kept[admitted.instance_id] = group, made
        self._counts[quota] += 1
        return row.model_copy(update={"instance": admitted, "admitted": True, "gates": admission.gates})

    def _judge_undone(self, image_digest: str, instances: Sequence[TaskInstance]) -> None:
        """Judge the untouched state by the verifiers of all these instances at once, as often as noop must fail.

        Each time it is a fresh copy of the state. Verifiers that break each other are judged one by one later.
        """
        files: dict[str, str] = {}
        instances = [one for one in instances if one.state_scope == "full"]
        for number, instance in enumerate(instances):
            files |= {f"test_{number}_{f.path}": f.content for f in instance.verifier.files}
        if not files:
            return
        limit = min(MAX_BATCH_S, sum(i.verifier.timeout_s for i in instances))
        state = self._pristine_of(image_digest).state
        try:
            together = [
                self._backend.judge(state, files, limits=Limits(), timeout_s=limit) for _ in range(self._config.repeats)
            ]
        except VerifierBroken as error:
            log.info("the verifiers of %s are judged one by one: %s", image_digest, error)
            return
        for number, instance in enumerate(instances):
            beginning = f"test_{number}_"
            parts = [[t for t in j.tests if t.test_id.startswith(beginning)] for j in together]
            if all(parts):
                self._undone[instance.instance_id] = [
                    j.model_copy(update={"tests": tuple(p)}) for j, p in zip(together, parts, strict=True)
                ]

    def _pristine_of(self, image_digest: str) -> Pristine:
        """Of one image at a time: tasks of one image come together."""
        if self._pristine is None or self._pristine.image_digest != image_digest:
            self.close()
            self._pristine = Pristine(self._backend, image_digest)
        return self._pristine

    def close(self) -> None:
        """Forget the untouched state; safe to call twice."""
        if self._pristine is not None:
            self._pristine.close()
            self._pristine = None


def each_once(candidates: Sequence[Candidate]) -> list[Candidate]:
    """A task that a generator made before in the same item is refused: an id names one row."""
    seen: set[str] = set()
    found = []
    for candidate in candidates:
        instance = candidate.instance
        if instance is not None and instance.instance_id in seen:
            reason = f"it is {instance.instance_id} again"
            candidate = refusal(candidate.document, candidate.line, candidate.excerpt, "same_task", reason)
        elif instance is not None:
            seen.add(instance.instance_id)
        found.append(candidate)
    return found


def _rejected(row: InstanceRow, gates: tuple[Gate, ...]) -> InstanceRow:
    failed = next(g for g in gates if not g.passed)
    return row.model_copy(update={"gates": gates, "failure_class": failed.gate, "reason": failed.evidence})
