"""Why a run failed, in the words of whoever raised the error. Who is told is not decided here."""

from collections.abc import Sequence
from typing import NamedTuple

import dagster as dg
from dagster_shared.error import SerializableErrorInfo


class Failure(NamedTuple):
    """The first thing that went wrong."""

    step: str | None
    """None where the run ended outside of its steps."""
    reason: str


def failure_of(steps: Sequence[dg.DagsterEvent], run: dg.DagsterEvent | None = None) -> Failure:
    """From the failed steps of a run, in their order, and the event with which it ended."""
    if steps:
        return Failure(steps[0].step_key, _reason(steps[0].step_failure_data.error))
    # A run that was killed is marked as failed by somebody else, who has a message and no error.
    error = run.job_failure_data.error if run is not None and run.event_specific_data is not None else None
    if error is None and run is not None and run.message:
        return Failure(None, run.message)
    return Failure(None, _reason(error))


def _reason(error: SerializableErrorInfo | None) -> str:
    if error is not None and error.cause is not None:
        error = error.cause  # Dagster's own says only which step it was; what lies behind that one is for the log
    if error is None:
        return "no reason was recorded; see the run in the Dagster UI"
    name, _, text = error.message.strip().partition(": ")
    ours = name.startswith(("pipeline.", "sandbox."))
    return text if ours else error.message.strip()
