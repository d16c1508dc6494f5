"""Runs whose process is gone without a word: killed, out of memory, lost with the machine's power.

Dagster would show them as running for ever, and count the pools that they use as taken. Each run locks a file of the
data folder; the kernel gives the lock back when the process ends, however it ends. A run without such a file is one of
another data folder, or has not begun, and is left alone.
"""

import fcntl
from io import TextIOWrapper
from pathlib import Path

import dagster as dg

from assets.resources import WorkshopResource
from pipeline.tables import Store

_BEGINNING = "run-"
_held: dict[str, TextIOWrapper] = {}
"""Lock files of this process's runs, open until it ends."""


def hold(store: Store, run_id: str) -> None:
    """Say that this process is the one that carries out the run, as that of each step does here: steps have no process
    of their own. Safe to call for each step."""
    if run_id not in _held:
        path = store.lock(f"{_BEGINNING}{run_id}")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a")
        fcntl.flock(handle, fcntl.LOCK_EX)
        _held[run_id] = handle


def end_lost_runs(instance: dg.DagsterInstance, store: Store) -> list[str]:
    """Mark runs as failed whose process is gone; returns their ids. Lock files of runs that ended are removed."""
    lost = []
    for path in sorted(store.lock(_BEGINNING).parent.glob(f"{_BEGINNING}*.lock")):
        if _is_held(path):
            continue
        run = instance.get_run_by_id(path.stem.removeprefix(_BEGINNING))
        if run is not None and not run.is_finished:
            instance.report_run_failed(run, "The process of this run is gone; run it again, and it goes on from there.")
            lost.append(run.run_id)
        path.unlink(missing_ok=True)
    return lost


def _is_held(path: Path) -> bool:
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@dg.sensor(
    name="lost_runs",
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Ends runs whose process is gone, so that no run waits for them.",
)
def lost_runs(context: dg.SensorEvaluationContext, workshop: WorkshopResource) -> dg.SkipReason:
    """Starts nothing."""
    lost = end_lost_runs(context.instance, workshop.open().store())
    return dg.SkipReason(f"ended: {', '.join(lost)}" if lost else "every run has its process")
