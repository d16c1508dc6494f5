"""What is found in verified attempts before they are published: secrets, copies, what benchmarks hold too."""

import dagster as dg

from assets.checks import STAGE, stage_results
from assets.columns_shown import columns_of
from assets.curation_figures import curation_figures
from assets.metadata import stage_metadata
from assets.operated import operated
from assets.resources import RetryResource, Workshop, WorkshopResource
from assets.trajectories import verifications
from pipeline.curation.benchmarks import BenchmarkTask, read_benchmarks
from pipeline.curation.secrets import RULES_CACHE, Detector
from pipeline.curation_report import CurationReport, curation_report
from pipeline.schemas import to_rows
from pipeline.stages.curating import curate, looked_with


@operated(
    group="datasets",
    kinds={"python", "deltalake"},
    columns=columns_of("curations"),
    promises=STAGE,
    deps=[verifications],
    partitioned=False,
)
def curations(workshop: WorkshopResource, retry: RetryResource) -> dg.MaterializeResult:
    """Each verified attempt looked through once; what is published of them is decided anew each time."""
    shop = workshop.open()
    detector = Detector(shop.data / RULES_CACHE)
    report = curate(shop.store(), benchmarks(shop), shop.host(), detector, retry.options(shop))
    columns = ["trajectory_id", "rules", "n_planted", "unscrubbable", "reason"]
    rows = to_rows(shop.store().current("curations", columns).slice(0, 10))
    metadata = stage_metadata(report, shop.store(), "curations", rows, columns)
    return dg.MaterializeResult(
        metadata={**metadata, **curation_figures(report_of(shop))},
        check_results=stage_results(shop, "curations", report),
    )


def benchmarks(shop: Workshop) -> list[BenchmarkTask]:
    """The tasks that no data may hold. Raises ConfigurationError."""
    return read_benchmarks(shop.folder / path for path in shop.settings.decontamination.benchmarks)


def report_of(shop: Workshop) -> CurationReport:
    """The report of a data folder. Raises ConfigurationError."""
    looked = looked_with(benchmarks(shop))
    return curation_report(shop.store(), shop.settings.dataset, shop.folder, looked, shop.settings.snapshot)
