"""Tells a webhook that a run failed.

By a sensor over all runs of the instance, not by a hook on steps: a hook runs in the process of the run, and says
nothing of a run that was killed, never started, or could not make its resources. The sensor sees those of the UI, of
schedules and of the command line alike, also those that failed while no daemon ran.
"""

from pathlib import Path

import dagster as dg

from assets.failures import Failure, failure_of
from assets.resources import secrets_of_environment
from assets.webhook import WebhookFailed
from assets.webhook_resource import WebhookResource
from pipeline.curation.secrets import RULES_CACHE

MAX_REASON = 1_000
"""Characters of a reason that are sent."""


@dg.run_failure_sensor(
    # Runs of the command line belong to no code location.
    monitor_all_code_locations=True,
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def failure_alerts(context: dg.RunFailureSensorContext, webhook: WebhookResource) -> dg.SkipReason:
    """Each failed run as JSON to the address in TOUCHSTONE_WEBHOOK_URL.

    What is returned ends the tick, which so never lasts longer than the tries of one message: of a longer one the
    daemon would forget that it told them.
    """
    run = context.dagster_run
    if not webhook.url:
        return dg.SkipReason(f"run {run.run_id} failed; TOUCHSTONE_WEBHOOK_URL names nobody to tell it")
    failure = failure_of(context.get_step_failure_events(), context.failure_event)
    rules = Path(context.instance.root_directory) / RULES_CACHE
    reason = webhook.scrubbed(failure.reason, secrets_of_environment(), rules)
    message = message_of(run, failure._replace(reason=reason), webhook.ui_url)
    try:
        webhook.post(message)
    except WebhookFailed as error:
        # Nothing waits for an alert: the next one is for the webhook of then.
        said = f"nobody was told that run {run.run_id} failed: the webhook does not take it ({error})"
        context.log.error(said)
        return dg.SkipReason(said)
    return dg.SkipReason(f"told the webhook that run {run.run_id} failed")


def message_of(run: dg.DagsterRun, failure: Failure, ui_url: str) -> dict[str, str | None]:
    """What is posted; `text` is for chats that show nothing else."""
    reason = failure.reason if len(failure.reason) <= MAX_REASON else f"{failure.reason[:MAX_REASON]} …"
    partition = partition_of(run)
    link = f"{ui_url.rstrip('/')}/runs/{run.run_id}" if ui_url else None
    place = "".join([f" at {failure.step}" if failure.step else "", f" for {partition}" if partition else ""])
    return {
        "text": f"Touchstone: {run.job_name} failed{place}: {reason}" + (f" {link}" if link else ""),
        "job": run.job_name,
        "run_id": run.run_id,
        "partition": partition,
        "step": failure.step,
        "reason": reason,
        "url": link,
    }


def partition_of(run: dg.DagsterRun) -> str | None:
    """One partition, or the first and the last of a range."""
    ends = [run.tags.get(f"dagster/asset_partition_range_{end}") for end in ("start", "end")]
    if ends[0] and ends[1]:
        return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    return run.tags.get("dagster/partition")
