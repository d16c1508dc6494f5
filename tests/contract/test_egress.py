"""What a step of a build reaches on our engine, with either builder: allowed hosts by the proxy, and nothing else."""

from __future__ import annotations

import io
import json
import os
import secrets
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from sandbox.backends.choice import choose
from sandbox.building.base_images import BaseImages
from sandbox.building.buildkit import client_command
from sandbox.egress.egress import GATEWAY, PORT, Egress
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime

pytestmark = pytest.mark.docker

BUILDERS = ("classic", "buildkit")
METADATA = "169.254.169.254"
# Prints what becomes of a connection to each HOST:PORT, straight, or as the proxy of the environment answers it.
PROBES = r"""
straight() {
    # A machine that stood still for a while ends the wait and not the probe: that one is made again.
    for try in 1 2 3; do
        said=$(timeout 10 bash -c "exec 3<>/dev/tcp/${1%:*}/${1##*:} && echo reached" 2>&1)
        [ $? = 124 ] && said="no answer in time" || break
    done
    echo "probe straight $1 ${said##*: }"
}
proxied() {
    name=${http_proxy#http://} && name=${name%@*}
    exec 3<>"/dev/tcp/GATEWAY/PORT"
    printf 'CONNECT %s HTTP/1.1\r\nProxy-Authorization: Basic %s\r\n\r\n' "$1" "$(printf %s "$name" | base64 -w0)" >&3
    read -r -t 30 said <&3
    echo "probe proxied $1 $said"
}
"""


@pytest.fixture(scope="module")
def egress(client: docker.DockerClient, data_folder: Path) -> Egress:
    """That of an engine of our own; others confine nothing, and say so."""
    egress = Egress.of(data_folder, client)
    if not egress.restricted:
        pytest.skip("this engine is not ours: its builds have the network that it gives them")
    return egress


