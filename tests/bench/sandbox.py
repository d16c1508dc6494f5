"""`make bench-sandbox`: what our sandbox costs, beside the figures of others. The last line is one JSON object.

Harbor is measured in the same call, level by level, where `make peers` was run; how is in harbor.py, and how trials of
ours are run in trials.py. Without it ratio_vs_harbor is null.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.table import Table

from assets.resources import Workshop, open_workshop
from sandbox.backends.choice import Choice, choose
from sandbox.backends.overlay import OverlayBackend
from sandbox.engine import connect
from sandbox.protocol import Backend
from sandbox.types import BuildLimits
from sandbox.verifier.verifier_runtime import VerifierRuntime
from tests.bench.harbor import Harbor
from tests.bench.tasks import TASKS, image_spec
from tests.bench.trials import Level, TrialFailed, admit, busy_seconds, command_seconds, measure, start_teardown_seconds

LEVELS = (1, 2, 4, 8)
HARBOR_ROUNDS = {1: 1, 2: 1, 4: 2, 8: 2}
"""How often Harbor does each task at a level: one of its trials takes seconds."""
WARM_UP_S = 2.0
LOOK_S = 1.0
COMMANDS = 300
STARTS = 40
HARBOR_TAG = ("touchstone/bench", "harbor")
ELSEWHERE = {
    "Harbor best tuned": ("16.6", "26.9", "37.5", "40.6"),
    "terminal-bench + init": ("–", "12.3", "20.7", "–"),
    "terminal-bench": ("–", "6.1", "11.3", "–"),
}
"""Trials per minute of comparable tasks that were measured before, on two cores, on another day."""
COMMANDS_ELSEWHERE = "SWE-ReX 111 ms, mini-swe-agent 71 ms, Terminus-2 in Harbor 400 ms a turn"


@dataclass(frozen=True)
class Row:
    """All that was measured at one level."""

    ours: Level
    theirs: Level | None
    load_before: float
    """Cores that others kept busy just before: with much of it no figure means anything."""


def main() -> None:
    options = _options()
    workshop, console = open_workshop(), Console(width=110)
    image = task_image(workshop)
    harbor = None if options.no_peers else _harbor(workshop.data, image)
    with open_backend(options.backend, workshop, image) as backend:
        name = backend.name
        console.print(f"backend {name}, {len(TASKS)} tasks, at least {options.seconds:g} s at each level")
        admit(backend, image)
        commands = command_seconds(backend, image, COMMANDS)
        starts = start_teardown_seconds(backend, image, STARTS)
        rows = {one: _measure(backend, image, harbor, options.seconds, one) for one in LEVELS}
    console.print(_table(name, rows))
    console.print(f"trivial command: {_spread(commands)}")
    console.print(f"  measured elsewhere: {COMMANDS_ELSEWHERE}")
    console.print(f"start, one command, teardown: {_spread(starts)}")
    if harbor is None:
        console.print("Harbor was not measured: `make peers` (as root) makes it ready; ratio_vs_harbor is null")
    print(json.dumps(figures(name, rows, commands, starts)))


def add_backend_option(parser: argparse.ArgumentParser) -> None:
    """`--backend`, whose value `open_backend` understands."""
    parser.add_argument("--backend", choices=get_args(Choice), default="auto")


@contextmanager
def open_backend(choice: Choice, workshop: Workshop, image: str) -> Iterator[Backend]:
    """The backend to measure; `auto` is the fast one where it can work. Raises SandboxUnavailable."""
    client = connect(workshop.data)
    backend = choose(choice, client, VerifierRuntime(client, workshop.bases()), workshop.data, image)
    try:
        yield backend
    finally:
        if isinstance(backend, OverlayBackend):
            backend.close()
        client.close()


def figures(backend: str, rows: Mapping[int, Row], commands: list[float], starts: list[float]) -> dict[str, object]:
    """The machine-readable result. CPU time per trial is that of the worst level."""
    ratios = {
        str(one): round(row.ours.per_minute / row.theirs.per_minute, 2) for one, row in rows.items() if row.theirs
    }
    return {
        "trials_per_minute": {str(one): round(row.ours.per_minute, 1) for one, row in rows.items()},
        "cpu_seconds_per_trial": round(max(row.ours.cpu_per_trial for row in rows.values()), 3),
        "command_ms_median": round(1000 * statistics.median(commands), 2),
        "start_teardown_ms_median": round(1000 * statistics.median(starts), 1),
        "backend": backend,
        "ratio_vs_harbor": ratios or None,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-sandbox", description=__doc__)
    add_backend_option(parser)
    parser.add_argument("--seconds", type=float, default=15.0, help="shortest time at each level (default: 15)")
    parser.add_argument("--no-peers", action="store_true", help="leave Harbor out, also where it is ready")
    return parser.parse_args()


def task_image(workshop: Workshop) -> str:
    """Digest of the image of all tasks."""
    build = workshop.workbench().build(image_spec(workshop.toolchain("python")), BuildLimits())
    if build.digest is None:
        raise SystemExit(f"the image of the tasks cannot be built: {build.reason}\n{build.log_tail}")
    return build.digest


def _harbor(data: Path, image: str) -> Harbor | None:
    """Harbor with the tasks, None where `make peers` was not run."""
    if not (data / "peers" / "root" / ".stamp-harbor").exists():
        return None
    # Compose wants a name; one that exists here is never looked for elsewhere.
    client = connect(data)
    client.api.tag(image, *HARBOR_TAG)
    client.close()
    return Harbor(data / "peers" / "work", ":".join(HARBOR_TAG))


def _measure(backend: Backend, image: str, harbor: Harbor | None, seconds: float, parallel: int) -> Row:
    """Ours and Harbor's figures, one right after the other, so that they see the same machine."""
    load = _load()
    measure(backend, image, parallel, WARM_UP_S)
    ours = measure(backend, image, parallel, seconds)
    return Row(ours, harbor.measure(parallel, HARBOR_ROUNDS[parallel]) if harbor else None, load)


