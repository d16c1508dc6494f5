"""The keeper's side of one sandbox: its overlay, its container, its files. Standard library only.

Who asks for what is in keeper_process.py; the driver's side is overlay_sandbox.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from sandbox.overlay import files, groups, processes, syscalls, upper

PATIENCE_S = 10.0
# How a runtime ends whose container was ended by SIGKILL.
KILLED = (137, -signal.SIGKILL)
START_S = 60.0


class Refused(Exception):
    """Something that was asked for cannot be done; the text goes to the driver."""


class Room:
    """Where all sandboxes of this keeper are: a private tmpfs, which is the working directory of this process.

    Overlays are mounted by relative names, since the kernel reads one page of mount options only.
    """

    def __init__(self, place: str, owner: str, runtime: str) -> None:
        syscalls.mount("tmpfs", place, "mode=700", syscalls.NODEV | syscalls.NOSUID)
        os.chdir(place)
        self.place = place
        self.owner = owner
        self.runtime = runtime
        self.roots = groups.prepare()
        self.processes = groups.root_of("pids")
        self.memory = groups.root_of("memory")
        self.readiness = groups.Readiness()
        self._boxes = 0
        self._links: dict[str, str] = {}
        self._guard = threading.Lock()
        for name in ("layers", "boxes", "state"):
            os.mkdir(name)

    def link(self, directory: str) -> str:
        """A short name for a directory."""
        with self._guard:
            if directory not in self._links:
                name = f"layers/{len(self._links):x}"
                os.symlink(directory, name)
                self._links[directory] = name
            return self._links[directory]

    def count(self, more: int) -> None:
        """A sandbox came (1) or went (-1)."""
        with self._guard:
            self._boxes += more
            self.readiness.alone = self._boxes <= 1
        self.readiness.use()


class Box:
    """One sandbox: an overlay, and at most one container at a time that runs on it."""

    def __init__(self, room: Room, name: str, layers: list[str], size_mb: int) -> None:
        self._room = room
        self._home = f"boxes/{name}"
        self._lower = [room.link(layer) for layer in layers]
        self._container: subprocess.Popen[bytes] | None = None
        self._started = False
        self._init: int | None = None
        self._identity = name
        self._kills = self._earlier_kills = 0
        os.mkdir(self._home)
        syscalls.mount("tmpfs", self._home, f"mode=711,size={size_mb}m", syscalls.NODEV)
        try:
            for part in ("upper", "work", "root", "bundle"):
                os.mkdir(f"{self._home}/{part}")
            syscalls.mount_overlay(self._path("root"), self._lower, self._path("upper"), self._path("work"))
        except OSError:
            syscalls.unmount(self._home)
            os.rmdir(self._home)
            raise
        room.count(1)

    def run(self, identity: str, config: str, descriptors: list[int]) -> None:
        """Start a container with three descriptors as its standard streams.

        `identity` names it and its control group: a new one each time, for the runtime may still bury the one before.
        """
        if self._container is not None:
            self.end()
        bundle = f"{self._room.place}/{self._path('bundle')}"
        Path(bundle, "config.json").write_text(config)
        self._identity = identity
        standard_in, standard_out, standard_error = descriptors
        state, pid_file = f"{self._room.place}/state", f"{bundle}/pid"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(pid_file)
        self._started = False
        # A runtime takes a colon in the name of its log for something else, and the data folder may have one.
        log = ["--log", f"/proc/{os.getpid()}/cwd/{self._path('bundle')}/log"]
        self._container = subprocess.Popen(
            [self._room.runtime, "--root", state, *log, "run", "--bundle", bundle, "--pid-file", pid_file, identity],
            stdin=standard_in,
            stdout=standard_out,
            stderr=standard_error,
            cwd="/",
            start_new_session=True,
        )

    def started(self) -> None:
        """Wait until the container has started, if it has not yet. Raises Refused when it does not."""
        if self._container is not None:
            self.oom_kills()
        if self._started or self._container is None:
            return
        end = time.monotonic() + START_S
        # The runtime writes down which process the container's first is. Asking for notice of that (inotify) would take
        # longer than it takes.
        while (pid := self._pid()) is None and self.running() and time.monotonic() < end:
            time.sleep(0.002)
        # It may have done that between the two looks.
        if pid is None and (pid := self._pid()) is None:
            self._container.kill()
            raise Refused(f"the runtime did not start a container: {self._log()}")
        self._started = True
        with contextlib.suppress(ProcessLookupError):
            self._init = os.pidfd_open(pid)

    def running(self) -> bool:
        """Whether the container is there."""
        return self._container is not None and self._container.poll() is None

    def end(self) -> None:
        """Kill every process and wait until all are dead. Raises Refused when that does not happen in time."""
        if self._container is None:
            return
        self._earlier_kills, self._kills = self.oom_kills(), 0
        with contextlib.suppress(Refused):
            self.started()
        if self._init is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init, signal.SIGKILL)
            # The first process of a namespace is dead only after all others are.
            if not processes.wait_for_end(self._init, PATIENCE_S):
                raise Refused("the processes of a sandbox do not end")
            os.close(self._init)
            self._init = None
        # The runtime itself ends a little later, which nobody has to wait for.
        threading.Thread(target=self._bury, args=(self._container, self._identity), daemon=True).start()
        self._container = None

    def _bury(self, container: subprocess.Popen[bytes], identity: str) -> None:
        container.wait()
        for root in self._room.roots:
            groups.remove_group(root, self._room.owner, identity)

    def stop(self, shell: int, number: int, abandon: int, began_s_ago: float) -> bool:
        """Signal `abandon` to the shell, then `number` to what it runs; whether it ran anything.

        What runs is below the shell, or an orphan, and younger than `began_s_ago`.
        """
        self.started()
        group = self._group(self._room.processes)
        ancestor = processes.outer_pid(group, shell)
        first = self._pid()
        running = processes.descendants(
            group, {pid for pid in (ancestor, first) if pid is not None}, began_s_ago=began_s_ago
        )
        # The shell first: one that sees its job end before it is told goes on with the rest of the command.
        processes.send([] if ancestor is None else [ancestor], abandon)
        processes.send(running, number)
        return bool(running)

    def kill(self, shell: int) -> None:
        """End the shell and everything below it."""
        self.started()
        group = self._group(self._room.processes)
        ancestor = processes.outer_pid(group, shell)
        if ancestor is not None:
            processes.send([ancestor, *processes.descendants(group, {ancestor})], signal.SIGKILL)

    def terminal(self, process: str) -> tuple[int, int]:
        """Start another program in the container, on a pseudo-terminal; its master and a pidfd of the program.

        `process` is the runtime's description of it. Raises Refused.
        """
        self.started()
        bundle = f"{self._room.place}/{self._path('bundle')}"
        with tempfile.TemporaryDirectory(dir=bundle) as folder, socket.socket(socket.AF_UNIX) as listening:
            # The path of a socket may have 108 bytes, and the data folder may lie deep.
            near = f"/proc/{os.getpid()}/cwd/{os.path.relpath(folder, self._room.place)}"
            listening.bind(f"{near}/tty")
            listening.listen(1)
            listening.settimeout(PATIENCE_S)
            Path(folder, "process.json").write_text(process)
            done = subprocess.run(
                [
                    *(self._room.runtime, "--root", f"{self._room.place}/state", "exec", "--tty", "--detach"),
                    *("--console-socket", f"{near}/tty", "--pid-file", f"{folder}/pid"),
                    *("--process", f"{folder}/process.json", self._identity),
                ],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
            )
            if done.returncode != 0:
                raise Refused(f"the runtime could not open a terminal: {done.stderr.strip()[-500:]}")
            connection, _ = listening.accept()
            with connection:
                _, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
            program = int(Path(folder, "pid").read_text())
            handle = os.pidfd_open(program)
            # The runtime that started it is gone, so it is a child of this process. Until it is buried it counts among
            # the processes of the sandbox, and holds up their end.
            threading.Thread(target=_bury_program, args=(program,), daemon=True).start()
            return descriptors[0], handle

    def end_session(self, leader: int) -> None:
        """Kill the programs of a terminal. `leader` is what the sandbox itself calls its first program."""
        self.started()
        group = self._group(self._room.processes)
        found = processes.outer_pid(group, leader)
        if found is not None:
            session = [pid for pid in processes.members(group) if (one := processes.look(pid)) and one.session == found]
            processes.send(session, signal.SIGKILL)

    def oom_kills(self) -> int:
        """How many processes the kernel has killed for memory, in all containers of this box."""
        # The count goes with the group, which the runtime removes when the container ends.
        self._kills = max(self._kills, groups.oom_kills(self._group(self._room.memory)))
        if self._kills == 0 and self._was_killed():
            self._kills = 1
        return self._earlier_kills + self._kills

    def _was_killed(self) -> bool:
        """Whether the container is over, its group is gone, and its first process was ended by SIGKILL.

        Nothing inside can do that to the first process of a namespace, and this is asked before we do: the kernel did.
        """
        if self._container is None or self._pid() is None or self._group(self._room.memory).is_dir():
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._container.wait(PATIENCE_S)
        return self._container.returncode in KILLED

    def changes(self) -> list[upper.Change]:
        """What the upper directory holds that differs from the layers below it, while nothing runs for a moment."""
        with processes.halted(self._group(self._room.processes)):
            return self._changes()

    def _changes(self) -> list[upper.Change]:
        if len(self._lower) == 1:
            return upper.changes(self._path("upper"), self._lower[0])
        pristine = self._path("pristine")
        os.mkdir(pristine)
        try:
            syscalls.mount_overlay(pristine, self._lower)
            try:
                return upper.changes(self._path("upper"), pristine)
            finally:
                syscalls.unmount(pristine)
        finally:
            os.rmdir(pristine)

    def open(self, path: str, mode: int | None) -> int:
        """A descriptor for reading a regular file, or, with a mode, for writing a new one."""
        root = os.open(self._path("root"), os.O_RDONLY | os.O_DIRECTORY)
        try:
            return files.reading(root, path) if mode is None else files.writing(root, path, mode)
        finally:
            os.close(root)

    def freeze(self, target: str | None, below: str | None) -> str:
        """End everything; the directory that holds the changes: `target`, or one that lives as long as this box.

        `below` is the directory of the frozen state that this box was started from.
        """
        self.end()
        if target is None and below is None:
            return f"{self._room.place}/{self._path('upper')}"
        if target is None:
            # Nothing runs any more that the limit is for, and a state on a state takes the room of both.
            syscalls.mount("tmpfs", self._home, "size=0", syscalls.NODEV | syscalls.REMOUNT)
        kept = target or f"{self._room.place}/{self._path('merged')}"
        self._collect(kept, below)
        return kept

    def snapshot(self, target: str, below: str | None) -> str:
        """Copy the changes to `target` while nothing runs for a moment; the path of the container's network namespace.

        Raises Refused when no container runs.
        """
        self.started()
        pid = self._pid()
        if pid is None or not self.running():
            raise Refused("the sandbox does not run")
        with processes.halted(self._group(self._room.processes)):
            self._collect(target, below)
        return f"/proc/{pid}/ns/net"

    def _collect(self, target: str, below: str | None) -> None:
        source = f"{self._room.place}/{self._path('upper')}"
        if below is None:
            upper.copy(source, target)
        else:
            upper.copy(below, target)
            upper.copy(source, f"{target}.over")
            upper.apply(f"{target}.over", target)

    def remove(self) -> None:
        """End everything and give back all that it took."""
        self._room.count(-1)
        self.end()
        syscalls.unmount(self._path("root"))
        syscalls.unmount(self._home)
        os.rmdir(self._home)

    def _path(self, part: str) -> str:
        return f"{self._home}/{part}"

    def _log(self) -> str:
        try:
            return Path(self._path("bundle"), "log").read_text(errors="replace").strip()[-500:]
        except FileNotFoundError:
            return "it says nothing"

    def _group(self, root: Path) -> Path:
        return root / groups.TOP / self._room.owner / self._identity

    def _pid(self) -> int | None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(Path(self._path("bundle"), "pid").read_text())
        return None


def _bury_program(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
