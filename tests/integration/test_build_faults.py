"""A full disk, a dead engine and a killed driver in the middle of builds: nothing is lost and nothing left behind."""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from pipeline.journal import Journal
from pipeline.tables import Store
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.building.buildkit import client_command
from sandbox.building.builds import remove_dead_steps
from sandbox.building.images import ImageBuilder
from sandbox.building.room import Room
from sandbox.engine import address, connect
from sandbox.types import BuildLimits, ImageBuild, ImageSpec
from tests.integration.engines import bootstrap
from tests.integration.small_engines import import_shell, small_engine

pytestmark = pytest.mark.docker

ROOT = Path(__file__).resolve().parents[2]
DISK_MB = 96
LIMITS = BuildLimits(timeout_s=60, memory_mb=512, disk_mb=2000)
SMALL = LIMITS.model_copy(update={"disk_mb": 30})
LONG_AGO_S = 100_000
BUILDS = 6
# What only BuildKit knows.
SCRATCH = "--mount=type=tmpfs,target=/scratch"

# Every build is one of its own: no image of another test is found under its tag.
DRIVER = """
import sys
from pathlib import Path

import pipeline.batch
from pipeline.batch import Failure, Item, Outcome, Retry, run_stage
from pipeline.tables import Store
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.building.images import ImageBuilder
from sandbox.building.room import Room
from sandbox.engine import connect
from sandbox.types import BuildLimits, ImageSpec

data, rows, total, step = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
pipeline.batch.FLUSH_ITEMS = 2
client = connect(data)
builder = ImageBuilder(client, BaseImages(client, BaseImageConfig(), data), room=Room(client, data))


def work(number):
    text = f"FROM shell:1\\nENV OF={rows.name} N={number}\\nRUN {step} echo $N > /number; sleep 0.3\\n"
    build = builder.build(ImageSpec(name="n", dockerfile=text), BuildLimits(timeout_s=60, memory_mb=512))
    failure = Failure(failure_class=build.failure_class, reason=build.reason) if build.failure_class else None
    row = {"repository_id": f"r{number}", "status": build.status, "image_digest": build.digest}
    return Outcome({"image_builds": [row | {"builder": build.builder}]}, failure)


def failed(number, failure):
    return {"image_builds": [{"repository_id": f"r{number}", "status": "failed"}]}


items = [Item(f"r{number}", number) for number in range(total)]
print("ready", flush=True)
report = run_stage(
    "build", items, work, store=Store(rows), failed_rows=failed, workers=2, retry=Retry.INFRASTRUCTURE
)
print(report.done, report.failed)
"""


@pytest.fixture(scope="module")
def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start an engine")


@pytest.fixture(scope="module")
def data(needs_root: None, data_folder: Path) -> Iterator[Path]:
    """The data folder of an engine to break, with the image `shell:1`."""
    with small_engine(data_folder) as data:
        client = connect(data)
        import_shell(client)
        client.close()
        yield data


@pytest.fixture(scope="module")
def small(needs_root: None, data_folder: Path) -> Iterator[Path]:
    """The data folder of another such engine, with a small disk."""
    with small_engine(data_folder, disk_mb=DISK_MB) as data:
        client = connect(data)
        import_shell(client)
        client.close()
        yield data


@pytest.fixture
def client(data: Path) -> Iterator[docker.DockerClient]:
    client = connect(data)
    yield client
    client.close()


def builder_of(client: docker.DockerClient, data: Path, room: Room) -> ImageBuilder:
    return ImageBuilder(client, BaseImages(client, BaseImageConfig(), data), room=room)


def build(builder: ImageBuilder, lines: str, limits: BuildLimits = LIMITS) -> ImageBuild:
    return builder.build(ImageSpec(name="test", dockerfile=f"FROM shell:1\n{lines}\n"), limits)


def until(condition: Callable[[], object], patience_s: float = 20) -> None:
    give_up = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def steps(client: docker.DockerClient) -> list[object]:
    """Containers, whatever state they are in."""
    return list(client.api.containers(all=True))


def groups(data: Path) -> list[Path]:
    """Control groups of containers and builds of an engine."""
    top = run_folder(data).name
    return [path for path in Path("/sys/fs/cgroup").glob(f"**/{top}/*/") if path.name != "buildkit"]


def run_folder(data: Path) -> Path:
    engine = address(data)
    assert engine is not None
    return engine.socket.parent


def names(client: docker.DockerClient) -> set[str]:
    return {tag for image in client.images.list() for tag in image.tags}


def places(data: Path) -> list[Path]:
    """Places to build that are taken."""
    return list((data / "images" / "slots").glob("*.slot"))