def _load() -> float:
    busy = busy_seconds()
    time.sleep(LOOK_S)
    return (busy_seconds() - busy) / LOOK_S


def _table(backend: str, rows: Mapping[int, Row]) -> Table:
    table = Table(title="trials per minute, oracle and verifier, all of them passed")
    table.add_column("in parallel")
    for parallel in rows:
        table.add_column(str(parallel), justify="right")
    ours = [row.ours for row in rows.values()]
    theirs = [row.theirs for row in rows.values() if row.theirs]
    table.add_row(f"touchstone, {backend}", *(f"{level.per_minute:.1f}" for level in ours))
    if theirs:
        table.add_row("Harbor 0.26, here and now", *(f"{level.per_minute:.1f}" for level in theirs))
        ratios = (one.per_minute / other.per_minute for one, other in zip(ours, theirs, strict=True))
        table.add_row("ratio", *(f"{ratio:.1f}×" for ratio in ratios))
    for name, cells in ELSEWHERE.items():
        table.add_row(f"{name}, measured elsewhere", *cells)
    table.add_section()
    table.add_row("CPU s per trial, touchstone", *(f"{level.cpu_per_trial:.3f}" for level in ours))
    if theirs:
        table.add_row("CPU s per trial, Harbor", *(f"{level.cpu_per_trial:.2f}" for level in theirs))
    table.add_row("trials measured, touchstone", *(str(level.trials) for level in ours))
    table.add_row("cores busy before, with other work", *(f"{row.load_before:.2f}" for row in rows.values()))
    return table


def _spread(seconds: list[float]) -> str:
    low, middle, high = (1000 * one for one in statistics.quantiles(seconds, n=20)[0:19:9])
    return f"median {middle:.2f} ms ({low:.2f} to {high:.2f} ms for nine of ten, {len(seconds)} times)"


if __name__ == "__main__":
    try:
        main()
    except TrialFailed as error:
        raise SystemExit(f"bench-sandbox: {error}") from error
