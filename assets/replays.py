"""Replays judged rows of the working tables, several at a time, and reports where a verdict does not hold."""

from assets.resources import Workshop
from pipeline.joined_rows import judged_rows
from pipeline.replay_rate import newest_replays
from pipeline.stages.options import Options
from pipeline.stages.replaying import replay_all
from pipeline.types import Record
from pipeline.verification import Replay


class ReplayReport(Record):
    """Over all rows that were replayed now."""

    replayed: int
    n_passed: int
    """Rows whose replay passed."""
    n_failed: int
    """Rows whose replay failed."""
    same_verdict_rate: float
    """Share of rows with the recorded verdict; 1.0 when nothing was replayed."""
    differing: tuple[Replay, ...]
    broken: tuple[str, ...]
    """`trajectory id: reason` of rows whose replay our machinery broke; they are not among the replayed ones."""


def replay_rows(workshop: Workshop, identifier: str | None) -> ReplayReport:
    """Replay the judged rows whose trajectory id begins with `identifier`, or all, and keep what came out.

    Raises SandboxUnavailable when there is no backend at all.
    """
    store = workshop.store()
    rows = [row for row in judged_rows(store) if row.trajectory_id.startswith(identifier or "")]
    options = Options(workers=workshop.settings.workers, machines=workshop.machines())
    timeout_s = workshop.settings.rollout.command_timeout_s
    replay_all(store, rows, workshop.backend(), options, command_timeout_s=timeout_s)
    newest = newest_replays(store)
    found = [newest[row.trajectory_id] for row in rows]
    fields = ("trajectory_id", "recorded", "replayed", "reason")
    replays = [Replay.model_validate({name: row[name] for name in fields}) for row in found if row["replayed"]]
    return ReplayReport(
        replayed=len(replays),
        n_passed=sum(one.replayed == "passed" for one in replays),
        n_failed=sum(one.replayed == "failed" for one in replays),
        same_verdict_rate=sum(one.same for one in replays) / len(replays) if replays else 1.0,
        differing=tuple(one for one in replays if not one.same),
        broken=tuple(f"{row['trajectory_id']}: {row['reason']}" for row in found if not row["replayed"]),
    )
