"""The one partitions definition of the graph: crawl day x stream.

A stream is one of the eight languages (repositories) or one of the eight domains (task packs); both are static
keys. Every partitioned asset shares this definition, since a selection may hold only one.
"""

import datetime
import warnings
from collections.abc import Mapping, Sequence

import dagster as dg

from pipeline.errors import ConfigurationError
from pipeline.types import DOMAINS, LANGUAGES

# Back-fill policies are beta in the pinned version; every command would say so once for each asset.
warnings.filterwarnings("ignore", message=".*backfill_policy", category=dg.BetaWarning)

STREAMS: tuple[str, ...] = (*LANGUAGES, *DOMAINS)

GROUPS: Mapping[str, tuple[str, ...]] = {"all": STREAMS, "languages": LANGUAGES, "domains": DOMAINS}
"""Names for several streams, each a range of STREAMS."""

FIRST_DAY = "2026-11-01"

days = dg.DailyPartitionsDefinition(start_date=FIRST_DAY, end_offset=1)
"""Days in UTC. The offset makes today's partition exist while the day lasts."""

day_by_stream = dg.MultiPartitionsDefinition({"day": days, "stream": dg.StaticPartitionsDefinition(list(STREAMS))})

one_run = dg.BackfillPolicy.single_run()
"""A range of partitions is one run, so that its items share the workers."""


def split(partition_keys: list[str]) -> dict[str, list[str]]:
    """Partition keys `day|stream` as streams per day, both in their given order."""
    streams: dict[str, list[str]] = {}
    for key in partition_keys:
        day, stream = key.split("|")
        streams.setdefault(day, []).append(stream)
    return streams


def streams_named(name: str) -> tuple[str, ...]:
    """The streams of a group, or the one of that name. Raises ConfigurationError for a name that is neither."""
    if name in STREAMS:
        return (name,)
    if name not in GROUPS:
        known = ", ".join((*GROUPS, *STREAMS))
        raise ConfigurationError(f"--streams {name!r} names no streams; give one of {known}")
    return GROUPS[name]


def range_tags(day: str, streams: Sequence[str] = STREAMS) -> dict[str, str]:
    """Run tags that select the streams of one day; `streams` is a range of STREAMS."""
    return {
        "dagster/asset_partition_range_start": f"{day}|{streams[0]}",
        "dagster/asset_partition_range_end": f"{day}|{streams[-1]}",
    }


def today() -> str:
    """The crawl day that is open now, `YYYY-MM-DD` in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()
