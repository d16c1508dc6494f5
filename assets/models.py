"""Models trained on published versions. How they are trained is in training/."""

from typing import TYPE_CHECKING

import dagster as dg

from assets.checks import KEPT, LEARNED, TRAIN_ONLY
from assets.datasets import terminal_snapshot
from assets.operated import operated
from assets.plots import loss_plot
from assets.pools import GPU
from assets.resources import WorkshopResource, code_commit
from assets.run_tags import SNAPSHOT
from assets.training_packages import need_training_packages
from pipeline.errors import ConfigurationError
from pipeline.snapshots import batches, locate

if TYPE_CHECKING:
    from pathlib import Path

    from training.models import TrainedModel

TRAINED_ON = dg.TableSchema(
    columns=[
        dg.TableColumn("trajectory_id", "string", description="A row that was learned from"),
        dg.TableColumn("instance_id", "string", description="Its task"),
        dg.TableColumn("instruction", "string", description="What the task asks for"),
        dg.TableColumn("full_name", "string", description="Repository of the task"),
        dg.TableColumn("family", "string", description="Family of the task"),
    ]
)
"""What lies beside the weights, so that an evaluation leaves it out."""


@operated(
    group="models",
    kinds={"python", "pytorch"},
    columns=TRAINED_ON,
    promises=[KEPT, TRAIN_ONLY, LEARNED],
    deps=[terminal_snapshot],
    pool=GPU,
    partitioned=False,
    freshness=None,
)
def sft_model(context: dg.AssetExecutionContext, workshop: WorkshopResource) -> dg.MaterializeResult:
    """A causal language model fine-tuned on the split `train` of a published version, as [training] says."""
    need_training_packages()
    from training.launch import fine_tune_on  # torch and transformers take seconds

    shop = workshop.open()
    told = shop.settings.training
    if told.sft is None:
        raise ConfigurationError("`sft` of [training] names no file that says how to train; see training/configs")
    model = fine_tune_on(
        told.devices,
        shop.folder / told.sft,
        shop.data,
        context.run.tags.get(SNAPSHOT, shop.settings.snapshot),
        told.model,
        code_commit=code_commit(),
        on_step=lambda done, of: context.log.info(f"step {done} of {of}"),
    )
    results = [KEPT.result(model.faults()), TRAIN_ONLY.result(_others(shop.data, model)), LEARNED.result(_rise(model))]
    return dg.MaterializeResult(metadata=_figures(model), check_results=results)


def _others(data: "Path", model: "TrainedModel") -> list[str]:
    """Rows that were learned from and are not in the split `train` of the version."""
    path = locate(data, model.file.training.snapshot)
    ids = {one for batch in batches(path, ["trajectory_id"], "train") for one in batch.column(0).to_pylist()}
    return [row.trajectory_id for row in model.trained_on() if row.trajectory_id not in ids]


def _rise(model: "TrainedModel") -> list[str]:
    told = model.file.training
    return [] if told.last_loss < told.first_loss else [f"it went from {told.first_loss:.4f} to {told.last_loss:.4f}"]


def _figures(model: "TrainedModel") -> dict[str, dg.MetadataValue]:
    told, lines = model.file.training, list(model.metrics())
    numbers = ("steps", "n_tokens", "n_target_tokens", "padding_share", "first_loss", "last_loss", "seconds")
    losses = [[(line["step"], line[name]) for line in lines if name in line] for name in ("loss", "eval_loss")]
    measured = {name: dg.MetadataValue.float(float(getattr(told, name))) for name in numbers}
    if told.validation_loss is not None:
        measured["validation_loss"] = dg.MetadataValue.float(told.validation_loss)
    return {
        "dagster/row_count": dg.MetadataValue.int(told.rows),
        "model": dg.MetadataValue.text(model.reference),
        "snapshot": dg.MetadataValue.text(told.snapshot),
        "path": dg.MetadataValue.path(str(model.folder)),
        "loss": loss_plot(*losses),
        "card": dg.MetadataValue.md((model.folder / "README.md").read_text(encoding="utf-8")),
        **measured,
    }
