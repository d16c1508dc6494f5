"""How a container of ours is confined, in the words of an OCI runtime: exactly as the engine confines its own.

The engine is asked, not copied: a container of the image with our hardening (container/containers.py) is started once,
and the configuration that the engine wrote for its runtime is read: its own seccomp profile, masked paths and device
rules, the image's user and environment. Only what belongs to one sandbox is changed in it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.container.containers import Containers, Role
from sandbox.errors import SandboxUnavailable
from sandbox.streams import engine_call
from sandbox.types import Limits

CPU_PERIOD_US = 100_000


@dataclass(frozen=True)
class Place:
    """Where one container runs."""

    root: str
    """Its root directory."""
    group: str
    """Path of its control group."""
    net: str | None = None
    """Network namespace to join; None for one of its own, with nothing but the loopback device."""


@dataclass(frozen=True)
class Program:
    """What one container runs."""

    arguments: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    binds: Mapping[str, str] = field(default_factory=dict)
    """Folder inside -> folder of this machine, read-only."""
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    """Folder inside -> mount options, comma separated."""


def engine_spec(containers: Containers, image: str) -> dict[str, Any]:
    """The configuration that the engine gives a container with our hardening.

    Raises SandboxUnavailable when it cannot be read here, ImageMissing or ImageUnusable.
    """
    container = containers.run(image, Limits(lifetime_s=60), Role(command=["sleep", "60"], init=False))
    try:
        with engine_call("looking at a container"):
            pid = int(containers.client.api.inspect_container(container)["State"]["Pid"])
        try:
            # The parent of the first process is the engine's shim, which works in the folder with the configuration.
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            spec: dict[str, Any] = json.loads(Path(f"/proc/{parent}/cwd/config.json").read_bytes())
        except (OSError, ValueError) as error:
            raise SandboxUnavailable(f"the engine's configuration of a container cannot be read ({error})") from error
    finally:
        containers.remove(container)
    if "seccomp" not in spec.get("linux", {}):
        raise SandboxUnavailable("the engine gives its containers no seccomp profile")
    return spec


def container_spec(engine: dict[str, Any], place: Place, program: Program, limits: Limits) -> dict[str, Any]:
    """The configuration of one container: the engine's, with the given place, program and limits."""
    spec = copy.copy(engine)
    spec.pop("hooks", None)
    spec["root"] = {"path": place.root}
    spec["process"] = process_spec(engine, program)
    spec["mounts"] = [one for one in engine["mounts"] if one["type"] != "bind"] + _mounts(program)
    linux = copy.copy(engine["linux"])
    linux["cgroupsPath"] = place.group
    linux["resources"] = _resources(engine["linux"]["resources"], limits)
    # The names of the groups are those of processes of this machine, which a sandbox has no business to know.
    linux["namespaces"] = [one for one in linux["namespaces"] if one["type"] != "cgroup"] + [{"type": "cgroup"}]
    if place.net is not None:
        linux["namespaces"] = [
            {"type": "network", "path": place.net} if one["type"] == "network" else one for one in linux["namespaces"]
        ]
        # These belong to the namespace, which is another container's.
        linux.pop("sysctl", None)
    spec["linux"] = linux
    return spec


def process_spec(engine: dict[str, Any], program: Program, *, terminal: bool = False) -> dict[str, Any]:
    """What runs in a container and with which rights, from the engine's configuration of a whole container."""
    process: dict[str, Any] = engine["process"]
    environment = dict(pair.partition("=")[::2] for pair in process["env"]) | dict(program.environment)
    return process | {
        "args": program.arguments,
        "env": [f"{name}={value}" for name, value in environment.items()],
        "terminal": terminal,
    }


def _mounts(program: Program) -> list[dict[str, object]]:
    made: list[dict[str, object]] = [
        {"destination": inside, "type": "tmpfs", "source": "tmpfs", "options": options.split(",")}
        for inside, options in program.tmpfs.items()
    ]
    made += [
        {"destination": inside, "type": "bind", "source": outside, "options": ["bind", "ro", "nosuid", "nodev"]}
        for inside, outside in program.binds.items()
    ]
    return made


def _resources(engine: dict[str, Any], limits: Limits) -> dict[str, Any]:
    memory = limits.memory_mb << 20
    resources = engine | {
        "memory": {"limit": memory, "swap": memory, "disableOOMKiller": False},
        "cpu": {"quota": int(limits.cpus * CPU_PERIOD_US), "period": CPU_PERIOD_US},
        "pids": {"limit": limits.pids},
    }
    resources.pop("blockIO", None)
    return resources
