"""An exported task in the hands of whoever runs it as Harbor does: same container, same order, plain Docker."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from pipeline.exports.harbor import task_files
from pipeline.exports.tasks import ExportedTask
from pipeline.types import TaskInstance, Verifier, VerifierFile
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.building.images import ImageBuilder
from sandbox.building.references import References
from sandbox.building.registry import Registry
from sandbox.engine import connect
from sandbox.types import BuildLimits, ImageSpec
from sandbox.verifier.verifier_runtime import VerifierRuntime

pytestmark = pytest.mark.docker

# An interpreter that an image brings has no say in a verdict.
FORGER = "#!/bin/sh\\necho '{\\\"reward\\\": 1}' > /logs/verifier/reward.json\\n"
TESTS = """\
import os
import subprocess

def test_count(box):
    assert box.text("/work/count.txt") == "3\\n"

def test_the_service_runs_and_programs_have_the_environment_of_the_image(box):
    pid = int(box.text("/work/service.pid"))
    assert os.path.isdir(f"/proc/{pid}")
    assert subprocess.run(["/bin/echo"], timeout=5).returncode == 0
    assert (os.environ["MODE"], os.environ["LANG"]) == ("x", "C.UTF-8")
"""
NAMES = ("test_count", "test_the_service_runs_and_programs_have_the_environment_of_the_image")


class Trial:
    """One container of an exported task."""

    def __init__(self, container: Container, files: Mapping[str, str]) -> None:
        self.container = container
        self.files = files
        self.run("mkdir -p /logs/agent /logs/verifier && chmod 777 /logs/agent /logs/verifier")

    def run(self, command: str) -> int:
        code, _ = self.container.exec_run(["bash", "-c", command])
        return int(code)

    def upload(self, part: str) -> None:
        """The folder of that name to the root, after the agent's time only."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for path, text in self.files.items():
                if path.startswith(f"{part}/"):
                    info = tarfile.TarInfo(path)
                    info.size, info.mode = len(text.encode()), 0o755
                    tar.addfile(info, io.BytesIO(text.encode()))
        self.container.put_archive("/", packed.getvalue())

    def solve(self) -> int:
        self.upload("solution")
        return self.run("(/solution/solve.sh) > /logs/agent/oracle.txt 2>&1")

    def reward(self) -> object:
        self.upload("tests")
        self.run("(/tests/test.sh) > /logs/verifier/test-stdout.txt 2>&1")
        _, said = self.container.exec_run(["cat", "/logs/verifier/reward.json"])
        return json.loads(said)


@pytest.fixture(scope="module")
def client(data_folder: Path) -> Iterator[docker.DockerClient]:
    client = connect(data_folder)
    yield client
    client.close()


@pytest.fixture(scope="module")
def exported(client: docker.DockerClient, data_folder: Path) -> dict[str, str]:
    """The files of a task whose solution leaves a service running."""
    bases = BaseImages(client, BaseImageConfig(), data_folder)
    dockerfile = (
        f"FROM {bases.base().tag}\nWORKDIR /work\nENV MODE=x\nENTRYPOINT ['false']\n"
        f'RUN printf "a\\nb\\nc\\n" > words.txt && printf "{FORGER}" > /usr/local/bin/python3 '
        "&& chmod +x /usr/local/bin/python3\n"
    )
    built = ImageBuilder(client, bases).build(ImageSpec(name="trial", dockerfile=dockerfile), BuildLimits())
    assert built.digest is not None, built.log_tail
    task = TaskInstance(
        repository_id="repo-1",
        image_digest=built.digest,
        instruction="Count the lines of words.txt into count.txt and leave the service running.",
        solution=("total=$(wc -l < words.txt)", "sleep 300 & echo $! > service.pid", 'echo "$total" > count.txt'),
        verifier=Verifier(
            files=(VerifierFile(path="test_state.py", content=TESTS),),
            passing_tests=tuple(f"test_state.py::{name}" for name in NAMES),
        ),
        generator="tests",
        language="shell",
        family="count",
        difficulty="easy",
        state_scope="live",
        provenance={},
    )
    references = References(client, Registry(client, None))
    runtime = VerifierRuntime(client, bases).image().digest
    exported = ExportedTask(
        instance=task, repository="tests/trial", source="tests", commit="1", license=None, evidence={}
    )
    return task_files(exported, references.of(runtime), references.of(built.digest))


@pytest.fixture(scope="module")
def image(client: docker.DockerClient, exported: dict[str, str]) -> Iterator[str]:
    built, _ = client.images.build(fileobj=io.BytesIO(exported["environment/Dockerfile"].encode()), rm=True)
    yield str(built.id)
    client.api.remove_image(built.id, force=True)


@pytest.fixture
def trial(client: docker.DockerClient, image: str, exported: dict[str, str]) -> Iterator[Trial]:
    container = client.containers.run(
        image, ["sh", "-c", "sleep infinity"], init=True, network_mode="none", detach=True
    )
    try:
        yield Trial(container, exported)
    finally:
        container.remove(force=True)


def test_the_solution_has_the_reward_one_and_nothing_done_the_reward_zero(trial: Trial) -> None:
    assert trial.reward() == {"reward": 0}
    assert trial.run("rm -r /tests /logs/verifier/*") == 0
    assert trial.solve() == 0
    assert trial.reward() == {"reward": 1}


def test_half_of_the_work_has_the_reward_zero(trial: Trial) -> None:
    assert trial.solve() == 0
    assert trial.run("kill $(cat /work/service.pid)") == 0
    assert trial.reward() == {"reward": 0}
