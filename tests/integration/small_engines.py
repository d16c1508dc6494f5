"""Engines of their own for tests that break them, and the smallest image in which a build has a shell."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker

from tests.integration.engines import bootstrap

PROGRAMS = {"bash": "bin/sh", "sleep": "bin/sleep", "cat": "bin/cat", "head": "bin/head"}
"""Programs of this machine and where they stand in the image."""


@contextmanager
def small_engine(data_folder: Path, *, disk_mb: int | None = None, registry: str | None = None) -> Iterator[Path]:
    """The data folder of a new engine beside the one in use, ended at the end.

    With `disk_mb` its layers are on a disk of that size; `registry` is the one that it is configured for.
    """
    with tempfile.TemporaryDirectory(dir=data_folder, prefix="engine-") as parent:
        data = Path(parent) / "data"
        layers = data / "docker"
        layers.mkdir(parents=True)
        config = Path(parent) / "touchstone.toml"
        config.write_text(f'[images]\nregistry = "{registry}"\n' if registry is not None else "")
        if disk_mb is not None:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk_mb}m", "tmpfs", str(layers)], check=True)
        try:
            started = bootstrap(data, "engine", TOUCHSTONE_CONFIG=str(config))
            assert started.returncode == 0, started.stderr
            yield data
        finally:
            ended = bootstrap(data, "down")
            if disk_mb is not None:
                subprocess.run(["umount", str(layers)], check=True)
            assert ended.returncode == 0, ended.stderr


def shell_archive(word: str = "") -> bytes:
    """A file system with this machine's own shell, a few programs and their libraries, and a file with a word."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", dereference=True) as tar:
        entry = tarfile.TarInfo("word")
        entry.size = len(word)
        tar.addfile(entry, io.BytesIO(word.encode()))
        libraries = set()
        for source, name in PROGRAMS.items():
            path = Path("/usr/bin", source)
            tar.add(path, name)
            listing = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout
            libraries |= set(re.findall(r"(/\S+) \(0x", listing))
        for library in sorted(libraries):
            tar.add(library)
    return archive.getvalue()


def import_shell(client: docker.DockerClient, repository: str = "shell") -> str:
    """Id of the image `repository:1` with nothing but that."""
    client.api.import_image_from_data(shell_archive(), repository=repository, tag="1")
    return str(client.api.inspect_image(f"{repository}:1")["Id"])
