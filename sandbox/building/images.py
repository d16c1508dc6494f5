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
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import docker
from docker.errors import ImageNotFound

from sandbox.building.base_images import SUBSTITUTED, BaseImages, RegistryUnreachable
from sandbox.building.build_failures import classify
from sandbox.building.builds import DOCKERFILE, run_build, tar_of
from sandbox.building.dockerfile_text import external_images, replace_images, with_arguments, with_original_lines
from sandbox.errors import SandboxUnavailable
from sandbox.streams import Deadline, engine_call
from sandbox.types import BuildLimits, FailureClass, ImageBuild, ImageSpec

logger = logging.getLogger(__name__)

LOG_CHARACTERS = 4000
CHUNK = 1 << 20


class HostFailure(Protocol):
    """A host that a build asked for and did not get."""

    @property
    def host(self) -> str: ...

    @property
    def outcome(self) -> str:
        """`refused` by the allow-list, `unresolved`, `unreachable`, or `status` for an answer that is an error."""

    @property
    def reached_today(self) -> bool:
        """Whether any build of that day did get it."""


class Egress(Protocol):
    """The way out of the steps of a build."""

    def variables(self, who: str) -> dict[str, str]:
        """What the steps of `who` need to know about it."""

    def failures(self, who: str) -> Sequence[HostFailure]:
        """Hosts that `who` did not get."""


class Room(Protocol):
    """Where builds wait until the machine has room for them."""

    def slot(self, limits: BuildLimits) -> AbstractContextManager[None]:
        """Raises SandboxUnavailable when there will be none."""


class ImageBuilder:
    """ImageSpec -> ImageBuild with the engine's builders. Safe for several threads."""

    def __init__(
        self,
        client: docker.DockerClient,
        bases: BaseImages,
        egress: Egress | None = None,
        room: Room | None = None,
    ) -> None:
        self._client = client
        self._bases = bases
        self._egress = egress
        self._room = room
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}

    def build(self, spec: ImageSpec, limits: BuildLimits) -> ImageBuild:
        """Build `spec`, or find it built. `reason` says when the base was substituted.

        Raises SandboxUnavailable when the engine is gone; every other failure is in the result.
        """
        clock = Deadline(limits.timeout_s)
        try:
            context = _Context(spec)
        except OSError as error:
            return _failed("context_invalid", f"the build context cannot be read: {error}", clock)
        try:
            bases = {name: self._base(name) for name in external_images(spec.dockerfile) if "$" not in name}
        except _BaseMissing as error:
            return _failed("base_missing", str(error), clock)
        text = replace_images(spec.dockerfile, lambda name: bases[name].reference if name in bases else name)
        if spec.workdir is not None:
            text += f"WORKDIR {spec.workdir}\n"
        substituted = any(base.substituted for base in bases.values())
        digests = [base.digest for base in bases.values()]
        tag = f"touchstone/image:{_hash([text, context.sha256, digests, sorted(self._bases.config.build_args())])}"
        with self._only_one(tag):
            found = self._present(tag)
            if found is None:
                return self._run(spec, text, context, tag, substituted, limits, clock)
        return _built(*found, substituted, clock, cached=True)

    def _run(
        self,
        spec: ImageSpec,
        text: str,
        context: _Context,
        tag: str,
        substituted: bool,
        limits: BuildLimits,
        clock: Deadline,
    ) -> ImageBuild:
        arguments = self._bases.config.build_args()
        try:
            chunks = context.with_dockerfile(with_arguments(text, arguments))
        except (OSError, tarfile.TarError) as error:
            return _failed("context_invalid", f"the build context cannot be read: {error}", clock)
        logger.info("building %s as %s", spec.name, tag)
        who = f"build-{secrets.token_hex(8)}"
        variables = self._egress.variables(who) if self._egress else {}
        with self._room.slot(limits) if self._room else nullcontext():
            outcome = run_build(self._client, chunks, tag=tag, build_args=arguments, limits=limits, variables=variables)
        if outcome.image_id is None:
            reason = with_original_lines(outcome.error, text, arguments)
            return _failed(classify(spec.dockerfile, outcome), reason, clock, outcome.log)
        found = self._present(tag)
        if found is None:
            raise SandboxUnavailable(f"{tag} vanished right after it was built")
        return _built(*found, substituted, clock, cached=False, log=outcome.log)

    def _base(self, name: str) -> _Base:
        """The image behind a FROM. Raises _BaseMissing or SandboxUnavailable."""
        config = self._bases.config
        reference = self._bases.base().tag if name == config.base_image else name
        try:
            digest = self._bases.pull(reference)
        except RegistryUnreachable as error:
            raise _BaseMissing(
                f"the base image {name} is not in the engine and no registry answers: {error}"
            ) from error
        if digest is None:
            raise _BaseMissing(f"there is no base image {name}")
        with engine_call(f"looking at {name}"):
            labels = self._client.api.inspect_image(digest)["Config"].get("Labels") or {}
        return _Base(reference=reference, digest=digest, substituted=labels.get(SUBSTITUTED) == "1")

    def _present(self, tag: str) -> tuple[str, int] | None:
        """Image id and size of a tag, None when there is none."""
        with engine_call(f"looking for {tag}"):
            try:
                found = self._client.api.inspect_image(tag)
            except ImageNotFound:
                return None
        return str(found["Id"]), int(found["Size"])

    @contextmanager
    def _only_one(self, tag: str) -> Iterator[None]:
        """Two threads with the same content build it once."""
        with self._guard:
            lock = self._locks.setdefault(tag, threading.Lock())
        with lock:
            yield


@dataclass(frozen=True)
class _Base:
    reference: str
    digest: str
    substituted: bool


class _BaseMissing(Exception):
    """An image that a Dockerfile starts from cannot be had; the text says which and why."""


class _Context:
    """The build context of a spec. Raises OSError when its archive cannot be read."""

    def __init__(self, spec: ImageSpec) -> None:
        self._archive = spec.context
        self._files = spec.context_files
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


def _built(digest: str, size: int, substituted: bool, clock: Deadline, *, cached: bool, log: str = "") -> ImageBuild:
    return ImageBuild(
        status="built",
        digest=digest,
        cached=cached,
        size_bytes=size,
        seconds=clock.elapsed,
        base_substituted=substituted,
        reason="its base was made from Debian packages in place of the configured image" if substituted else "",
        log_tail=log[-LOG_CHARACTERS:],
    )


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
