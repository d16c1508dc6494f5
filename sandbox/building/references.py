"""Names under which programs of others start from our images: a registry's where there is one, else a tag here.

An image id alone is no name that BuildKit takes. The tag is the id, so it never means another image.
"""

from __future__ import annotations

import docker
from docker.errors import ImageNotFound

from sandbox.building.cleaning import IMAGES
from sandbox.building.registry import Registry
from sandbox.container.containers import missing
from sandbox.streams import engine_call


class References:
    """Gives images of one engine their names."""

    def __init__(self, client: docker.DockerClient, registry: Registry) -> None:
        self._client = client
        self._registry = registry

    def of(self, image_id: str) -> str:
        """A reference for a FROM; the image is in the engine then, pulled from the registry where it was not.

        Raises ImageMissing, RegistryUnreachable, SandboxUnavailable, ValueError for what is no image id.
        """
        if not self._registry.pull(image_id):
            raise missing(image_id)
        if self._registry.address is not None:
            return self._registry.push(image_id)
        name, _, tag = f"{IMAGES}{image_id.removeprefix('sha256:')}".partition(":")
        with engine_call(f"naming {image_id}"):
            try:
                self._client.api.tag(image_id, name, tag)
            except ImageNotFound as error:
                raise missing(image_id) from error
        return f"{name}:{tag}"
