"""The two ways into a container that a shell needs: its three streams, and the processes around it.

The shell itself is in ../shell.py, starting a container again in sandbox.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from docker.errors import APIError, NotFound

from sandbox.container.containers import Containers
from sandbox.shell_programs import ABANDON
from sandbox.streams import Deadline, HijackedStream, Sink, engine_call

# How often the engine is asked whether a silent supervisor still runs (a command may have killed it while others hold
# its streams open): seconds, growing.
FIRST_LOOK_S, LONGEST_LOOK_S = 0.5, 5.0
HELPER_S = 5.0
LATER_EVENTS_S = 0.2
LATER_LOOKS = 10
"""Pause between two looks for events of memory, and how many looks there are while some still come."""
CLOCK_TICKS = 100
"""Per second, in /proc/*/stat on every Linux."""
NOT_RUNNING = re.compile(r"is not running|no such exec instance", re.IGNORECASE)
# Reads /proc with nothing but builtins, since the sandbox may have no room for a process more. It says the machine's
# uptime, then takes lines `SIGNAL TICKS`: what began before TICKS is left alone. For each it says how many it found.
_HELPER = r"""
exec 2>/dev/null
read -r up rest </proc/uptime
echo "up $up"
while read -r signal began; do
  all=
  for one in /proc/[0-9]*; do
    text=
    while IFS= read -r line; do text="$text$line "; done <"$one/stat"
    set -- ${text##*) }
    case $1 in "" | Z | X) continue ;; esac
    all="$all ${one#/proc/}:$2:${20}"
    [ "${one#/proc/}" != "$SHELL_PID" ] || [ "${20}" -le "$began" ] || began=${20}
  done
  found=" $SHELL_PID 1 " victims= count=0 more=1
  while [ "$more" ]; do
    more=
    for one in $all; do
      pid=${one%%:*} parent=${one#*:}
      case $found in *" $pid "*) continue ;; esac
      [ "${one##*:}" -ge "$began" ] || continue
      case $found in
        *" ${parent%%:*} "*) found="$found$pid " victims="$victims $pid" count=$((count + 1)) more=1 ;;
      esac
    done
  done
  # The shell first: one that sees its job end before it is told goes on with the rest of the command.
  kill -ABANDON $SHELL_PID
  kill -$signal $victims
  echo "found $count"
done
""".replace("ABANDON", str(ABANDON))


class ExecChannel:
    """The streams of one exec. Implements `sandbox.shell.Channel`."""

    def __init__(self, containers: Containers, container: str, command: list[str]) -> None:
        """Raises SandboxUnavailable, NotRunning when the container does not run."""
        self._api = containers.client.api
        self._exec, self._stream = start_exec(containers, container, command)
        self._ended = False
        self._heard = time.monotonic()
        self._pause = FIRST_LOOK_S

    @property
    def ended(self) -> bool:
        """Whether nothing can come any more."""
        return self._ended or self._stream.ended

    def send(self, data: bytes) -> None:
        """Write to its standard input. Raises SandboxUnavailable."""
        self._heard, self._pause = time.monotonic(), FIRST_LOOK_S
        self._stream.send(data)

    def read(self, sinks: Mapping[int, Sink], wait_s: float) -> bool:
        """Hand what arrives to the sinks; False when nothing did, which may be before `wait_s` is over."""
        next_look = self._heard + self._pause - time.monotonic()
        if self._stream.read(sinks, min(wait_s, max(0.0, next_look))):
            self._heard = time.monotonic()
            return True
        if next_look <= 0:
            self._look()
        return False

    def close(self) -> None:
        """Give the connection back."""
        self._stream.close()

    def _look(self) -> None:
        self._heard, self._pause = time.monotonic(), min(self._pause * 1.5, LONGEST_LOOK_S)
        with engine_call("looking at a shell"):
            try:
                self._ended = not self._api.exec_inspect(self._exec)["Running"]
            except NotFound:
                # An engine forgets the execs of a container that stopped.
                self._ended = True


class ContainerProcesses:
    """Reaches the processes of a container through an exec. Implements `sandbox.shell.Processes`.

    Where no exec can be started (the process table is full), `restart` ends every process.
    """

    def __init__(self, containers: Containers, container: str, restart: Callable[[], bool]) -> None:
        self._containers = containers
        self._container = container
        self._restart = restart
        self._created_at = time.time()
        self._oom_events = 0
        self._helper: _Helper | None = None

    def stop(self, shell_pid: int, *, began_s_ago: float, force: bool) -> bool:
        """As the protocol says. Raises SandboxUnavailable."""
        began = time.monotonic() - began_s_ago
        try:
            if self._helper is None:
                self._helper = _Helper(self._containers, self._container, shell_pid)
            return self._helper.signal("KILL" if force else "INT", began) > 0
        except (NotRunning, _HelperLost):
            self.kill(shell_pid)
            return False

    def kill(self, shell_pid: int) -> None:
        """End the shell with every other process: one that no signal moves is seldom alone (a fork bomb).

        Raises SandboxUnavailable.
        """
        self.release()
        self._restart()

    def oom_kills(self) -> int:
        """As the engine's last few hundred events tell. Raises SandboxUnavailable.

        Where one came, others of the same command may still come: the engine tells of them later than of its end.
        """
        before, found = self._oom_events, self._count_oom_events()
        for _ in range(LATER_LOOKS):
            if found <= before:
                break
            time.sleep(LATER_EVENTS_S)
            before, found = found, self._count_oom_events()
        self._oom_events = found
        return found

    def _count_oom_events(self) -> int:
        with engine_call("asking for the events of a sandbox"):
            events = self._containers.client.api.events(
                since=f"{self._created_at:.3f}",
                until=f"{time.time():.3f}",
                filters={"container": self._container, "event": "oom"},
                decode=True,
            )
            return sum(1 for _ in events)

    def release(self) -> None:
        """End what `stop` left running inside for the next call."""
        if self._helper is not None:
            self._helper.close()
            self._helper = None


class _Helper:
    """The script above, in a running container. Raises _HelperLost when it does not answer."""

    def __init__(self, containers: Containers, container: str, shell_pid: int) -> None:
        script = f"SHELL_PID={shell_pid}\n{_HELPER}"
        _, self._stream = start_exec(containers, container, ["sh", "-c", script])
        self._text = b""
        [up] = self._answer(rb"up (\d+\.\d+)\n")
        # Early by the time that the answer took: a process counts rather as the command's than as an older one.
        self._offset = float(up) - time.monotonic()

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of its output."""
        self._text += chunk

    def signal(self, name: str, began: float) -> int:
        """How many processes of the command that began then (monotonic clock) were found."""
        ticks = max(0, int((began + self._offset) * CLOCK_TICKS))
        self._stream.send(f"{name} {ticks}\n".encode())
        [found] = self._answer(rb"found (\d+)\n")
        return int(found)

    def close(self) -> None:
        """End it: its input ends."""
        self._stream.close()

    def _answer(self, pattern: bytes) -> tuple[bytes, ...]:
        patience = Deadline(HELPER_S)
        while not (match := re.search(pattern, self._text)):
            if self._stream.ended or patience.left <= 0:
                self._stream.close()
                raise _HelperLost
            self._stream.read({1: self}, patience.left)
        self._text = self._text[match.end() :]
        return match.groups()


class NotRunning(Exception):
    """The container does not run, so nothing can be started in it."""


class _HelperLost(Exception):
    """The helper could not be started or was killed."""


def start_exec(containers: Containers, container: str, command: list[str]) -> tuple[str, HijackedStream]:
    """Start a program in a running container; its id and its streams.

    Raises SandboxUnavailable, or NotRunning when the container does not run.
    """
    with engine_call("starting a program in a sandbox"):
        try:
            made = str(containers.client.api.exec_create(container, command, stdin=True)["Id"])
            stream = HijackedStream(containers.client, f"/exec/{made}/start", {"Tty": False, "Detach": False})
        except APIError as error:
            if error.status_code == 409 or NOT_RUNNING.search(str(error.explanation)):
                raise NotRunning from error
            raise
    return made, stream
