"""The attempts at one repository's image: its own Dockerfiles, the template, then repairs, until an image is usable.

An image is usable when it was built and its smoke check passed; the others are kept as rows that say why. Which
Dockerfiles there are is in dockerfiles.py, what changes them in repairs.py and model_repair.py, the check in smoke.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from pipeline.checkout import Tree
from pipeline.dockerfiles import Candidate, candidates
from pipeline.recipes import Toolchain
from pipeline.repairs import repaired
from pipeline.smoke.check import check_image
from pipeline.types import ImageCheck, Record, Repository
from sandbox.errors import ImageUnusable
from sandbox.protocol import Backend
from sandbox.types import BuildLimits, ImageBuild, ImageSpec, Limits

logger = logging.getLogger(__name__)

LIMITS = Limits(memory_mb=4096, cpus=2.0, pids=1024)
"""Of the sandbox in which an image is tried: compilers and test suites run in it."""
STOPPING = frozenset({"disk"})
"""Failures that the next attempt would meet as well."""


class CurationConfig(Record):
    """How an image of a repository is looked for."""

    max_attempts: int = Field(default=7, gt=0)
    """Builds per repository, its own Dockerfiles and repairs included."""
    smoke_timeout_s: int = Field(default=30, gt=0)
    """For each command that shows whether an image works, seconds."""
    tests_timeout_s: int = Field(default=120, ge=0)
    """For the project's own tests in its image, seconds; 0 leaves them out."""


@dataclass(frozen=True)
class Attempt:
    """What became of one candidate."""

    candidate: Candidate
    build: ImageBuild
    check: ImageCheck | None = None
    """None when it was not built."""

    @property
    def usable(self) -> bool:
        return self.check is not None and self.check.smoke_ok


@dataclass(frozen=True)
class Workbench:
    """What attempts are made with."""

    build: Callable[[ImageSpec, BuildLimits], ImageBuild]
    """Builds one candidate. Raises SandboxUnavailable."""
    toolchain: Toolchain
    limits: BuildLimits
    check: Callable[[Repository, Tree, str], ImageCheck]
    """Tells whether the image with this id can be used. Raises SandboxUnavailable."""
    config: CurationConfig
    push: Callable[[str], str] | None = None
    """Puts the image with this id into a registry and gives its reference there."""
    rewrite: Callable[[Candidate, ImageBuild, Tree], Candidate | None] | None = None
    """A model's answer to a failed attempt, asked for when no rule knows one."""


def attempts(repository: Repository, archive: Path, bench: Workbench) -> Iterator[Attempt]:
    """Try candidates until one is usable, none is left, or there were enough of them.

    `archive` is the stored tree. Raises OSError or tarfile.TarError when it is none, SandboxUnavailable.
    """
    tree = Tree(archive)
    waiting = deque(candidates(repository, archive, bench.toolchain))
    tried: set[tuple[str, ...]] = set()
    while waiting and len(tried) < bench.config.max_attempts:
        candidate = waiting.popleft()
        if (content := _content(candidate)) in tried:
            continue
        tried.add(content)
        attempt = _try(repository, tree, candidate, bench)
        yield attempt
        if attempt.usable or attempt.build.failure_class in STOPPING:
            return
        evidence = _evidence(attempt)
        better = repaired(candidate, evidence, tree, bench.toolchain)
        if better is None and not waiting and bench.rewrite is not None and candidate.strategy != "model":
            better = bench.rewrite(candidate, evidence, tree)
        if better is not None:
            waiting.appendleft(better)


def _try(repository: Repository, tree: Tree, candidate: Candidate, bench: Workbench) -> Attempt:
    build = bench.build(candidate.spec, bench.limits)
    if build.digest is None:
        return Attempt(candidate, build)
    return Attempt(candidate, build, bench.check(repository, tree, build.digest))


def sandbox_check(backend: Backend, config: CurationConfig) -> Callable[[Repository, Tree, str], ImageCheck]:
    """The check that runs an image in a sandbox of `backend`, as an agent would have it."""

    def check(repository: Repository, tree: Tree, image_id: str) -> ImageCheck:
        try:
            sandbox = backend.start(image_id, LIMITS)
        except ImageUnusable as error:
            return ImageCheck(smoke_ok=False, smoke_command="bash", smoke_log=str(error))
        try:
            return check_image(
                repository,
                tree,
                sandbox,
                smoke_timeout_s=config.smoke_timeout_s,
                tests_timeout_s=config.tests_timeout_s,
            )
        finally:
            sandbox.close()

    return check


def _evidence(attempt: Attempt) -> ImageBuild:
    """What repairs look at: of an image that does not work, what its own program said."""
    if attempt.check is None:
        return attempt.build
    return attempt.build.model_copy(update={"log_tail": attempt.check.smoke_log})


def _content(candidate: Candidate) -> tuple[str, ...]:
    files = (f"{path}\n{text}" for path, text in sorted(candidate.spec.context_files.items()))
    return (candidate.spec.dockerfile, *files)
