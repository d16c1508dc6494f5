"""Makes space in an engine: what can be built again, the least recently used first, and nothing that is not ours.

In an engine of our own everything is ours: BuildKit's cache first, then layers without a name, then images of
repositories and pulled bases that nobody needs. In somebody else's engine only what carries our label is touched.
When this happens is not here; see room.py.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound

from sandbox.building.builds import LABEL
from sandbox.building.registry import REPOSITORY
from sandbox.container.sandbox import FROZEN_LABEL
from sandbox.streams import engine_call

logger = logging.getLogger(__name__)

OURS = "touchstone/"
IMAGES = f"{OURS}image:"
# What Registry.pull names an image.
_REGISTERED = re.compile(rf"/{REPOSITORY}[:@]")
# A sandbox may run on the layers of an image without the engine's knowledge, for as long as its lifetime.
RECENT_S = 3600


@dataclass(frozen=True)
class Cleaned:
    """What was removed."""

    images: int
    """Images and unnamed layers."""
    cache_bytes: int
    """Of BuildKit's cache."""


class Cleaning:
    """One clean-up of one engine."""

    def __init__(
        self,
        client: docker.DockerClient,
        *,
        owned: bool,
        last_used: Callable[[str], float | None],
        keep: Callable[[], set[str]] | None,
    ) -> None:
        """`owned`: the engine serves nobody else. `last_used` gives Unix seconds, None where nothing is known.

        `keep` gives the ids of images that are needed; without it no image of a repository is removed.
        """
        self._client = client
        self._owned = owned
        self._last_used = last_used
        self._keep = keep

    def run(self, missing: Callable[[], int], *, building: bool) -> Cleaned:
        """Remove things until `missing()` bytes are no longer positive, or nothing is left.

        `building`: a build may run, which needs layers that were made a moment ago. Raises SandboxUnavailable.
        """
        cache_bytes = self._prune_cache(missing()) if self._owned and missing() > 0 else 0
        images = 0
        keep = self._keep() if self._keep else set()
        for image in self._unnamed(keep, building):
            if missing() <= 0:
                break
            images += self._remove(image)
        if self._keep is not None:
            for image in self._unneeded(keep):
                if missing() <= 0:
                    break
                images += self._remove(image)
        return Cleaned(images=images, cache_bytes=cache_bytes)

    def _prune_cache(self, missing: int) -> int:
        with engine_call("pruning the build cache"):
            records = self._client.api.df().get("BuildCache") or []
            size = sum(int(one["Size"]) for one in records)
            if size == 0:
                return 0
            answer = self._client.api.prune_builds(keep_storage=max(0, size - missing), all=True)
        return int(answer.get("SpaceReclaimed") or 0)

    def _unnamed(self, keep: set[str], building: bool) -> list[str]:
        """Layers that the classic builder keeps as its cache, and images whose name went to another one."""
        filters: dict[str, object] = {"dangling": True} | ({} if self._owned else {"label": LABEL})
        with engine_call("listing unnamed images"):
            found = self._client.api.images(filters=filters)
        # Frozen states are somebody else's to remove, and a sandbox may stand on one.
        layers = [one for one in found if FROZEN_LABEL not in (one.get("Labels") or {})]
        return self._oldest_first(layers, keep, RECENT_S if building else 0)

    def _unneeded(self, keep: set[str]) -> list[str]:
        """Images of repositories, built here or pulled; in an engine of our own also bases that can be pulled again."""
        with engine_call("listing images"):
            found = self._client.api.images(filters={} if self._owned else {"label": LABEL})
        return self._oldest_first([one for one in found if self._comes_again(one)], keep, RECENT_S)

    def _comes_again(self, listed: dict[str, Any]) -> bool:
        """Whether an image is neither a frozen state nor made from our own recipes, which takes minutes."""
        if FROZEN_LABEL in (listed.get("Labels") or {}):
            return False
        names = [*(listed.get("RepoTags") or ()), *(listed.get("RepoDigests") or ())]
        if self._owned:
            return not any(name.startswith(OURS) and not name.startswith(IMAGES) for name in names)
        return any(name.startswith(IMAGES) or _REGISTERED.search(name) for name in names)

    def _oldest_first(self, listed: list[dict[str, Any]], keep: set[str], recent_s: float) -> list[str]:
        used = {one["Id"]: self._last_used(one["Id"]) or float(one["Created"]) for one in listed}
        limit = time.time() - recent_s
        return sorted((image for image in used if image not in keep and used[image] < limit), key=used.__getitem__)

    def _remove(self, image: str) -> bool:
        with engine_call(f"removing image {image}"):
            try:
                self._client.api.remove_image(image, force=True)
            except ImageNotFound:
                return False  # it went with one that was built on it, or another process removed it
            except APIError as error:
                if error.status_code != 409:
                    raise
                logger.info("%s is in use and stays: %s", image, error.explanation)
                return False
        logger.info("removed image %s", image)
        return True
