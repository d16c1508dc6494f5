"""One run of the engine's BuildKit by the docker command line: only that speaks its protocol.

By the plug-in buildx where there is one, else by a client old enough (before 23) to know BuildKit itself.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO

import docker

from sandbox.building.outcome import DOCKERFILE, LOG_BYTES, BuildOutcome
from sandbox.building.step_limits import groups_of, socket_of
from sandbox.building.watch import Watch
from sandbox.errors import SandboxUnavailable
from sandbox.output import OutputBuffer
from sandbox.streams import Deadline, engine_call
from sandbox.types import BuildLimits

logger = logging.getLogger(__name__)

LINE_BYTES = 1 << 16
# Either of these would win over the address of our engine, or change how it is talked to.
_ENV = ("env", "-u", "DOCKER_CONTEXT", "-u", "DOCKER_TLS_VERIFY")
_PROBE_TIMEOUT_S = 20
# The client ends with this process, however that ends: then nobody holds the other end of the pipe any more, and the
# engine ends a build whose client is gone. $1 is the pipe.
_WITH_DRIVER = """
exec 3<&0 0</dev/null
pipe=$1; shift
"$@" <&3 &
client=$!
exec 3<&-
( read -r _ <&"$pipe"; kill -9 0 ) 2>/dev/null &
watcher=$!
wait "$client"; code=$?
kill "$watcher" 2>/dev/null
exit "$code"
"""
# Number of a step, seconds where the step itself wrote what follows.
_LINE = re.compile(r"#(\d+) (\d+\.\d+ ?)?(.*)")
_TITLE = re.compile(r"\[(?!internal).+\] \S|https?://")
_RULER = re.compile(r"-{6,}")
_NOISE = re.compile(r"sha256:[0-9a-f]{64}$|(?:DONE|CACHED)\b|(?:transferring|exporting|writing|naming|resolve) ")
_ERROR = re.compile(r"ERROR: (.*)")
_STEP_FAILED = re.compile(
    r"(?:executor failed running \[(?P<old>.*)\]|process \"(?P<new>.*)\" did not complete successfully)"
    r": exit code: (?P<code>\d+)",
    re.DOTALL,
)
_STEP = re.compile(r"The command '.*' returned a non-zero code: \d+", re.DOTALL)
_WRAPPING = re.compile(
    r"^(?:ERROR: )?(?:failed to solve(?: with frontend \S+)?: |rpc error: code = \w+ desc = "
    r"|failed to create LLB definition: |failed to compute cache key: |failed to load cache key: )+"
)
_MOUNT = re.compile(r"\S*/buildkit-mount\d+(?=/)")
_ENGINE_GONE = re.compile(
    r"cannot connect to the docker daemon|error during connect|error reading from server|transport is closing"
    r"|failed to receive status|connection reset by peer|no active session|graceful_stop|did not provide an image id",
    re.IGNORECASE,
)


@functools.cache
def client_command() -> tuple[str, ...] | None:
    """The words behind `env` that build with BuildKit; None where no docker client can. Looked for once."""
    programs = [os.path.join(folder, "docker") for folder in os.get_exec_path()]
    programs = list(dict.fromkeys(program for program in programs if os.access(program, os.X_OK)))
    for program in programs:
        if "buildx" in _answer(program, "buildx", "version"):
            return ("BUILDX_BUILDER=default", program, "buildx", "build")
    for program in programs:
        # The version of the client alone would need an engine that answers.
        version = re.search(r"version (\d+)\.", _answer(program, "--version"))
        if version and int(version[1]) < 23:
            return ("DOCKER_BUILDKIT=1", program, "build")
    return None


def _answer(*command: str) -> str:
    try:
        done = subprocess.run([*_ENV, *command], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.info("%s is passed over: %s", command[0], error)
        return ""
    return done.stdout if done.returncode == 0 else ""


def _is_there(client: docker.DockerClient) -> bool:
    """Whether the engine answers: what an engine says on its way out is not always known to be that."""
    try:
        with engine_call("asking the engine for an answer"):
            return bool(client.ping())
    except SandboxUnavailable:
        return False


def run_buildkit(
    client: docker.DockerClient,
    context: Iterable[bytes],
    *,
    tag: str,
    build_args: dict[str, str],
    limits: BuildLimits,
    labels: dict[str, str],
) -> BuildOutcome:
    """Build the Dockerfile named DOCKERFILE in `context` (chunks of a tar archive).

    Raises SandboxUnavailable when the engine is gone or no client knows BuildKit; every answer of it is an outcome.
    """
    program = client_command()
    if program is None:
        raise SandboxUnavailable("no docker client here knows BuildKit; install docker-buildx")
    groups = groups_of(client)
    with groups.of_buildkit(limits) if groups else nullcontext(), tempfile.TemporaryDirectory() as folder:
        id_file = Path(folder) / "id"
        socket = socket_of(client)
        command = [*_ENV, f"DOCKER_HOST=unix://{socket}"] if socket else ["env"]
        command += [*program, "--progress=plain", f"--iidfile={id_file}", f"--file={DOCKERFILE}", f"--tag={tag}"]
        command += [f"--build-arg={name}={value}" for name, value in sorted(build_args.items())]
        command += [f"--label={name}={value}" for name, value in sorted(labels.items())]
        log = _Log()
        clock = Deadline(limits.timeout_s)
        with _running([*command, "-"], context) as build, Watch(client, limits, lambda: _end(build)) as watch:
            assert build.stdout is not None
            for line in iter(functools.partial(build.stdout.readline, LINE_BYTES), b""):
                log.add(line.decode("utf-8", "replace").rstrip("\r\n"))
            code = build.wait()
        image_id = id_file.read_text().strip() if code == 0 and id_file.exists() else None
    error = watch.reason or ("" if image_id else log.error)
    answered = bool(watch.reason or image_id or _STEP.match(error))
    if not answered and (_ENGINE_GONE.search(error or "error during connect") or not _is_there(client)):
        raise SandboxUnavailable(f"building an image with BuildKit: {error or f'its client ended with {code}'}")
    return BuildOutcome(
        image_id=None if error else image_id,
        error=error,
        log=log.text,
        last_step=log.failed_step,
        timed_out=watch.timed_out,
        out_of_space=watch.out_of_space,
        seconds=clock.elapsed,
        builder="buildkit",
    )


@contextmanager
def _running(command: list[str], context: Iterable[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The client at work, fed with `context`; it is ended at the end. Raises SandboxUnavailable."""
    read_end, write_end = os.pipe()
    try:
        build = subprocess.Popen(
            ["sh", "-c", _WITH_DRIVER, "sh", str(read_end), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[read_end],
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxUnavailable(f"the docker client cannot be started: {error}") from error
    finally:
        os.close(read_end)
    assert build.stdin is not None
    feeder = threading.Thread(target=_feed, args=(build.stdin, context), daemon=True)
    feeder.start()
    try:
        yield build
    finally:
        _end(build)
        build.wait()
        os.close(write_end)
        feeder.join()
        if build.stdout is not None:
            build.stdout.close()


def _feed(stdin: IO[bytes], context: Iterable[bytes]) -> None:
    # A client that has ended, for whatever reason, says more about it than the broken pipe.
    with contextlib.suppress(BrokenPipeError), stdin:
        for chunk in context:
            stdin.write(chunk)


def _end(build: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(build.pid, signal.SIGKILL)


class _Log:
    """The client's plain progress: its numbered lines without the numbers, and what failed."""

    def __init__(self) -> None:
        self._all = OutputBuffer(LOG_BYTES // 4, LOG_BYTES)
        self._steps: dict[str, OutputBuffer] = {}
        self._failed = ""
        self._tail: deque[str] = deque(maxlen=20)

    def add(self, line: str) -> None:
        """Take the next line."""
        if _RULER.fullmatch(line):
            # Between two of these the client repeats the step that failed; the engine's answer follows the last one.
            self._tail.clear()
            return
        match = _LINE.fullmatch(line)
        if match is None:
            if line and not line.startswith("WARNING:"):
                self._tail.append(line)
            return
        number, written, text = match.groups()
        if not written and _NOISE.match(text):
            return
        if not written and (error := _ERROR.match(text)):
            self._failed = number
            text = _as_classic(error[1])
        if number not in self._steps:
            if written or not _TITLE.match(text):
                return
            self._steps[number] = OutputBuffer(0, LOG_BYTES)
        for sink in (self._all, self._steps[number]):
            sink.add(f"{text}\n".encode())

    @property
    def error(self) -> str:
        """The engine's last word, without what wraps it; empty when there was none."""
        return _as_classic("\n".join(self._tail))

    @property
    def failed_step(self) -> str:
        """What the step that failed wrote."""
        step = self._steps.get(self._failed)
        return step.text() if step else ""

    @property
    def text(self) -> str:
        """The log of all steps and the error at its end."""
        text, error = self._all.text(), f"{self.error}\n" if self.error else ""
        return text if text.endswith(error) else text + error


def _as_classic(text: str) -> str:
    """The engine's message, a failed step in the words of the classic builder, no path of this machine in it."""
    text = _MOUNT.sub("", _WRAPPING.sub("", text.strip()))
    if match := _STEP_FAILED.search(text):
        return f"The command '{match['old'] or match['new']}' returned a non-zero code: {match['code']}"
    return text
