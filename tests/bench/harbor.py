"""The same tasks in Harbor, with its oracle: export to its task format, and one run at a number of trials in parallel.

Harbor runs in the root that infra/peers.sh makes, tuned as well as it can be: the image is built beforehand, nothing is
installed in a trial, the container has an init (without it each one takes ten seconds to stop) and no network to make.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
from datetime import datetime
from pathlib import Path

from tests.bench.tasks import TASKS, VERIFIER, Task
from tests.bench.trials import Level, TrialFailed, busy_seconds

PROGRAM = Path(__file__).resolve().parent.parent.parent / "infra" / "peers.sh"
START_S = 60
"""Longest that Harbor may take to start or to end."""
PATIENCE_S = 60
"""Longest that one trial may take on average."""

_COMPOSE = """\
services:
  main:
    init: true
    network_mode: none
"""
# The interpreter of Debian: the one that has pytest.
_TEST = f"""\
#!/bin/sh
if /usr/bin/python3 -m pytest -q -p no:cacheprovider /tests/{VERIFIER}; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
"""


def export(task: Task, image: str, folder: Path) -> None:
    """Write `task` in Harbor's format to `folder`/NAME; `image` is a tag that the engine has."""
    files = {
        "task.toml": f'[task]\nname = "touchstone/{task.name}"\n\n[environment]\ndocker_image = "{image}"\n',
        "instruction.md": task.instruction + "\n",
        "environment/docker-compose.yaml": _COMPOSE,
        "solution/solve.sh": "\n".join(["#!/bin/bash", "set -e", *(f"(\n{one}\n)" for one in task.solution), ""]),
        "tests/test.sh": _TEST,
        f"tests/{VERIFIER}": task.verifier,
    }
    for path, text in files.items():
        target = folder / task.name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755 if target.suffix == ".sh" else 0o644)


class Harbor:
    """Harbor in the root of the peers, on the eight tasks."""

    def __init__(self, work: Path, image: str) -> None:
        """`work` is the folder that has the same path inside and outside of the root; its content is replaced.

        Raises TrialFailed when Harbor does not run.
        """
        shutil.rmtree(work, ignore_errors=True)
        self._tasks, self._jobs = work / "tasks", work / "jobs"
        for task in TASKS:
            export(task, image, self._tasks)
        run_harbor("--version", timeout_s=START_S)
        self._start_cpu_seconds = run_harbor("--version", timeout_s=START_S)

    def measure(self, parallel: int, rounds: int) -> Level:
        """Each task `rounds` times. Harbor's own start is in neither figure: the clock runs from the first trial on.

        Raises TrialFailed when Harbor fails or a trial has another reward than 1.
        """
        name, expected = f"n{parallel}", rounds * len(TASKS)
        shutil.rmtree(self._jobs / name, ignore_errors=True)
        folders = ("--path", str(self._tasks), "--jobs-dir", str(self._jobs), "--job-name", name)
        amount = ("--n-concurrent", str(parallel), "--n-attempts", str(rounds))
        common = ("run", "--yes", "--quiet", "--agent", "oracle")
        spent = run_harbor(*common, *folders, *amount, timeout_s=START_S + PATIENCE_S * expected)
        results = [json.loads(path.read_text()) for path in sorted((self._jobs / name).glob("*/result.json"))]
        return _level(parallel, expected, results, spent - self._start_cpu_seconds)


def enter(*command: str, timeout_s: float) -> tuple[int, str]:
    """Run a command in the root of the peers; its exit code and what it wrote. Raises TrialFailed when it is late."""
    with subprocess.Popen(
        [str(PROGRAM), "enter", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except BaseException as error:
            # An interrupt lets it remove its containers; a kill would leave them.
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(START_S)
            process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TrialFailed(f"Harbor took longer than {timeout_s:g} s: {command}") from error
            raise
    return process.returncode, output


def run_harbor(*arguments: str, timeout_s: float) -> float:
    """Run Harbor; returns how long the machine was busy meanwhile, s. Raises TrialFailed."""
    busy = busy_seconds()
    code, output = enter("harbor", *arguments, timeout_s=timeout_s)
    if code != 0:
        raise TrialFailed(f"Harbor ended with {code}: {arguments}\n{output[-2000:]}")
    return busy_seconds() - busy


def _level(parallel: int, expected: int, results: list[dict[str, object]], cpu_seconds: float) -> Level:
    bad = [f"{one['task_name']}: {one['verifier_result']}, {one['exception_info']}" for one in results if not _won(one)]
    if bad or len(results) != expected:
        raise TrialFailed(f"{expected - len(results) + len(bad)} of {expected} trials of Harbor failed: {bad[:3]}")
    begun = min(_moment(one["started_at"]) for one in results)
    over = max(_moment(one["finished_at"]) for one in results)
    return Level(parallel, len(results), (over - begun).total_seconds(), cpu_seconds)


def _won(result: dict[str, object]) -> bool:
    seen = result["verifier_result"]
    return isinstance(seen, dict) and seen.get("rewards") == {"reward": 1.0}


def _moment(text: object) -> datetime:
    return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
