"""Builds images from Dockerfiles, each content once. A build that fails is a result with its class, not an exception.

Which Dockerfile a repository gets is not here; base images are in base_images.py, one run of the builder in builds.py.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import docker
from docker.errors import ImageNotFound

from sandbox.building.base_images import BaseImage, BaseImages, RegistryUnreachable
from sandbox.building.build_failures import classify
from sandbox.building.buildkit import client_command
from sandbox.building.builds import DOCKERFILE, run_build, tar_of
from sandbox.building.dialect import Platform, downloads, portable, with_own_caches
from sandbox.building.dockerfile_text import external_images, replace_images, with_arguments, with_original_lines
from sandbox.building.outcome import Builder
from sandbox.building.room import OutOfSpace, Room
from sandbox.building.stand_ins import is_windows
from sandbox.egress.egress import Egress
from sandbox.errors import SandboxUnavailable
from sandbox.streams import Deadline, engine_call
from sandbox.types import BuildLimits, FailureClass, ImageBuild, ImageSpec

logger = logging.getLogger(__name__)

LOG_CHARACTERS = 4000
CHUNK = 1 << 20


class ImageBuilder:
    """ImageSpec -> ImageBuild with the engine's builders. Safe for several threads."""

    def __init__(
        self,
        client: docker.DockerClient,
        bases: BaseImages,
        egress: Egress | None = None,
        room: Room | None = None,
    ) -> None:
        """Without `egress` steps have the engine's own network, without `room` every build starts at once."""
        self._client = client
        self._bases = bases
        self._egress = egress
        self._room = room
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._platform: Platform | None = None

    def build(self, spec: ImageSpec, limits: BuildLimits) -> ImageBuild:
        """Build `spec`, or find it built. `reason` says when the base was substituted.

        Raises SandboxUnavailable when the engine is gone; every other failure is in the result.
        """
        clock = Deadline(limits.timeout_s)
        try:
            plan = self._plan(spec)
        except OSError as error:
            return _failed("context_invalid", f"the build context cannot be read: {error}", clock)
        except _NoBase as error:
            return _failed(error.failure_class, str(error), clock)
        if refused := self._refused(plan):
            reason = f"ADD from {', '.join(refused)}, which builds may not reach"
            return _failed("host_not_allowed", reason, clock).model_copy(update={"hosts": refused})
        if plan.builder == "buildkit" and client_command() is None:
            return _failed("needs_buildkit", "no docker client here knows BuildKit; install docker-buildx", clock)
        with self._only_one(plan.tag):
            found = self._present(plan.tag)
            if found is None:
                return self._run(spec, plan, limits, clock)
        return self._built(found, plan, clock, cached=True)

    def _refused(self, plan: _Plan) -> tuple[str, ...]:
        """Hosts that the engine would fetch an ADD from, and builds may not reach."""
        if self._egress is None:
            return ()
        wanted = downloads(plan.text)
        return tuple(sorted({host for host, port in wanted if not self._egress.allows(host, port)}))

    def _plan(self, spec: ImageSpec) -> _Plan:
        """What is to be done. Raises OSError for the context, _NoBase for a base, and SandboxUnavailable."""
        platform = self._own_platform()
        made = portable(spec.dockerfile, platform)
        if made.foreign is not None:
            raise _NoBase("base_unsupported", f"it asks for {made.foreign}, and this engine builds for {platform}")
        names = external_images(made.text, platform.arguments)
        bases = {name: self._base(name) for name in names if "$" not in name}
        text = replace_images(made.text, lambda name: bases[name].tag if name in bases else name, platform.arguments)
        if spec.workdir is not None:
            text += f"WORKDIR {spec.workdir}\n"
        context = _Context(spec, made.files)
        configured = self._bases.config.build_args()
        content = [text, context.sha256, [base.digest for base in bases.values()], sorted(configured)]
        return _Plan(
            text=text,
            context=context,
            builder="buildkit" if made.buildkit else "classic",
            tag=f"touchstone/image:{_hash(content)}",
            declared=configured,
            platform_arguments=made.arguments,
            substituted=any(base.substituted for base in bases.values()),
        )

    def _run(self, spec: ImageSpec, plan: _Plan, limits: BuildLimits, clock: Deadline) -> ImageBuild:
        text = with_arguments(plan.text, plan.declared)
        if plan.builder == "buildkit":
            text = with_own_caches(text, plan.tag.rpartition(":")[2])
        try:
            chunks = plan.context.with_dockerfile(text)
        except (OSError, tarfile.TarError) as error:
            return _failed("context_invalid", f"the build context cannot be read: {error}", clock)
        who = f"build-{secrets.token_hex(8)}"
        logger.info("building %s as %s, known to the network as %s", spec.name, plan.tag, who)
        try:
            with self._room.slot(limits) if self._room else nullcontext():
                outcome = run_build(
                    self._client,
                    chunks,
                    tag=plan.tag,
                    build_args=plan.declared | plan.platform_arguments,
                    limits=limits,
                    variables=self._egress.variables(who) if self._egress else {},
                    builder=plan.builder,
                )
        except OutOfSpace as error:
            return _failed("disk", str(error), clock)
        failures = self._egress.failures(who) if self._egress else ()
        # Waiting for a place is no part of the build.
        told = {"hosts": tuple(sorted({failure.host for failure in failures})), "seconds": outcome.seconds}
        if outcome.image_id is None:
            failure_class = classify(spec.dockerfile, outcome, failures)
            reason = with_original_lines(outcome.error, plan.text, plan.declared)
            told |= {"builder": plan.builder, "base_substituted": plan.substituted}
            return _failed(failure_class, reason, clock, outcome.log).model_copy(update=told)
        found = self._present(plan.tag)
        if found is None:
            raise SandboxUnavailable(f"{plan.tag} vanished right after it was built")
        built = self._built(found, plan, clock, cached=False)
        return built.model_copy(update=told | {"log_tail": outcome.log[-LOG_CHARACTERS:]})

    def _built(self, found: _Found, plan: _Plan, clock: Deadline, *, cached: bool) -> ImageBuild:
        if self._room:
            self._room.touch(found.digest)
        return ImageBuild(
            status="built",
            digest=found.digest,
            cached=cached,
            platform=found.platform,
            builder=plan.builder,
            size_bytes=found.size,
            seconds=clock.elapsed,
            base_substituted=plan.substituted,
            reason="an image of ours stands in for its base" if plan.substituted else "",
        )

    def _base(self, name: str) -> BaseImage:
        """The image behind a FROM. Raises _NoBase or SandboxUnavailable."""
        if is_windows(name):
            raise _NoBase("base_unsupported", f"the base image {name} is for Windows")
        try:
            found = self._bases.resolve(name)
        except RegistryUnreachable as error:
            # A registry that only the repository's owner can reach is the repository's; everybody's is the network's.
            public = docker.auth.resolve_repository_name(name)[0] == docker.auth.INDEX_NAME
            raise _NoBase(
                "infrastructure" if public else "base_missing",
                f"the base image {name} is not in the engine and no registry answers: {error}",
            ) from error
        if found is None:
            raise _NoBase("base_missing", f"there is no base image {name}")
        return found

    def _own_platform(self) -> Platform:
        if self._platform is None:
            with engine_call("asking the engine for its platform"):
                said = self._client.api.version()
            self._platform = Platform(str(said["Os"]), str(said["Arch"]))
        return self._platform

    def _present(self, tag: str) -> _Found | None:
        """What the engine has under a tag, None when there is nothing."""
        with engine_call(f"looking for {tag}"):
            try:
                found = self._client.api.inspect_image(tag)
            except ImageNotFound:
                return None
        platform = "/".join(filter(None, (found.get("Os"), found.get("Architecture"), found.get("Variant"))))
        return _Found(digest=str(found["Id"]), size=int(found["Size"]), platform=platform)

    @contextmanager
    def _only_one(self, tag: str) -> Iterator[None]:
        """Two threads with the same content build it once."""
        with self._guard:
            lock = self._locks.setdefault(tag, threading.Lock())
        with lock:
            yield


