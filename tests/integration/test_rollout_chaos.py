"""Rollouts while everything around them fails: nothing is lost, nothing is doubled, nothing is mislabelled.

`make chaos-rollout` runs the long one, whose faults are drawn by chance.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.batch import Retry
from pipeline.schemas import to_rows
from pipeline.tables import Store
from pipeline.types import INFRASTRUCTURE, Verifier, VerifierFile
from sandbox.backends.overlay import OverlayBackend
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.engine import OWNER, connect, owner
from sandbox.errors import SandboxUnavailable
from sandbox.protocol import Backend
from tests.integration.chaos import (
    DEATHS,
    Nursery,
    assert_all_done,
    assert_nothing_mislabelled,
    backend_of,
    drive,
    instances,
    kill_sandbox,
    model_at,
)
from tests.integration.faulty_server import FAULTS, FaultyServer

pytestmark = pytest.mark.docker

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def image(data_folder: Path) -> str:
    """Digest of the slim base."""
    client = connect(data_folder)
    digest = BaseImages(client, BaseImageConfig(), data_folder).base().digest
    client.close()
    return digest


@pytest.fixture
def data(data_folder: Path, tmp_path: Path) -> Path:
    """A data folder of its own, on the engine of this machine."""
    folder = tmp_path / "data"
    folder.mkdir()
    if (data_folder / "engine.json").is_file():
        known = json.loads((data_folder / "engine.json").read_text())
        (folder / "engine.json").write_text(json.dumps(known | {"owned": False}))
    return folder


@pytest.fixture
def backend(data: Path, image: str, request: pytest.FixtureRequest) -> Iterator[Backend]:
    """The one that the machine would choose, or the one that a test asks for."""
    backend = backend_of(data, image, getattr(request, "param", "auto"))
    yield backend
    if isinstance(backend, OverlayBackend):
        backend.close()


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


def test_every_fault_of_a_server_is_waited_out(data: Path, image: str, backend: Backend, server: FaultyServer) -> None:
    plan = [*FAULTS, None, *reversed(FAULTS)]
    server.fault = lambda number: plan[number] if number < len(plan) else None
    tasks = instances(image, 2)
    made, judged = drive(data, backend, tasks, model_at(server.url))
    assert (made.done, made.failed, judged.done, judged.failed) == (4, {}, 4, {})
    assert_all_done(data, tasks, backend, samples=1, pause="0")


def test_a_storm_is_waited_out_by_everybody(data: Path, image: str, backend: Backend, server: FaultyServer) -> None:
    began = time.monotonic()
    server.fault = lambda number: "429" if time.monotonic() - began < 1.0 else None
    tasks = instances(image, 3)
    made, _ = drive(data, backend, tasks, model_at(server.url, tries=12), workers=6)
    assert (made.done, made.failed) == (6, {})
    assert server.asked > 30
    assert_all_done(data, tasks, backend, samples=1, pause="0")


def test_a_server_that_is_down_gives_no_label_and_the_next_run_makes_up_for_it(
    data: Path, image: str, backend: Backend, server: FaultyServer
) -> None:
    tasks = instances(image, 2)
    # In the middle of the attempts, so that some of them have done a part of their work.
    server.seen = lambda number, request: server.stop() if number == 5 else None
    server.fault = lambda number: "hang up" if number >= 5 else None
    made, judged = drive(data, backend, tasks, model_at(server.url, tries=2))
    assert made.failed == {INFRASTRUCTURE: 4 - made.done} and made.done < 4
    assert judged.total == made.done
    assert_nothing_mislabelled(data, tasks, "0")
    failed = [row for row in to_rows(Store(data).current("trajectories")) if row["trajectory_id"] is None]
    assert all("ModelUnavailable" in str(row["reason"]) for row in failed)
    assert {(row["agent"], row["model"], row["sample"]) for row in failed} <= {
        ("bash", "tiny", 0),
        ("terminus", "tiny", 0),
    }
    server.fault = lambda number: None
    server.seen = lambda number, request: None
    server.start()
    unasked, _ = drive(data, backend, tasks, model_at(server.url))
    assert (unasked.skipped, unasked.failed) == (4, made.failed)
    again, _ = drive(data, backend, tasks, model_at(server.url), retry=Retry.INFRASTRUCTURE)
    assert (again.done, again.failed, again.skipped) == (4, {}, made.done)
    assert_all_done(data, tasks, backend, samples=1, pause="0")


def test_a_server_that_comes_back_is_gone_on_with(
    data: Path, image: str, backend: Backend, server: FaultyServer
) -> None:
    def down(number: int, request: dict[str, Any]) -> None:
        if number == 4:
            server.stop()
            threading.Timer(1.0, server.start).start()

    server.seen = down
    tasks = instances(image, 2)
    made, _ = drive(data, backend, tasks, model_at(server.url, tries=12))
    assert (made.done, made.failed) == (4, {})
    assert_all_done(data, tasks, backend, samples=1, pause="0")


@pytest.mark.parametrize("backend", ["overlay", "docker"], indirect=True)
def test_a_sandbox_that_is_killed_in_the_middle_of_a_step_is_no_answer(
    data: Path, image: str, backend: Backend, server: FaultyServer
) -> None:
    server.pause = f"1.{os.getpid()}{random.randrange(10**6):06d}"
    tasks = instances(image, 1)
    killing: list[threading.Thread] = []

    def kill_the_first_three(number: int, request: dict[str, Any]) -> None:
        # The second command is asked for: all attempts at the first task, one of those at the second.
        if sum(one["role"] == "assistant" for one in request["messages"]) == 1 and len(killing) < 3:
            killing.append(threading.Thread(target=lambda: killed.append(kill_sandbox(server.pause, data))))
            killing[-1].start()

    killed: list[bool] = []
    server.seen = kill_the_first_three
    made, judged = drive(data, backend, tasks, model_at(server.url), workers=1)
    for thread in killing:
        thread.join()
    assert killed == [True] * 3
    # A keeper that is just dying may take one attempt more with it.
    assert made.failed == {INFRASTRUCTURE: 2 - made.done} and judged.total == made.done < 2
    assert_nothing_mislabelled(data, tasks, server.pause)
    again, _ = drive(data, backend, tasks, model_at(server.url), retry=Retry.INFRASTRUCTURE)
    assert (again.done, again.failed) == (2, {})
    assert_all_done(data, tasks, backend, samples=1, pause=server.pause)


@pytest.mark.parametrize("backend", ["overlay", "docker"], indirect=True)
def test_a_verifier_that_is_killed_is_not_broken(
    data: Path, image: str, backend: Backend, server: FaultyServer
) -> None:
    marker = f"1.{os.getpid()}{random.randrange(10**6):06d}"
    (task,) = instances(image, 1)
    (file,) = task.verifier.files
    slow = f'\n\ndef test_slow():\n    import subprocess\n    subprocess.run(["/bin/sleep", "{marker}"], check=True)\n'
    names = (*task.verifier.passing_tests, "test_state.py::test_slow")
    verifier = Verifier(files=(VerifierFile(path=file.path, content=file.content + slow),), passing_tests=names)
    tasks = [task.model_copy(update={"verifier": verifier})]
    killed: list[bool] = []
    killing = threading.Thread(target=lambda: killed.append(kill_sandbox(marker, data)))
    killing.start()
    drive(data, backend, tasks, model_at(server.url), workers=1)
    killing.join()
    assert killed == [True]
    assert_nothing_mislabelled(data, tasks, "0")
    drive(data, backend, tasks, model_at(server.url), workers=1, retry=Retry.INFRASTRUCTURE)
    assert_all_done(data, tasks, backend, samples=1, pause="0")


class Line:
    """The way to an engine, which can be cut."""

    def __init__(self, engine: str, path: Path) -> None:
        self._engine = engine
        self._path = path
        self._open: list[socket.socket] = []
        self._listening: socket.socket | None = None
        self._lock = threading.Lock()

    def mend(self) -> None:
        """Carry everything to the engine and back."""
        self._path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self._path))
        listening.listen(64)
        self._listening = listening
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def cut(self) -> None:
        """From now on the engine is gone; who talks to it learns so at once."""
        with self._lock:
            ends, self._open = self._open, []
            if self._listening is not None:
                ends.append(self._listening)
                self._listening = None
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._engine)
            with self._lock:
                self._open += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    @staticmethod
    def _carry(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(1 << 16):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            return


def test_an_engine_that_goes_is_no_answer(data: Path, image: str, server: FaultyServer) -> None:
    known = data / "engine.json"
    if not known.is_file():
        pytest.skip("the engine of this machine has another address")
    address = json.loads(known.read_text())
    line = Line(address["socket"], data / "line.sock")
    known.write_text(json.dumps({"socket": str(data / "line.sock"), "owned": False}))
    line.mend()
    backend = backend_of(data, image, "docker")
    tasks = instances(image, 1)
    server.seen = lambda number, request: line.cut() if number == 3 else None
    with pytest.raises(SandboxUnavailable):  # the verdicts begin with a question to the engine
        drive(data, backend, tasks, model_at(server.url))
    failed = to_rows(Store(data).current("trajectories"))
    assert [row["failure_class"] for row in failed] == [INFRASTRUCTURE] * 2
    assert_nothing_mislabelled(data, tasks, "0")
    server.seen = lambda number, request: None
    line.mend()
    try:
        again, _ = drive(data, backend, tasks, model_at(server.url), retry=Retry.INFRASTRUCTURE)
        assert (again.done, again.failed) == (2, {})
        assert_all_done(data, tasks, backend, samples=1, pause="0")
    finally:
        client = connect(data)
        for container in client.api.containers(all=True, filters={"label": f"{OWNER}={owner()}"}):
            client.api.remove_container(container["Id"], force=True)
        client.close()
        line.cut()


def test_a_driver_that_is_killed_anywhere_is_gone_on_with(
    data: Path, image: str, backend: Backend, server: FaultyServer
) -> None:
    tasks = instances(image, 1)
    with Nursery(data, image, server.url, count=1) as drivers:
        for turn in (0, 2):
            victim = [0]

            def kill(number: int, request: dict[str, Any], turn: int = turn, victim: list[int] = victim) -> None:
                if sum(one["role"] == "assistant" for one in request["messages"]) == turn and victim[0]:
                    os.kill(victim[0], signal.SIGKILL)
                    victim[0] = 0

            server.seen = kill
            victim[0] = drivers.start()
            assert drivers.wait() == -signal.SIGKILL
            assert_nothing_mislabelled(data, tasks, "0")
        server.seen = lambda number, request: None
        for death in DEATHS:
            assert drivers.run(death) == -signal.SIGKILL, death
            assert_nothing_mislabelled(data, tasks, "0")
        assert drivers.run() == 0
        assert_all_done(data, tasks, backend, samples=1, pause="0")
        asked = server.asked
        assert drivers.run() == 0
        assert server.asked == asked, "done attempts were made again"
    backend.reap()
    assert backend.reap() == 0


@pytest.mark.long
def test_chaos_drawn_by_chance(data: Path, image: str, backend: Backend, server: FaultyServer) -> None:
    """Server, sandboxes and driver fail at once, for CHAOS_S seconds (120), by the chance of CHAOS_SEED."""
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))
    seconds = float(os.environ.get("CHAOS_S") or 120)
    chance = random.Random(seed)
    server.pause = f"0.2{os.getpid()}{seed:06d}"
    server.fault = lambda number: chance.choice(FAULTS) if chance.random() < 0.2 else None
    count, samples = max(6, int(seconds / 6)), 2
    tasks = instances(image, count)
    until, boxes, deaths = time.monotonic() + seconds, 0, 0
    with Nursery(data, image, server.url, count, samples) as drivers:
        while time.monotonic() < until:
            pid = drivers.start(*chance.choice([("", 1), *((death, chance.randint(1, 4)) for death in DEATHS)]))
            ends = time.monotonic() + chance.uniform(1, 15)
            while time.monotonic() < ends and is_running(pid):
                boxes += chance.random() < 0.2 and kill_sandbox(server.pause, data, within_s=0.3)
                if chance.random() < 0.1:
                    server.stop()
                    time.sleep(chance.uniform(0, 1))
                    server.start()
                time.sleep(0.2)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            deaths += drivers.wait() == -signal.SIGKILL
            assert_nothing_mislabelled(data, tasks, server.pause)
        print(f"seed {seed}: {boxes} sandboxes and {deaths} drivers were killed, {server.asked} requests were made")
        server.fault = lambda number: None
        assert drivers.run() == 0
    assert_all_done(data, tasks, backend, samples=samples, pause=server.pause)


def is_running(pid: int) -> bool:
    """Whether a process is there and no corpse."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
