"""One persistent shell: its programs inside the sandbox, and the driver's side that enforces deadlines from outside.

How bytes travel and how signals reach a process is the backend's (`Channel`, `Processes`); output as text is output.py.

The supervisor is a POSIX script with three streams: requests come in, output goes out, status lines go out apart:
`ready PID` (a shell waits for commands), `exit NUMBER CODE` (command NUMBER is over), `gone CODE` (the shell itself is
over). A request is `shell` and the two loops below, or, while a shell runs, a number and a command, one line each. The
supervisor starts nothing that it is not asked for, buries orphans where it is PID 1, and ends with its requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Literal, Protocol

from sandbox.errors import SandboxUnavailable
from sandbox.output import OutputBuffer
from sandbox.streams import Deadline, Sink
from sandbox.types import ExecResult

LONGEST_COMMAND = 1 << 20
"""Bytes. The shell reads it byte by byte, some 4 MB/s."""
ABANDON = 39
"""The signal (a real-time one, which nothing else uses) on which a bash abandons its command and goes on living."""
READY_S = 20.0
START_ATTEMPTS = 3
# A shell that was told to abandon its command and does not answer for this long is ended.
ANSWER_S = 2.0
POLITE_ATTEMPTS = 2
PAUSE_S = 0.1
# Output that others write meanwhile must not hold a finished command.
DRAIN_S = 0.5
CANNOT_RUN = 126
KILLED = 137

# The text of every program below becomes one line, so that the shell's messages say `line 1` for a command's first.
_SUPERVISOR = r"""
exec 8<&0 9>&2 </dev/null 2>/dev/null;
trap : HUP INT QUIT TERM USR1 USR2 ALRM;
while IFS= read -r __touchstone_request <&8; do
  [ "$__touchstone_request" = shell ] || continue;
  (cd -- "$1" || cd /;
  if command -v bash >/dev/null;
  then exec bash -c 'IFS= read -r __touchstone_loop <&8; read -r _ <&8; eval "$__touchstone_loop"' bash 2>&1; fi;
  exec sh -c 'read -r _ <&8; IFS= read -r __touchstone_loop <&8; eval "$__touchstone_loop"' sh 2>&1);
  echo "gone $?" >&9;
done
"""
# Private descriptors are high, since `exec 3>file` in a command must last; a command does not inherit them.
# Options that would break or betray the loop (-a, -e, -u, -x) hold within commands only. The inner `while` begins with
# the end of the command before, so that a `break` or `continue` of a command changes nothing.
_BASH_LOOP = r"""
exec 250<&8 251>&9 8<&- 9>&-;
unset __touchstone_loop OLDPWD;
__touchstone_number= __touchstone_command= __touchstone_code=0 __touchstone_options= __touchstone_abandoned=;
__touchstone_last() { case $- in *e*) return 0;; esac; return "$__touchstone_code"; };
trap 'if [[ ${__touchstone_number-} ]]; then __touchstone_abandoned=1;
  [[ ${FUNCNAME+x} ]] || builtin continue 1000; builtin return 130; fi' ABANDON;
