"""infra/bootstrap.sh starts, finds again and ends real engines, each with its own data folder."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import docker
import pytest

from sandbox.egress.egress import GATEWAY, PORT, Egress
from sandbox.engine import connect
from sandbox.errors import SandboxUnavailable
from tests.integration.engines import SCRIPT, bootstrap

pytestmark = pytest.mark.docker


def run_folder(data: Path) -> Path:
    return Path(json.loads((data / "engine.json").read_text())["socket"]).parent


def engine_process(data: Path) -> int:
    return int((run_folder(data) / "docker.pid").read_text())


def wait_for_end(pid: int) -> None:
    """Until a process has ended, be it buried or not."""
    give_up = time.monotonic() + 20
    cmdline = Path(f"/proc/{pid}/cmdline")
    while cmdline.exists() and cmdline.read_bytes():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def links_of_machine() -> list[dict[str, Any]]:
    """Its network devices with their addresses."""
    listed = subprocess.run(["ip", "-j", "-4", "address"], capture_output=True, check=True).stdout
    return list(json.loads(listed))


def network_of_machine() -> tuple[list[tuple[str, ...]], list[str]]:
    """Its devices and addresses, without those of other engines' containers, which come and go; its packet filter."""
    links = [link for link in links_of_machine() if not link["ifname"].startswith("veth")]
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout.splitlines()
    devices = sorted((link["ifname"], *(one["local"] for one in link["addr_info"])) for link in links)
    return devices, [line for line in rules if line.startswith("-A")]


def control_groups(data: Path) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"*/{run_folder(data).name}"))


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
    machine = network_of_machine()
    first = bootstrap(data, "engine")
    assert first.returncode == 0, first.stderr
    run = run_folder(data)
    client = connect(data)
    try:
        info = client.info()
        assert (info["DockerRootDir"], info["Driver"]) == (str(data / "docker"), "overlay2")
        assert Egress.of(data, client).restricted
        start_container(client, "86399.25")
    finally:
        client.close()
    assert network_of_machine() == machine
    groups = control_groups(data)
    assert groups

    before = (data / "engine.json").stat().st_mtime_ns
    started = time.monotonic()
    second = bootstrap(data, "engine")
    assert (second.returncode, second.stderr) == (0, "")
    assert time.monotonic() - started < 5
    assert (data / "engine.json").stat().st_mtime_ns == before

    assert any("sandbox.egress.proxy" in line for line in processes(run))
    end = bootstrap(data, "down")
    assert end.returncode == 0, end.stderr
    assert processes(run) == []
    assert not sleeping("86399.25")
    assert not run.exists()
    assert not any(group.exists() for group in groups)
    assert network_of_machine() == machine
    assert str(data) not in Path("/proc/self/mountinfo").read_text()


def test_two_data_folders_do_not_meet(folder: Callable[[], Path]) -> None:
    one, other = folder(), folder()
    for data in (one, other):
        result = bootstrap(data, "engine")
        assert result.returncode == 0, result.stderr
    networks = {os.readlink(f"/proc/{engine_process(data)}/ns/net") for data in (one, other)}
    assert len(networks | {os.readlink("/proc/self/ns/net")}) == 3
    assert len({(data / "egress" / "token").read_text() for data in (one, other)}) == 2
    assert bootstrap(one, "down").returncode == 0
    client = connect(other)
    assert Egress.of(other, client).restricted
    client.close()
    assert any("sandbox.egress.proxy" in line for line in processes(run_folder(other)))


def test_the_network_of_an_engine_has_no_way_out(folder: Callable[[], Path]) -> None:
    data = folder()
    assert bootstrap(data, "engine").returncode == 0
    inside = ["nsenter", f"--net=/proc/{engine_process(data)}/ns/net"]
    listed = json.loads(subprocess.run([*inside, "ip", "-j", "link"], capture_output=True, check=True).stdout)
    assert {link["ifname"] for link in listed} == {"lo", "touchstone"}
    routes = subprocess.run([*inside, "ip", "route"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[:3] for line in routes.splitlines()] == [["198.18.0.0/24", "dev", "touchstone"]]
    sockets = subprocess.run([*inside, "ss", "-Hltun"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[4] for line in sockets.splitlines()] == [f"{GATEWAY}:{PORT}"]


def test_a_proxy_that_was_killed_comes_back_and_the_engine_stays(folder: Callable[[], Path]) -> None:
    data = folder()
    assert bootstrap(data, "engine").returncode == 0
    engine, proxy = engine_process(data), int((run_folder(data) / "proxy.pid").read_text())
    os.kill(proxy, signal.SIGKILL)
    wait_for_end(proxy)
    client = connect(data)
    egress = Egress.of(data, client)
    client.close()
    with pytest.raises(SandboxUnavailable, match=r"bootstrap\.sh"):
        egress.variables("build-1")
    again = bootstrap(data, "engine")
    assert again.returncode == 0, again.stderr
    assert egress.variables("build-1") and egress.trusted()
    assert engine_process(data) == engine
    assert int((run_folder(data) / "proxy.pid").read_text()) != proxy
    assert any("sandbox.egress.proxy" in line for line in processes(run_folder(data)))


@pytest.mark.parametrize("loopback", [True, False])
def test_the_engine_reaches_the_configured_registry_on_this_machine(
    folder: Callable[[], Path], tmp_path: Path, loopback: bool
) -> None:
    addresses = [one["local"] for link in links_of_machine() for one in link["addr_info"]]
    host = next(address for address in addresses if address.startswith("127.") is loopback)
    asked: list[str] = []

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Nothing is said."""

    with ThreadingHTTPServer(("0.0.0.0", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        data = folder()
        config = tmp_path / "touchstone.toml"
        config.write_text(f'[images]\nregistry = "{host}:{server.server_address[1]}"\n')
        assert bootstrap(data, "engine", TOUCHSTONE_CONFIG=str(config)).returncode == 0
        client = connect(data)
        try:
            with pytest.raises(docker.errors.APIError):
                client.api.pull(f"{host}:{server.server_address[1]}/image", tag="1")
        finally:
            client.close()
            server.shutdown()
    assert "/v2/" in asked


def test_root_starts_an_engine_beside_that_of_the_system(folder: Callable[[], Path], tmp_path: Path) -> None:
    theirs, ours = folder(), folder()
    assert bootstrap(theirs, "engine").returncode == 0
    (tmp_path / "socket").touch()
    # In a mount namespace of its own the other engine is where that of a system is.
    script = f"""set -e
        mount --bind {run_folder(theirs)}/docker.sock {tmp_path}/socket
        mount -t tmpfs tmpfs /run
        ln -s {tmp_path}/socket /var/run/docker.sock
        {SCRIPT} --data {ours} engine
        cat {ours}/engine.json
        {SCRIPT} --data {ours} down"""
    result = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script],
        env={name: value for name, value in os.environ.items() if name not in {"DOCKER_HOST", "TOUCHSTONE_DATA"}},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["owned"] is True
    connect(theirs).close()


def test_an_engine_that_was_killed_is_replaced_and_its_containers_end(folder: Callable[[], Path]) -> None:
    data = folder()
    assert bootstrap(data, "engine").returncode == 0
    client = connect(data)
    start_container(client, "86399.75")
    client.close()
    proxy = int((run_folder(data) / "proxy.pid").read_text())
    os.kill(engine_process(data), signal.SIGKILL)
    wait_for_end(proxy)
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
    assert not (ours / "engine.json").exists()
    client = connect(theirs)
    assert not Egress.of(ours, client).restricted
    client.close()


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
