"""When jobs run by themselves."""

import dagster as dg

from assets.cleaning import cleaning_job
from assets.datasets import NIGHTLY_DAY
from assets.partitions import range_tags
from pipeline.batch import Retry

_SCORE_MODEL = dg.AssetSelection.assets("score_model")
_SFT_MODEL = dg.AssetSelection.assets("sft_model")
_GAMES = dg.AssetSelection.groups("environments")
_HIERARCHY = dg.AssetSelection.groups("hierarchy")

main_job = dg.define_asset_job(
    "main",
    # Another model means other scores, and training takes GPUs: when there is one is for people to say. Games need
    # packages that the main job does not, and what is made of the published versions has jobs of its own.
    selection=dg.AssetSelection.all() - _SCORE_MODEL - _SFT_MODEL - _GAMES - _HIERARCHY,
    description="Repositories to a snapshot of verified trajectories, for every stream of one crawl day.",
    executor_def=dg.in_process_executor,
)

instances_job = dg.define_asset_job(
    "instances_only",
    selection=dg.AssetSelection.assets("ratings").upstream(),
    description="The main job up to the admitted and rated instances: no agent attempts them.",
    executor_def=dg.in_process_executor,
)


score_model_job = dg.define_asset_job(
    "train_score_model",
    selection=_SCORE_MODEL,
    description="A new model of the learned score, trained on all first builds there are.",
    executor_def=dg.in_process_executor,
)

environments_job = dg.define_asset_job(
    "environments",
    selection=_GAMES,
    description="The games of [environments]: tasks, attempts, verdicts and a published version.",
    executor_def=dg.in_process_executor,
)


hierarchy_job = dg.define_asset_job(
    "hierarchy",
    selection=_HIERARCHY,
    description="Sub-goals and progress of published attempts, and the data sets of hierarchies made of them.",
    executor_def=dg.in_process_executor,
)

sft_model_job = dg.define_asset_job(
    "train_sft_model",
    selection=_SFT_MODEL,
    description="A model fine-tuned on the newest published version, or on the one that the run's tag names.",
    executor_def=dg.in_process_executor,
)


@dg.schedule(
    job=main_job,
    cron_schedule="0 2 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """Every night at 02:00 UTC: the main job over the sources of touchstone.toml, for the day that begins.

    What the network or the engine broke on the days before is tried again.
    """
    day = context.scheduled_execution_time.date().isoformat()
    return dg.RunRequest(
        run_key=f"nightly-{day}",
        run_config={"resources": {"retry": {"config": {"retry": Retry.INFRASTRUCTURE.value, "only": []}}}},
        tags=range_tags(day) | {NIGHTLY_DAY: day},
    )


nightly_cleaning = dg.ScheduleDefinition(
    name="nightly_cleaning",
    job=cleaning_job,
    cron_schedule="0 1 * * *",
    execution_timezone="UTC",
    description="An hour before the main job, so that it finds room.",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
