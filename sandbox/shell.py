"""One persistent shell, seen from outside: commands go in, results come out, deadlines hold whatever the command does.

What runs inside is in shell_programs.py. How bytes travel and how a signal reaches a process is the backend's
(`Channel`, `Processes`); output as text is output.py.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Literal, Protocol

from sandbox.errors import SandboxUnavailable
from sandbox.output import OutputBuffer
from sandbox.shell_programs import START_SHELL, SUPERVISOR
from sandbox.streams import Deadline, Sink
from sandbox.types import ExecResult

logger = logging.getLogger(__name__)

LONGEST_COMMAND = 1 << 20
"""Bytes. The shell reads it byte by byte, some 4 MB/s."""
READY_S = 20.0
START_ATTEMPTS = 3
# A shell that was told to abandon its command and does not answer for this long is ended.
ANSWER_S = 2.0
POLITE_ATTEMPTS = 2
PAUSE_S = 0.1
# Output that others write meanwhile must not hold a finished command, nor a mark that the command made impossible.
DRAIN_S = 1.0
# After the end of a shell, which leaves no mark.
SILENCE_S = 0.02
MARK_BYTES = 8
# What nobody reads as a status may have been forged without end.
LONGEST_STATUS = 10_000
CANNOT_RUN = 126
KILLED = 137


def supervisor_command(workdir: str) -> list[str]:
    """What the backend runs, with requests as its input; the supervisor's text is the first line there.

    Not the text as an argument: the agent reads its arguments in every list of processes.
    """
    return ["sh", "-c", 'IFS= read -r __touchstone_loop && eval "$__touchstone_loop"', "sh", workdir]


class Channel(Protocol):
    """The three streams of one running supervisor."""

    @property
    def ended(self) -> bool:
        """Whether everything was read and nothing can come any more."""

    def send(self, data: bytes) -> None:
        """Write to the supervisor's input. Raises SandboxUnavailable, also when nobody reads there any more."""

    def read(self, sinks: Mapping[int, Sink], wait_s: float) -> bool:
        """Hand what arrives within `wait_s` to the sinks (1 output, 2 status); False when nothing did.

        Raises SandboxUnavailable when the connection broke.
        """

    def close(self) -> None:
        """Give the connection back; safe to call twice."""


class Processes(Protocol):
    """Reaches the processes of the sandbox from outside. Pids are those that the sandbox itself sees.

    Every method raises SandboxUnavailable when that is impossible for a reason that is not the sandbox's own.
    """

    def stop(self, shell_pid: int, *, began_s_ago: float, force: bool) -> bool:
        """Send ABANDON to the shell, then SIGINT (SIGKILL with `force`) to what the command started.

        That is every process that began within the last `began_s_ago` seconds and whose parent is the shell, the first
        process (an orphan), or another such process. Older background jobs live on, when they are older by more than
        the kernel's clock ticks (0.02 s). Returns whether there was any; what is dead and not yet buried is none.
        """

    def kill(self, shell_pid: int) -> None:
        """SIGKILL to the shell and all its descendants; a backend may end every process of the sandbox instead."""

    def oom_kills(self) -> int:
        """How many times the kernel killed a process of the sandbox for memory so far."""


class ShellUnstartable(Exception):
    """No program can be started in this sandbox any more: its commands removed what that takes."""


@dataclass(frozen=True)
class _Event:
    kind: Literal["ready", "exit", "gone", "lost"]
    code: int
    """Exit code, or the pid of `ready`."""


