"""`make bench-rollout`: what the driver adds to attempts of a model that answers at once. The last line is JSON.

The attempts go through the real stages (agent, prompts, sandbox, rows on disk, verdict), many at a time. What counts
for a turn is the CPU time of the attempt's own thread from one answer of the model to the next: prompt, parsing, the
loop, and talking to the sandbox. The wall time of the same stretches, without the commands themselves, is queueing for
the cores too when more attempts run than there are cores.

The driver's memory is looked at after each part of the run; its growth is the most it held after the warm-up, less
what it held then. The warm-up is a fifth of the run: the allocators of Arrow and of the table writer keep a heap for
each thread that allocates, and those of the threads here are filled after some twenty writes. Ends with 1 when an
attempt gets the wrong verdict or the memory grows by more than its bound.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from assets.resources import open_workshop
from pipeline.agents.bash import BashAgent
from pipeline.attempts import Attempt, SamplesConfig
from pipeline.llm.protocol import Completion, Message, Sampling
from pipeline.rollout import RolloutConfig
from pipeline.schemas import Row, to_rows
from pipeline.stages.options import Options
from pipeline.stages.rollouts import roll_out
from pipeline.stages.verifications import verify_all
from pipeline.tables import Store
from pipeline.types import Action, Interface, Step, TaskInstance, Verifier, VerifierFile
from sandbox.protocol import Backend
from tests.bench.leak import GROWTH_MB, sample
from tests.bench.sandbox import add_backend_option, open_backend, task_image
from tests.bench.tasks import TASKS, VERIFIER, Task
from tests.bench.trials import TrialFailed, busy_seconds

ROUNDS = 10
"""Parts of the whole run, after each of which the memory is looked at."""
WARM_UP = 2
"""Parts that warm up."""


class InstantModel:
    """A scripted ChatModel that knows the solutions and answers with the next command of the task in its prompt."""

    name = "instant"
    details: Mapping[str, str] = {}

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        del sampling
        task = next(task for task in self._tasks if task.instruction in messages[0].content)
        turn = len(messages) // 2
        text = f"Next.\n\n```bash\n{task.solution[turn]}\n```" if turn < len(task.solution) else "DONE"
        return Completion(
            text=text, finish_reason="stop", model=self.name, prompt_tokens=0, completion_tokens=0, seconds=0.0
        )


@dataclass
class Clock:
    """Time that agents and the loop around them took, over all threads."""

    turns: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def turn(self, cpu_s: float, wall_s: float) -> None:
        with self.lock:
            self.turns += 1
            self.cpu_s += cpu_s
            self.wall_s += wall_s

    @property
    def cpu_ms(self) -> float:
        """Mean of a turn."""
        return 1000 * self.cpu_s / self.turns

    @property
    def wall_ms(self) -> float:
        return 1000 * self.wall_s / self.turns


class TimedAgent:
    """The bash agent with a watch: from the end of a command to the beginning of the next one is overhead."""

    interface: Interface = "shell"
    name = BashAgent.name

    def __init__(self, agent: BashAgent, clock: Clock) -> None:
        self._agent = agent
        self._clock = clock
        self._decided = self._decided_cpu = 0.0

    @property
    def model(self) -> str | None:
        return self._agent.model

    @property
    def sampling(self) -> Mapping[str, Any]:
        return self._agent.sampling

    @property
    def details(self) -> Mapping[str, str]:
        return self._agent.details

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        began, began_cpu = time.monotonic(), time.thread_time()
        action = self._agent.act(task, history, observation)
        now, now_cpu = time.monotonic(), time.thread_time()
        first = not history
        self._clock.turn(
            now_cpu - (began_cpu if first else self._decided_cpu),
            now - (began if first else self._decided + history[-1].seconds),
        )
        self._decided, self._decided_cpu = now, now_cpu
        return action

    def conversation(self, task: TaskInstance, history: Sequence[Step]) -> tuple[dict[str, str], ...]:
        return self._agent.conversation(task, history)


def instance_of(task: Task, image: str) -> TaskInstance:
    """A task of the sandbox benchmark as an instance."""
    return TaskInstance(
        repository_id="repo-bench",
        image_digest=image,
        instruction=task.instruction,
        solution=task.solution,
        verifier=Verifier(
            files=(VerifierFile(path=VERIFIER, content=task.verifier),), passing_tests=task.passing_tests
        ),
        generator="bench",
        language="shell",
        family=task.name,
        difficulty="easy",
        provenance={},
    )


def attempts(image: str, tasks: Sequence[Task], samples: range, clock: Clock) -> Iterator[Attempt]:
    """Each task once for each sample."""
    config, model = SamplesConfig(), InstantModel(tasks)
    for number in samples:
        for task in tasks:
            instance = instance_of(task, image)
            sampling = config.sampling(instance.instance_id, BashAgent.name, number)
            # One object for each attempt: the watch belongs to it.
            yield Attempt(instance, TimedAgent(BashAgent(model, sampling), clock), number)


def run(
    backend: Backend,
    image: str,
    data: Path,
    *,
    tasks: Sequence[Task],
    rollouts: int,
    parallel: int,
    rounds: int = ROUNDS,
    show: Callable[[str], None] = lambda _: None,
) -> dict[str, object]:
    """The figures. Raises TrialFailed when an attempt did not pass."""
    store, options, clock = Store(data), Options(workers=parallel), Clock()
    samples = max(rounds, -(-rollouts // len(tasks)))
    ends = [samples * number // rounds for number in range(rounds + 1)]
    instances = [instance_of(task, image) for task in tasks]
    held: list[float] = []
    busy = busy_seconds()
    for first, last in itertools.pairwise(ends):
        roll_out(store, attempts(image, tasks, range(first, last), clock), backend, RolloutConfig(), options)
        verify_all(store, instances, backend, options, command_timeout_s=60)
        held.append(sample(last * len(tasks)).memory_mb)
        show(f"{last * len(tasks)} attempts, {clock.cpu_ms:.1f} ms a turn, {held[-1]} MiB")
    busy = busy_seconds() - busy
    judged: list[Row] = to_rows(store.current("verifications", ["trajectory_id", "outcome"]))
    wrong = [row for row in judged if row["outcome"] != "passed"]
    if wrong or len(judged) != samples * len(tasks):
        raise TrialFailed(f"{len(judged)} of {samples * len(tasks)} verdicts; these did not pass: {wrong}")
    return {
        "overhead_ms_per_turn": round(clock.cpu_ms, 2),
        "wall_ms_per_turn": round(clock.wall_ms, 2),
        "cpu_seconds_per_trial": round(busy / len(judged), 3),
        "rollouts": len(judged),
        "peak_mb_growth": grown(held),
        "parallel": parallel,
        "backend": backend.name,
    }


def grown(held: Sequence[float]) -> float:
    """By how much the memory grew after the warm-up at most, of what was held after each part of a run."""
    after = held[min(WARM_UP, len(held)) - 1 :]
    return round(max(after) - after[0], 1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-rollout", description=__doc__)
    add_backend_option(parser)
    parser.add_argument("--rollouts", type=int, default=2000)
    parser.add_argument("--parallel", type=int, default=16)
    chosen = parser.parse_args()
    workshop, console = open_workshop(), Console(width=110)
    image = task_image(workshop)
    with open_backend(chosen.backend, workshop, image) as backend, tempfile.TemporaryDirectory() as folder:
        found = run(
            backend,
            image,
            Path(folder),
            tasks=TASKS,
            rollouts=chosen.rollouts,
            parallel=chosen.parallel,
            show=console.print,
        )
    print(json.dumps(found))
    return 1 if float(str(found["peak_mb_growth"])) > GROWTH_MB else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except TrialFailed as error:
        raise SystemExit(f"bench-rollout: {error}") from error