@dataclass(frozen=True)
class _Plan:
    """One build, decided."""

    text: str
    """The Dockerfile for the builder, without the declarations of `declared`."""
    context: _Context
    builder: Builder
    tag: str
    declared: dict[str, str]
    """Build arguments that every stage gets a declaration of."""
    platform_arguments: dict[str, str]
    """Those that the Dockerfile itself declares; BuildKit fills them too, but not all that are declared twice."""
    substituted: bool


@dataclass(frozen=True)
class _Found:
    """An image in the engine."""

    digest: str
    size: int
    platform: str


class _NoBase(Exception):
    """An image that a Dockerfile starts from cannot be had or used; the text says which and why."""

    def __init__(self, failure_class: FailureClass, reason: str) -> None:
        super().__init__(reason)
        self.failure_class = failure_class


class _Context:
    """The build context of a spec. Raises OSError when its archive cannot be read."""

    def __init__(self, spec: ImageSpec, files: dict[str, str]) -> None:
        """`files` (path -> text) lie over the archive, beside those of the spec."""
        self._archive = spec.context
        self._files = spec.context_files | files
        content = spec.context_sha256
        if self._archive is not None and not content:
            with self._archive.open("rb") as archive:
                content = hashlib.file_digest(archive, "sha256").hexdigest()
        self.sha256 = _hash([content, sorted(self._files.items())])

    def with_dockerfile(self, text: str) -> Iterator[bytes]:
        """Chunks of one archive: the context, the further files over it, the Dockerfile. Raises OSError, TarError."""
        added = {name: content.encode() for name, content in self._files.items()} | {DOCKERFILE: text.encode()}
        end = 0
        if self._archive is not None:
            with tarfile.open(self._archive, mode="r:") as archive:
                # Walking to the end finds damage now, and where further entries can go.
                archive.getmembers()
                end = archive.offset
        return self._chunks(end, tar_of(added))

    def _chunks(self, end: int, added: bytes) -> Iterator[bytes]:
        if self._archive is not None:
            with self._archive.open("rb") as archive:
                while end > 0 and (chunk := archive.read(min(CHUNK, end))):
                    end -= len(chunk)
                    yield chunk
        yield added


def _failed(failure_class: FailureClass, reason: str, clock: Deadline, log: str = "") -> ImageBuild:
    return ImageBuild(
        status="failed",
        seconds=clock.elapsed,
        failure_class=failure_class,
        reason=" ".join(reason.split())[:500],
        log_tail=log[-LOG_CHARACTERS:],
    )


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
