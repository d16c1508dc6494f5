"""One run of a builder of the engine: with a deadline, limits, a bounded log, and nothing left behind.

The classic builder is here, BuildKit in buildkit.py. Which Dockerfile is built and what a failure means is in images.py
and base_images.py.
"""

from __future__ import annotations

import io
import itertools
import json
import logging
import re
import tarfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import docker
from docker.errors import APIError, NotFound
from requests.exceptions import Timeout

from sandbox.building.buildkit import run_buildkit
from sandbox.building.outcome import DOCKERFILE, LABEL, LOG_BYTES, Builder, BuildOutcome
from sandbox.building.step_limits import PERIOD_US, groups_of
from sandbox.building.watch import Watch
from sandbox.engine import OWNER, owner_is_alive, owner_labels
from sandbox.errors import SandboxUnavailable
from sandbox.output import OutputBuffer
from sandbox.streams import CONNECTION_ERRORS, Deadline, engine_call
from sandbox.types import BuildLimits

__all__ = [
    "DOCKERFILE",
    "LABEL",
    "BuildOutcome",
    "chunks_of",
    "remove_dead_steps",
    "run_build",
    "step_mark",
    "tar_of",
]

logger = logging.getLogger(__name__)

BUSY_TIMEOUT_S = 5
# The containers in which the builder runs its steps carry none of our labels, since labels would spoil its cache. A
# host name can be given to all of them, is not part of the cache key and never reaches the image: it names the owner.
MARK = "touchstone-build-"
_RUNNING = re.compile(r" ---> Running in ([0-9a-f]{12,64})")
_STEP = re.compile(r"Step \d+/\d+ : (.*)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BUILT = re.compile(r"Successfully built ([0-9a-f]{12,64})")
_numbers = itertools.count()


def run_build(
    client: docker.DockerClient,
    context: Iterable[bytes],
    *,
    tag: str,
    build_args: dict[str, str],
    limits: BuildLimits,
    labels: dict[str, str] | None = None,
    variables: dict[str, str] | None = None,
    builder: Builder = "classic",
) -> BuildOutcome:
    """Build the Dockerfile named DOCKERFILE in `context` (chunks of a tar archive).

    `build_args` are declared in the Dockerfile; `variables` are those that every builder knows undeclared (how to reach
    the network): the steps see them, the cache and the image do not.

    Raises SandboxUnavailable when the engine is gone; every answer of the engine is an outcome.
    """
    arguments, marks = build_args | (variables or {}), {LABEL: "1"} | (labels or {})
    if builder == "buildkit":
        return run_buildkit(client, context, tag=tag, build_args=arguments, limits=limits, labels=marks)
    groups = groups_of(client)
    with groups.of_classic(limits) if groups else nullcontext() as group:
        return _Build(client, limits, group).run(context, tag, arguments, marks)


def tar_of(files: dict[str, bytes]) -> bytes:
    """An uncompressed tar archive of small files, the same bytes for the same content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            if name.endswith("/"):
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
                continue
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def remove_dead_steps(client: docker.DockerClient) -> int:
    """Remove the step containers and control groups of builds whose driver is dead; returns how many containers.

    An engine ends a build whose connection breaks; what remains is from an engine that died itself.
    Raises SandboxUnavailable.
    """
    removed = 0
    with engine_call("listing containers"):
        candidates = [one["Id"] for one in client.api.containers(all=True) if _may_be_step(one)]
    for candidate in candidates:
        owner = _owner_of(_extra_hosts(client, candidate))
        if owner is not None and not owner_is_alive(owner):
            removed += _remove(client, candidate)
    if groups := groups_of(client):
        groups.remove_dead()
    return removed


def _may_be_step(listed: dict[str, Any]) -> bool:
    """Steps run in images that have no name yet, with the builder's network, and carry no label of ours."""
    network = listed["HostConfig"].get("NetworkMode")
    labelled = OWNER in (listed.get("Labels") or {})
    return not labelled and listed["Image"] == listed["ImageID"] and network in ("default", "bridge")


def _extra_hosts(client: docker.DockerClient, container: str) -> list[str]:
    """Not by the client's own method: somebody's busy container (an archive of it is being read) answers late."""
    api = client.api
    address = f"{api.base_url}/v{api.api_version}/containers/{container}/json"
    with engine_call("looking at a build container"):
        try:
            response = api.get(address, timeout=BUSY_TIMEOUT_S)
            api._raise_for_status(response)
        except (NotFound, Timeout) as error:
            logger.info("a container that may be a build step is passed over: %s", error)
            return []
        return list(response.json()["HostConfig"].get("ExtraHosts") or [])


class _Build:
    """The state of one run."""

    def __init__(self, client: docker.DockerClient, limits: BuildLimits, group: str | None) -> None:
        """`group` is the control group below which the steps run; None leaves it to the engine."""
        self._client = client
        self._limits = limits
        self._group = group
        self._log = OutputBuffer(LOG_BYTES // 4, LOG_BYTES)
        self._step = OutputBuffer(0, LOG_BYTES)
        self._error = ""
        self._image_id: str | None = None
        self._container: str | None = None
        self._arguments: set[str] = set()
        self._hidden = False
        self._response: Any = None
        self._ended = threading.Event()

    def run(
        self, context: Iterable[bytes], tag: str, build_args: dict[str, str], labels: dict[str, str]
    ) -> BuildOutcome:
        clock = Deadline(self._limits.timeout_s)
        self._arguments = set(build_args)
        with Watch(self._client, self._limits, self._give_up) as watch:
            try:
                self._talk(context, self._parameters(tag, build_args, labels))
            finally:
                if self._response is not None:
                    self._response.close()
        if watch.reason:
            self._sweep()
            self._image_id, self._error = None, watch.reason
        elif self._image_id is None and not self._error:
            raise SandboxUnavailable("the engine ended a build without a word; it may have been stopped")
        return BuildOutcome(
            image_id=None if self._error else self._image_id,
            error=self._error,
            log=self._log.text(),
            last_step=self._step.text(),
            timed_out=watch.timed_out,
            out_of_space=watch.out_of_space,
            seconds=clock.elapsed,
        )

    def _parameters(self, tag: str, build_args: dict[str, str], labels: dict[str, str]) -> dict[str, str]:
        memory = self._limits.memory_mb << 20
        return {
            "t": tag,
            "dockerfile": DOCKERFILE,
            "buildargs": json.dumps(build_args),
            "labels": json.dumps(labels),
            "rm": "1",
            "forcerm": "1",
            "memory": str(memory),
            "memswap": str(memory),
            "cpuperiod": str(PERIOD_US),
            "cpuquota": str(int(self._limits.cpus * PERIOD_US)),
            "extrahosts": f"{step_mark()}:127.0.0.1",
        } | ({"cgroupparent": self._group} if self._group else {})

    def _talk(self, context: Iterable[bytes], parameters: dict[str, str]) -> None:
        api = self._client.api
        try:
            self._response = api.post(
                f"{api.base_url}/v{api.api_version}/build",
                data=iter(context),
                params=parameters,
                headers={"Content-Type": "application/x-tar"},
                stream=True,
                timeout=(api.timeout, self._limits.timeout_s + api.timeout),
            )
            api._raise_for_status(self._response)
            if self._ended.is_set():
                return  # The limit came while the engine took the context, and nothing could be broken off.
            for line in self._response.iter_lines(chunk_size=None):
                if line:
                    self._take(json.loads(line))
        except APIError as error:
            self._error = str(error.explanation or error)
            if error.status_code is not None and error.status_code >= 500 and not self._is_dockerfile_error():
                raise SandboxUnavailable(f"building an image: {self._error}") from error
        except (*CONNECTION_ERRORS, ValueError) as error:
            if not self._ended.is_set():
                raise SandboxUnavailable(f"building an image: the Docker engine does not answer ({error})") from error

    def _is_dockerfile_error(self) -> bool:
        """Engines answer 500 for some mistakes in a Dockerfile as well."""
        return "dockerfile" in self._error.lower() or "parse" in self._error.lower()

    def _take(self, message: dict[str, Any]) -> None:
        if "error" in message:
            self._error = str((message.get("errorDetail") or {}).get("message") or message["error"])
            self._add(self._error + "\n")
        # The builder paints what a step writes to standard error red.
        text = _COLOUR.sub("", message.get("stream") or "")
        if step := _STEP.match(text):
            self._step = OutputBuffer(0, LOG_BYTES)
            # That our own arguments are declared says nothing about the Dockerfile.
            self._hidden = step[1].upper().startswith("ARG ") and step[1][4:].strip() in self._arguments
        if running := _RUNNING.match(text):
            self._container = running[1]
        if "aux" in message:
            self._image_id = message["aux"].get("ID", self._image_id)
        elif built := _BUILT.match(text):
            self._image_id = self._image_id or built[1]
        if not self._hidden:
            self._add(text)

    def _add(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        self._log.add(data)
        self._step.add(data)

    def _give_up(self) -> None:
        """Runs in the watchdog's thread: break the connection, which makes the engine end the build."""
        self._ended.set()
        response = self._response
        if response is None:
            return  # The engine has not answered yet.
        try:
            response.raw._fp.fp.raw._sock.shutdown(2)
        except (AttributeError, OSError) as error:
            logger.warning("breaking off a build: %s", error)

    def _sweep(self) -> None:
        """Make sure that the step that ran at the limit is gone: the engine does it itself, but not at once."""
        if self._container is None:
            return
        patience = Deadline(10)
        while patience.left > 0:
            with engine_call("looking at a build container"):
                try:
                    self._client.api.inspect_container(self._container)
                except NotFound:
                    return
            time.sleep(0.1)
        _remove(self._client, self._container)


def step_mark() -> str:
    """A host name that says who runs this build, unique within this process."""
    owner = owner_labels(0)[OWNER].encode().hex()
    # A label of a host name has at most 63 characters.
    parts = [owner[start : start + 60] for start in range(0, len(owner), 60)]
    return ".".join([f"{MARK}{next(_numbers)}", *parts])


def _owner_of(hosts: Iterable[str]) -> str | None:
    """The owner in the host names of a container, None when it is not a step of one of our builds."""
    for host in hosts:
        name = host.partition(":")[0]
        if name.startswith(MARK):
            return bytes.fromhex(name.partition(".")[2].replace(".", "")).decode()
    return None


def _remove(client: docker.DockerClient, container: str) -> int:
    with engine_call("removing a build container"):
        try:
            client.api.remove_container(container, force=True, v=True)
        except NotFound:
            return 0
    return 1


def chunks_of(data: bytes) -> Iterator[bytes]:
    """One archive in memory as the chunks that a build takes."""
    yield data
