"""What only the overlay backend promises: the kernel owns the life of its sandboxes, whoever dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from sandbox.backends.choice import choose
from sandbox.backends.docker import DockerBackend
from sandbox.backends.overlay import RUNTIMES, OverlayBackend
from sandbox.building.base_images import BaseImages
from sandbox.errors import ImageMissing, SandboxUnavailable
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_mb=512, lifetime_s=300)
PROJECT = Path(__file__).resolve().parents[2]
DRIVER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from sandbox.backends.docker import DockerBackend
from sandbox.backends.overlay import OverlayBackend
from sandbox.engine import connect
from sandbox.types import Limits
data = Path(sys.argv[2])
client = connect(data)
backend = OverlayBackend(client, None, DockerBackend(client, None), data)
sandbox = backend.start(sys.argv[3], Limits(memory_mb=256, lifetime_s=300))
sandbox.execute("(trap '' HUP INT TERM; setsid nohup sleep 4321 &) > /dev/null 2>&1", timeout_s=20)
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def own(client: docker.DockerClient, bases: BaseImages, data_folder: Path) -> Iterator[OverlayBackend]:
    """A backend that a test may break."""
    runtime = VerifierRuntime(client, bases)
    backend = OverlayBackend(client, runtime, DockerBackend(client, runtime), data_folder)
    yield backend
    backend.close()


def sleepers(argument: str) -> list[int]:
    """Processes of this machine with an argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if argument.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def group_folders() -> set[Path]:
    """Control groups of sandboxes."""
    return set(Path("/sys/fs/cgroup").glob("*/touchstone/*/*/")) | set(Path("/sys/fs/cgroup").glob("touchstone/*/*/"))


def keepers() -> list[int]:
    """Of this process."""
    children = Path("/proc/self/task").glob("*/children")
    return [int(pid) for path in children for pid in path.read_text().split() if is_keeper(int(pid))]


def is_keeper(pid: int) -> bool:
    try:
        return b"keeper_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # gone since it was listed
        return False


def wait_for(argument: str) -> int:
    """The one process with an argument, once it runs."""
    end = time.monotonic() + 20
    while not (found := sleepers(argument)) and time.monotonic() < end:
        time.sleep(0.01)
    [process] = found
    return process


