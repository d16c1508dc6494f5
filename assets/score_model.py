"""The model behind the learned score, trained on what became of the repositories that were built."""

import dagster as dg

from assets.checks import HELD_OUT
from assets.images import image_builds
from assets.operated import operated
from assets.resources import WorkshopResource
from assets.scoring_figures import scoring_figures
from pipeline.scoring.learned import FOLDER, ScoreModel
from pipeline.scoring_report import scoring_report
from pipeline.stages.labelling import labelled

LEARNED_FROM = dg.TableSchema(
    columns=[
        dg.TableColumn("repository_id", "string", description="Names the repository at its pinned version"),
        dg.TableColumn("owner", "string", description="Whose it is; no owner is both learned from and held out"),
        dg.TableColumn("label", "bool", description="Whether the first attempt gave a usable image"),
        dg.TableColumn("features", "map", description="What is known of it before it is built"),
        dg.TableColumn("time", "string", description="Day of that attempt"),
        dg.TableColumn("propensity", "double", description="Chance with which it was built at all"),
        dg.TableColumn("language", "string", description="Programming language"),
    ]
)
"""One row for each labelled repository."""


@operated(
    group="models",
    kinds={"python", "scikitlearn"},
    columns=LEARNED_FROM,
    promises=[HELD_OUT],
    deps=[image_builds],
    partitioned=False,
    freshness=None,
)
def score_model(context: dg.AssetExecutionContext, workshop: WorkshopResource) -> dg.MaterializeResult:
    """What first builds say of repositories, learned; `scores` uses the newest one where [scoring] names it."""
    from training.methods.score_model import ScoreModelConfig, train  # scikit-learn takes a second or two

    shop = workshop.open()
    found = labelled(shop.store(), shop.trees)
    if found.without_tree:
        context.log.warning(f"{found.without_tree} labelled repositories are left out: their trees are gone")
    path = train(ScoreModelConfig(), found.rows, shop.data / FOLDER)
    model = ScoreModel.read(path)
    faults = [] if model.heldout else ["no row was held out: all labelled builds are of one owner"]
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": dg.MetadataValue.int(len(found.rows)),
            "model": dg.MetadataValue.text(model.name),
            "artifact": dg.MetadataValue.path(str(path)),
            **scoring_figures(scoring_report(shop.store(), shop.data), model),
        },
        check_results=[HELD_OUT.result(faults)],
    )
