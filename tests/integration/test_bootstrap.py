"""infra/bootstrap.sh starts, finds again and ends real engines, each with its own data folder."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import docker
import pytest

from sandbox.engine import connect
from tests.integration.engines import SCRIPT, bootstrap

pytestmark = pytest.mark.docker


def run_folder(data: Path) -> Path:
    return Path(json.loads((data / "engine.json").read_text())["socket"]).parent


def bridge(data: Path) -> str:
    return "ts" + run_folder(data).name.removeprefix("touchstone-")


def processes(run: Path) -> list[str]:
    """Command lines that name the run folder."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f"{run}/" in line:
            lines.append(line)
    return lines


def start_container(client: docker.DockerClient, marker: str) -> None:
    """A container that sleeps, in an image made of this machine's own `sleep` and its libraries."""
    program = Path("/usr/bin/sleep").resolve()
    listing = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", dereference=True) as tar:
        for path in [str(program), *re.findall(r"(/\S+) \(0x", listing)]:
            tar.add(path)
    image = client.api.import_image_from_data(archive.getvalue(), repository="sleeper", tag="1")
    assert "sha256" in image
    client.containers.run("sleeper:1", [str(program), marker], detach=True, network_mode="none")
    # The engine answers a moment before the process has become the program.
    give_up = time.monotonic() + 10
    while not sleeping(marker):
        assert time.monotonic() < give_up, client.containers.list(all=True)
        time.sleep(0.05)


def sleeping(marker: str) -> bool:
    """Whether the container's process is there, looked at from outside, where the engine has no say."""
    pattern = f"\0{marker}\0".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if pattern in line and b"sleep\0" in line:
            return True
    return False


def test_an_engine_starts_is_found_again_and_leaves_nothing_behind(folder: Callable[[], Path]) -> None:
    data = folder()
    first = bootstrap(data, "engine")
    assert first.returncode == 0, first.stderr
    run, link = run_folder(data), bridge(data)
    client = connect(data)
    try:
        info = client.info()
        assert (info["DockerRootDir"], info["Driver"]) == (str(data / "docker"), "overlay2")
        start_container(client, "86399.25")
    finally:
        client.close()
    assert link in os.listdir("/sys/class/net")

    before = (data / "engine.json").stat().st_mtime_ns
    started = time.monotonic()
    second = bootstrap(data, "engine")
    assert (second.returncode, second.stderr) == (0, "")
    assert time.monotonic() - started < 5
    assert (data / "engine.json").stat().st_mtime_ns == before

    end = bootstrap(data, "down")
    assert end.returncode == 0, end.stderr
    assert processes(run) == []
    assert not sleeping("86399.25")
    assert link not in os.listdir("/sys/class/net")
    assert not run.exists()
    for table in ("nat", "filter"):
        rules = subprocess.run(["iptables", "-w", "-t", table, "-S"], capture_output=True, text=True, check=True)
        assert link not in rules.stdout
    assert str(data) not in Path("/proc/self/mountinfo").read_text()


def test_two_data_folders_do_not_meet(folder: Callable[[], Path]) -> None:
    one, other = folder(), folder()
    for data in (one, other):
        result = bootstrap(data, "engine")
        assert result.returncode == 0, result.stderr
    routes = subprocess.run(["ip", "-4", "route"], capture_output=True, text=True, check=True).stdout
    subnets = [re.findall(rf"^(\S+) dev {bridge(data)} ", routes, re.MULTILINE) for data in (one, other)]
    assert [len(found) for found in subnets] == [1, 1]
    assert subnets[0] != subnets[1]
    assert bootstrap(one, "down").returncode == 0
    connect(other).close()


def test_an_engine_that_was_killed_is_replaced_and_its_containers_end(folder: Callable[[], Path]) -> None:
    data = folder()
    assert bootstrap(data, "engine").returncode == 0
    client = connect(data)
    start_container(client, "86399.75")
    client.close()
    os.kill(int((run_folder(data) / "docker.pid").read_text()), signal.SIGKILL)
    assert sleeping("86399.75")

    again = bootstrap(data, "engine")
    assert again.returncode == 0, again.stderr
    assert not sleeping("86399.75")
    client = connect(data)
    try:
        assert [image.tags for image in client.images.list()] == [["sleeper:1"]]
        assert client.containers.list() == []
        start_container(client, "86399.5")
    finally:
        client.close()


def test_an_engine_that_is_not_ours_is_used_and_never_stopped(folder: Callable[[], Path]) -> None:
    theirs, ours = folder(), folder()
    assert bootstrap(theirs, "engine").returncode == 0
    address = json.loads((theirs / "engine.json").read_text())["socket"]
    result = bootstrap(ours, "engine", DOCKER_HOST=f"unix://{address}")
    assert result.returncode == 0, result.stderr
    assert json.loads((ours / "engine.json").read_text()) == {"socket": address, "owned": False}
    end = bootstrap(ours, "down")
    assert end.returncode == 0 and "not ours" in end.stderr
    connect(theirs).close()


def test_an_engine_on_another_machine_is_refused_with_the_remedy(folder: Callable[[], Path]) -> None:
    result = bootstrap(folder(), "engine", DOCKER_HOST="tcp://192.0.2.1:2376")
    assert result.returncode == 1
    assert "DOCKER_HOST" in result.stderr and "unix://" in result.stderr


def test_a_data_folder_on_overlayfs_is_refused_with_the_remedy(folder: Callable[[], Path]) -> None:
    data = folder()
    layers = data.parent / "layers"
    for name in ("lower", "upper", "work", "merged"):
        (layers / name).mkdir(parents=True)
    mount = f"mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work {layers}/merged"
    command = f"cd {layers} && {mount} && exec {SCRIPT} --data {layers}/merged engine"
    variables = {name: value for name, value in os.environ.items() if name not in {"DOCKER_HOST", "TOUCHSTONE_DATA"}}
    result = subprocess.run(
        ["unshare", "--mount", "bash", "-c", command],
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    assert "overlayfs" in result.stderr and "TOUCHSTONE_DATA" in result.stderr


def test_an_unknown_argument_is_named(tmp_path: Path) -> None:
    result = bootstrap(tmp_path, "engin")
    assert result.returncode == 1
    assert "engin" in result.stderr and "usage" in result.stderr
