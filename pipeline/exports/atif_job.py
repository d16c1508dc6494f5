"""Recorded attempts as a job folder of Harbor (0.26.0), for `harbor view FOLDER`.

    FOLDER/touchstone/  config.json  result.json
      TRAJECTORY_ID/    config.json  result.json
        agent/trajectory.json        the ATIF document
        verifier/                    reward.json, ctrf.json (each test), test-stdout.txt

Harbor ran none of it: what its files ask for and we do not have is left out, and times are those of our own records.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.exports.account import Account, RowRefused, VersionExport, digest_of
from pipeline.exports.atif import SCHEMA_VERSION, agent_version, calls_of, document, totals
from pipeline.exports.folders import new_folder, prove
from pipeline.exports.harbor import ORGANISATION
from pipeline.exports.published import PublishedVersion, rows_of
from pipeline.exports.recorded import AttemptsExport, RecordedAttempt
from pipeline.exports.tasks import NothingToExport
from pipeline.exports.verified import COLUMNS, attempt_of, refusing
from pipeline.schemas import clean_text
from pipeline.types import Trajectory, VerificationResult

FORMAT = "atif"
JOB = "touchstone"
"""Name of the job, and of its data set."""

_REWARDS = {"passed": 1, "failed": 0}
_CTRF = {"passed": "passed", "failed": "failed", "error": "failed", "skipped": "skipped"}
_COUNTS = {
    "n_input_tokens": "total_prompt_tokens",
    "n_cache_tokens": "total_cached_tokens",
    "n_output_tokens": "total_completion_tokens",
    "cost_usd": "total_cost_usd",
}


def export_job(attempts: Iterable[RecordedAttempt], folder: Path) -> AttemptsExport:
    """Write a folder of one job, all or nothing.

    Raises NothingToExport without an attempt, ConfigurationError when `folder` is there and not empty or cannot be
    written, ExportDamaged.
    """
    with new_folder(folder) as part:
        job = _Job(part / JOB)
        for attempt in attempts:
            job.add(attempt, _trial_files(attempt))
        if not job.trials:
            raise NothingToExport("no attempt is recorded under that id; `touchstone run` makes some")
        job.close()
    return AttemptsExport(
        format=FORMAT, format_version=SCHEMA_VERSION, folder=str(folder), trajectories=tuple(sorted(job.trials))
    )


def export_version_job(version: PublishedVersion, folder: Path, split: str | None = None) -> VersionExport:
    """Write the rows of a version, or of one split, as a folder of one job, all or nothing.

    Raises NothingToExport for a split that is not there and when no row can be carried, ConfigurationError when
    `folder` is there and not empty or cannot be written, ExportDamaged, SnapshotDamaged.
    """
    splits = version.chosen(split)
    account = Account(version, "trajectory_id")
    published_at = datetime.fromisoformat(version.manifest.created_at)
    with new_folder(folder) as part:
        job = _Job(part / JOB)
        for found in (found for name in splits for found in rows_of(version, COLUMNS, name)):
            try:
                attempt = attempt_of(found, published_at)
                files = refusing("no_attempt", partial(_trial_files, attempt))
                account.carry(found, found.trajectory_id, digest_of(files["agent/trajectory.json"]))
            except RowRefused as error:
                account.refuse(found, error)
                continue
            job.add(attempt, files)
        if job.trials:
            job.close()
        made = account.close(part, format=FORMAT, format_version=SCHEMA_VERSION, splits=splits)
    return made.model_copy(update={"folder": str(folder)})


@dataclass
class _Job:
    """Writes trials, and what is known of all of them."""

    folder: Path
    trials: dict[str, int] = field(default_factory=dict)
    """Turns of each attempt, by its id."""
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    rewards: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    begun: datetime | None = None
    over: datetime | None = None
    broken: int = 0

    def add(self, attempt: RecordedAttempt, files: Mapping[str, Any]) -> None:
        trajectory, verdict = attempt.trajectory, attempt.verdict
        for name, value in files.items():
            _write(self.folder / trajectory.trajectory_id / name, value)
        self.trials[trajectory.trajectory_id] = len(trajectory.steps)
        key = "__".join(part for part in (trajectory.agent, trajectory.model, JOB) if part)
        self.agents[key] = _agent_config(trajectory)
        if verdict is not None and verdict.outcome in _REWARDS:
            self.rewards.setdefault(key, []).append(_REWARDS[verdict.outcome])
        self.broken += verdict is not None and verdict.outcome == "error"
        for name, value in _counts(trajectory).items():
            self.counts[name] = self.counts.get(name, 0) + value
        begun = _begun(attempt)
        self.begun = min(self.begun or begun, begun)
        self.over = max(self.over or attempt.recorded_at, attempt.recorded_at)

    def close(self) -> None:
        """Write the files about the job, and read back every attempt. Raises ExportDamaged."""
        _write(self.folder / "config.json", {"job_name": JOB, "agents": list(self.agents.values())})
        _write(self.folder / "result.json", self._result())
        documents = sorted(self.folder.glob("*/agent/trajectory.json"))
        prove(JOB, map(_identity, documents), dict(sorted(self.trials.items())))

    def _result(self) -> dict[str, Any]:
        evals = {
            key: {"n_trials": len(found), "metrics": [{"mean": sum(found) / len(found)}]}
            for key, found in self.rewards.items()
        }
        stats = {"n_completed_trials": len(self.trials), "n_errored_trials": self.broken, "evals": evals, **self.counts}
        return {
            "id": _uuid(JOB, *sorted(self.trials)),
            "started_at": _moment(self.begun),
            "finished_at": _moment(self.over),
            "n_total_trials": len(self.trials),
            "stats": stats,
        }


def _identity(path: Path) -> tuple[str, int]:
    """Id and turns of the attempt that a document is of."""
    found = json.loads(path.read_bytes())
    return found["trajectory_id"], found["final_metrics"]["extra"]["turns"]


def _trial_files(attempt: RecordedAttempt) -> dict[str, Any]:
    """Contents of the files of one trial by their paths: texts, and values that are written as JSON."""
    trajectory, verdict = attempt.trajectory, attempt.verdict
    config = {
        "task": {"path": f"tasks/{trajectory.instance_id}", "source": JOB},
        "trial_name": trajectory.trajectory_id,
        "agent": _agent_config(trajectory),
    }
    files: dict[str, Any] = {
        "config.json": config,
        "result.json": _trial_result(attempt, config),
        "agent/trajectory.json": document(attempt),
    }
    if verdict is not None:
        files["verifier/ctrf.json"] = _ctrf(verdict)
        files["verifier/test-stdout.txt"] = clean_text(verdict.log_tail)
        if verdict.outcome in _REWARDS:
            files["verifier/reward.json"] = {"reward": _REWARDS[verdict.outcome]}
    return files


def _trial_result(attempt: RecordedAttempt, config: Mapping[str, Any]) -> dict[str, Any]:
    trajectory, verdict = attempt.trajectory, attempt.verdict
    identity = trajectory.trajectory_id
    times = {"started_at": _moment(_begun(attempt)), "finished_at": _moment(attempt.recorded_at)}
    model = None if trajectory.model is None else {"name": trajectory.model}
    found: dict[str, Any] = {
        "id": _uuid(identity),
        "task_name": f"{ORGANISATION}/{trajectory.instance_id}",
        "trial_name": identity,
        "trial_uri": f"{JOB}/{identity}",
        "task_id": {"path": f"tasks/{trajectory.instance_id}"},
        "source": JOB,
        "task_checksum": attempt.instance.verifier.sha256,
        "config": config,
        "agent_info": {"name": trajectory.agent, "version": agent_version(trajectory), "model_info": model},
        "agent_result": _counts(trajectory) | {"metadata": {"stop_reason": trajectory.stop_reason}},
        "agent_execution": times,
        **times,
    }
    if verdict is not None and verdict.outcome in _REWARDS:
        found["verifier_result"] = {"rewards": {"reward": _REWARDS[verdict.outcome]}}
    elif verdict is not None:
        found["exception_info"] = {
            "exception_type": verdict.failure_class or "error",
            "exception_message": clean_text(verdict.log_tail),
            "exception_traceback": "",
            "occurred_at": _moment(attempt.recorded_at),
        }
    return found


def _agent_config(trajectory: Trajectory) -> dict[str, Any]:
    return {"name": trajectory.agent, "model_name": trajectory.model}


def _counts(trajectory: Trajectory) -> dict[str, float]:
    found = totals(trajectory)
    return {name: found[ours] for name, ours in _COUNTS.items() if ours in found}


def _begun(attempt: RecordedAttempt) -> datetime:
    """The time of its steps before it was written down: when it began was not."""
    steps = attempt.trajectory.steps
    seconds = sum(step.seconds + sum(call.seconds for call in calls_of(step)) for step in steps)
    return attempt.recorded_at - timedelta(seconds=seconds)


def _ctrf(verdict: VerificationResult) -> dict[str, Any]:
    """The verdict per test in the Common Test Report Format."""
    tests = [
        {"name": test.test_id, "status": _CTRF.get(test.outcome, "other"), "duration": 0, "message": test.message}
        for test in verdict.tests
    ]
    counted = {name: sum(test["status"] == name for test in tests) for name in ("passed", "failed", "skipped", "other")}
    summary = {"tests": len(tests), **counted, "pending": 0, "start": 0, "stop": round(verdict.seconds * 1000)}
    return {"results": {"tool": {"name": "pytest"}, "summary": summary, "tests": tests}}


def _uuid(*names: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "\n".join(names)))


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _write(path: Path, value: object) -> None:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(clean_text(text).encode())
