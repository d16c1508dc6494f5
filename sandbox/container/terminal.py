"""A terminal in a container, through the engine's API: an exec with a tty.

What a terminal does is in terminals/terminal.py; commands without one are in sandbox.py.
"""

from __future__ import annotations

import logging
import select
import ssl
from collections.abc import Callable

import docker
from docker.errors import APIError, NotFound

from sandbox.errors import SandboxUnavailable
from sandbox.streams import CHUNK, Deadline, HijackedStream, engine_call
from sandbox.terminals.foreground import awaits_input, belongs_to
from sandbox.terminals.marks import ENVIRONMENT, STARTED, start_command
from sandbox.terminals.pty_stream import Unsent
from sandbox.terminals.terminal import Terminal

logger = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0
_LONGEST_START = 1 << 16
# Kills every process of the session that $1 leads, whatever they ignore. The name of a program may hold blanks and
# brackets, so fields are counted from behind the last bracket: state, parent, group, session.
_KILL_SESSION = r"""leader=$1
for stat in /proc/[0-9]*/stat; do
  line=; read -r line <"$stat" || continue
  set -- ${line##*)}
  if [ "$4" = "$leader" ]; then process=${stat#/proc/}; kill -KILL "${process%/stat}"; fi
done 2>/dev/null"""


def open_terminal(
    client: docker.DockerClient,
    container: str,
    workdir: str,
    check: Callable[[], None],
    *,
    rows: int,
    columns: int,
) -> Terminal:
    """A terminal with bash, or sh where there is none, in `workdir` of a running container.

    `check` is called when the shell is over. It raises SandboxUnavailable when the container was ended from outside, so
    that this is never taken for something the shell did. Raises SandboxUnavailable when no shell can be started.
    """
    stream = ContainerPty(client, container, workdir, (rows, columns), check)
    return Terminal(stream, rows, columns)


class _RawStream(HijackedStream):
    """A stream with a tty: there are no frames."""

    def __init__(self, client: docker.DockerClient, path: str) -> None:
        super().__init__(client, path, {"Tty": True, "Detach": False})
        self._unsent = Unsent()

    def type(self, data: bytes) -> None:
        """Send what the engine takes now and keep the rest."""
        self._unsent.add(data)
        self._flush()

    def read_raw(self, wait_s: float) -> bytes:
        """What arrives within `wait_s`."""
        if self._unsent:
            self._poll.modify(self._socket, select.POLLIN | select.POLLOUT | select.POLLHUP | select.POLLERR)
            self._poll.poll(max(0.0, wait_s) * 1000)
            self._poll.modify(self._socket, select.POLLIN | select.POLLHUP | select.POLLERR)
            self._flush()
            wait_s = 0
        data = self._pending or self._receive(wait_s)
        self._pending = b""
        return data

    def _flush(self) -> None:
        try:
            while self._unsent:
                self._unsent.taken(self._socket.send(self._unsent.first()[:CHUNK]))
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            # The other side is gone: the next read says whether it ended or the connection broke.
            self._unsent = Unsent()


class ContainerPty:
    """Implements `sandbox.terminals.pty_stream.PtyStream` with an exec of an engine."""

    def __init__(
        self,
        client: docker.DockerClient,
        container: str,
        workdir: str,
        size: tuple[int, int],
        check: Callable[[], None],
    ) -> None:
        self._api = client.api
        self._container = container
        self._check = check
        self._checked = False
        self._closed = False
        self._early = b""
        with engine_call("opening a terminal"):
            command = start_command(workdir, *size)
            self._exec: str = self._api.exec_create(container, command, stdin=True, tty=True, environment=ENVIRONMENT)[
                "Id"
            ]
            self._stream = _RawStream(client, f"/exec/{self._exec}/start")
        try:
            self._shell = self._started()
            # Not every image has stty.
            self.resize(*size)
            self._process = self._host_process()
        except BaseException:
            self._stream.close()
            raise

    @property
    def ended(self) -> bool:
        """Whether the shell is over and all its output was read."""
        return self._closed or (self._stream.ended and not self._early)

    def send(self, data: bytes) -> None:
        """Type, as the protocol says."""
        if not self.ended:
            self._stream.type(data)

    def read(self, wait_s: float) -> bytes:
        """Output, as the protocol says."""
        if self._closed:
            return b""
        early, self._early = self._early, b""
        data = early or self._stream.read_raw(wait_s)
        if self._stream.ended and not self._checked:
            self._check()
            self._checked = True
        return data

    def resize(self, rows: int, columns: int) -> None:
        """Tell the programs a new size; a shell that is over has none."""
        with engine_call("resizing a terminal"):
            try:
                self._api.exec_resize(self._exec, height=rows, width=columns)
            except APIError:
                if self._api.exec_inspect(self._exec)["Running"]:
                    raise

    def awaits_input(self) -> bool | None:
        """Whether the program in the foreground is blocked reading; None for an engine on another machine."""
        return None if self._process is None else awaits_input(self._process)

    def close(self) -> None:
        """Kill what the shell started and has not given a session of its own, and give the connection back."""
        if self._closed:
            return
        over, self._closed = self.ended, True
        self._stream.close()
        if not over:
            self._kill_session()

    def _kill_session(self) -> None:
        try:
            with engine_call("closing a terminal"):
                killer = self._api.exec_create(
                    self._container, ["sh", "-c", _KILL_SESSION, "sh", self._shell], user="0"
                )
                self._api.exec_start(killer["Id"], detach=True)
        except SandboxUnavailable as error:
            # The sandbox may be gone or stopped already, and with it the shell.
            logger.debug("the shell of a terminal was not killed: %s", error)

    def _started(self) -> str:
        """Process id of the shell in its container, once it says so; what it said after that is read first."""
        clock = Deadline(START_TIMEOUT_S)
        said = b""
        while clock.left > 0 and not self._stream.ended and len(said) < _LONGEST_START:
            said += self._stream.read_raw(clock.left)
            if (match := STARTED.search(said)) is not None:
                self._early = said[match.end() :]
                return match[1].decode()
        raise SandboxUnavailable(f"no shell started on a terminal: {said[-500:].decode('utf-8', 'replace')}")

    def _host_process(self) -> int | None:
        """The shell as this machine sees it; None when the engine is elsewhere."""
        with engine_call("looking at a terminal"):
            try:
                process = int(self._api.exec_inspect(self._exec).get("Pid") or 0)
            except NotFound:
                return None
        return process if process > 0 and belongs_to(process, self._container) else None