class Shell:
    """Runs commands in one persistent shell, started on first use and again after it ended. For one thread at a time.

    `open_channel` starts a supervisor; called again, it first ends whatever the earlier one left running. It raises
    SandboxUnavailable, or ShellUnstartable. `overtaking` says that status may arrive before output that was written
    earlier; then the shell marks where the output of a command ends, in a way that no output can be mistaken for.
    """

    def __init__(self, open_channel: Callable[[], Channel], processes: Processes, *, overtaking: bool = False) -> None:
        self._open = open_channel
        self._processes = processes
        self._overtaking = overtaking
        self._channel: Channel | None = None
        self._supervised = False
        self._lost = False
        self._status = _Status()
        self._pid = 0
        self._number = 0
        self._oom_kills = 0

    def run(self, command: str, timeout_s: float) -> ExecResult:
        """Run one command. Raises SandboxUnavailable; whatever the command does to its shell is a result."""
        clock = Deadline(timeout_s)
        try:
            request = _encoded(command)
        except ValueError as error:
            return _refused(f"bash: {error}", clock)
        output = _Output(secrets.token_hex(MARK_BYTES).encode() if self._overtaking else b"")
        try:
            channel, clock = self._send(request, output, timeout_s)
            return self._finish(channel, output, clock)
        except ShellUnstartable as error:
            return _refused(str(error), clock)
        except SandboxUnavailable:
            self._drop()
            raise

    def close(self) -> None:
        """Give the connection back. What runs in the sandbox is not ended by this."""
        self._drop()

    def _send(self, request: bytes, output: _Output, timeout_s: float) -> tuple[Channel, Deadline]:
        """Hand the request to a living shell; the clock of the command, which never starts after the command.

        What background jobs wrote since the last command is output too.
        """
        for _ in range(START_ATTEMPTS):
            if self._channel is not None:
                self._notice(self._channel, output)
            channel = self._started()
            self._number += 1
            clock = Deadline(timeout_s)
            try:
                channel.send(b"\n%d %b\n" % (self._number, output.mark) + request)
            except SandboxUnavailable:
                # It was ended between two commands. Opening it again tells whether the sandbox did that itself.
                self._lost = True
                self._drop()
                continue
            return channel, clock
        raise ShellUnstartable("the shell ends before it can run a command")

    def _notice(self, channel: Channel, output: _Output) -> None:
        """Learn that a shell, or all of the channel, was ended between two commands."""
        channel.read(self._sinks(output), 0)
        event = self._status.take(self._number)
        if self._pid and (channel.ended or (event is not None and event.kind == "gone")):
            self._pid, self._lost = 0, True
        if channel.ended:
            self._drop()

    def _started(self) -> Channel:
        """The channel to a shell that waits for a command."""
        for _ in range(START_ATTEMPTS):
            if self._channel is not None and self._pid:
                return self._channel
            if self._channel is None:
                self._status = _Status()
                self._channel = self._open()
            try:
                self._start(self._channel)
            except SandboxUnavailable as error:
                # It was ended meanwhile. Opening it again tells whether the sandbox did that itself.
                logger.debug("a supervisor ended: %s", error)
            if not self._pid:
                self._drop()
        raise ShellUnstartable("no shell can be started in this sandbox any more")

    def _start(self, channel: Channel) -> None:
        """Start a shell; without a pid afterwards none answers."""
        if not self._supervised:
            channel.send(SUPERVISOR)
            self._supervised = True
        channel.send(START_SHELL)
        event = self._listen(channel, self._sinks(None), Deadline(READY_S))
        if event is not None and event.kind == "ready":
            self._pid, self._number = event.code, 0

    def _finish(self, channel: Channel, output: _Output, clock: Deadline) -> ExecResult:
        """The result of the command that was just sent."""
        sinks = self._sinks(output)
        event = self._listen(channel, sinks, clock)
        timed_out = event is None
        if event is None:
            event = self._end(channel, sinks, clock)
        self._drain(channel, output, sinks, marked=event is not None and event.kind == "exit")
        seconds = clock.elapsed
        restarted = event is None or event.kind != "exit"
        if restarted:
            self._pid = 0
        if event is None or event.kind == "lost":
            self._drop()
            self._reopen()
        lost, self._lost = self._lost, False
        code = None if timed_out or event is None else event.code
        return ExecResult(
            exit_code=code,
            output=output.buffer.text(),
            output_bytes=output.buffer.total,
            truncated=output.buffer.truncated,
            timed_out=timed_out,
            seconds=seconds,
            shell_restarted=restarted or lost,
            oom_killed=code != 0 and self._ran_out_of_memory(),
        )

    def _end(self, channel: Channel, sinks: Mapping[int, Sink], clock: Deadline) -> _Event | None:
        """End a command at its time limit; what the shell said, None when the shell had to be ended and nobody said so.

        The shell must answer within ANSWER_S, and nothing that the command started may be alive afterwards.
        """
        patience = Deadline(ANSWER_S)
        event = None
        for attempt in count():
            left = self._processes.stop(self._pid, began_s_ago=clock.elapsed, force=attempt >= POLITE_ATTEMPTS)
            if event is None:
                event = self._listen(channel, sinks, Deadline(PAUSE_S))
            elif left:
                _wait(channel, sinks)
            if event is not None and (not left or event.kind != "exit"):
                return event
            if patience.left <= 0:
                break
        self._processes.kill(self._pid)
        return self._listen(channel, sinks, Deadline(ANSWER_S), kinds=("gone", "lost"))

    def _listen(
        self,
        channel: Channel,
        sinks: Mapping[int, Sink],
        clock: Deadline,
        kinds: tuple[str, ...] = ("ready", "exit", "gone", "lost"),
    ) -> _Event | None:
        """The next thing that the supervisor or the shell says, None when it is nothing in time."""
        while True:
            event = self._status.take(self._number)
            if event is None and channel.ended:
                event = _Event("lost", KILLED)
            if event is not None and event.kind in kinds:
                return event
            if clock.left <= 0:
                return None
            channel.read(sinks, clock.left)

    def _drain(self, channel: Channel, output: _Output, sinks: Mapping[int, Sink], *, marked: bool) -> None:
        """Take the output that was written before the status and arrives after it."""
        patience = Deadline(DRAIN_S)
        marked = marked and bool(output.mark)
        silence_s = SILENCE_S if self._overtaking else 0.0
        while not channel.ended and patience.left > 0 and not (marked and output.complete):
            heard = channel.read(sinks, patience.left if marked else silence_s)
            if not heard and not marked:
                break
        output.flush()

    def _reopen(self) -> None:
        """After a supervisor was lost: whether the sandbox did that itself is known once a new one runs.

        Raises SandboxUnavailable when it was not the sandbox: then nothing may be concluded about the command.
        """
        try:
            self._started()
        except ShellUnstartable:
            self._drop()

    def _ran_out_of_memory(self) -> bool:
        before, self._oom_kills = self._oom_kills, self._processes.oom_kills()
        return self._oom_kills > before

    def _sinks(self, output: _Output | None) -> dict[int, Sink]:
        return {2: self._status} if output is None else {1: output, 2: self._status}

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel, self._supervised, self._pid = None, False, 0