trap : INT;
echo "ready $$" >&251;
while :; do while {
  __touchstone_code=$? __touchstone_options=$__touchstone_options${-//[!aeux]/};
  builtin set +aeux;
  [[ -z $__touchstone_abandoned ]] || __touchstone_code=130;
  [[ -z $__touchstone_number ]] || builtin echo "exit $__touchstone_number $__touchstone_code" >&251;
  __touchstone_number= __touchstone_abandoned=;
  builtin declare +x __touchstone_code __touchstone_options;
  IFS= builtin read -r -u 250 __touchstone_number && IFS= builtin read -r -u 250 __touchstone_command || builtin exit 0;
  builtin printf -v __touchstone_command %b "$__touchstone_command";
} >/dev/null 2>&1; do
  if [[ $__touchstone_options ]];
  then builtin eval "{ builtin set -$__touchstone_options; __touchstone_options=; __touchstone_last; } >/dev/null 2>&1;
    $__touchstone_command" 250<&- 251>&-;
  else __touchstone_last; builtin eval "$__touchstone_command" 250<&- 251>&-; fi;
done; done
"""
# The same for any other shell, whose descriptors have one digit. It cannot abandon a command: the signal ends it.
_SH_LOOP = r"""
unset __touchstone_loop OLDPWD;
__touchstone_number= __touchstone_command= __touchstone_code=0 __touchstone_options=;
__touchstone_last() { case $- in *e*) return 0;; esac; return "$__touchstone_code"; };
trap : INT;
echo "ready $$" >&9;
while :; do while {
  __touchstone_code=$?;
  case $- in *a*) __touchstone_options=a$__touchstone_options;; esac;
  case $- in *e*) __touchstone_options=e$__touchstone_options;; esac;
  case $- in *u*) __touchstone_options=u$__touchstone_options;; esac;
  case $- in *x*) __touchstone_options=x$__touchstone_options;; esac;
  command set +aeux;
  [ -z "$__touchstone_number" ] || command echo "exit $__touchstone_number $__touchstone_code" >&9;
  __touchstone_number=;
  IFS= command read -r __touchstone_number <&8 && IFS= command read -r __touchstone_command <&8 || command exit 0;
  __touchstone_command=$(command printf %b. "$__touchstone_command");
  __touchstone_command=${__touchstone_command%.};
} >/dev/null 2>&1; do
  if [ -n "$__touchstone_options" ];
  then command eval "{ command set -$__touchstone_options; __touchstone_options=; __touchstone_last; } >/dev/null 2>&1;
    $__touchstone_command" 8<&- 9>&-;
  else __touchstone_last; command eval "$__touchstone_command" 8<&- 9>&-; fi;
