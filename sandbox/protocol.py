"""The contract of a sandbox. Every backend passes the same contract suite (tests/contract)."""

from __future__ import annotations

from typing import Protocol

from sandbox.terminals.terminal import Terminal
from sandbox.types import USUAL, Conditions, ExecResult, FileChange, FrozenState, Judgement, Limits


class Sandbox(Protocol):
    """One isolated machine started from an image."""

    @property
    def image_digest(self) -> str:
        """Digest of the image it started from."""

    def execute(self, command: str, *, timeout_s: float) -> ExecResult:
        """Run `command` in the sandbox's one persistent bash (sh where there is none).

        It starts on first use in the working directory of the image; directory, variables, functions and background
        jobs last from command to command. Its input is empty. At the time limit everything that the command started is
        ended, the shell and older background jobs live on, and the result says `timed_out`. A shell that a command
        ended, or that does not answer within 2 s, is replaced for the next command: `shell_restarted`.
        A command of more than 1 MiB or with a zero byte fails.

        Raises SandboxUnavailable when the sandbox or the engine is gone.
        """

    def terminal(self, *, rows: int = 24, columns: int = 80) -> Terminal:
        """A terminal with a shell of its own, for agents that type keys and for full-screen programs.

        Raises SandboxUnavailable.
        """

    def put(self, files: dict[str, bytes], *, mode: int = 0o644) -> None:
        """Write files (absolute path -> content), parents created.

        Raises SandboxUnavailable, ValueError for a path that is not absolute.
        """

    def get(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of one regular file, None when there is none. Symlinks are not followed.

        Raises ValueError when it is larger than `max_bytes`, SandboxUnavailable when the engine is gone.
        """

    def changes(self) -> list[FileChange]:
        """What differs from the image, sorted by path; a file touched but equal in content, mode and type is left out.

        /proc, /sys, /dev and /run are never looked at. Raises SandboxUnavailable.
        """

    def freeze(self, reference: str, *, keep: bool = True) -> FrozenState:
        """End every process, keep the file system under `reference`. The sandbox can only be closed afterwards.

        With `keep` the state outlives this process, until it is discarded; without, `reap` removes it when the
        process that made it is dead.

        Raises SandboxUnavailable.
        """

    def close(self) -> None:
        """Remove the sandbox. Safe to call twice, never raises for a sandbox that is gone."""


class Backend(Protocol):
    """Starts sandboxes."""

    @property
    def name(self) -> str:
        """Name stored on rows, e.g. `docker`."""

    def start(self, image_digest: str, limits: Limits) -> Sandbox:
        """A fresh sandbox. Raises ImageMissing, ImageUnusable or SandboxUnavailable."""

    def restore(self, state: FrozenState, limits: Limits) -> Sandbox:
        """A fresh sandbox over a frozen file system. Raises ImageMissing or SandboxUnavailable."""

    def judge(
        self,
        state: FrozenState,
        files: dict[str, str],
        *,
        limits: Limits,
        timeout_s: float,
        conditions: Conditions = USUAL,
    ) -> Judgement:
        """Run pytest files (name -> text) with the trusted interpreter on a fresh copy of `state`, network off.

        The tests see the file system of the sandbox at `/`, with the image's working directory as cwd. Their own files
        are gone from there when the first one runs. The fixture `box` (verifier/verifier_guards.py) reads it safely.
        No honest verdict depends on `conditions`. Raises VerifierBroken, ImageMissing or SandboxUnavailable.
        """

    def judge_live(
        self,
        sandbox: Sandbox,
        files: dict[str, str],
        *,
        limits: Limits,
        timeout_s: float,
        conditions: Conditions = USUAL,
    ) -> Judgement:
        """Like `judge`, for a sandbox of this backend whose services have to be up: it goes on, unfrozen.

        The tests see a copy of its file system as it is now and its loopback network, but none of its processes and
        nothing in its memory file systems (/dev/shm, /proc, /run where that is one).
        Raises VerifierBroken, ImageMissing or SandboxUnavailable.
        """

    def has_state(self, reference: str) -> bool:
        """Whether a frozen state is still kept. Raises SandboxUnavailable."""

    def states(self) -> set[str]:
        """References of all states that are kept, whichever process made them. Raises SandboxUnavailable."""

    def discard(self, reference: str) -> None:
        """Forget a frozen state; safe to call twice. Raises SandboxUnavailable."""

    def reap(self) -> int:
        """Remove sandboxes whose driver process is dead or whose lifetime is over, and its states not to be kept.

        Returns how many sandboxes were removed.

        Sandboxes of a living driver are never touched. Raises SandboxUnavailable.
        """