def wait_until_gone(argument: str) -> list[int]:
    end = time.monotonic() + 20
    while (left := sleepers(argument)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def wait_for_the_end(process: int) -> bool:
    """Whether a process is reaped: a killed one has lost its arguments a moment before."""
    end = time.monotonic() + 20
    while (left := Path(f"/proc/{process}").exists()) and time.monotonic() < end:
        time.sleep(0.01)
    return not left


def test_misuse_a_killed_driver_leaves_no_process_mount_or_group(
    own: OverlayBackend, image: str, data_folder: Path
) -> None:
    command = [sys.executable, "-c", DRIVER, str(PROJECT), str(data_folder), image]
    driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert driver.stdout is not None and driver.stdout.readline() == "up\n"
        wait_for("4321")
    finally:
        driver.kill()
        driver.wait()
    assert wait_until_gone("4321") == []
    own.reap()
    assert not [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "overlay/sandboxes" in line]
    assert not [path for path in group_folders() if f"/{driver.pid}_" in str(path)]


def test_misuse_a_killed_keeper_is_an_unavailable_sandbox_and_the_next_one_works(
    own: OverlayBackend, image: str
) -> None:
    others = set(keepers())
    sandbox = own.start(image, LIMITS)
    sandbox.execute("(sleep 5432 &)", timeout_s=20)
    sleeper = wait_for("5432")
    [keeper] = set(keepers()) - others
    os.kill(keeper, signal.SIGKILL)
    assert wait_for_the_end(sleeper) and sleepers("5432") == []
    with pytest.raises(SandboxUnavailable):
        sandbox.execute("echo x", timeout_s=20)
    sandbox.close()
    again = own.start(image, LIMITS)
    assert again.execute("echo works", timeout_s=20).output == "works\n"
    again.close()


def test_the_lifetime_ends_a_sandbox(own: OverlayBackend, image: str) -> None:
    sandbox = own.start(image, LIMITS.model_copy(update={"lifetime_s": 2}))
    sandbox.execute("(sleep 6543 &)", timeout_s=20)
    wait_for("6543")
    assert wait_until_gone("6543") == []
    with pytest.raises(SandboxUnavailable, match="over"):
        sandbox.execute("true", timeout_s=20)
    sandbox.close()


def test_a_full_disk_is_the_command_s_trouble_and_does_not_reach_this_machine(own: OverlayBackend, image: str) -> None:
    sandbox = own.start(image, LIMITS)
    result = sandbox.execute("head -c 1G /dev/zero > /big; echo $?; ls -l /big | wc -l", timeout_s=60)
    assert "No space left on device" in result.output and result.output.endswith("1\n1\n")
    assert sandbox.execute("rm /big; echo free > /x; cat /x", timeout_s=20).output == "free\n"
    sandbox.close()


def test_a_state_that_is_kept_serves_another_process_and_one_that_is_not_does_not(
    own: OverlayBackend, client: docker.DockerClient, bases: BaseImages, data_folder: Path, image: str
) -> None:
    names = {keep: f"test-{uuid.uuid4().hex}" for keep in (True, False)}
    for keep, name in names.items():
        sandbox = own.start(image, LIMITS)
        sandbox.execute("echo kept > /kept", timeout_s=20)
        state = sandbox.freeze(name, keep=keep)
        sandbox.close()
        restored = own.restore(state, LIMITS)
        assert restored.execute("cat /kept", timeout_s=20).output == "kept\n"
        restored.close()
    runtime = VerifierRuntime(client, bases)
    other = OverlayBackend(client, runtime, DockerBackend(client, runtime), data_folder)
    try:
        assert (other.has_state(names[True]), other.has_state(names[False])) == (True, False)
        other.discard(names[True])
        assert not own.has_state(names[True]) and own.has_state(names[False])
    finally:
        other.close()
    own.discard(names[False])
    with pytest.raises(ImageMissing):
        own.restore(state, LIMITS)


def test_a_state_that_is_discarded_stays_whole_for_the_sandboxes_on_it(
    own: OverlayBackend, image: str, data_folder: Path
) -> None:
    sandbox = own.start(image, LIMITS)
    sandbox.execute("seq 200 | split -l 1 - /part-", timeout_s=20)
    state = sandbox.freeze(f"test-{uuid.uuid4().hex}")
    sandbox.close()
    restored = own.restore(state, LIMITS)
    own.discard(state.reference)
    assert not own.has_state(state.reference)
    assert restored.execute("cat /part-* | sort -n | tail -1; ls /part-* | wc -l", timeout_s=20).output == "200\n200\n"
    states, ours = data_folder / "overlay" / "states", f".{os.getpid()}:"
    assert [path for path in states.iterdir() if path.name.startswith(ours)]
    restored.close()
    own.discard(own.start(image, LIMITS).freeze(f"test-{uuid.uuid4().hex}").reference)
    assert not [path for path in states.iterdir() if path.name.startswith(ours)]


@pytest.mark.parametrize("runtime", [name for name in RUNTIMES if shutil.which(name)])
def test_each_runtime_confines_as_the_engine_does(
    client: docker.DockerClient, bases: BaseImages, data_folder: Path, image: str, runtime: str
) -> None:
    facts = (
        "grep -E '^(Seccomp|NoNewPrivs|CapBnd|CapEff)' /proc/self/status; ulimit -n -c -f; id; hostname; "
        "ls /proc/sys/kernel/core_pattern; echo x > /proc/sys/kernel/core_pattern; cat /proc/kcore | head -c 1; "
        "ls -d /sys/firmware/*; cat /proc/net/dev | tail -n +3 | cut -d: -f1; env | sort"
    )
    verifier = VerifierRuntime(client, bases)
    contained = DockerBackend(client, verifier)
    fast = OverlayBackend(client, verifier, contained, data_folder, runtimes=(runtime,))
    seen = []
    try:
        for backend in (contained, fast):
            sandbox = backend.start(image, LIMITS)
            seen.append(sandbox.execute(facts, timeout_s=20).output)
            sandbox.close()
    finally:
        fast.close()
    assert "Seccomp:\t2" in seen[0]
    assert seen[0] == seen[1]


def test_where_no_runtime_is_installed_docker_serves_and_asking_for_more_says_what_is_missing(
    client: docker.DockerClient, bases: BaseImages, data_folder: Path, image: str
) -> None:
    runtime = VerifierRuntime(client, bases)
    os.environ["PATH"] = "/nowhere"
    assert choose("auto", client, runtime, data_folder, image).name == "docker"
    with pytest.raises(SandboxUnavailable, match="no OCI runtime is installed; looked for crun and runc"):
        choose("overlay", client, runtime, data_folder, image)


def test_where_a_runtime_cannot_start_anything_docker_serves(
    client: docker.DockerClient, bases: BaseImages, data_folder: Path, image: str, tmp_path: Path
) -> None:
    broken = tmp_path / "crun"
    broken.write_text("#!/bin/sh\necho no such kernel feature >&2\nexit 1\n")
    broken.chmod(0o755)
    runtime = VerifierRuntime(client, bases)
    os.environ["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    assert choose("auto", client, runtime, data_folder, image).name == "docker"
    with pytest.raises(SandboxUnavailable, match="the runtime did not start a container"):
        choose("overlay", client, runtime, data_folder, image)