done; done
"""


def _one_line(program: str) -> bytes:
    return " ".join(line.strip() for line in program.strip().splitlines()).encode() + b"\n"


SUPERVISOR = _one_line(_SUPERVISOR)
START_SHELL = b"shell\n" + _one_line(_BASH_LOOP.replace("ABANDON", str(ABANDON))) + _one_line(_SH_LOOP)


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
        """Send SIGINT (SIGKILL with `force`) to what the command started, then ABANDON to the shell.

        That is every process that began within the last `began_s_ago` seconds and whose parent is the shell, the first
        process (an orphan), or another such process. Older background jobs live on. Returns whether there was any;
        one that is dead and not yet buried is none.
        """

    def kill(self, shell_pid: int) -> None:
        """SIGKILL to the shell and all its descendants."""

    def oom_kills(self) -> int:
        """How many times the kernel killed a process of the sandbox for memory so far."""


class ShellUnstartable(Exception):
    """No program can be started in this sandbox any more: its commands removed what that takes."""


@dataclass(frozen=True)
class _Event:
    kind: Literal["ready", "exit", "gone", "lost"]
    code: int
    """Exit code, or the pid of `ready`."""
    number: int = 0


class Shell:
    """Runs commands in one persistent shell, started on first use and again after it ended. For one thread at a time.

    `open_channel` starts a supervisor; called again, it first ends whatever the earlier one left running. It raises
    SandboxUnavailable, or ShellUnstartable. `settle_s` is how long output may take longer than status on its way.
    """

    def __init__(self, open_channel: Callable[[], Channel], processes: Processes, *, settle_s: float = 0.0) -> None:
        self._open = open_channel
        self._processes = processes
        self._settle_s = settle_s
        self._channel: Channel | None = None
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
        try:
            channel = self._send(request)
        except ShellUnstartable as error:
            return _refused(str(error), clock)
        except SandboxUnavailable:
            self._drop()
            raise
        output, clock = OutputBuffer(), Deadline(timeout_s)
        try:
            return self._finish(channel, output, clock)
        except SandboxUnavailable:
            self._drop()
            raise

    def close(self) -> None:
        """Give the connection back. What runs in the sandbox is not ended by this."""
        self._drop()

    def _send(self, request: bytes) -> Channel:
        """Hand the request to a living shell."""
        for _ in range(START_ATTEMPTS):
            channel = self._started()
            self._number += 1
            try:
                channel.send(b"%d\n" % self._number + request)
            except SandboxUnavailable:
                # Background processes ended it between two commands. Opening it again tells whether that is the reason.
                self._drop()
                continue
            return channel
        raise ShellUnstartable("the shell ends before it can run a command")

    def _started(self) -> Channel:
        """The channel to a shell that waits for a command."""
        if self._channel is not None:
            # A shell that was killed between two commands.
            self._channel.read(self._sinks(None), 0)
            if self._status.take(self._number) is not None:
                self._pid = 0
            if self._channel.ended:
                self._drop()
        for _ in range(START_ATTEMPTS):
            if self._channel is not None and self._pid:
                return self._channel
            try:
                if self._start():
                    continue
            except SandboxUnavailable:
                if self._channel is None:
                    raise
            self._drop()
        raise ShellUnstartable("no shell can be started in this sandbox any more")

    def _start(self) -> bool:
        """Start a shell, with a supervisor if need be; False when none answers."""
        if self._channel is None:
            self._status = _Status()
            self._channel = self._open()
            self._channel.send(SUPERVISOR)
        self._channel.send(START_SHELL)
        event = self._listen(self._sinks(None), Deadline(READY_S))
        if event is None or event.kind != "ready":
            return False
        self._pid, self._number = event.code, 0
        return True

    def _finish(self, channel: Channel, output: OutputBuffer, clock: Deadline) -> ExecResult:
        """The result of the command that was just sent."""
        sinks = self._sinks(output)
        event = self._listen(sinks, clock)
        timed_out = event is None
        if event is None:
            event = self._end(sinks, clock)
        self._drain(channel, sinks)
        restarted = event is None or event.kind != "exit"
        if restarted:
            self._pid = 0
        if event is None or event.kind == "lost":
            self._drop()
            self._reopen()
        code = None if timed_out or event is None else event.code
        return ExecResult(
            exit_code=code,
            output=output.text(),
            output_bytes=output.total,
            truncated=output.truncated,
            timed_out=timed_out,
            seconds=clock.elapsed,
            shell_restarted=restarted,
            oom_killed=code != 0 and self._ran_out_of_memory(),
        )

    def _end(self, sinks: Mapping[int, Sink], clock: Deadline) -> _Event | None:
        """End a command at its time limit; what the shell said, None when the shell had to be ended and nobody said so.

        The shell must answer within ANSWER_S, and nothing that the command started may be alive afterwards.
        """
        patience = Deadline(ANSWER_S)
        event = None
        for attempt in count():
            left = self._processes.stop(self._pid, began_s_ago=clock.elapsed, force=attempt >= POLITE_ATTEMPTS)
            if event is None:
                event = self._listen(sinks, Deadline(PAUSE_S))
            elif left:
                self._wait(sinks)
            if event is not None and (not left or event.kind != "exit"):
                return event
            if patience.left <= 0:
                break
        self._processes.kill(self._pid)
        return self._listen(sinks, Deadline(ANSWER_S), kinds=("gone", "lost"))

    def _wait(self, sinks: Mapping[int, Sink]) -> None:
        """Take in output for a pause."""
        pause = Deadline(PAUSE_S)
        while pause.left > 0 and self._channel is not None and not self._channel.ended:
            self._channel.read(sinks, pause.left)

    def _listen(
        self, sinks: Mapping[int, Sink], clock: Deadline, kinds: tuple[str, ...] = ("ready", "exit", "gone", "lost")
    ) -> _Event | None:
        """The next thing that the supervisor or the shell says, None when it is nothing in time."""
        assert self._channel is not None
        while True:
            event = self._status.take(self._number)
            if event is None and self._channel.ended:
                event = _Event("lost", KILLED)
            if event is not None and event.kind in kinds:
                return event
            if clock.left <= 0:
                return None
            self._channel.read(sinks, clock.left)

    def _drain(self, channel: Channel, sinks: Mapping[int, Sink]) -> None:
        """Take the output that was written before the status and arrives after it."""
        patience = Deadline(DRAIN_S)
        while not channel.ended and patience.left > 0 and channel.read(sinks, self._settle_s):
            pass

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

    def _sinks(self, output: OutputBuffer | None) -> dict[int, Sink]:
        return {2: self._status} if output is None else {1: output, 2: self._status}

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel, self._pid = None, 0


class _Status:
    """What the supervisor and its shell said on their own stream."""

    def __init__(self) -> None:
        self._text = b""

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._text += chunk

    def take(self, number: int) -> _Event | None:
        """The next event, without what was said about commands before `number`."""
        while b"\n" in self._text:
            line, _, self._text = self._text.partition(b"\n")
            if match := re.fullmatch(rb"(ready|gone) (\d{1,10})", line):
                return _Event("ready" if match[1] == b"ready" else "gone", int(match[2]))
            if (match := re.fullmatch(rb"exit (\d{1,10}) (\d{1,3})", line)) and int(match[1]) == number:
                return _Event("exit", int(match[2]), number)
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