class TestFullDisk:
    @pytest.fixture
    def client(self, small: Path) -> Iterator[docker.DockerClient]:
        client = connect(small)
        yield client
        client.close()

    @pytest.fixture
    def data(self, small: Path) -> Path:
        return small

    @pytest.mark.parametrize("disk_mb", [30, 85], ids=["its share", "all of it"])
    @pytest.mark.parametrize("step", ["", SCRATCH], ids=["classic", "buildkit"])
    def test_a_build_that_fills_the_disk_fails_as_such_and_leaves_it_as_it_was(
        self, client: docker.DockerClient, data: Path, step: str, disk_mb: int
    ) -> None:
        if step and client_command() is None:
            pytest.skip("no docker client here knows BuildKit")
        builder = builder_of(client, data, Room(client, data))
        kept = build(builder, "RUN echo kept > /kept", SMALL)
        before = names(client), free_mb(data)
        limits = SMALL.model_copy(update={"disk_mb": disk_mb})
        full = build(builder, f"RUN {step} head -c 500000000 /dev/zero > /big", limits)
        assert (full.status, full.failure_class) == ("failed", "disk")
        assert steps(client) == []
        assert names(client) == before[0]
        until(lambda: free_mb(data) >= before[1] - 1)
        again = build(builder, "RUN echo kept > /kept", SMALL)
        assert (again.digest, again.cached) == (kept.digest, True)

    def test_space_is_made_of_what_nobody_needs_the_least_recently_used_first(
        self, client: docker.DockerClient, data: Path
    ) -> None:
        needed: set[str] = set()
        room = Room(client, data, keep=lambda: needed)
        builder = builder_of(client, data, room)
        made = [build(builder, f"RUN head -c 12000000 /dev/urandom > /{n}", SMALL) for n in ("a", "b", "c", "d")]
        oldest, needed_one, older, recent = (str(one.digest) for one in made if one.status == "built")
        needed.add(needed_one)
        for age, image in enumerate((recent, older, needed_one, oldest)):
            aged(data, image, LONG_AGO_S * age)
        wanted = free_mb(data) + 6
        assert build(builder, "RUN echo more > /more", BuildLimits(disk_mb=wanted)).status == "built"
        there = {image.id for image in client.images.list()}
        assert oldest not in there
        assert {needed_one, older, recent} <= there
        wanted = free_mb(data) + 15
        refused = build(builder, "RUN echo yet more > /more", BuildLimits(disk_mb=wanted))
        assert (refused.status, refused.failure_class) == ("failed", "disk")
        assert re.match(rf"a build needs {wanted} MB in {data}/docker, and \d+ MB are free", refused.reason)
        there = {image.id for image in client.images.list()}
        assert older not in there
        assert {needed_one, recent} <= there
        assert places(data) == []

    def test_space_is_made_of_caches_before_any_image_goes(self, client: docker.DockerClient, data: Path) -> None:
        room = Room(client, data, keep=set)
        builder = builder_of(client, data, room)
        kept = build(builder, "RUN echo old > /old", SMALL)
        aged(data, str(kept.digest), LONG_AGO_S)
        unnamed(client)
        assert client.api.images(filters={"dangling": True})
        if client_command() is not None:
            made = build(builder, "RUN --mount=type=cache,target=/c head -c 12000000 /dev/urandom > /c/a", SMALL)
            assert made.builder == "buildkit"
            assert cache_bytes(client) > 12_000_000
        wanted = free_mb(data) + 6
        assert build(builder, "RUN echo newer > /new", BuildLimits(disk_mb=wanted)).status == "built"
        assert cache_bytes(client) < 12_000_000
        assert kept.digest in {image.id for image in client.images.list()}

    def test_in_an_engine_of_somebody_else_only_our_own_images_go(
        self, client: docker.DockerClient, data: Path
    ) -> None:
        record = data / "engine.json"
        ours = record.read_text()
        builder = builder_of(client, data, Room(client, data))
        made = build(builder, "RUN echo ours > /ours", SMALL)
        aged(data, str(made.digest), LONG_AGO_S)
        theirs = {unnamed(client), str(client.images.get("shell:1").id)}
        for image in theirs:
            aged(data, image, LONG_AGO_S)
        record.write_text(json.dumps(json.loads(ours) | {"owned": False}))
        try:
            Room(client, data, keep=set).clean(DISK_MB * 2)
        finally:
            record.write_text(ours)
        there = {image["Id"] for image in client.api.images(all=True)}
        assert made.digest not in there
        assert theirs <= there


def unnamed(client: docker.DockerClient) -> str:
    """Id of an image that has lost its name to another one."""
    name = f"lost-{secrets.token_hex(4)}"
    lost = import_shell(client, name)
    client.api.tag("shell:1", name, "1", force=True)
    client.api.remove_image(f"{name}:1", noprune=True)
    return lost


def cache_bytes(client: docker.DockerClient) -> int:
    """Size of BuildKit's cache."""
    return sum(int(one["Size"]) for one in client.api.df()["BuildCache"] or ())


def free_mb(data: Path) -> int:
    found = os.statvfs(data / "docker")
    return found.f_bavail * found.f_frsize >> 20


def aged(data: Path, image: str, seconds: float) -> None:
    """Set when an image was used last."""
    mark = data / "images" / "used" / image.removeprefix("sha256:")
    mark.touch()
    then = time.time() - seconds
    os.utime(mark, (then, then))


