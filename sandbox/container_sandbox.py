"""One sandbox as a container: commands with a hard time limit, files in and out, what changed, the frozen state.

Starting, finding and reaping sandboxes is in backends/docker.py, the hardening in containers.py.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import re
import tarfile
import time
from collections.abc import Mapping

from docker.errors import APIError, NotFound

from sandbox.containers import Containers, Role
from sandbox.engine import DEADLINE, OWNER
from sandbox.errors import SandboxUnavailable
from sandbox.image_diff import Entry, PristineEntries, image_changes, read_entries
from sandbox.output import OutputBuffer
from sandbox.streams import Deadline, HijackedStream, Sink, engine_call
from sandbox.types import ExecResult, FileChange, FrozenState, Limits

logger = logging.getLogger(__name__)

FROZEN = "touchstone/frozen"
FROZEN_LABEL = "touchstone.frozen"
_REFERENCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
# Runs the command ($1) in the working directory ($2), output merged, no input. `sh` starts it since not every image has
# bash; that the sandbox itself removed its working directory is no reason to run nothing. The engine's second stream,
# which the command does not get, says when it is over: the engine itself may know that only 2 s later.
WRAPPER = """exec 3>&2 2>/dev/null </dev/null
cd -- "$2" || cd /
unset OLDPWD
shell=sh
if command -v bash >/dev/null; then shell=bash; fi
(exec $shell -c "$1" $shell 2>&1 3>&-)
echo "exit $?" >&3"""
# The longest argument that Linux hands to a program, its closing zero byte included.
LONGEST_COMMAND = 128 << 10
# How often the engine is asked whether a silent command is over (it may have killed the wrapper): seconds, growing.
FIRST_LOOK_S, LONGEST_LOOK_S = 0.5, 2.0
# The last output of a finished command may still be on its way: waits for the end of the stream, which background
# processes may hold open, or for a silence, and not for long.
SILENCE_S, DRAIN_S = 0.25, 1.0
# An engine writes down the end of a container a little after it acts on it.
EVENT_S, ENDING_S = 2.0, 0.5
CANNOT_RUN = 126
KILLED = 137
_NOT_RUNNING = re.compile(r"is not running|no such exec instance", re.IGNORECASE)


class ContainerSandbox:
    """Implements `sandbox.protocol.Sandbox`. For one thread at a time; files put into it belong to root.

    Commands that end every process of the sandbox, PID 1 included, do not end it: it is started again, files stay.
    """

    def __init__(
        self, containers: Containers, image: str, image_digest: str, limits: Limits, pristine: PristineEntries
    ) -> None:
        self._containers = containers
        self._api = containers.client.api
        self._image = image
        self._image_digest = image_digest
        self._limits = limits
        self._pristine = pristine
        self._workdir = containers.image(image_digest).workdir
        self._lifetime = Deadline(limits.lifetime_s)
        self._booted_at = time.time()
        self._over = ""
        self._container = containers.run(image, limits, Role(command=["sleep", str(limits.lifetime_s)]))

    @property
    def image_digest(self) -> str:
        """Digest of the image it started from, also when it was restored from a frozen state."""
        return self._image_digest

    def execute(self, command: str, *, timeout_s: float, user: str | None = None) -> ExecResult:
        """Run `command` as the contract says. Raises SandboxUnavailable."""
        self._check_open()
        clock = Deadline(timeout_s)
        if (refusal := _refusal(command)) is not None:
            return _refused(refusal, clock)
        for _ in range(2):
            output = OutputBuffer()
            try:
                code = self._attempt(command, user, output, clock)
            except _NotRunning:
                if not self._revive():
                    break
                continue
            return _result(code, output, clock)
        return _refused("no process can be started in this sandbox any more", clock)

    def put(self, files: dict[str, bytes], *, mode: int = 0o644) -> None:
        """Write files (absolute path -> content), parents created.

        Raises SandboxUnavailable, ValueError for a path that is not absolute.
        """
        self._check_open()
        archive = _archive(files, mode)
        with engine_call("writing files into a sandbox"):
            self._api.put_archive(self._container, "/", archive)

    def get(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of one regular file, None when there is none.

        Raises ValueError when it is larger than `max_bytes`, SandboxUnavailable when the engine is gone.
        """
        self._check_open()
        with engine_call(f"reading {path!r} from a sandbox"):
            response = self._api.get(
                f"{self._api.base_url}/v{self._api.api_version}/containers/{self._container}/archive",
                params={"path": path},
                headers={"Accept-Encoding": "identity"},
                stream=True,
                timeout=self._api.timeout,
            )
            try:
                self._api._raise_for_status(response)
                size = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))["size"]
                return _only_file(response.raw, path, size, max_bytes)
            except NotFound as error:
                if "no such container" in str(error.explanation).lower():
                    raise
                return None
            finally:
                response.close()

    def changes(self) -> list[FileChange]:
        """What differs from the image, or from the frozen state it was restored from. Raises SandboxUnavailable."""
        self._check_open()
        return image_changes(
            self._containers.client,
            self._container,
            lambda paths: self._pristine.get(self._image, paths, self._read_image),
        )

    def freeze(self, reference: str, *, keep: bool = True) -> FrozenState:
        """End every process and keep the file system under `reference`. Raises SandboxUnavailable."""
        self._check_open()
        repository, _, tag = state_tag(reference).partition(":")
        self._over = "the sandbox was frozen"
        with engine_call("freezing a sandbox"):
            self._kill()
            changes = [f"LABEL {FROZEN_LABEL}=1", f"LABEL {DEADLINE}="]
            if keep:
                # It outlives the process that made it, whose label it would have from the container.
                changes.append(f"LABEL {OWNER}=")
            self._api.commit(self._container, repository=repository, tag=tag, changes=changes)
        return FrozenState(reference=reference, image_digest=self._image_digest)

    def close(self) -> None:
        """Remove the sandbox. Safe to call twice; what an unreachable engine keeps, `reap` removes later."""
        if self._over == "the sandbox was closed":
            return
        self._over = "the sandbox was closed"
        try:
            self._containers.remove(self._container)
        except SandboxUnavailable as error:
            logger.warning("a sandbox could not be removed: %s", error)

    def _check_open(self) -> None:
        if self._over:
            raise SandboxUnavailable(self._over)

    def _attempt(self, command: str, user: str | None, output: OutputBuffer, clock: Deadline) -> int | None:
        """Exit code of one command, None at the time limit. Raises _NotRunning when the container is not running."""
        with engine_call("running a command"):
            try:
                # The command's name as the shell's $0 makes its messages start with "bash:" or "sh:".
                made = self._api.exec_create(
                    self._container, ["sh", "-c", WRAPPER, "sh", command, self._workdir], user=user or ""
                )["Id"]
                stream = HijackedStream(self._containers.client, f"/exec/{made}/start", {"Tty": False, "Detach": False})
            except APIError as error:
                if error.status_code == 409 or _NOT_RUNNING.search(str(error.explanation)):
                    raise _NotRunning from error
                raise
        with stream:
            code, told = self._follow(stream, made, output, clock)
        if not told and _never_ran(code, output) and self._is_ending():
            raise _NotRunning
        if code is None:
            self._restart()
        return code

    def _follow(
        self, stream: HijackedStream, running: str, output: OutputBuffer, clock: Deadline
    ) -> tuple[int | None, bool]:
        """Collect output until the command is over, which is not when the stream is: children may hold that open.

        Returns the exit code (None at the time limit) and whether the wrapper itself told it.
        """
        notice = _Notice()
        sinks: dict[int, Sink] = {1: output, 2: notice}
        pause = FIRST_LOOK_S
        next_look = clock.elapsed + pause
        while clock.left > 0:
            stream.read(sinks, min(clock.left, next_look - clock.elapsed))
            if notice.code is not None:
                _drain(stream, sinks)
                return notice.code, True
            if not stream.ended and clock.elapsed < next_look:
                continue
            code = self._exit_code(running)
            if code is not None:
                _drain(stream, sinks)
                return code, False
            if stream.ended:
                # The end of the stream comes a moment before the end of the command is known, or long before.
                time.sleep(min(0.01 if clock.elapsed < 1 else 0.1, max(0.0, clock.left)))
            pause = min(pause * 1.5, LONGEST_LOOK_S)
            next_look = clock.elapsed + pause
        return None, False

    def _exit_code(self, running: str) -> int | None:
        with engine_call("looking at a command"):
            try:
                seen = self._api.exec_inspect(running)
            except NotFound:
                # An engine forgets the commands of a container that stopped.
                if self._ended_itself():
                    return KILLED
                raise
        return None if seen["Running"] else int(seen["ExitCode"])

    def _revive(self) -> bool:
        """Start the container again after its own commands ended it; False when nothing can run in it any more.

        Raises SandboxUnavailable when it ended for another reason.
        """
        if self._lifetime.left <= 0:
            raise SandboxUnavailable(f"the sandbox is over: its lifetime of {self._limits.lifetime_s} s has passed")
        if not self._ended_itself():
            raise SandboxUnavailable("the container was stopped from outside")
        return self._boot()

    def _ended_itself(self) -> bool:
        """Whether the container ended without anybody asking the engine for it.

        The engine keeps its last few hundred events. When the end is not among them, this says no: then nothing is
        concluded about the command.
        """
        patience = Deadline(EVENT_S)
        while True:
            with engine_call("asking for the events of a sandbox"):
                events = self._api.events(
                    since=f"{self._booted_at:.3f}",
                    until=f"{time.time():.3f}",
                    filters={"container": self._container},
                    decode=True,
                )
                actions = {str(event.get("Action", "")).partition(":")[0] for event in events}
            if actions & {"kill", "stop", "destroy"}:
                return False
            if "die" in actions or patience.left <= 0:
                return "die" in actions
            time.sleep(0.1)

    def _is_ending(self) -> bool:
        """Whether the container stops about now, which the engine may know only in a moment."""
        patience = Deadline(ENDING_S)
        while True:
            with engine_call("looking at a sandbox"):
                if not self._api.inspect_container(self._container)["State"]["Running"]:
                    return True
            if patience.left <= 0:
                return False
            time.sleep(0.05)

    def _restart(self) -> None:
        """End every process; files stay."""
        with engine_call("restarting a sandbox after a time limit"):
            self._kill()
        self._boot()

    def _boot(self) -> bool:
        self._booted_at = time.time()
        with engine_call("starting a sandbox again"):
            try:
                self._containers.start(self._container)
            except APIError as error:
                if error.status_code == 400:
                    return False
                raise
        return True

    def _kill(self) -> None:
        """May run inside `engine_call` only."""
        try:
            self._api.kill(self._container)
        except APIError as error:
            if error.status_code != 409:
                raise

    def _read_image(self, paths: list[str]) -> dict[str, Entry]:
        """Entries of paths in the image itself: from a container that is never started."""
        pristine = self._containers.create(self._image, Limits(lifetime_s=600), Role(command=["true"]))
        try:
            return read_entries(self._containers.client, pristine, paths)
        finally:
            self._containers.remove(pristine)


