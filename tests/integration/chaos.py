"""Rollouts under faults: their tasks, a driver that dies where it is told, sandboxes that are killed, what must hold.

The model is a script: what it answers depends on the conversation alone, so that an attempt that is made again is the
same one, and what each attempt must end with is known beforehand.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pipeline.batch
import pipeline.rollout
import pipeline.stages.verifications
from pipeline.agents.calling import prompt_sha256
from pipeline.attempts import Attempt, SamplesConfig, rounds
from pipeline.batch import Retry, StageReport
from pipeline.journal import Journal
from pipeline.llm.openai_server import OpenAIServer, OpenAIServerConfig
from pipeline.llm.protocol import Message
from pipeline.rollout import RolloutConfig
from pipeline.rows import trajectory_of
from pipeline.schemas import to_rows
from pipeline.stages.options import Options
from pipeline.stages.rollouts import roll_out
from pipeline.stages.verifications import verify_all
from pipeline.tables import Store
from pipeline.types import INFRASTRUCTURE, TaskInstance, Trajectory, Verifier, VerifierFile
from sandbox.backends.choice import choose
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.engine import connect
from sandbox.errors import SandboxUnavailable
from sandbox.protocol import Backend
from sandbox.streams import engine_call
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime
from tests.integration.faulty_server import TRY_S, commands, right

PROJECT = Path(__file__).resolve().parents[2]
AGENTS = ("bash", "terminus")
TESTS = """
def test_count(box):
    assert box.text("/tmp/count.txt") == "{number}\\n"


def test_every_step_was_taken_once(box):
    assert box.text("/tmp/steps.txt") == "step\\n"
