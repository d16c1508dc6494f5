"""The Dagster code location: every asset, resource, job, schedule and sensor of the project."""

import dagster as dg

from assets import (
    curation,
    datasets,
    environments,
    hierarchy,
    images,
    instances,
    judgements,
    models,
    ratings,
    repositories,
    score_model,
    trajectories,
)
from assets.alerts import failure_alerts
from assets.attempting import AttemptsResource
from assets.cleaning import cleaning_job
from assets.resources import RetryResource, WorkshopResource, webhook_of_environment
from assets.schedules import (
    environments_job,
    hierarchy_job,
    instances_job,
    main_job,
    nightly,
    nightly_cleaning,
    score_model_job,
    sft_model_job,
)
from assets.sensors import new_listings, snapshot_published

defs = dg.Definitions(
    assets=dg.load_assets_from_modules(
        [
            repositories,
            images,
            score_model,
            instances,
            ratings,
            trajectories,
            judgements,
            curation,
            datasets,
            models,
            environments,
            hierarchy,
        ]
    ),
    resources={
        "workshop": WorkshopResource(),
        "retry": RetryResource(),
        "attempts": AttemptsResource(),
        "webhook": webhook_of_environment(),
    },
    jobs=[main_job, instances_job, score_model_job, sft_model_job, environments_job, hierarchy_job, cleaning_job],
    schedules=[nightly, nightly_cleaning],
    sensors=[new_listings, snapshot_published([score_model_job, sft_model_job]), failure_alerts],
    # Items run side by side inside an asset; a process per step would only add its start.
    executor=dg.in_process_executor,
)