def state_tag(reference: str) -> str:
    """The image that holds a frozen state. ValueError for a reference that no image can be named after."""
    if not _REFERENCE.fullmatch(reference):
        raise ValueError(f"{reference!r} cannot name a state: use up to 128 letters, digits, '_', '.' and '-'")
    return f"{FROZEN}:{reference}"


def reference_of(tag: str) -> str:
    """The reference behind the name of an image; empty when it is no frozen state."""
    return tag.removeprefix(f"{FROZEN}:") if tag.startswith(f"{FROZEN}:") else ""


class _NotRunning(Exception):
    """The container does not run, so no command can be started in it."""


def _never_ran(code: int | None, output: OutputBuffer) -> bool:
    """Whether the engine may have been unable to start a command: it says so in the command's own output."""
    return code == CANNOT_RUN or (code == KILLED and "No such exec instance" in output.text())


def _refusal(command: str) -> str | None:
    """Why no shell could be given this command, None when one can. These are the command's faults, not ours."""
    if "\0" in command:
        return "bash: the command holds a zero byte"
    if len(command.encode("utf-8", "surrogatepass")) >= LONGEST_COMMAND:
        return "bash: Argument list too long"
    return None


def _refused(text: str, clock: Deadline) -> ExecResult:
    output = OutputBuffer()
    output.add(f"{text}\n".encode())
    return _result(CANNOT_RUN, output, clock)


