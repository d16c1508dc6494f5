"""The Dagster code location: every asset, resource, job and schedule of the project."""

import dagster as dg

from assets import curation, datasets, images, instances, judgements, ratings, repositories, score_model, trajectories
from assets.attempting import AttemptsResource
from assets.lost_runs import lost_runs
from assets.resources import RetryResource, WorkshopResource
from assets.schedules import instances_job, main_job, nightly, score_model_job

defs = dg.Definitions(
    assets=dg.load_assets_from_modules(
        [repositories, images, score_model, instances, ratings, trajectories, judgements, curation, datasets]
    ),
    resources={"workshop": WorkshopResource(), "retry": RetryResource(), "attempts": AttemptsResource()},
    jobs=[main_job, instances_job, score_model_job],
    schedules=[nightly],
    sensors=[lost_runs],
    # Items run side by side inside an asset; a process per step would only add its start.
    executor=dg.in_process_executor,
)
