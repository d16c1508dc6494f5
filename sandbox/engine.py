"""Which Docker engine we talk to, and who owns a container in it.

The engine itself is started and stopped by `infra/bootstrap.sh`, never here. Removing what dead owners left behind is
the work of the backends.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import docker
from docker.errors import DockerException
from pydantic import ValidationError

from sandbox.errors import SandboxUnavailable
from sandbox.types import Frozen

OWNER = "touchstone.owner"
DEADLINE = "touchstone.deadline"
REMEDY = "run infra/bootstrap.sh"
# One connection per concurrent call; a smaller pool makes threads throw connections away.
POOL_SIZE = 32


class EngineAddress(Frozen):
    """The content of `engine.json` in the data folder."""

    socket: Path
    """Absolute path of the engine's unix socket."""
    owned: bool
    """True when bootstrap.sh started this engine for this data folder, and may stop it."""
    egress: Path | None = None
    """Folder that is shared with the proxy of an engine of ours; None for any other engine."""


def address(data: Path) -> EngineAddress | None:
    """The engine that bootstrap.sh chose for this data folder, None when it did not run yet.

    Raises SandboxUnavailable when the file is there and cannot be understood.
    """
    path = data / "engine.json"
    try:
        return EngineAddress.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SandboxUnavailable(f"{path} cannot be read ({error}); {REMEDY}") from error
    except ValidationError as error:
        raise SandboxUnavailable(f"{path} cannot be read ({error.errors()[0]['msg']}); {REMEDY}") from error


def connect(data: Path, *, timeout_s: int = 60) -> docker.DockerClient:
    """A client of the engine chosen for `data`, else of the Docker client's own default address. It has answered.

    Raises SandboxUnavailable with its remedy when no engine answers. The caller closes the client.
    """
    chosen = address(data)
    where = f"unix://{chosen.socket}" if chosen else "the default address"
    try:
        if chosen:
            return _answering(docker.DockerClient(base_url=where, timeout=timeout_s, max_pool_size=POOL_SIZE))
        return _answering(docker.from_env(timeout=timeout_s, max_pool_size=POOL_SIZE))
    except (DockerException, OSError) as error:
        raise SandboxUnavailable(f"no Docker engine answers at {where} ({error}); {REMEDY}") from error


def _answering(client: docker.DockerClient) -> docker.DockerClient:
    try:
        client.ping()
    except Exception:
        client.close()
        raise
    return client


def owner() -> str:
    """What names this process for as long as the machine runs: digits, letters, `:`, `-` and `.`."""
    pid = os.getpid()
    return f"{pid}:{_start_time(pid)}:{_machine()}"


def owner_labels(lifetime_s: int) -> dict[str, str]:
    """Labels for a container that this process owns for at most `lifetime_s` seconds (deadline in Unix seconds)."""
    return {OWNER: owner(), DEADLINE: str(int(time.time()) + lifetime_s)}


def owner_is_alive(label: str) -> bool:
    """Whether the process named by an owner label still runs.

    False when the machine was booted since. A process of another pid namespace (an engine shared by several
    containers) and a label that is not ours cannot be judged: they count as alive until the deadline passes.
    """
    pid, _, rest = label.partition(":")
    start, _, machine = rest.partition(":")
    boot, _, namespace = machine.partition(".")
    here_boot, _, here_namespace = _machine().partition(".")
    if not (pid.isdigit() and start.isdigit() and boot and namespace):
        return True
    if boot != here_boot:
        return False
    return namespace != here_namespace or _start_time(int(pid)) == int(start)


def _machine() -> str:
    """Boot and pid namespace: what makes a pid unique."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"


def _start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None when it is gone or only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name may hold spaces and brackets: the fixed fields start after the last bracket.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])
