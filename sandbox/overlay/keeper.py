"""The driver's side of its keeper: starts it, and asks it for one sandbox per connection.

What the keeper does with the requests is in keeper_process.py.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path

from sandbox.engine import owner, owner_is_alive
from sandbox.errors import SandboxUnavailable
from sandbox.overlay import wire

logger = logging.getLogger(__name__)

PACKAGES = Path(__file__).resolve().parents[2]
# A request that changes nothing large is answered at once; copying a large state may take a while.
ANSWER_TIMEOUT_S = 300.0
START_TIMEOUT_S = 30.0
_PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from sandbox.overlay.keeper_process import main
main(sys.argv[1:])
"""


class Refusal(Exception):
    """The keeper says that it cannot do what it was asked for."""

    def __init__(self, text: str, fault: str) -> None:
        super().__init__(text)
        self.fault = fault
        """Name of the system's error, e.g. `FileNotFoundError`; empty for others."""


class Connection:
    """One conversation with the keeper, which is one sandbox. For one thread at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._connection.settimeout(ANSWER_TIMEOUT_S)
        self._open = True

    def ask(self, do: str, descriptors: tuple[int, ...] = (), **values: object) -> wire.Message:
        """Have something done. Raises Refusal, or SandboxUnavailable when the keeper or its sandbox is gone."""
        answer, received = self._ask(do, descriptors, values)
        for descriptor in received:
            os.close(descriptor)
        return answer

    def ask_for_descriptors(self, do: str, **values: object) -> list[int]:
        """Like `ask`, for open files. The caller closes them."""
        _, received = self._ask(do, (), values)
        return received

    def _ask(self, do: str, descriptors: tuple[int, ...], values: wire.Message) -> tuple[wire.Message, list[int]]:
        if not self._open:
            raise SandboxUnavailable("the sandbox was closed")
        try:
            wire.send(self._connection, {"do": do, **values}, descriptors)
            answer, received = wire.receive(self._connection)
        except (wire.Closed, TimeoutError) as error:
            raise SandboxUnavailable(f"the keeper of this sandbox is gone, or the sandbox is over ({error})") from error
        if "refused" in answer:
            raise Refusal(answer["refused"], answer.get("fault", ""))
        return answer, received

    def close(self) -> None:
        """Hang up: the keeper ends the sandbox if it is still there. Safe to call twice."""
        self._open = False
        self._connection.close()


class Keeper:
    """The keeper of this process, started when first needed and again when it was killed. Safe for several threads."""

    def __init__(self, place: Path, runtime: str) -> None:
        self.place = place
        self._runtime = runtime
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self.owner = ""
        """Name of the control groups of its sandboxes; empty until it is started."""
        forget = weakref.WeakMethod(self._forget)
        os.register_at_fork(after_in_child=lambda: (method := forget()) and method())

    def connect(self) -> Connection:
        """A new conversation. Raises SandboxUnavailable."""
        ours, theirs = socket.socketpair()
        with theirs, self._guard:
            control = self._running()
            try:
                wire.send(control, {}, (theirs.fileno(),))
            except wire.Closed as error:
                self._end()
                ours.close()
                raise SandboxUnavailable(f"the keeper of the sandboxes is gone ({error})") from error
        return Connection(ours)

    def close(self) -> None:
        """End the keeper and all its sandboxes."""
        with self._guard:
            self._end()

    def _running(self) -> socket.socket:
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self._end()
        self.owner = owner_to_name(owner())
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = self._start(theirs)
        ours.settimeout(START_TIMEOUT_S)
        try:
            answer, _ = wire.receive(ours)
        except (wire.Closed, TimeoutError) as error:
            ours.close()
            self._end()
            raise SandboxUnavailable(f"the keeper of the sandboxes did not start ({error})") from error
        if "refused" in answer:
            ours.close()
            self._end()
            raise SandboxUnavailable(f"the keeper of the sandboxes cannot work here: {answer['refused']}")
        ours.settimeout(None)
        self._control = ours
        return ours

    def _start(self, control: socket.socket) -> subprocess.Popen[bytes]:
        try:
            self.place.mkdir(parents=True, exist_ok=True)
            # What the driver keeps from other users the users of a sandbox must be able to see.
            return subprocess.Popen(
                self._command(), stdin=control.fileno(), stdout=subprocess.DEVNULL, cwd="/", umask=0o022
            )
        except OSError as error:
            raise SandboxUnavailable(f"the keeper of the sandboxes cannot be started: {error}") from error

    def _command(self) -> list[str]:
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "slave"]
        # Isolated and without our packages it starts in a few hundredths of a second, and holds little memory.
        python = [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, str(PACKAGES)]
        return [*unshare, *python, str(self.place), self.owner, self._runtime]

    def _forget(self) -> None:
        """In a forked child: the keeper is the parent's, and must end with it, not with the last of its children."""
        self._guard = threading.Lock()
        if self._control is not None:
            self._control.close()
        self._control = self._process = None

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            # Hanging up ends it; whoever waits for its end knows that every sandbox is gone.
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def owner_to_name(label: str) -> str:
    """A name for control groups, from which the owner can be read again."""
    return f"{label.replace(':', '_')}_{secrets.token_hex(4)}"


def name_to_owner(name: str) -> str:
    """The owner label behind the name of control groups."""
    return name.rpartition("_")[0].replace("_", ":")


def remove_dead_groups(keeper: Keeper) -> int:
    """Remove the control groups of keepers whose drivers are dead; of how many sandboxes. Raises SandboxUnavailable."""
    connection = keeper.connect()
    try:
        dead = [name for name in connection.ask("owners")["value"] if not owner_is_alive(name_to_owner(name))]
        return sum(int(connection.ask("remove_groups", owner=name)["value"]) for name in dead)
    finally:
        connection.close()
