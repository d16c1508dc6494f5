"""Starts runs where the code is, and says of each whether its process still lives.

The process of a run holds a lock file of its own in Dagster's home. The kernel lets go of it when the process ends,
however that happens, so that the daemon sees the end of a run that could not write it down: one that was killed, one
whose machine restarted, one whose storage was gone. Dagster's own server sees only the ends of its children, and none
any more once the storage failed it at one of them.
"""

import contextlib
import fcntl
import time
from pathlib import Path
from typing import IO

import dagster as dg
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus
from dagster._core.storage.dagster_run import DagsterRun
from dagster._grpc.client import DagsterGrpcClient
from dagster._serdes import ConfigurableClassData

FOLDER = "alive"
KEPT_S = 7 * 24 * 3600
"""Age at which the file of a run that is over is removed."""
REFRESHED_S = 75
"""After so long the daemon has looked at all code servers anew, which it does every minute."""
_held: dict[Path, IO[str]] = {}


class WatchedRunLauncher(DefaultRunLauncher):
    """Dagster's default launcher with what `run_monitoring` asks for."""

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(inst_data)
        self._ended: dict[str, float] = {}
        """When the process of a run was first seen to be gone."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """FAILED once nobody holds the lock of a run. One that has none yet is only just starting, or is not ours.

        Where the code server may be gone as well this waits for it: a run that fails before is not started again.
        """
        if not _free(Path(self._instance.root_directory) / FOLDER / run.run_id):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        waited = time.monotonic() - self._ended.setdefault(run.run_id, time.monotonic())
        server = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]
        if server is not None and (waited < REFRESHED_S or not _answers(server)):
            return CheckRunHealthResult(WorkerStatus.RUNNING, "its process has ended; waiting for the code server")
        del self._ended[run.run_id]
        return CheckRunHealthResult(WorkerStatus.FAILED, "its process has ended without a word")


def _answers(server: DagsterGrpcClient) -> bool:
    try:
        server.ping("")
    except DagsterUserCodeUnreachableError:
        return False
    return True


def fail_lost_runs(instance: dg.DagsterInstance) -> None:
    """What the daemon does, for a machine where none runs: a run whose process ended without a word has failed."""
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        if _free(Path(instance.root_directory) / FOLDER / run.run_id):
            instance.report_run_failed(run, "Its process has ended without a word.")


def stay_alive(home: Path, run_id: str) -> None:
    """Hold the lock of a run until this process ends; `home` is Dagster's."""
    path = home / FOLDER / run_id
    if path in _held:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.iterdir():
        if left.stat().st_mtime < time.time() - KEPT_S and _free(left):
            left.unlink(missing_ok=True)
    handle = path.open("a")
    fcntl.flock(handle, fcntl.LOCK_EX)
    _held[path] = handle


def _free(path: Path) -> bool:
    """Whether the file is there and nobody holds it."""
    with contextlib.suppress(FileNotFoundError), path.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    return False
