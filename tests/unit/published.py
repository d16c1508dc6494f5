"""Curates and publishes what a store of recorded rows holds, as the assets do."""

from __future__ import annotations

from pathlib import Path

from pipeline.curation.decisions import DatasetConfig
from pipeline.curation.own_host import HostFacts
from pipeline.curation.splits import SplitConfig
from pipeline.curation_report import decisions_of
from pipeline.snapshots import SnapshotVersion
from pipeline.stages.curating import curate, looked_with
from pipeline.stages.options import Options
from pipeline.stages.publishing import Publication, publish_kept
from pipeline.tables import Store
from tests.detectors import DETECTOR


def publication(
    store: Store,
    dataset: DatasetConfig = DatasetConfig(),  # noqa: B008 - frozen
    splits: SplitConfig = SplitConfig(repositories=0, families=0),  # noqa: B008
    host: HostFacts = HostFacts(),  # noqa: B008
) -> Publication:
    """After looking all attempts through; everything is for training when nothing else is said."""
    curate(store, (), host, DETECTOR, Options())
    looked = looked_with(())
    return Publication("terminal", decisions_of(store, dataset, Path(), looked), looked, dataset, splits)


def published(store: Store) -> SnapshotVersion | None:
    return publish_kept(store, publication(store), code_commit=None, run_id=None)
