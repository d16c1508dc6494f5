"""Replays judged rows of the working tables, several at a time, and reports where a verdict does not hold."""

import logging
from concurrent.futures import ThreadPoolExecutor

from assets.resources import Workshop
from pipeline.batch import PROGRESS_LOGGER, Progress
from pipeline.rows import JudgedRow, judged_rows
from pipeline.types import Record
from pipeline.verification import Replay, replay


class ReplayReport(Record):
    """Over all replayed rows."""

    replayed: int
    n_passed: int
    """Rows whose replay passed."""
    n_failed: int
    """Rows whose replay failed."""
    same_verdict_rate: float
    """Share of rows with the recorded verdict; 1.0 when nothing was replayed."""
    differing: tuple[Replay, ...]


def replay_rows(workshop: Workshop, identifier: str | None) -> ReplayReport:
    """Replay the judged rows whose trajectory id begins with `identifier`, or all. Raises SandboxUnavailable."""
    rows = [row for row in judged_rows(workshop.store()) if row.trajectory.trajectory_id.startswith(identifier or "")]
    backend = workshop.backend()
    timeout_s = workshop.settings.rollout.command_timeout_s
    log = logging.getLogger(PROGRESS_LOGGER)

    def again(row: JudgedRow) -> Replay:
        return replay(row.instance, row.trajectory, row.outcome, backend, command_timeout_s=timeout_s)

    replays: list[Replay] = []
    with ThreadPoolExecutor(workshop.settings.workers) as pool:
        for done in pool.map(again, rows):
            replays.append(done)
            differing = sum(not one.same for one in replays)
            log.info("replayed", extra={"progress": Progress("replay", len(replays), len(rows), differing)})
    return ReplayReport(
        replayed=len(replays),
        n_passed=sum(one.replayed == "passed" for one in replays),
        n_failed=sum(one.replayed == "failed" for one in replays),
        same_verdict_rate=sum(one.same for one in replays) / len(replays) if replays else 1.0,
        differing=tuple(one for one in replays if not one.same),
    )
