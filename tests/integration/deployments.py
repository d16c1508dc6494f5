"""infra/compose.yaml on an engine of its own, with images that are built on a base from Debian packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import docker

from assets.resources import Workshop
from assets.settings import Settings
from sandbox.egress.egress import Egress
from sandbox.engine import address, connect
from sandbox.locks import exclusive
from tests.integration.projects import FRUIT, PROJECT, word_tools

COMPOSE_FILE = PROJECT / "infra" / "compose.yaml"
PACKAGE = "docker-compose"
SUITE = "trixie"
"""The first Debian release that has version 2."""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
PASSWORD = "not %a secret/"
WAIT_S = 3600
"""A machine that does other work as well takes long to make its first images."""

ASK = """
import json, sys, time, urllib.error, urllib.request
request = urllib.request.Request("http://127.0.0.1:3000/graphql", sys.stdin.buffer.read())
request.add_header("Content-Type", "application/json")
for left in reversed(range(20)):
    try:
        print(urllib.request.urlopen(request, timeout=60).read().decode())
        break
    except urllib.error.HTTPError as error:  # its storage is only just coming back
        if not left:
            raise
        time.sleep(3)
"""
LAUNCH = """
mutation ($params: ExecutionParams!) {
  launchRun(executionParams: $params) { __typename ... on LaunchRunSuccess { run { runId } } }
}
"""
RUNS = "{ runsOrError { ... on Runs { results { runId status } } } }"


def compose(data: Path) -> list[str]:
    """Compose, version 2: that of the docker client, else unpacked from Debian's package below the data folder."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    place = data / "cache" / PACKAGE
    found = place / "usr" / "libexec" / "docker" / "cli-plugins" / PACKAGE
    with exclusive(data / "cache" / f"{PACKAGE}.lock", "the package of compose"):
        if not found.exists():
            fetched = place.with_suffix(".deb")
            shutil.rmtree(fetched, ignore_errors=True)
            (fetched / "lists" / "partial").mkdir(parents=True)
            (fetched / "archives" / "partial").mkdir(parents=True)
            (fetched / "sources").write_text(f"deb [signed-by={_keyring()}] {_mirror()} {SUITE} main\n")
            apt = ["apt-get", "-q", "-o", f"Dir::Etc::SourceList={fetched}/sources", "-o", "Dir::Etc::SourceParts=-"]
            apt += ["-o", f"Dir::State::Lists={fetched}/lists", "-o", f"Dir::Cache={fetched}"]
            subprocess.run([*apt, "update"], check=True, timeout=300)
            subprocess.run([*apt, "download", PACKAGE], cwd=fetched, check=True, timeout=300)
            subprocess.run(["dpkg", "-x", str(next(fetched.glob("*.deb"))), str(place)], check=True, timeout=60)
            shutil.rmtree(fetched)
    return [str(found)]


def _mirror() -> str:
    """Where this machine has its Debian packages from."""
    policy = subprocess.run(["apt-cache", "policy"], capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in policy.splitlines()]
    main = [line[1] for line in words if len(line) > 2 and line[2].endswith("/main") and "-" not in line[2]]
    return next(place for place in main if place.startswith("http"))


