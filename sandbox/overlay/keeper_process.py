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

from sandbox.overlay import groups, processes, wire
from sandbox.overlay.keeper_box import Box, Refused, Room

logger = logging.getLogger(__name__)

LEAVING_S = 3.0
CONTROL = 0


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
                # The driver hung up, or the time of the sandbox is over: both are its end.
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
        except (OSError, Refused, ValueError, subprocess.SubprocessError) as error:
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
    if do == "started":
        box.started()
        return {}, ()
    if do == "snapshot":
        return {"value": box.snapshot(request["target"], request["below"])}, ()
    if do == "terminal":
        return {}, box.terminal(request["process"])
    if do == "end_session":
        box.end_session(request["leader"])
        return {}, ()
    if do == "stop":
        return {"value": box.stop(request["shell"], request["signal"], request["abandon"], request["began_s_ago"])}, ()
    if do == "kill":
        box.kill(request["shell"])
        return {}, ()
    if do == "freeze":
        return {"value": box.freeze(request["target"], request["below"])}, ()
    plain = {"oom_kills": box.oom_kills, "changes": box.changes, "running": box.running}
    if do not in plain:
        raise Refused(f"{do} is nothing that a keeper does")
    return {"value": plain[do]()}, ()


def bury_orphans() -> None:
    """Wait for dead processes of sandboxes that nobody else waits for: the first process of a namespace inherits them.

    Never for a program that this process started itself: whoever waits for it would take a failure for success.
    """
    for children in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for pid in map(int, children.read_text().split()):
                if processes.is_inside(pid):
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)


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
