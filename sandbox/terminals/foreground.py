"""Whether the program in the foreground of a terminal waits for keys, as far as the kernel of this machine tells.

Only for processes that this machine sees; nothing is concluded about others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
# Where the kernel puts a process to sleep that reads a terminal; also one that reads a socket.
_READING = ("wait_woken", "n_tty_read")
_POLLING = ("poll_schedule_timeout", "do_select", "do_poll", "do_sys_poll", "ep_poll", "do_epoll_wait")
_MOST_PROCESSES = 2000


@dataclass(frozen=True)
class _Stat:
    state: str
    group: int
    terminal: int
    foreground: int


def is_over(process: int) -> bool:
    """Whether a process has ended, buried or not."""
    stat = _stat(process)
    return stat is None or stat.state in "ZX"


def belongs_to(process: int, container: str) -> bool:
    """Whether a process id names a process of this container here: the engine may be on another machine."""
    return container in _text(_PROC / str(process) / "cgroup")


def awaits_input(shell: int) -> bool | None:
    """Whether a process of the foreground group of the shell's terminal is asleep in a read of it.

    None when nobody can know: a program that polls may wait for anything, and other machines are not seen.
    """
    leader = _stat(shell)
    if leader is None or leader.foreground <= 0:
        return None
    polls = False
    for process in _with_descendants(shell):
        stat = _stat(process)
        if stat is None or stat.group != leader.foreground or stat.terminal != leader.terminal or stat.state != "S":
            continue
        place = _text(_PROC / str(process) / "wchan")
        if place in _READING and _reads_terminal(process):
            return True
        polls = polls or place in ("", "0") or place.startswith(_POLLING)
    return None if polls else False


def _with_descendants(process: int) -> list[int]:
    found = [process]
    for one in found:
        children = _text(_PROC / str(one) / "task" / str(one) / "children").split()
        found.extend(int(child) for child in children)
        if len(found) > _MOST_PROCESSES:
            break
    return found


def _reads_terminal(process: int) -> bool:
    """Whether the descriptor in the system call that a process sleeps in is a terminal."""
    call = _text(_PROC / str(process) / "syscall").split()
    if len(call) < 2 or not call[1].startswith("0x"):
        return False
    try:
        target = (_PROC / str(process) / "fd" / str(int(call[1], 16))).readlink()
    except OSError:
        return False
    return str(target).startswith(("/dev/pts/", "/dev/tty", "/dev/console"))


def _stat(process: int) -> _Stat | None:
    # The name of the program stands in brackets and may hold anything.
    fields = _text(_PROC / str(process) / "stat").rpartition(")")[2].split()
    if len(fields) < 6:
        return None
    return _Stat(fields[0], int(fields[2]), int(fields[4]), int(fields[5]))


def _text(path: Path) -> str:
    """Content of a file of the kernel; empty when the process is gone or not ours to see."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