@pytest.fixture(scope="module")
def host_port() -> Iterator[int]:
    """A port on which this machine accepts connections at every address it has."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        thread = threading.Thread(target=_accept, args=(server,), daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _accept(server: socket.socket) -> None:
    while True:
        try:
            server.accept()[0].close()
        except OSError:
            return


def own_addresses() -> list[str]:
    """IPv4 addresses of this machine."""
    listed = json.loads(subprocess.run(["ip", "-j", "-4", "address"], capture_output=True, check=True).stdout)
    return [address["local"] for link in listed for address in link["addr_info"]]


class Builds:
    """Builds small Dockerfiles on the slim base with either builder, and removes what it made."""

    def __init__(self, client: docker.DockerClient, image: str) -> None:
        self._client = client
        self._base = f"egress-base:{secrets.token_hex(4)}"
        client.images.get(image).tag(self._base)
        self.made: list[str] = []

    def run(self, builder: str, lines: list[str], variables: dict[str, str]) -> tuple[str | None, str]:
        """Id of the image, None when a step failed, and the log."""
        text = "\n".join([f"FROM {self._base}", 'SHELL ["/bin/bash", "-c"]', *lines, ""])
        image, log = (self._classic if builder == "classic" else self._buildkit)(text, variables)
        if image is not None:
            self.made.append(image)
        return image, log

    def probe(self, builder: str, probes: list[str], variables: dict[str, str]) -> dict[str, str]:
        """What became of each probe, by its words."""
        functions = PROBES.replace("GATEWAY", GATEWAY).replace("PORT", str(PORT))
        # Without the nonce the answer would come from the cache of an earlier run.
        script = "\n".join([f": {secrets.token_hex(8)}", functions, *probes])
        encoded = script.encode().hex()
        program = f"perl -e 'print pack(q(H*), shift)' {encoded} > /tmp/probe && bash /tmp/probe 2>&1; true"
        _, log = self.run(builder, [f"RUN {program}"], variables)
        found = {}
        for line in log.splitlines():
            _, mark, rest = line.partition("probe ")
            if mark and rest.startswith(("straight ", "proxied ")) and "said" not in rest:
                kind, target, *said = rest.split(" ")
                found[f"{kind} {target}"] = " ".join(said).strip()
        assert len(found) == len(probes), log
        return found

    def close(self) -> None:
        for name in [*self.made, self._base]:
            try:
                self._client.images.remove(name, force=True)
            except docker.errors.ImageNotFound:
                continue

    def _classic(self, text: str, variables: dict[str, str]) -> tuple[str | None, str]:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
        buffer.seek(0)
        image, log = None, ""
        answers = self._client.api.build(
            fileobj=buffer, custom_context=True, buildargs=variables, decode=True, rm=True, forcerm=True, timeout=300
        )
        for message in answers:
            log += message.get("stream") or message.get("error") or ""
            image = (message.get("aux") or {}).get("ID") or image
        return image, log

    def _buildkit(self, text: str, variables: dict[str, str]) -> tuple[str | None, str]:
        command = client_command()
        assert command is not None, "no docker client here knows BuildKit"
        arguments = [word for pair in variables.items() for word in ("--build-arg", "=".join(pair))]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                ["env", *command, "--progress=plain", f"--iidfile={folder}/id", *arguments, "-"],
                input=text,
                env=os.environ | {"DOCKER_HOST": self._socket()},
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            made = Path(folder, "id").read_text() if done.returncode == 0 else None
        return made, done.stdout + done.stderr

    def _socket(self) -> str:
        return f"unix://{self._client.api.get_adapter(self._client.api.base_url).socket_path}"


@pytest.fixture(scope="module")
def builds(client: docker.DockerClient, image: str, egress: Egress) -> Iterator[Builds]:
    builds = Builds(client, image)
    yield builds
    builds.close()


@pytest.mark.network
@pytest.mark.parametrize("builder", BUILDERS)
def test_a_build_reaches_by_the_proxy_what_our_recipes_have_reached(
    builds: Builds, egress: Egress, builder: str
) -> None:
    who = f"build-{secrets.token_hex(4)}"
    command = f"RUN : {secrets.token_hex(8)} && apt-get update -o APT::Update::Error-Mode=any"
    assert builds.run(builder, [command], egress.trusted())[0] is not None
    made, log = builds.run(builder, [f"{command} && : again"], egress.variables(who))
    assert made is not None, log
    assert egress.failures(who) == []


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_build_is_refused_other_hosts_and_the_driver_learns_which(
    builds: Builds, egress: Egress, builder: str
) -> None:
    who = f"build-{secrets.token_hex(4)}"
    found = builds.probe(builder, ["proxied www.example.invalid:443"], egress.variables(who))
    assert found == {"proxied www.example.invalid:443": "HTTP/1.1 403 host not allowed"}
    assert [(one.host, one.outcome, one.reached_today) for one in egress.failures(who)] == [
        ("www.example.invalid", "refused", False)
    ]


@pytest.mark.parametrize("builder", BUILDERS)
def test_no_address_is_reached_straight(builds: Builds, egress: Egress, builder: str, host_port: int) -> None:
    near = [f"{address}:{host_port}" for address in own_addresses() if not address.startswith("127.")]
    far = [f"{METADATA}:80", "203.0.113.80:443", "10.0.0.1:80"]
    for address in own_addresses():
        socket.create_connection((address, host_port), timeout=10).close()
    found = builds.probe(builder, [f"straight {one}" for one in near + far], egress.trusted())
    # "No route" is for an address in the range of the engine's own network. No answer in three times ten seconds is no
    # way either: on a busy machine the first probe of a container may wait in vain to be told that there is none.
    assert set(found.values()) <= {"Network is unreachable", "No route to host", "no answer in time"}, found
    assert "Network is unreachable" in found.values(), found


@pytest.mark.parametrize("builder", BUILDERS)
def test_at_the_gateway_there_is_the_proxy_and_no_port_of_this_machine(
    builds: Builds, egress: Egress, builder: str, host_port: int
) -> None:
    ports = (host_port, 22, 53, 2375, PORT)
    found = builds.probe(builder, [f"straight {GATEWAY}:{port}" for port in ports], egress.trusted())
    refused = {f"straight {GATEWAY}:{port}": "Connection refused" for port in ports[:-1]}
    assert found == refused | {f"straight {GATEWAY}:{PORT}": "reached"}


@pytest.mark.parametrize("builder", BUILDERS)
def test_the_proxy_leads_neither_to_this_machine_nor_to_metadata_nor_back_into_the_engine(
    builds: Builds, egress: Egress, builder: str, host_port: int
) -> None:
    addresses = [*own_addresses(), "localhost", "127.1", "[::1]", GATEWAY, "[::ffff:127.0.0.1]"]
    targets = [f"{address}:{host_port}" for address in addresses] + [f"{METADATA}:80", "[fd00:ec2::254]:80"]
    found = builds.probe(builder, [f"proxied {target}" for target in targets], egress.trusted())
    assert set(found.values()) == {"HTTP/1.1 403 host not allowed"}, found


@pytest.mark.parametrize("builder", BUILDERS)
def test_what_the_engine_fetches_for_a_dockerfile_is_neither_on_this_machine_nor_metadata(
    builds: Builds, egress: Egress, builder: str, host_port: int
) -> None:
    addresses = [f"{address}:{host_port}" for address in own_addresses()] + [METADATA]
    for address in addresses:
        made, log = builds.run(builder, [f"ADD http://{address}/{secrets.token_hex(4)} /got"], egress.trusted())
        assert made is None, log


def test_a_step_does_not_get_the_network_of_the_engine(builds: Builds, egress: Egress) -> None:
    made, log = builds.run("buildkit", [f"RUN --network=host : {secrets.token_hex(4)}"], egress.trusted())
    assert made is None and "network" in log


@pytest.mark.parametrize("builder", BUILDERS)
def test_one_step_does_not_reach_another(
    builds: Builds, client: docker.DockerClient, image: str, egress: Egress, builder: str
) -> None:
    listen = "use IO::Socket::INET; my $s = IO::Socket::INET->new(LocalPort => 8000, Listen => 5); $s->accept while 1"
    other = client.containers.run(image, ["perl", "-e", listen], detach=True, network_mode="bridge")
    try:
        give_up = time.monotonic() + 20
        while other.exec_run(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8000"]).exit_code != 0:
            assert time.monotonic() < give_up, other.logs()
            time.sleep(0.1)
        other.reload()
        address = other.attrs["NetworkSettings"]["IPAddress"]
        assert address
        probes = [f"straight {address}:8000", f"proxied {address}:8000"]
        found = builds.probe(builder, probes, egress.trusted())
    finally:
        other.remove(force=True)
    assert found[probes[0]] != "reached" and "refused" not in found[probes[0]], found
    assert found[probes[1]] == "HTTP/1.1 403 host not allowed"


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_name_that_is_asked_for_without_the_proxy_fails_at_once(builds: Builds, egress: Egress, builder: str) -> None:
    lines = [f"RUN : {secrets.token_hex(8)}; timeout 4 getent hosts www.example.invalid; echo ended with $?"]
    _, log = builds.run(builder, lines, egress.trusted())
    assert "ended with 2" in log


@pytest.mark.parametrize("builder", BUILDERS)
def test_an_image_keeps_nothing_of_the_proxy_and_another_build_finds_it_in_the_cache(
    builds: Builds, client: docker.DockerClient, egress: Egress, builder: str
) -> None:
    lines = [f"RUN : {secrets.token_hex(8)}; env | grep -c {PORT} > /count"]
    made, log = builds.run(builder, lines, egress.trusted())
    assert made is not None, log
    kept = json.dumps([client.api.inspect_image(made), client.api.history(made)]).lower()
    assert "proxy" not in kept and GATEWAY not in kept
    assert int(client.containers.run(made, ["cat", "/count"], network_mode="none", remove=True)) == 4
    assert builds.run(builder, lines, egress.variables("build-other"))[0] == made


def test_a_sandbox_with_a_network_knows_the_proxy_and_one_without_does_not(
    client: docker.DockerClient, bases: BaseImages, data_folder: Path, image: str, egress: Egress
) -> None:
    backend = choose("docker", client, VerifierRuntime(client, bases), data_folder, image)
    said = {}
    for network in ("bridge", "none"):
        sandbox = backend.start(image, Limits(memory_mb=128, lifetime_s=60, network=network))
        try:
            said[network] = sandbox.execute("echo $https_proxy", timeout_s=20).output.strip()
        finally:
            sandbox.close()
    assert said == {"bridge": egress.trusted()["https_proxy"], "none": ""}
