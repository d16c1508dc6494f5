"""How every container of ours is made: the hardening, the limits, the labels of its owner, and what its image says.

What runs in it is not here; see backends/docker.py.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import docker
from docker.errors import APIError, ImageNotFound, NotFound
from docker.types import LogConfig, Ulimit

from sandbox.building.builds import LABEL
from sandbox.engine import owner_labels
from sandbox.errors import ImageMissing, ImageUnusable
from sandbox.streams import engine_call
from sandbox.types import Limits

logger = logging.getLogger(__name__)

# Dropping everything breaks apt, dpkg, useradd, su and tar -p; with these few they work.
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "KILL", "SYS_CHROOT")
FILE_SIZE = 4 << 30
SHM_SIZE = 64 << 20
HOSTNAME = "sandbox"
# A script may not meet the host's locale or a terminal, so that its output is the same everywhere.
ENVIRONMENT = {"LANG": "C.UTF-8", "TERM": "dumb"}
# An engine that starts many containers at once answers late.
START_TIMEOUT_S = 180
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class ImageFacts:
    """What the configuration of an image says."""

    digest: str
    workdir: str
    environment: dict[str, str]
    user: str
    """As the image names it, e.g. `worker:staff`; empty for root."""


@dataclass(frozen=True)
class Role:
    """What one container is for."""

    command: list[str]
    """Program and arguments of its first process."""
    environment: dict[str, str] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()
    """`volume:path:ro`."""
    tmpfs: dict[str, str] = field(default_factory=dict)
    reads_input: bool = False
    user: str = ""
    """User of the first process; empty is that of the image."""
    network_of: str | None = None
    """Container whose network it joins, in place of the one that the limits say."""
    init: bool = True
    """Whether a small init of the engine stands above the first process and buries orphans."""


class Containers:
    """Creates hardened containers. Safe for several threads."""

    def __init__(self, client: docker.DockerClient, network_environment: Mapping[str, str] | None = None) -> None:
        """`network_environment` is for containers with a network only: what they need to find their way out."""
        self.client = client
        self._network_environment = network_environment or {}
        self._facts: dict[str, ImageFacts] = {}
        self._has_init = True
        self._checked: set[str] = set()
        self._guard = threading.Lock()

    def image(self, digest: str) -> ImageFacts:
        """What an image says, asked once per digest. Raises ImageMissing or SandboxUnavailable."""
        with self._guard:
            known = self._facts.get(digest)
        if known is None:
            known = self._look(digest)
            with self._guard:
                self._facts[digest] = known
        return known

    def create(self, image: str, limits: Limits, role: Role) -> str:
        """Id of a new container, not started. Raises ImageMissing or SandboxUnavailable."""
        api = self.client.api
        connected = role.network_of is None and limits.network != "none"
        environment = ENVIRONMENT | role.environment | dict(self._network_environment if connected else {})
        with engine_call(f"creating a container of {image}"):
            try:
                made = api.create_container(
                    image,
                    entrypoint=role.command,
                    environment=environment,
                    # Who joins a network has the name that goes with it.
                    hostname=None if role.network_of else HOSTNAME,
                    # The engine makes a missing working directory: a state in which it was removed must stay so.
                    working_dir="/",
                    labels=owner_labels(limits.lifetime_s) | {LABEL: "1"},
                    stdin_open=role.reads_input,
                    user=role.user or None,
                    host_config=self._host_config(limits, role),
                    use_config_proxy=False,
                )
            except NotFound as error:
                raise missing(image) from error
        return str(made["Id"])

    def run(self, image: str, limits: Limits, role: Role) -> str:
        """Create and start; the id. Nothing stays behind on failure.

        Raises ImageMissing, SandboxUnavailable, or ImageUnusable when the image lacks the program.
        """
        container = self.create(image, limits, role)
        try:
            if image not in self._checked:
                self._check_programs(image, container, (role.command[0], "sh"))
                self._checked.add(image)
            with engine_call(f"starting a container of {image}"):
                self.start(container)
        except BaseException as error:
            self.remove(container)
            if "docker-init" in str(error) and self._has_init:
                logger.warning("this engine has no docker-init: orphaned processes of sandboxes will not be buried")
                self._has_init = False
                return self.run(image, limits, role)
            raise
        return container

    def start(self, container: str) -> None:
        """Start a created or stopped container. Raises SandboxUnavailable, or APIError when it cannot run."""
        api = self.client.api
        response = api.post(f"{api.base_url}/v{api.api_version}/containers/{container}/start", timeout=START_TIMEOUT_S)
        api._raise_for_status(response)

    def remove(self, container: str) -> bool:
        """Remove a container and what it runs; False when it is gone already. Raises SandboxUnavailable."""
        with engine_call("removing a container"):
            try:
                self.client.api.remove_container(container, force=True, v=True)
            except NotFound:
                return False
            except APIError as error:
                if error.status_code == 409 and "already in progress" in str(error.explanation):
                    return False
                raise
        return True

    def _check_programs(self, image: str, container: str, programs: tuple[str, ...]) -> None:
        """Ask for programs by name: a first process that cannot be started would be noticed too late or by chance."""
        api = self.client.api
        folders = self.image(image).environment.get("PATH", DEFAULT_PATH).split(":")
        for program in programs:
            with engine_call(f"looking for {program} in image {image}"):
                for folder in folders:
                    response = api.head(
                        f"{api.base_url}/v{api.api_version}/containers/{container}/archive",
                        params={"path": f"{folder}/{program}"},
                        timeout=api.timeout,
                    )
                    if response.status_code == 200:
                        break
                else:
                    raise ImageUnusable(f"image {image} cannot hold a sandbox: it has no program `{program}`")

    def _host_config(self, limits: Limits, role: Role) -> dict[str, object]:
        memory = limits.memory_mb << 20
        config: dict[str, object] = self.client.api.create_host_config(
            binds=list(role.volumes),
            cap_add=list(CAPABILITIES),
            cap_drop=["ALL"],
            init=role.init and self._has_init,
            log_config=LogConfig(type="none"),
            mem_limit=memory,
            memswap_limit=memory,
            nano_cpus=int(limits.cpus * 1e9),
            network_mode=f"container:{role.network_of}" if role.network_of else limits.network,
            pids_limit=limits.pids,
            security_opt=["no-new-privileges"],
            shm_size=SHM_SIZE,
            tmpfs=role.tmpfs or None,
            ulimits=[
                Ulimit(name="nofile", soft=4096, hard=4096),
                Ulimit(name="core", soft=0, hard=0),
                Ulimit(name="fsize", soft=FILE_SIZE, hard=FILE_SIZE),
            ],
        )
        return config

    def _look(self, digest: str) -> ImageFacts:
        with engine_call(f"looking at image {digest}"):
            try:
                config = self.client.api.inspect_image(digest)["Config"] or {}
            except ImageNotFound as error:
                raise missing(digest) from error
        pairs = (entry.partition("=") for entry in config.get("Env") or [])
        environment = {name: value for name, _, value in pairs}
        return ImageFacts(digest, config.get("WorkingDir") or "/", environment, config.get("User") or "")


def missing(image: str) -> ImageMissing:
    """The error for an image that the engine does not have, with the remedy."""
    return ImageMissing(f"image {image} is not in the engine; build it again")
