"""A base image from Debian packages alone, for machines that reach a package archive but no image registry."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import docker

from sandbox.errors import SandboxUnavailable
from sandbox.streams import engine_call

logger = logging.getLogger(__name__)

TIMEOUT_S = 900
PREFIX = "debootstrap-"
_LEFT_OUT = (
    "var/cache/apt/archives/*.deb",
    "var/lib/apt/lists/*",
    "usr/share/doc/*",
    "usr/share/man/*",
    "usr/share/locale/*",
)


def debootstrap(client: docker.DockerClient, tag: str, suite: str, mirror: str | None, data: Path) -> None:
    """Install a minimal Debian under `data` and import it as `tag`. Takes about 40 s.

    Raises SandboxUnavailable with its remedy.
    """
    _check()
    data.mkdir(parents=True, exist_ok=True)
    _sweep(data)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", dir=data, ignore_cleanup_errors=True) as folder:
        tree = Path(folder) / "tree"
        _install(tree, suite, mirror, Path(folder) / "log")
        _import(client, tag, tree)


def _check() -> None:
    if os.geteuid() != 0:
        raise SandboxUnavailable(
            "no image registry can be reached, and making a base image from Debian packages needs root: run as root, "
            "or put the base image into the engine with `docker load`"
        )
    if shutil.which("debootstrap") is None:
        raise SandboxUnavailable(
            "no image registry can be reached, and debootstrap is not installed: `apt-get install debootstrap`, "
            "or put the base image into the engine with `docker load`"
        )


def _sweep(data: Path) -> None:
    """Remove what killed runs left behind; a tree whose process lives is another run's."""
    for left in data.glob(f"{PREFIX}*"):
        pid = left.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)


def _install(tree: Path, suite: str, mirror: str | None, log: Path) -> None:
    # In a mount namespace of its own: the /proc that debootstrap mounts in the tree ends with it, also after a kill.
    command = ["unshare", "--mount", "--", "debootstrap", "--variant=minbase", "--include=ca-certificates", suite]
    command += [str(tree)] + ([mirror] if mirror else [])
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(TIMEOUT_S)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise SandboxUnavailable(f"debootstrap took longer than {TIMEOUT_S} s") from error
            raise
    if code != 0:
        tail = " | ".join(log.read_text(errors="replace").splitlines()[-5:])
        raise SandboxUnavailable(f"debootstrap of {suite} failed ({code}): {tail}; check debian_mirror and the network")


def _import(client: docker.DockerClient, tag: str, tree: Path) -> None:
    repository, _, version = tag.rpartition(":")
    command = ["tar", "--numeric-owner", *(f"--exclude=./{one}" for one in _LEFT_OUT), "-C", str(tree), "-c", "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as archive:
        assert archive.stdout is not None
        with engine_call(f"importing {tag}"):
            client.api.import_image_from_stream(archive.stdout, repository=repository, tag=version)
    if archive.returncode != 0:
        raise SandboxUnavailable(f"importing {tag}: tar ended with {archive.returncode}")
