"""The model behind the learned score, trained on what became of the repositories that were built."""

import dagster as dg

from assets.checks import no_faults
from assets.images import image_builds
from assets.resources import WorkshopResource
from assets.scoring_figures import scoring_figures
from pipeline.scoring.learned import FOLDER, ScoreModel
from pipeline.scoring_report import scoring_report
from pipeline.stages.labelling import labelled

HELD_OUT = "some_rows_are_held_out"


@dg.asset(
    name="score_model",
    group_name="models",
    kinds={"python", "scikitlearn"},
    deps=[image_builds],
    check_specs=[dg.AssetCheckSpec(HELD_OUT, asset="score_model", blocking=True)],
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
        check_results=[no_faults(HELD_OUT, faults)],
    )