def _result(code: int | None, output: OutputBuffer, clock: Deadline) -> ExecResult:
    return ExecResult(
        exit_code=code,
        output=output.text(),
        output_bytes=output.total,
        truncated=output.truncated,
        timed_out=code is None,
        seconds=clock.elapsed,
    )


class _Notice:
    """What the wrapper says on its own stream."""

    def __init__(self) -> None:
        self._text = b""

    def add(self, chunk: bytes) -> None:
        """Take the next bytes; more than a notice has is of no interest."""
        self._text = (self._text + chunk)[:100]

    @property
    def code(self) -> int | None:
        """The exit code of the command once it is over."""
        match = re.fullmatch(rb"exit (\d{1,3})\n", self._text)
        return int(match[1]) if match else None


def _drain(stream: HijackedStream, sinks: Mapping[int, Sink]) -> None:
    patience = Deadline(DRAIN_S)
    while not stream.ended and patience.left > 0:
        if not stream.read(sinks, SILENCE_S):
            return


def _archive(files: dict[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    now = int(time.time())
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in files.items():
            if not path.startswith("/") or path.endswith("/"):
                raise ValueError(f"{path!r} is not the absolute path of a file")
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode, entry.mtime = len(content), mode, now
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _only_file(raw: io.BufferedIOBase, path: str, size: int, max_bytes: int) -> bytes | None:
    """Content of the one regular file in an archive, None when it holds anything else."""
    with tarfile.open(fileobj=raw, mode="r|") as archive:
        member = archive.next()
        if member is None or not member.isreg():
            return None
        if size > max_bytes:
            raise ValueError(f"{path} has {size} bytes, more than {max_bytes}")
        content = archive.extractfile(member)
        return None if content is None else content.read()
