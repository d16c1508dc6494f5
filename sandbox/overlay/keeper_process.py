"""The keeper: a process that holds the namespaces in which one driver's sandboxes live. Standard library only.

It is the first process of a pid namespace, and its mounts are in a mount namespace of its own. When its driver ends,
however that happens, the kernel closes the connection, the keeper ends, and with it every process and every mount of
every sandbox. It decides nothing: the driver's side (keeper.py) says what to do. One connection is one sandbox.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from sandbox.overlay import files, groups, processes, syscalls, upper, wire

logger = logging.getLogger(__name__)

PATIENCE_S = 10.0
LEAVING_S = 3.0
CONTROL = 0


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


class Box:
    """One sandbox: an overlay, and at most one container at a time that runs on it."""

    def __init__(self, room: Room, name: str, layers: list[str], size_mb: int) -> None:
        self._room = room
        self._home = f"boxes/{name}"
        self._lower = [room.link(layer) for layer in layers]
        self._container: subprocess.Popen[bytes] | None = None
        self._init: int | None = None
        self._identity = name
        os.mkdir(self._home)
        syscalls.mount("tmpfs", self._home, f"mode=711,size={size_mb}m", syscalls.NODEV)
        for part in ("upper", "work", "root", "bundle"):
            os.mkdir(f"{self._home}/{part}")
        syscalls.mount_overlay(self._path("root"), self._lower, self._path("upper"), self._path("work"))

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
        self._container = subprocess.Popen(
            [self._room.runtime, "--root", state, "run", "--bundle", bundle, "--pid-file", pid_file, identity],
            stdin=standard_in,
            stdout=standard_out,
            stderr=standard_error,
            cwd="/",
            start_new_session=True,
        )
        while self.running() and self._pid() is None:
            time.sleep(0.001)
        if self._pid() is None:
            raise Refused("the runtime did not start a container")

    def running(self) -> bool:
        """Whether the container is there."""
        return self._container is not None and self._container.poll() is None

    def end(self) -> None:
        """Kill every process and wait until all are dead. Raises Refused when that does not happen in time."""
        if self._container is None:
            return
        init = self._first_process()
        if init is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(init, signal.SIGKILL)
            # The first process of a namespace is dead only after all others are.
            if not processes.wait_for_end(init, PATIENCE_S):
                raise Refused("the processes of a sandbox do not end")
            os.close(init)
        # The runtime itself ends a little later, which nobody has to wait for.
        threading.Thread(target=self._container.wait, daemon=True).start()
        self._container = self._init = None

    def stop(self, shell: int, number: int, abandon: int, began_s_ago: float) -> bool:
        """Signal `number` to what the shell runs, then `abandon` to the shell; whether it ran anything.

        What runs is below the shell, or an orphan, and younger than `began_s_ago`.
        """
        group = self._group(self._room.processes)
        ancestor = processes.outer_pid(group, shell)
        first = self._pid()
        running = processes.descendants(
            group, {pid for pid in (ancestor, first) if pid is not None}, began_s_ago=began_s_ago
        )
        processes.send(running, number)
        processes.send([] if ancestor is None else [ancestor], abandon)
        return bool(running)

    def kill(self, shell: int) -> None:
        """End the shell and everything below it."""
        group = self._group(self._room.processes)
        ancestor = processes.outer_pid(group, shell)
        if ancestor is not None:
            processes.send([ancestor, *processes.descendants(group, {ancestor})], signal.SIGKILL)

    def oom_kills(self) -> int:
        return groups.oom_kills(self._group(self._room.memory))

    def changes(self) -> list[upper.Change]:
        """What the upper directory holds that differs from the layers below it."""
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
        source = f"{self._room.place}/{self._path('upper')}"
        if target is None and below is None:
            return source
        kept = target or f"{self._room.place}/{self._path('merged')}"
        if below is None:
            upper.copy(source, kept)
        else:
            upper.copy(below, kept)
            upper.apply(source, kept)
        return kept

    def net(self) -> str | None:
        """The network namespace of the running container, as a path."""
        pid = self._pid()
        return None if pid is None else f"/proc/{pid}/ns/net"

    def remove(self) -> None:
        """End everything and give back all that it took."""
        self.end()
        syscalls.unmount(self._path("root"))
        syscalls.unmount(self._home)
        os.rmdir(self._home)

    def _path(self, part: str) -> str:
        return f"{self._home}/{part}"

    def _group(self, root: Path) -> Path:
        return root / groups.TOP / self._room.owner / self._identity

    def _pid(self) -> int | None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(Path(self._path("bundle"), "pid").read_text())
        return None

    def _first_process(self) -> int | None:
        """A pidfd of the container's first process; None when the container is over. Raises Refused."""
        end = time.monotonic() + PATIENCE_S
        while self.running() and time.monotonic() < end:
            if (pid := self._pid()) is not None:
                try:
                    return os.pidfd_open(pid)
                except ProcessLookupError:
                    return None
            time.sleep(0.001)
        if self.running():
            raise Refused("the runtime does not start a sandbox and does not end")
        return None


