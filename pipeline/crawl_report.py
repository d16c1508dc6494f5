"""How far the crawl of each hub is, from the index that it keeps. Nothing is asked of the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pipeline.sources.github_index import CrawlIndex
from pipeline.types import Record


class Counted(Record):
    """Repositories of one language, or in one state."""

    found: int
    """That search named."""
    pinned: int
    """That have a commit to be fetched."""


class HubReport(Record):
    """The crawl of one hub."""

    index: str
    """File name of its index in the data folder."""
    found: int
    pinned: int
    questions_done: int
    """Of the round that runs, or ran last."""
    questions_open: int
    missing: int
    """Results of this round that search did not hand out."""
    refreshes: int
    up_to_date: str | None
    """What was pushed until then is in the index; None before the first round has ended."""
    by_language: dict[str, Counted]
    by_state: dict[str, Counted]


class CrawlReport(Record):
    hubs: tuple[HubReport, ...]


def crawl_report(folder: Path) -> CrawlReport:
    """The report over all indexes in a folder, which need not exist. Raises ConfigurationError for other layouts."""
    return CrawlReport(hubs=tuple(_hub(path) for path in sorted(folder.glob("hub-*.sqlite"))))


def _hub(path: Path) -> HubReport:
    index = CrawlIndex(path)
    try:
        progress = index.progress()
        return HubReport(
            index=path.name,
            found=progress["repositories"],
            pinned=progress["pinned"],
            questions_done=progress["slices_done"],
            questions_open=progress["slices_open"],
            missing=progress["missing"],
            refreshes=int(index.fact("round") or 0),
            up_to_date=index.up_to_date(),
            by_language=_counted(index, "language"),
            by_state=_counted(index, "state"),
        )
    finally:
        index.close()


def _counted(index: CrawlIndex, column: Literal["language", "state"]) -> dict[str, Counted]:
    counts = index.counts(column)
    return {name: Counted(found=found, pinned=pinned) for name, (found, pinned) in counts.items()}
