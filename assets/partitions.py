"""The one partitions definition of the graph: crawl day x stream.

A stream is one of the eight languages (repositories) or one of the eight domains (task packs); both are static
keys. Every partitioned asset shares this definition, since a selection may hold only one.
"""

import datetime

import dagster as dg

from pipeline.types import DOMAINS, LANGUAGES

STREAMS: tuple[str, ...] = (*LANGUAGES, *DOMAINS)

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


def range_tags(day: str) -> dict[str, str]:
    """Run tags that select every stream of one day."""
    return {
        "dagster/asset_partition_range_start": f"{day}|{STREAMS[0]}",
        "dagster/asset_partition_range_end": f"{day}|{STREAMS[-1]}",
    }


def today() -> str:
    """The crawl day that is open now, `YYYY-MM-DD` in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()
