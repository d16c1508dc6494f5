"""One sandbox on an overlay: its container is started by the keeper, its commands go to its shell through pipes.

Starting, restoring and judging is in backends/overlay.py, the shell in shell.py.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable

from sandbox.errors import SandboxUnavailable
from sandbox.overlay.box import Box, Ground, NotStarted
from sandbox.overlay.keeper import Refusal
from sandbox.overlay.overlay_terminal import OverlayPty
from sandbox.overlay.pipes import Pipes
from sandbox.overlay.spec import Program
from sandbox.overlay.states import check_reference
from sandbox.shell import Shell, ShellUnstartable, supervisor_command
from sandbox.shell_programs import ABANDON
from sandbox.terminals.terminal import Terminal
from sandbox.types import ExecResult, FileChange, FrozenState

logger = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0


class _Processes:
    """Implements `sandbox.shell.Processes` from outside of the sandbox."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def stop(self, shell_pid: int, *, began_s_ago: float, force: bool) -> bool:
        """Signal what the command started, then the shell; whether it had started anything that lives."""
        number = signal.SIGKILL if force else signal.SIGINT
        return bool(self._box.ask("stop", shell=shell_pid, signal=number, abandon=ABANDON, began_s_ago=began_s_ago))

    def kill(self, shell_pid: int) -> None:
        """End the shell and everything below it."""
        self._box.ask("kill", shell=shell_pid)

    def oom_kills(self) -> int:
        """How many processes the kernel has killed for memory."""
        return int(self._box.ask("oom_kills"))


class OverlaySandbox:
    """Implements `sandbox.protocol.Sandbox`. For one thread at a time; files put into it belong to root."""

    def __init__(
        self,
        box: Box,
        ground: Ground,
        below: str | None,
        freeze: Callable[[str, bool], bool],
    ) -> None:
        """`below` is the directory of the frozen state that it was started from.

        `freeze(reference, keep)` makes a state of the box, and says whether the box lives on as that state.

        Raises SandboxUnavailable.
        """
        self._box = box
        self._ground = ground
        self._below = below
        self._freeze = freeze
        self._over = ""
        self._frozen = False
        self._opened = 0
        self._shell = Shell(self._open, _Processes(box))

    @property
    def image_digest(self) -> str:
        """Digest of the image it started from, also when it was restored from a frozen state."""
        return self._ground.image_digest

    def _open(self) -> Pipes:
        """Start the container, whose first process is the supervisor of the shell.

        Raises ShellUnstartable when only the commands of this sandbox can be the reason, SandboxUnavailable otherwise.
        """
        if self._opened:
            try:
                self._box.started()
            except NotStarted as error:
                if self._opened == 1:
                    raise
                raise ShellUnstartable("no process can be started in this sandbox any more") from error
        self._opened += 1
        return self._box.run(Program(supervisor_command(self._ground.facts.workdir)))

    def execute(self, command: str, *, timeout_s: float) -> ExecResult:
        """Run `command` as the contract says. Raises SandboxUnavailable."""
        self._check_open()
        return self._shell.run(command, timeout_s)

    def terminal(self, *, rows: int = 24, columns: int = 80) -> Terminal:
        """A terminal with a shell of its own, beside the shell of `execute`. Raises SandboxUnavailable."""
        self._check_open()
        # The program on a terminal joins a container, which the shell may not have started yet.
        self._shell.run(":", START_TIMEOUT_S)
        return Terminal(OverlayPty(self._box, self._ground.facts.workdir, rows, columns), rows, columns)

    def snapshot(self, target: str) -> str:
        """Copy the changes to the new directory `target` while everything goes on; the path of the sandbox's network.

        Raises SandboxUnavailable.
        """
        self._check_open()
        self._shell.run(":", START_TIMEOUT_S)
        return str(self._box.ask("snapshot", target=target, below=self._below))

    def put(self, files: dict[str, bytes], *, mode: int = 0o644) -> None:
        """Write files (absolute path -> content), parents created.

        Raises SandboxUnavailable, ValueError for a path that is not absolute.
        """
        self._check_open()
        for path in files:
            if not path.startswith("/") or path.endswith("/"):
                raise ValueError(f"{path!r} is not the absolute path of a file")
        for path, content in files.items():
            try:
                [descriptor] = self._box.connection.ask_for_descriptors("open", path=path, mode=mode)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
            except (Refusal, OSError) as error:
                raise SandboxUnavailable(f"writing {path!r} into a sandbox: {error}") from error

    def get(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of one regular file, None when there is none.

        Raises ValueError when it is larger than `max_bytes`, SandboxUnavailable when the sandbox is gone.
        """
        self._check_open()
        try:
            [descriptor] = self._box.connection.ask_for_descriptors("open", path=path, mode=None)
        except Refusal as error:
            if error.fault:
                # The system's own word on a path that the sandbox made: there is no such file to be had.
                return None
            raise SandboxUnavailable(f"reading {path!r} from a sandbox: {error}") from error
        with os.fdopen(descriptor, "rb") as file:
            if (size := os.fstat(descriptor).st_size) > max_bytes:
                raise ValueError(f"{path} has {size} bytes, more than {max_bytes}")
            return file.read(max_bytes)

    def changes(self) -> list[FileChange]:
        """What differs from the image, or from the frozen state it was restored from. Raises SandboxUnavailable."""
        self._check_open()
        return [FileChange.model_validate(one) for one in self._box.ask("changes")]

    def freeze(self, reference: str, *, keep: bool = True) -> FrozenState:
        """End every process and keep the file system under `reference`. Raises SandboxUnavailable.

        ValueError for a reference that no state can have; then nothing has ended.
        """
        self._check_open()
        check_reference(reference)
        self._over = "the sandbox was frozen"
        self._shell.close()
        self._frozen = self._freeze(reference, keep)
        return FrozenState(reference=reference, image_digest=self._ground.image_digest)

    def close(self) -> None:
        """Remove the sandbox. Safe to call twice."""
        if self._over == "the sandbox was closed":
            return
        self._over = "the sandbox was closed"
        self._shell.close()
        if not self._frozen:
            self._box.remove()

    def _check_open(self) -> None:
        if self._over:
            raise SandboxUnavailable(self._over)
