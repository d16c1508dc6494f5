"""Finding and ending the processes of one sandbox, from outside of it. Standard library only.

All process ids here are those of the caller's namespace, unless they are called inner.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
HALT_S, HALT_EACH_S, HALT_PAUSE_S = 5.0, 0.005, 0.0001
# Letters of the process table: stopped, traced, dead.
STILL = "TtZX"


class Process(NamedTuple):
    """One line of the process table."""

    pid: int
    parent: int
    session: int
    started: int
    """Clock ticks since the machine started."""


def members(group: Path) -> list[int]:
    """Processes of a control group; none when it is gone."""
    try:
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]
    except OSError as error:
        # A group that goes between opening its file and reading it says that it is no device.
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise
        return []


def inner_pid(pid: int) -> int | None:
    """The id that a process has in its own, innermost namespace; None when it is gone."""
    return names[-1] if (names := _names(pid)) else None


def is_inside(pid: int) -> bool:
    """Whether a process, which may be dead, is in a namespace below this one."""
    return len(_names(pid)) > 1


def _names(pid: int) -> list[int]:
    """The ids of a process in its namespaces, this one first; none when it is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("NSpid:"):
                return [int(name) for name in line.split()[1:]]
    return []


def outer_pid(group: Path, inner: int) -> int | None:
    """The process of a group that is called `inner` inside; None when there is none."""
    return next((pid for pid in members(group) if inner_pid(pid) == inner), None)


def look(pid: int) -> Process | None:
    """A living process; None when it is gone or only waits to be buried."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name may hold spaces and brackets: the fixed fields start after the last bracket.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def descendants(group: Path, ancestors: set[int], *, began_s_ago: float | None = None) -> list[int]:
    """Living processes of a group below `ancestors`; with `began_s_ago` through younger processes than that only."""
    table = [found for pid in members(group) if (found := look(pid)) is not None and pid not in ancestors]
    if began_s_ago is not None:
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        # The kernel counts starts in whole ticks, downwards.
        earliest = (uptime - began_s_ago) * TICKS - 1
        table = [one for one in table if one.started >= earliest]
    below: set[int] = set()
    while True:
        grown = {one.pid for one in table if one.parent in ancestors or one.parent in below}
        if grown == below:
            return sorted(below)
        below = grown


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal; who is gone is passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def halted(group: Path) -> Iterator[None]:
    """Inside of this nothing of a group runs, also nothing that it was just starting. Who was stopped before stays so.

    Raises TimeoutError.
    """
    stopped: set[int] = set()
    try:
        end, quiet, patience_s = time.monotonic() + HALT_S, 0, HALT_EACH_S
        # What was born while the others were looked at shows when they are looked at again.
        while quiet < 2:
            awake = [pid for pid in members(group) if _is_awake(pid, stopped)]
            quiet = 0 if awake else quiet + 1
            # Parents first, one after the other: a shell that still runs would find its job stopped. Who resumes the
            # others all the time is waited for once only.
            for pid in sorted(awake):
                send([pid], signal.SIGSTOP)
                stopped.add(pid)
                until = time.monotonic() + patience_s
                while time.monotonic() < until and _is_awake(pid, stopped):
                    time.sleep(HALT_PAUSE_S)
            patience_s = 0.0
            if awake and time.monotonic() > end:
                raise TimeoutError("the processes of a sandbox cannot be halted")
        yield
    finally:
        # Children first: a shell that looks after its jobs must not find them stopped.
        send(sorted(stopped, reverse=True), signal.SIGCONT)


def _is_awake(pid: int, told: set[int]) -> bool:
    """Whether a process may run; one that was `told` to stop while it waits for the kernel stops before it goes on."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    state = stat[stat.rindex(")") + 2]
    return state not in STILL and not (state == "D" and pid in told)


def wait_for_end(descriptor: int, timeout_s: float) -> bool:
    """Wait until the process behind a pidfd is dead; False when it lives on."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))
