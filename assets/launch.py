"""Materializes a job from the command line, in this process, as a run that the Dagster UI shows too."""

import datetime
import warnings
from collections.abc import Sequence
from typing import Any

import dagster as dg

from assets.attempting import AttemptsResource
from assets.checks import refusals
from assets.failures import failure_of
from assets.partitions import FIRST_DAY, range_tags, streams_named, today
from assets.resources import Workshop
from assets.run_launcher import fail_lost_runs
from assets.run_tags import run_tags
from pipeline.attempts import rounds
from pipeline.errors import ConfigurationError

_QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}


def materialize(
    workshop: Workshop,
    job: str,
    *,
    day: str | None,
    streams: str,
    retry: str,
    only: Sequence[str],
    attempts: AttemptsResource,
    limit: int = 0,
) -> str | None:
    """Run a job for some streams of one day; returns None, or the reason of the first step that failed.

    Raises ConfigurationError for a day that is none, for `streams` that name none, and for agents that cannot act.
    """
    day = _checked_day(day or today())
    tags = range_tags(day, streams_named(streams))
    if job == "main":
        # Here, since the stage that needs them comes when the images are built, hours later.
        config, model = attempts.config(workshop), attempts.model(workshop)
        next(rounds([], config.agents, model, config.samples))
        tags |= run_tags(day, streams, agents=config.agents, model=model.name if model else None)
    else:
        tags |= run_tags(day, streams)
    return run_job(workshop, job, run_config(retry, only, attempts, limit), tags)


def run_job(workshop: Workshop, job: str, config: dict[str, Any], tags: dict[str, str]) -> str | None:
    """Run a job in this process; returns None, or the reason of the first step that failed."""
    warnings.filterwarnings("ignore", category=dg.BetaWarning)
    warnings.filterwarnings("ignore", category=dg.PreviewWarning)
    from dagster_postgres.utils import DagsterPostgresException
    from sqlalchemy.exc import SQLAlchemyError

    from assets.definitions import defs

    try:
        with workshop.dagster_instance() as instance:
            fail_lost_runs(instance)
            result = defs.resolve_job_def(job).execute_in_process(
                instance=instance,
                run_config=config,
                tags=tags,
                raise_on_error=False,
            )
    except (DagsterPostgresException, SQLAlchemyError) as error:
        fault = " ".join(str(error.__cause__ or error).split())
        return f"Dagster's storage is gone ({fault}); what was done is kept, and a further run goes on from there"
    if result.success:
        return None
    if refused := refusals(result):
        return "; ".join(refused)
    failures = [event for event in result.all_events if event.is_step_failure]
    step, reason = failure_of(failures)
    return f"{step}: {reason}" if step else reason


def run_config(retry: str, only: Sequence[str], attempts: AttemptsResource, limit: int = 0) -> dict[str, Any]:
    """Run configuration of a job; the same dictionary can be pasted into the UI's launchpad."""
    return {
        "ops": {"repositories": {"config": {"limit": limit}}},
        "resources": {
            "retry": {"config": {"retry": retry, "only": list(only)}},
            "attempts": {"config": attempts.model_dump()},
        },
        "loggers": _QUIET,
    }


def side_config(retry: str, only: Sequence[str]) -> dict[str, Any]:
    """Run configuration of a job that is not about repositories."""
    return {"resources": {"retry": {"config": {"retry": retry, "only": list(only)}}}, "loggers": _QUIET}


def _checked_day(day: str) -> str:
    try:
        parsed = datetime.date.fromisoformat(day)
    except ValueError as error:
        raise ConfigurationError(f"--day {day!r} is not a date; write it as YYYY-MM-DD") from error
    if not FIRST_DAY <= parsed.isoformat() <= today():
        raise ConfigurationError(f"--day {day} is outside of the partitions {FIRST_DAY} to {today()} (UTC)")
    return parsed.isoformat()
