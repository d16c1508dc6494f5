"""Which things of a workshop stay on their machine when its work goes to others, and under which names."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from assets.settings import Settings
from pipeline.cluster import RayCluster
from pipeline.errors import ConfigurationError
from pipeline.image_attempts import Workbench
from pipeline.llm.local_server import LocalModelConfig
from pipeline.machines import Machines
from sandbox.backends.pulling import PullingBackend
from sandbox.building.images import ImageBuilder
from sandbox.building.registry import Registry

if TYPE_CHECKING:
    from assets.resources import Workshop

_METHODS: dict[type, str] = {
    PullingBackend: "backend",
    Workbench: "workbench",
    ImageBuilder: "builder",
    Registry: "registry",
}
"""Of what each machine has its own one, and the method of its workshop that gives it."""


def machines_of(shop: "Workshop") -> Machines | None:
    """The machines of [cluster], None for this one alone. Raises ConfigurationError where they have no registry."""
    settings = shop.settings
    if settings.cluster.address is None:
        return None
    if settings.images.registry is None:
        raise ConfigurationError(
            "[cluster] address: machines get images from each other by a registry, and [images] registry names none"
        )
    opening = functools.partial(_on_node, settings, shop.folder, shop.data)
    return RayCluster(settings.cluster, opening, functools.partial(name_of, shop))


def name_of(shop: "Workshop", thing: object) -> str | tuple[str, object] | None:
    """How another machine calls its own one of these; None for what is the same on all.

    Raises ConfigurationError for a model that is started here: no other machine could ask it.
    """
    if (config := shop.models.get(id(thing))) is None:
        return _METHODS.get(type(thing))
    if isinstance(config, LocalModelConfig):
        raise ConfigurationError(
            "[cluster] address: a model that is started on one machine serves no other; name a server by base_url in "
            "[model], or leave [cluster] out"
        )
    return "model", config


def named(shop: "Workshop", name: object) -> object:
    """What has that name in this workshop."""
    return shop.model_of(name[1]) if isinstance(name, tuple) else getattr(shop, str(name))()


def _on_node(settings: Settings, folder: Path, data: Path) -> Callable[[object], object]:
    from assets.resources import open_on_node  # which needs this file

    return functools.partial(named, open_on_node(settings, folder, data))
