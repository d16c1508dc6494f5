"""What several runs must share: no more runs use one of these at once than `infra/dagster.yaml` allows.

The limit counts runs and is kept by Dagster's queue, so for runs of schedules, sensors and the UI. Steps cannot wait
for their turn here: the in-process executor would ask again without a pause, and a killed run would keep its turn for
ever. `touchstone run` waits for no queue; stages of two such runs take turns by the locks of the data folder.
A step has one pool only, so that it is in that of what it takes most of.
"""

ENGINE = "engine"
"""The Docker engine: builds and sandboxes."""
MODEL_SERVER = "model_server"
"""The model of [model]."""
GITHUB_API = "github_api"
"""What sources ask: a hub with its limits per token, package registries."""
GPU = "gpu"
"""The devices that train."""
