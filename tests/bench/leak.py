"""`make bench-leak`: many trials in a row, and what they leave. The last line is one JSON object.

Ends with 1 when anything is left on the machine, or when the driver holds more memory, descriptors or threads than
after the warm-up. What is looked at is in footprint.py.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console

from assets.resources import open_workshop
from sandbox.engine import address, connect
from sandbox.protocol import Backend
from tests.bench.footprint import Footprint, family, left_since, look, processes
from tests.bench.sandbox import add_backend_option, open_backend, task_image
from tests.bench.tasks import TASKS, Task
from tests.bench.trials import run_trial

EVERY = 100
WARM_UP_SHARE = 4
"""The warm-up is the first hundred trials, or one part of this many of a short run."""
GROWTH_MB = 16.0
"""How much memory of the driver may grow after the warm-up, MiB: what Python's allocator may keep."""
GROWTH_DESCRIPTORS = 4
GROWTH_THREADS = 1
# Still running when the sandbox is frozen.
LEFT_RUNNING = "setsid sleep 1000 > /dev/null 2>&1 &"


@dataclass(frozen=True)
class Sample:
    """What the driver and its children hold after a number of trials."""

    trials: int
    memory_mb: float
    descriptors: int
    threads: int


def sample(trials: int) -> Sample:
    """What this process and its children hold now."""
    table = processes()
    held = [found for process in family(os.getpid(), table) if (found := _held(Path(f"/proc/{process.pid}")))]
    pages, descriptors, threads = (sum(column) for column in zip(*held, strict=True))
    return Sample(
        trials=trials,
        memory_mb=round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
        descriptors=descriptors,
        threads=threads,
    )


def _held(process: Path) -> tuple[int, int, int] | None:
    """Pages, descriptors and threads of a process; None when it ended since it was listed."""
    try:
        pages = int((process / "statm").read_text().split()[1])
        return pages, len(os.listdir(process / "fd")), len(os.listdir(process / "task"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def run_trials(
    backend: Backend, image: str, tasks: Iterable[Task], count: int, watch: Callable[[Sample], None] = lambda _: None
) -> tuple[Sample, Sample]:
    """`count` trials one after the other, each with a process left running; what the driver held early and at the end.

    `watch` is shown a sample now and then. Raises TrialFailed.
    """
    warm_up = min(EVERY, max(1, count // WARM_UP_SHARE))
    early = sample(0)
    for number, task in enumerate(itertools.islice(itertools.cycle(tasks), count), start=1):
        run_trial(backend, image, replace(task, solution=(LEFT_RUNNING, *task.solution)))
        if number == warm_up:
            early = sample(number)
        if number % EVERY == 0 or number in (warm_up, count):
            watch(sample(number))
    return early, sample(count)


def growth(early: Sample, late: Sample) -> list[str]:
    """What grew by more than it may, a line for each."""
    bounds = {"memory_mb": GROWTH_MB, "descriptors": GROWTH_DESCRIPTORS, "threads": GROWTH_THREADS}
    before, after = asdict(early), asdict(late)
    return [
        f"{name} grew from {before[name]} after {early.trials} trials to {after[name]} after {late.trials}, "
        f"more than {bound}"
        for name, bound in bounds.items()
        if after[name] - before[name] > bound
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-leak", description=__doc__)
    add_backend_option(parser)
    parser.add_argument("--trials", type=int, default=1000)
    options = parser.parse_args()
    workshop, console = open_workshop(), Console(width=110)
    image, engine = task_image(workshop), address(workshop.data)
    if engine is None:
        raise SystemExit("no engine was chosen for this data folder; run infra/bootstrap.sh")
    client = connect(workshop.data)
    with open_backend(options.backend, workshop, image) as backend:

        def look_now() -> Footprint:
            return look(backend, client, engine.socket, workshop.data)

        # What is made once and stays, the verifier's runtime say, is made before the first look.
        run_trials(backend, image, TASKS, len(TASKS))
        before = look_now()
        console.print(f"backend {backend.name}, {options.trials} trials in a row; there are {before.counts()}")
        early, late = run_trials(backend, image, TASKS, options.trials, lambda seen: console.print(str(seen)))
        grown, left = growth(early, late), left_since(before, look_now)
    client.close()
    for line in [*grown, *left.lines()]:
        console.print(line, soft_wrap=True)
    found = {"left": left.counts(), "early": asdict(early), "late": asdict(late), "level": not grown}
    print(json.dumps({"backend": backend.name, "trials": options.trials, **found}))
    return 1 if grown or left else 0


if __name__ == "__main__":
    raise SystemExit(main())