def _keyring() -> Path:
    return Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Deployment:
    """The services of the compose file, without those of profiles."""

    def __init__(self, engine: Path, program: list[str], folder: Path) -> None:
        """`engine` is the data folder of an engine of ours, `folder` a place for settings and back-ups."""
        self._engine = engine
        self._program = program
        self.client = connect(engine)
        self.backups = folder / "backups"
        self.backups.mkdir(parents=True)
        for path, content in word_tools("fruit", FRUIT).items():
            target = folder / "fruit" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        source = '[sources]\nuse = ["local"]\n[[sources.local.paths]]\npath = "fruit"\nlanguage = "python"\n'
        (folder / "touchstone.toml").write_text(source)
        (folder / "mounts.yaml").write_text(
            json.dumps({"services": {"worker": {"volumes": [f"{folder}/fruit:/opt/touchstone/fruit:ro"]}}})
        )
        proxies = Egress.of(engine, self.client).trusted()
        local = dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,postgres")
        variables = proxies | local | {"SSL_CERT_FILE": CERTIFICATES}
        (folder / "worker.env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        self._arguments = [f"--build-arg={name}={value}" for name, value in proxies.items()]
        self._arguments.append(f"--build-arg=PIP_CERT={CERTIFICATES}")
        if "PIP_INDEX_URL" in os.environ:
            self._arguments.append("--build-arg=PIP_INDEX_URL=" + os.environ["PIP_INDEX_URL"])
        self._folder = folder
        chosen = address(engine)
        assert chosen is not None
        self._variables = {
            "DOCKER_HOST": f"unix://{chosen.socket}",
            "DOCKER_BUILDKIT": "0",
            "TOUCHSTONE_POSTGRES_PASSWORD": PASSWORD,
            "TOUCHSTONE_SETTINGS": str(folder / "touchstone.toml"),
            "TOUCHSTONE_WORKER_ENV": str(folder / "worker.env"),
            "TOUCHSTONE_BACKUPS": str(self.backups),
        }
        self._open_network(chosen.socket.parent)

    def _open_network(self, run: Path) -> None:
        """Our engine keeps its containers apart; these ones must meet."""
        pid = (run / "docker.pid").read_text().strip()
        for program in ("ebtables", "iptables"):
            subprocess.run(["nsenter", "-t", pid, "-n", program, "-P", "FORWARD", "ACCEPT"], check=True)

    def build(self, base: docker.models.images.Image) -> None:
        """All images on this base, which another engine may have."""
        self._variables["TOUCHSTONE_BASE"] = base.tags[0]
        self.client.images.load(base.save(named=True))
        self.run("build", "--quiet", *self._arguments, "postgres", "worker")

    def give_base(self, base: docker.models.images.Image) -> None:
        """Put it into the engine of the worker, under the name of the base that it would ask a registry for."""
        repository, _, tag = Settings().images.base_image.rpartition(":")
        self.client.images.get(base.tags[0]).tag(repository, tag)
        saved = b"".join(self.client.images.get(f"{repository}:{tag}").save(named=True))
        load = "import sys; from pathlib import Path; from sandbox.engine import connect; "
        load += "connect(Path('/data'), timeout_s=600).images.load(sys.stdin.buffer.read())"
        self.run("exec", "-T", "worker", "python", "-c", load, given=saved)

    def run(
        self, *arguments: str, given: bytes | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        files = ["-f", str(COMPOSE_FILE), "-f", str(self._folder / "mounts.yaml")]
        ended = subprocess.run(
            [*self._program, *files, *arguments],
            env=os.environ | self._variables,
            input=given,
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )
        if check and ended.returncode != 0:
            logs = subprocess.run(
                [*self._program, *files, "logs", "--tail", "60"], env=os.environ | self._variables, capture_output=True,
                text=True, check=False,
            )  # fmt: skip
            raise AssertionError(f"{arguments}: {ended.stdout!r} {ended.stderr!r}\n{logs.stdout}")
        return ended

    def up(self) -> None:
        """All services, and wait until each of them is healthy."""
        self.run("up", "--detach", "--no-build", "--wait", "--wait-timeout", str(WAIT_S))

    def touchstone(self, *arguments: str) -> dict[str, object]:
        """The JSON of a command in the worker."""
        said = self.run("exec", "-T", "worker", "touchstone", *arguments, "--json").stdout
        answer: dict[str, object] = json.loads(said.splitlines()[-1])
        return answer

    def ask(self, query: str, **variables: object) -> dict[str, object]:
        """What the webserver answers."""
        given = json.dumps({"query": query, "variables": variables}).encode()
        answer: dict[str, object] = json.loads(
            self.run("exec", "-T", "webserver", "python", "-c", ASK, given=given).stdout
        )["data"]
        return answer

    def launch(self, partition: str) -> None:
        """Start the main job for one partition, as the launchpad does."""
        ends = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
        selector = {"repositoryName": "__repository__", "repositoryLocationName": "assets.definitions"}
        params = {
            "selector": selector | {"jobName": "main"},
            "runConfigData": {},
            "executionMetadata": {"tags": [{"key": end, "value": partition} for end in ends]},
        }
        launched = self.ask(LAUNCH, params=params)["launchRun"]
        assert isinstance(launched, dict) and launched["__typename"] == "LaunchRunSuccess", launched

    def runs(self) -> list[str]:
        """The status of each run, oldest first."""
        found = self.ask(RUNS)["runsOrError"]
        assert isinstance(found, dict)
        return [str(run["status"]) for run in reversed(found["results"])]

    def kill(self, service: str) -> None:
        """SIGKILL, as a machine that loses its power."""
        self.run("kill", "--signal", "KILL", service)

    def wait(self, what: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not reached():
            assert time.monotonic() < deadline, f"{what} in vain: {self.runs()}"
            time.sleep(2)


def base_of(data: Path) -> docker.models.images.Image:
    """The base image of the engine in use, which makes it from Debian packages where no registry is reachable."""
    tag = Workshop(Settings(), PROJECT, data).bases().base().tag
    return connect(data).images.get(tag)


def rows_of(answer: Mapping[str, object]) -> Mapping[str, object]:
    """What of a back-up's own account is equal in a restored deployment: rows, versions, runs and their events."""
    server = answer["server"]
    assert isinstance(server, dict)
    return {"rows": answer["rows"], "versions": answer["versions"], "runs": server["runs"]}
