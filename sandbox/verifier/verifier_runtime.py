"""The trusted interpreter with pytest, kept in a named volume that is mounted read-only into the containers that judge.

LAUNCHER starts it from there. What it runs is verifier_runner.py, how it is believed verdicts.py.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from datetime import datetime
from pathlib import Path

import docker
from docker.errors import APIError, NotFound

from sandbox.building.base_images import RECIPES, BaseImage, BaseImages
from sandbox.building.builds import LABEL
from sandbox.container.containers import Containers, Role
from sandbox.errors import SandboxUnavailable
from sandbox.streams import engine_call
from sandbox.types import Limits

logger = logging.getLogger(__name__)

PLACE = "/runtime"
LAUNCHER = "bin/launch"
"""Below the folder where the volume is mounted: takes no arguments, clears its environment, starts the runner."""
CONTENT_LABEL = "touchstone.runtime"
VOLUME_LABEL = "touchstone.volume"
FILL_TIMEOUT_S = 120
# A volume without a marker that is older was left by a run that was killed while filling it.
ABANDONED_AFTER_S = 3600


class VerifierRuntime:
    """Makes the volume once. Safe for several threads and for several processes on one engine.

    A volume is filled under a name of its own. A second, empty volume, the marker, is named after the content and made
    only when the first one is complete: its label says which volume that is. A half-filled volume has no marker.
    """

    def __init__(self, client: docker.DockerClient, base: BaseImages) -> None:
        self._client = client
        self._base = base
        self._containers = Containers(client)
        self._guard = threading.Lock()
        self._volume: str | None = None

    def volume(self) -> str:
        """Name of the complete volume. Raises SandboxUnavailable with its remedy."""
        with self._guard:
            if self._volume is None:
                self._volume = self._find_or_make()
            return self._volume

    def _find_or_make(self) -> str:
        image = self.image()
        content = image.tag.rpartition(":")[2]
        marker = f"touchstone-runtime-{content}"
        found = self._marked(marker)
        if found is not None:
            return found
        self._remove_abandoned()
        volume = f"{marker}-{secrets.token_hex(4)}"
        self._create(volume, {CONTENT_LABEL: content})
        try:
            self._fill(volume, image)
            # Creating an existing volume changes nothing: of two processes, the first one's marker stays.
            self._create(marker, {CONTENT_LABEL: content, VOLUME_LABEL: volume})
            chosen = self._marked(marker)
        except BaseException:
            self._remove(volume)
            raise
        if chosen is None:
            raise SandboxUnavailable(f"the volume {volume} of the verifier runtime vanished while it was made")
        if chosen != volume:
            self._remove(volume)
        return chosen

    def image(self) -> BaseImage:
        """What the volume is filled from: the runtime below PLACE. Raises SandboxUnavailable with its remedy."""
        sources = {
            "assemble.sh": RECIPES / "verifier-runtime.sh",
            "patch.py": RECIPES / "verifier-runtime.py",
            "launch.c": RECIPES / "verifier-runtime.c",
            "verifier_runner.py": Path(__file__).with_name("verifier_runner.py"),
            "verifier_guards.py": Path(__file__).with_name("verifier_guards.py"),
            "verifier_conditions.py": Path(__file__).with_name("verifier_conditions.py"),
        }
        files = {name: source.read_bytes() for name, source in sources.items()}
        recipe = (RECIPES / "verifier-runtime.Dockerfile").read_text()
        return self._base.derived("verifier-runtime", recipe, files, self._base.base())

    def _marked(self, marker: str) -> str | None:
        """The volume that a marker names; a marker whose volume somebody removed is removed too."""
        with engine_call("looking for the verifier runtime"):
            try:
                volume = str(self._client.api.inspect_volume(marker)["Labels"][VOLUME_LABEL])
            except NotFound:
                return None
            try:
                self._client.api.inspect_volume(volume)
            except NotFound:
                self._remove(marker)
                return None
        return volume

    def _create(self, name: str, labels: dict[str, str]) -> None:
        with engine_call(f"creating the volume {name}"):
            self._client.api.create_volume(name, labels=labels | {LABEL: "1"})

    def _fill(self, volume: str, image: BaseImage) -> None:
        """The engine copies the image's content into an empty volume mounted over it; then every file is checked."""
        role = Role(
            command=["sh", "-c", f"cd {PLACE} && sha256sum --quiet -c MANIFEST"],
            volumes=(f"{volume}:{PLACE}",),
            user="0",
        )
        started = time.monotonic()
        container = self._containers.run(image.digest, Limits(lifetime_s=FILL_TIMEOUT_S), role)
        try:
            with engine_call("filling the verifier runtime"):
                code = self._client.api.wait(container, timeout=FILL_TIMEOUT_S)["StatusCode"]
        finally:
            self._containers.remove(container)
        if code != 0:
            raise SandboxUnavailable("the volume of the verifier runtime is incomplete; is the engine's disk full?")
        logger.info("filled the verifier runtime in %.1f s", time.monotonic() - started)

    def _remove_abandoned(self) -> None:
        with engine_call("listing volumes"):
            volumes = self._client.api.volumes(filters={"label": CONTENT_LABEL})["Volumes"] or []
        kept = {one["Labels"].get(VOLUME_LABEL) for one in volumes}
        for one in volumes:
            age_s = time.time() - datetime.fromisoformat(one["CreatedAt"]).timestamp()
            if VOLUME_LABEL not in one["Labels"] and one["Name"] not in kept and age_s > ABANDONED_AFTER_S:
                self._remove(one["Name"])

    def _remove(self, name: str) -> None:
        with engine_call(f"removing the volume {name}"):
            try:
                self._client.api.remove_volume(name)
            except APIError as error:
                if error.status_code not in (404, 409):
                    raise
