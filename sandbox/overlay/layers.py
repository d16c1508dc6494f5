"""The layers of an image as directories of this machine, where the engine keeps them so."""

from __future__ import annotations

import contextlib
from pathlib import Path

from docker.errors import ImageNotFound

from sandbox.container.containers import HOSTNAME, Containers, missing
from sandbox.errors import SandboxUnavailable
from sandbox.streams import engine_call

# What a container finds in its root besides its image. An engine mounts these; here they are the layer above the image.
_FILES = {
    "etc/hosts": f"127.0.0.1\tlocalhost {HOSTNAME}\n::1\tlocalhost ip6-localhost ip6-loopback\n",
    "etc/hostname": f"{HOSTNAME}\n",
    "etc/resolv.conf": "",
}
_FOLDERS = ("dev/pts", "dev/shm", "dev/mqueue", "proc", "sys", "run")


def image_layers(containers: Containers, image: str) -> list[str]:
    """Directories of an image's layers, top first.

    Raises ImageMissing, or SandboxUnavailable when this engine does not keep them as directories that we can read.
    """
    with engine_call(f"looking at image {image}"):
        try:
            driver = containers.client.api.inspect_image(image).get("GraphDriver") or {}
        except ImageNotFound as error:
            raise missing(image) from error
    data = driver.get("Data") or {}
    if driver.get("Name") != "overlay2" or "UpperDir" not in data:
        raise SandboxUnavailable("the engine does not keep its images as directories of layers (overlay2)")
    layers = [data["UpperDir"], *filter(None, data.get("LowerDir", "").split(":"))]
    if unreadable := [layer for layer in layers if not Path(layer).is_dir()]:
        raise SandboxUnavailable(f"the layers of the engine's images cannot be read here: {unreadable[0]}")
    return layers


def base_layer(place: Path) -> str:
    """The layer with mount points and network names that stands above every image; made when it is not there yet.

    Raises SandboxUnavailable.
    """
    try:
        _make_base(place)
    except OSError as error:
        raise SandboxUnavailable(f"the layer above all images cannot be made: {error}") from error
    return str(place)


def _make_base(place: Path) -> None:
    for folder in _FOLDERS:
        (place / folder).mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(text)
    # The programs of a sandbox need not be those of whoever starts this, whose files may be for him alone.
    for path in [place / name for name in (*_FOLDERS, *_FILES)]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        path.parent.chmod(0o755)
    with contextlib.suppress(FileExistsError):
        (place / "etc/mtab").symlink_to("/proc/mounts")
