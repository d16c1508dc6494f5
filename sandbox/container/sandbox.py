"""One sandbox as a container: its life, its shell, what changed, the frozen state.

Starting, finding and reaping sandboxes is in backends/docker.py, the hardening in containers.py, how commands run in
../shell.py, how they are reached in streams.py, files in files.py.
"""

from __future__ import annotations

import logging
import re
import time

from docker.errors import APIError

from sandbox.container.containers import Containers, Role
from sandbox.container.files import get_file, put_files
from sandbox.container.image_diff import Entry, PristineEntries, image_changes, read_entries
from sandbox.container.streams import ContainerProcesses, ExecChannel, NotRunning
from sandbox.container.terminal import open_terminal
from sandbox.engine import DEADLINE, OWNER
from sandbox.errors import SandboxUnavailable
from sandbox.shell import Shell, ShellUnstartable, supervisor_command
from sandbox.streams import Deadline, engine_call
from sandbox.terminals.terminal import Terminal
from sandbox.types import ExecResult, FileChange, FrozenState, Limits

logger = logging.getLogger(__name__)

FROZEN = "touchstone/frozen"
FROZEN_LABEL = "touchstone.frozen"
_REFERENCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
# An engine writes down the end of a container a little after it acts on it.
EVENT_S, ENDING_S = 2.0, 0.5


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
        self._opened = False
        self._processes = ContainerProcesses(containers, self._container, self._restart)
        # An engine copies the two streams of an exec apart from each other.
        self._shell = Shell(self._open_channel, self._processes, overtaking=True)

    @property
    def image_digest(self) -> str:
        """Digest of the image it started from, also when it was restored from a frozen state."""
        return self._image_digest

    def execute(self, command: str, *, timeout_s: float) -> ExecResult:
        """Run `command` as the contract says. Raises SandboxUnavailable."""
        self._check_open()
        try:
            return self._shell.run(command, timeout_s)
        finally:
            self._processes.release()

    def terminal(self, *, rows: int = 24, columns: int = 80) -> Terminal:
        """A terminal with a shell of its own, beside the shell of `execute`. Raises SandboxUnavailable."""
        self._check_open()
        client = self._containers.client
        return open_terminal(client, self._container, self._workdir, self._check_end, rows=rows, columns=columns)

    def snapshot(self, reference: str) -> str:
        """Keep a copy of the file system under `reference` while everything goes on; the container.

        Raises SandboxUnavailable.
        """
        self._check_open()
        self._commit(reference, keep=False)
        return self._container

    def put(self, files: dict[str, bytes], *, mode: int = 0o644) -> None:
        """Write files (absolute path -> content), parents created.

        Raises SandboxUnavailable, ValueError for a path that is not absolute.
        """
        self._check_open()
        put_files(self._containers, self._container, files, mode)

    def get(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of one regular file, None when there is none.

        Raises ValueError when it is larger than `max_bytes`, SandboxUnavailable when the engine is gone.
        """
        self._check_open()
        return get_file(self._containers, self._container, path, max_bytes)

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
        state_tag(reference)
        self._over = "the sandbox was frozen"
        self._shell.close()
        with engine_call("freezing a sandbox"):
            self._kill()
        self._commit(reference, keep=keep)
        return FrozenState(reference=reference, image_digest=self._image_digest)

    def close(self) -> None:
        """Remove the sandbox. Safe to call twice; what an unreachable engine keeps, `reap` removes later."""
        if self._over == "the sandbox was closed":
            return
        self._over = "the sandbox was closed"
        self._shell.close()
        try:
            self._containers.remove(self._container)
        except SandboxUnavailable as error:
            logger.warning("a sandbox could not be removed: %s", error)

    def _commit(self, reference: str, *, keep: bool) -> None:
        """Keep the file system; the engine halts what runs meanwhile."""
        repository, _, tag = state_tag(reference).partition(":")
        changes = [f"LABEL {FROZEN_LABEL}=1", f"LABEL {DEADLINE}="]
        if keep:
            # It outlives the process that made it, whose label it would have from the container.
            changes.append(f"LABEL {OWNER}=")
        with engine_call("keeping the file system of a sandbox"):
            self._api.commit(self._container, repository=repository, tag=tag, changes=changes)

    def _check_open(self) -> None:
        if self._over:
            raise SandboxUnavailable(self._over)

    def _open_channel(self) -> ExecChannel:
        """A new supervisor; after the first one was lost, in a container that was started again.

        Raises SandboxUnavailable or ShellUnstartable.
        """
        if self._opened and not self._start_again():
            raise ShellUnstartable("no process can be started in this sandbox any more")
        self._opened = True
        for _ in range(2):
            try:
                return ExecChannel(self._containers, self._container, supervisor_command(self._workdir))
            except NotRunning:
                if not self._revive():
                    break
        raise ShellUnstartable("no process can be started in this sandbox any more")

    def _start_again(self) -> bool:
        """End every process, whether some still run or all are gone already; False when none can be started again."""
        if self._is_ending():
            return self._revive()
        return self._restart()

    def _revive(self) -> bool:
        """Start the container again after its own commands ended it; False when nothing can run in it any more.

        Raises SandboxUnavailable when it ended for another reason.
        """
        self._check_reason()
        return self._boot()

    def _check_end(self) -> None:
        """Raises SandboxUnavailable when the container is over for a reason that is not its own commands."""
        if self._is_ending():
            self._check_reason()

    def _check_reason(self) -> None:
        if self._lifetime.left <= 0:
            raise SandboxUnavailable(f"the sandbox is over: its lifetime of {self._limits.lifetime_s} s has passed")
        if not self._ended_itself():
            raise SandboxUnavailable("the container was stopped from outside")

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

    def _restart(self) -> bool:
        """End every process; files stay. False when none can be started again."""
        with engine_call("ending the processes of a sandbox"):
            self._kill()
        self._opened = False
        return self._boot()

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