def _wait(channel: Channel, sinks: Mapping[int, Sink]) -> None:
    """Take in output for a pause."""
    pause = Deadline(PAUSE_S)
    while pause.left > 0 and not channel.ended:
        channel.read(sinks, pause.left)


class _Output:
    """The output of one command, without the mark at its end."""

    def __init__(self, mark: bytes) -> None:
        self.mark = mark
        self.buffer = OutputBuffer()
        self.complete = False
        self._held = b""

    def add(self, chunk: bytes) -> None:
        """Take the next bytes; those that may begin the mark are held back."""
        if self.complete or not self.mark:
            self.buffer.add(chunk)
            return
        before, found, after = (self._held + chunk).partition(self.mark)
        self.complete = bool(found)
        hold = 0 if found else min(len(before), len(self.mark) - 1)
        self._held = before[len(before) - hold :]
        self.buffer.add(before[: len(before) - hold] + after)

    def flush(self) -> None:
        """What was held back is output: the mark does not come any more."""
        self.buffer.add(self._held)
        self._held = b""


class _Status:
    """What the supervisor and its shell said on their own stream."""

    def __init__(self) -> None:
        self._text = b""

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._text = (self._text + chunk)[-LONGEST_STATUS:]

    def take(self, number: int) -> _Event | None:
        """The next event, without what was said about commands before `number`."""
        while b"\n" in self._text:
            line, _, self._text = self._text.partition(b"\n")
            if match := re.fullmatch(rb"(ready|gone) (\d{1,10})", line):
                return _Event("ready" if match[1] == b"ready" else "gone", int(match[2]))
            if (match := re.fullmatch(rb"exit (\d{1,10}) (\d{1,3})", line)) and int(match[1]) == number:
                return _Event("exit", int(match[2]))
        return None


def _encoded(command: str) -> bytes:
    """The command as one line for `printf %b`. ValueError for one that no shell can be given: the command's fault."""
    if "\0" in command:
        raise ValueError("the command holds a zero byte")
    try:
        raw = command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError("the command holds half a character") from None
    if len(raw) > LONGEST_COMMAND:
        raise ValueError(f"Argument list too long (a command may have {LONGEST_COMMAND} bytes)")
    return raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n") + b"\n"


def _refused(text: str, clock: Deadline) -> ExecResult:
    output = f"{text}\n"
    return ExecResult(
        exit_code=CANNOT_RUN,
        output=output,
        output_bytes=len(output.encode()),
        truncated=False,
        timed_out=False,
        seconds=clock.elapsed,
    )