"""


def instances(image: str, count: int) -> list[TaskInstance]:
    """Tasks whose number is in their instruction; `right` says which of their attempts solve them."""
    return [
        TaskInstance(
            repository_id="repo-1",
            image_digest=image,
            instruction=f"Write the number {number} to /tmp/count.txt. (task {number})",
            solution=(f"echo step > /tmp/steps.txt; echo {number} > /tmp/count.txt",),
            verifier=Verifier(
                files=(VerifierFile(path="test_state.py", content=TESTS.replace("{number}", str(number))),),
                passing_tests=("test_state.py::test_count", "test_state.py::test_every_step_was_taken_once"),
            ),
            generator="test",
            language="shell",
            family="created_file",
            difficulty="easy",
            limits=Limits(memory_mb=256, lifetime_s=120),
            provenance={},
        )
        for number in range(1, count + 1)
    ]


def attempts_at(tasks: Sequence[TaskInstance], model: OpenAIServer, samples: int) -> list[Attempt]:
    """All of them."""
    config = SamplesConfig(count=samples, temperatures=(0.0, 0.5))
    return [one for each in rounds(tasks, AGENTS, model, config) for one in each]


def model_at(url: str, tries: int = 8) -> OpenAIServer:
    """A patient client in a hurry."""
    settings = {"first_wait_s": 0.02, "longest_wait_s": 2.0, "timeout_s": TRY_S, "tries": tries}
    return OpenAIServer(OpenAIServerConfig.model_validate({"base_url": url, "model": "tiny", **settings}))


def backend_of(data: Path, image: str, choice: str = "auto") -> Backend:
    client = connect(data)
    bases = BaseImages(client, BaseImageConfig(), data)
    return choose(choice, client, VerifierRuntime(client, bases), data, image)  # type: ignore[arg-type]


def drive(
    data: Path,
    backend: Backend,
    tasks: Sequence[TaskInstance],
    model: OpenAIServer,
    *,
    samples: int = 1,
    retry: Retry = Retry.NONE,
    workers: int = 3,
) -> tuple[StageReport, StageReport]:
    """Attempts and their verdicts, as the main job makes them."""
    store, options = Store(data), Options(workers=workers, retry=retry)
    config = RolloutConfig(max_steps=8, command_timeout_s=30)
    made = roll_out(store, attempts_at(tasks, model, samples), backend, config, options)
    return made, verify_all(store, tasks, backend, options, command_timeout_s=config.command_timeout_s)


def assert_nothing_mislabelled(data: Path, tasks: Sequence[TaskInstance], pause: str) -> None:
    """Whatever is in the tables: only whole attempts are trajectories, and only they have verdicts, the right ones."""
    store = Store(data)
    numbers = {task.instance_id: int(task.instruction.split("(task ")[1].rstrip(")")) for task in tasks}
    rows = to_rows(store.read("trajectories"))
    kept = {str(row["trajectory_id"]): trajectory_of(row) for row in rows if row["trajectory_id"] is not None}
    counted = Counter(row["trajectory_id"] for row in rows if row["trajectory_id"] is not None)
    assert set(counted.values()) <= {1}, f"doubled: {counted}"
    for row in rows:
        if row["trajectory_id"] is None:
            assert (row["failure_class"], row["steps"], row["stop_reason"]) == (INFRASTRUCTURE, None, None), row
        else:
            assert row["failure_class"] is None, row
    for trajectory in kept.values():
        assert_whole_attempt(trajectory, numbers[trajectory.instance_id], pause)
    verdicts = to_rows(store.read("verifications"))
    decided = Counter(row["trajectory_id"] for row in verdicts if row["outcome"] in {"passed", "failed"})
    assert set(decided.values()) <= {1}, f"judged twice: {decided}"
    for row in verdicts:
        if row["outcome"] == "error":
            assert row["failure_class"] == INFRASTRUCTURE, row
            continue
        trajectory = kept[str(row["trajectory_id"])]
        number, temperature = numbers[trajectory.instance_id], trajectory.sampling["temperature"]
        assert row["outcome"] == ("passed" if right(number, temperature) else "failed"), row


def assert_whole_attempt(trajectory: Trajectory, number: int, pause: str) -> None:
    """All commands of the script, each once and in order, with what they answered; nothing of a fault in between."""
    planned = commands(number, trajectory.sampling["temperature"], pause)
    done = [step.action for step in trajectory.steps if step.action]
    if trajectory.interface == "terminal":
        done = [json.loads(action)[0]["keystrokes"].rstrip("\n") for action in done]
    assert (done, trajectory.stop_reason) == (planned, "submitted"), trajectory
    assert [step.exit_code for step in trajectory.steps if step.action] == [0, 0, 0], trajectory
    assert all(len(step.extra["calls"]) == 1 for step in trajectory.steps)
    roles = [one["role"] for one in trajectory.messages]
    assert roles == ["user", "assistant"] * len(trajectory.steps)
    sent = [Message.model_validate(one) for one in trajectory.messages[:-1]]
    assert trajectory.steps[-1].extra["calls"][-1]["prompt_sha256"] == prompt_sha256(sent)


def assert_all_done(data: Path, tasks: Sequence[TaskInstance], backend: Backend, *, samples: int, pause: str) -> None:
    """Every attempt is there once, with its verdict; the journal says the same, and nothing is left over."""
    assert_nothing_mislabelled(data, tasks, pause)
    model = model_at("http://127.0.0.1:9/v1")
    wanted = {attempt.trajectory_id for attempt in attempts_at(tasks, model, samples)}
    store = Store(data)
    assert {row["trajectory_id"] for row in to_rows(store.current("trajectories"))} == wanted
    verdicts = to_rows(store.current("verifications"))
    assert {row["trajectory_id"] for row in verdicts if row["outcome"] != "error"} == wanted
    with Journal(data) as journal:
        entries = [entry for key in wanted for entry in journal.find(key)]
    good = Counter((entry.stage, entry.key.partition("@")[0]) for entry in entries if entry.failure is None)
    assert good == {(stage, key): 1 for stage in ("rollout", "verification") for key in wanted}
    assert backend.states() & wanted == set(), "states of judged attempts are kept"


def kill_sandbox(marker: str, data: Path, within_s: float = 20.0) -> bool:
    """End the sandbox in which a command with `marker` runs, from outside; whether one was found.

    A container is killed by its engine. On an overlay the keeper is killed, and with it all sandboxes of that driver.
    """
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        for pid in (pid for pid in _pids() if marker in _arguments(pid) and pid != os.getpid()):
            keeper = next((one for one in _ancestors(pid) if "keeper_process" in _arguments(one)), None)
            with contextlib.suppress(OSError, SandboxUnavailable):
                if keeper is not None:
                    os.kill(keeper, signal.SIGKILL)
                    return True
                container = re.search("[0-9a-f]{64}", Path(f"/proc/{pid}/cgroup").read_text())
                if container is not None:
                    _kill_container(data, container[0])
                    return True
        time.sleep(0.02)
    return False


def _kill_container(data: Path, container: str) -> None:
    client = connect(data)
    with engine_call("killing a container"):
        client.api.kill(container)
    client.close()


def _ancestors(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        while pid > 1:
            yield pid
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _arguments(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return ""


DEATHS = ("frozen", "recorded", "appended", "judged", "discarding")
"""Where a driver can be told to die: right after what it names, `discarding` right before."""


def _die_after(place: object, name: str, calls: int, *, before: bool = False) -> None:
    original, left = getattr(place, name), iter(range(calls - 1, -1, -1))

    def dying(*arguments: Any, **named: Any) -> Any:
        last = next(left, -1) == 0
        if last and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(place, name, dying)


@contextlib.contextmanager
def _flushing_often() -> Iterator[None]:
    former, pipeline.batch.FLUSH_ITEMS = pipeline.batch.FLUSH_ITEMS, 2
    yield
    pipeline.batch.FLUSH_ITEMS = former


def act(data: str, image: str, url: str, count: int, samples: int, death: str, calls: int) -> None:
    """What a driver does: everything that is still to be done, unless it dies first."""
    root = Path(data)
    backend = backend_of(root, image)
    backend.reap()
    places: dict[str, tuple[object, str]] = {
        "frozen": (pipeline.rollout._Attempt, "trajectory"),
        "recorded": (Journal, "record"),
        "appended": (Store, "append"),
        "judged": (pipeline.stages.verifications, "verify"),
        "discarding": (type(backend), "discard"),
    }
    if death:
        place, name = places[death]
        _die_after(place, name, calls, before=death == "discarding")
    with _flushing_often():
        drive(root, backend, instances(image, count), model_at(url), samples=samples, retry=Retry.INFRASTRUCTURE)


def nurse() -> None:
    """Make a driver, a process of its own, for each line of arguments: says its number, then how it ended."""
    for line in sys.stdin:
        sys.stdout.flush()
        if (pid := os.fork()) == 0:
            code = 1
            try:
                act(*json.loads(line))
                code = 0
            except BaseException:  # noqa: BLE001 - told in full, and how it ended says the rest
                traceback.print_exc()
            os._exit(code)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


class Nursery:
    """Drivers that share a data folder, one after the other; what all of them need is imported once."""

    def __init__(self, data: Path, image: str, url: str, count: int, samples: int = 1) -> None:
        self._arguments = [str(data), image, url, count, samples]
        command = [sys.executable, "-m", "tests.integration.chaos"]
        self._process = subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def start(self, death: str = "", calls: int = 1) -> int:
        """The number of a new driver's process."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([*self._arguments, death, calls]) + "\n")
        return self._line()

    def wait(self) -> int:
        """How it ended, as `subprocess` says it."""
        return self._line()

    def run(self, death: str = "", calls: int = 1) -> int:
        """Both."""
        self.start(death, calls)
        return self.wait()

    def _line(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    nurse()
