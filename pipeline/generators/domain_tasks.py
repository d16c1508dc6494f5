"""Tasks of one domain: gives each draft of its pack an image, a small layer over the image of the domain.

What is in a task is the pack's business (domains/); whether it is admitted is pipeline/instances.py's.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator

from pydantic import Field

from pipeline.checkout import Tree
from pipeline.contexts import context_ids
from pipeline.generators.drafts import Context, Draft, Pack, pack_of, pack_sha256
from pipeline.generators.protocol import Candidate, GeneratorInput, Start, refusal
from pipeline.types import Domain, Record, TaskInstance, Verifier, VerifierFile
from sandbox.errors import SandboxUnavailable
from sandbox.types import BuildLimits, ImageBuild, ImageSpec

BUILD_LIMITS = BuildLimits(timeout_s=300)
MACHINE = frozenset({"infrastructure", "disk"})
"""Failure classes of a build that say nothing about the task."""
_FILES = "files"

Build = Callable[[ImageSpec, BuildLimits], ImageBuild]
"""Builds an image. Raises SandboxUnavailable."""


class DomainsConfig(Record):
    """How many tasks are made of each family."""

    seeds: int = Field(default=4, gt=0)
    """Tasks per family."""


class Domains:
    """The generator of the domain packs."""

    name = "domains"

    def __init__(self, build: Build, config: DomainsConfig | None = None) -> None:
        self._build = build
        self._config = config or DomainsConfig()

    def instances(self, given: GeneratorInput, start: Start) -> Iterator[Candidate]:
        """See Generator: family by family, seed by seed. Raises SandboxUnavailable, ValueError for no domain."""
        domain = given.repository.domain
        if domain is None:
            raise ValueError(f"{given.repository.full_name} is no domain")
        tree = Tree(given.tree)
        for draft in drafts(pack_of(domain), Context(tree), self._config.seeds):
            yield self._candidate(domain, draft, tree, given)

    def _candidate(self, domain: Domain, draft: Draft, tree: Tree, given: GeneratorInput) -> Candidate:
        place, excerpt = f"{domain}/{draft.family}", draft.instruction[:300]
        build = self._build(image_spec(domain, draft, given.image_digest), BUILD_LIMITS)
        if build.failure_class in MACHINE:
            raise SandboxUnavailable(f"the image of {place} was not built: {build.reason}")
        if build.digest is None:
            reason = f"{build.reason}: {build.log_tail[-300:].strip()}"
            return refusal(place, draft.seed, excerpt, build.failure_class or "build_failed", reason)
        instance = TaskInstance(
            repository_id=given.repository.repository_id,
            image_digest=build.digest,
            instruction=draft.instruction,
            solution=draft.solution,
            verifier=Verifier(
                files=(VerifierFile(path="test_state.py", content=draft.verifier),),
                timeout_s=draft.verifier_timeout_s,
            ),
            generator=self.name,
            domain=domain,
            language=draft.language,
            family=draft.family,
            seed=draft.seed,
            difficulty=draft.difficulty,
            state_scope=draft.state_scope,
            limits=draft.limits,
            context_ids=context_ids(tree, domain, draft.contexts),
            provenance={
                "document": place,
                "material": given.repository.commit,
                "pack_sha256": pack_sha256(domain),
                "domain_image": given.image_digest,
                "contexts": ", ".join(draft.contexts),
            },
        )
        found = {"document": place, "line": draft.seed, "excerpt": excerpt}
        return Candidate.model_validate({**found, "instance": instance, "right": draft.right, "weak": draft.weak})


def drafts(pack: Pack, context: Context, seeds: int) -> Iterator[Draft]:
    """All tasks of a pack."""
    for name, make in pack.families.items():
        for seed in range(seeds):
            draft = make(seed, context)
            if (draft.family, draft.seed) != (name, seed):
                raise ValueError(f"{pack.domain}/{name}: made {draft.family} with seed {draft.seed}, not {seed}")
            yield draft


def image_spec(domain: Domain, draft: Draft, domain_image: str) -> ImageSpec:
    """The layer of one task over the image of its domain."""
    modes = [f"chmod {file.mode:o} {shlex.quote(file.path)}" for file in draft.files]
    script = "\n".join(["set -euo pipefail", *modes, *draft.setup])
    lines = [f"FROM {domain_image}", f"WORKDIR {draft.workdir}"]
    if draft.files:
        lines.append(f"COPY {_FILES}/ /")
    if draft.files or draft.setup:
        lines.append(f"RUN {json.dumps(['bash', '-c', script])}")
    return ImageSpec(
        name=f"{domain}-{draft.family}".replace("_", "-"),
        dockerfile="\n".join(lines) + "\n",
        context_files={f"{_FILES}{file.path}": file.text for file in draft.files},
        workdir=draft.workdir,
    )