@dataclass(frozen=True)
class Stage:
    """A stage that builds BUILDS images, two at a time, each time in a process of its own."""

    data: Path
    name: str
    builder: str
    step: str = ""
    """What stands before the command of the one RUN."""

    @property
    def rows(self) -> Path:
        return self.data / "rows" / self.name

    def start(self) -> subprocess.Popen[str]:
        self.rows.mkdir(parents=True, exist_ok=True)
        arguments = [sys.executable, "-c", DRIVER, str(self.data), str(self.rows), str(BUILDS), self.step]
        process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        return process

    def recorded(self) -> set[str]:
        with Journal(self.rows) as journal:
            return {entry.key for entry in journal.find("r")}

    def assert_whole(self, client: docker.DockerClient) -> None:
        """Every image is there, with its row, and there is nothing else."""
        rows = Store(self.rows).current("image_builds").to_pylist()
        assert Counter(row["repository_id"] for row in rows) == {f"r{n}": 1 for n in range(BUILDS)}
        assert {(row["status"], row["reason"]) for row in rows} == {("built", "")}
        assert {row["builder"] for row in rows} == {self.builder}
        for row in rows:
            environment = client.api.inspect_image(row["image_digest"])["Config"]["Env"]
            assert {f"OF={self.name}", f"N={row['repository_id'][1:]}"} <= set(environment)
            assert client.api.inspect_image(row["image_digest"])["RepoTags"]
        mine = [image for image in client.images.list() if f"OF={self.name}" in (image.attrs["Config"]["Env"] or ())]
        assert {image.id for image in mine} == {row["image_digest"] for row in rows}
        assert steps(client) == []
        assert groups(self.data) == []
        assert places(self.data) == []
        assert clients(self.data) == []
        assert client.api.images(filters={"dangling": True}) == []


@pytest.fixture(params=["classic", "buildkit"])
def stage(request: pytest.FixtureRequest, data: Path) -> Stage:
    """A stage whose Dockerfiles are for one of the builders."""
    if request.param == "classic":
        return Stage(data, f"{request.function.__name__}-classic", request.param)
    if client_command() is None:
        pytest.skip("no docker client here knows BuildKit")
    return Stage(data, f"{request.function.__name__}-buildkit", request.param, SCRATCH)


def test_an_engine_killed_in_the_middle_of_builds_fails_no_dockerfile_and_the_stage_goes_on_with_the_next_one(
    client: docker.DockerClient, data: Path, stage: Stage
) -> None:
    builder = builder_of(client, data, Room(client, data))
    kept = build(builder, "RUN echo kept > /kept")
    with stage.start() as process:
        until(lambda: building(client, data))
        kill_engine(data)
        output, errors = process.communicate(timeout=60)
    assert re.fullmatch(r"\d \{'infrastructure': \d\}\n", output), errors
    assert stage.recorded() == {f"r{n}" for n in range(BUILDS)}
    assert bootstrap(data, "engine").returncode == 0
    again = build(builder, "RUN echo kept > /kept")
    assert (again.digest, again.cached) == (kept.digest, True)
    remove_dead_steps(client)
    assert steps(client) == []
    output, errors = stage.start().communicate(timeout=60)
    assert output == f"{BUILDS} {{}}\n", errors
    stage.assert_whole(client)


def test_a_driver_killed_in_the_middle_of_builds_loses_no_row_and_leaves_nothing(
    client: docker.DockerClient, data: Path, stage: Stage
) -> None:
    seed = random.randrange(10_000)
    chance = random.Random(seed)
    for _ in range(2):
        known = stage.recorded() if stage.rows.exists() else set()
        with stage.start() as process:
            until(lambda: building(client, data))
            time.sleep(chance.uniform(0, 0.4))
            assert process.poll() is None, f"seed {seed}: there was nothing left to kill"
            process.kill()
        assert known <= stage.recorded(), f"seed {seed}: the journal forgot items"
    until(lambda: not building(client, data))
    output, errors = stage.start().communicate(timeout=60)
    assert output == f"{BUILDS} {{}}\n", f"seed {seed}: {errors}"
    remove_dead_steps(client)
    stage.assert_whole(client)


def building(client: docker.DockerClient, data: Path) -> bool:
    """Whether a step runs: a container of the classic builder, or a process of BuildKit's, which has no container."""
    inner = Path("/sys/fs/cgroup").glob(f"**/{run_folder(data).name}/buildkit/*/cgroup.procs")
    return bool(steps(client)) or any(read(path) for path in inner)


def read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def clients(data: Path) -> list[str]:
    """Command lines of docker clients that were started for this engine."""
    host = f"DOCKER_HOST=unix://{run_folder(data)}/docker.sock"
    return [read(path.parent / "cmdline") for path in Path("/proc").glob("[0-9]*/environ") if host in read(path)]


def kill_engine(data: Path) -> None:
    os.kill(int((run_folder(data) / "docker.pid").read_text()), signal.SIGKILL)