class Service:
    """Serves one connection, which is one sandbox; when it closes, the sandbox ends."""

    def __init__(self, room: Room, connection: socket.socket) -> None:
        self._room = room
        self._connection = connection
        self._box: Box | None = None
        self._end: float | None = None
        """When the lifetime of the sandbox is over; None while it has none."""

    def serve(self) -> None:
        """Answer until the driver hangs up or the lifetime of the sandbox is over."""
        with self._connection:
            try:
                while self._answer():
                    pass
            except (wire.Closed, TimeoutError):
                pass
            finally:
                self._remove()

    def _answer(self) -> bool:
        if self._end is not None:
            self._connection.settimeout(max(0.001, self._end - time.monotonic()))
        request, descriptors = wire.receive(self._connection)
        passed: tuple[int, ...] = ()
        try:
            answer, passed = self._act(request, descriptors)
        except (OSError, Refused, subprocess.SubprocessError) as error:
            fault = type(error).__name__ if isinstance(error, OSError) else ""
            answer = {"refused": str(error), "fault": fault}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        try:
            wire.send(self._connection, answer, passed)
        finally:
            for descriptor in passed:
                os.close(descriptor)
        return bool(request["do"] != "remove")

    def _act(self, request: wire.Message, descriptors: list[int]) -> tuple[wire.Message, tuple[int, ...]]:
        do = request["do"]
        if do == "make":
            self._end = time.monotonic() + request["lifetime_s"]
            self._box = Box(self._room, request["name"], request["layers"], request["size_mb"])
            return {}, ()
        if do == "owners":
            return {"value": groups.owners(self._room.roots)}, ()
        if do == "remove_groups":
            return {"value": groups.remove(self._room.roots, request["owner"])}, ()
        if do == "remove":
            self._remove()
            return {}, ()
        if self._box is None:
            raise Refused("there is no sandbox on this connection")
        if do == "freeze":
            # A state has no processes, and stays for as long as it is wanted.
            self._end = None
            self._connection.settimeout(None)
        return _on_box(self._box, do, request, descriptors)

    def _remove(self) -> None:
        if self._box is not None:
            box, self._box = self._box, None
            try:
                box.remove()
            except (OSError, Refused) as error:
                logger.warning("a sandbox could not be removed: %s", error)
            bury_orphans()


def _on_box(box: Box, do: str, request: wire.Message, descriptors: list[int]) -> tuple[wire.Message, tuple[int, ...]]:
    if do == "run":
        box.run(request["identity"], request["config"], descriptors)
        return {}, ()
    if do == "open":
        return {}, (box.open(request["path"], request["mode"]),)
    if do == "stop":
        return {"value": box.stop(request["shell"], request["signal"], request["abandon"], request["began_s_ago"])}, ()
    if do == "kill":
        box.kill(request["shell"])
        return {}, ()
    if do == "freeze":
        return {"value": box.freeze(request["target"], request["below"])}, ()
    plain = {"oom_kills": box.oom_kills, "changes": box.changes, "net": box.net}
    if do not in plain:
        raise Refused(f"{do} is nothing that a keeper does")
    return {"value": plain[do]()}, ()


def bury_orphans() -> None:
    """Wait for dead processes that nobody else waits for: the first process of a namespace inherits them."""
    known = {one.pid for one in list(subprocess._active)}  # type: ignore[attr-defined]
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if dead.si_pid in known:
                return
            os.waitpid(dead.si_pid, 0)


def leave(room: Room) -> None:
    """End everything below this process, remove the control groups, and end. Nothing may hold that up."""
    threading.Timer(LEAVING_S, os._exit, (1,)).start()
    # To the first process of a namespace these are all others in it.
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    groups.remove(room.roots, room.owner)
    os._exit(0)


def main(arguments: list[str]) -> None:
    """Serve until the driver closes the control connection. Arguments: place, owner, runtime."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=CONTROL)
    try:
        room = Room(*arguments)
    except OSError as error:
        wire.send(control, {"refused": str(error)})
        return
    wire.send(control, {})
    while True:
        try:
            _, descriptors = wire.receive(control)
        except wire.Closed:
            leave(room)
        for descriptor in descriptors:
            service = Service(room, socket.socket(fileno=descriptor))
            threading.Thread(target=service.serve, daemon=True).start()


if __name__ == "__main__":
    logging.basicConfig(format="keeper: %(message)s")
    main(sys.argv[1:])
