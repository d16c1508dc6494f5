"""Data processing: from the files that one gets to the files that one needs."""

from __future__ import annotations

from pipeline.generators.domains.data_processing.changes import daily_merge
from pipeline.generators.domains.data_processing.clean_csv import clean_csv
from pipeline.generators.domains.data_processing.legacy import legacy_extract
from pipeline.generators.domains.data_processing.merging import deduplicate, join_sources
from pipeline.generators.domains.data_processing.penguins import pivot, quantiles
from pipeline.generators.domains.data_processing.records import flatten_json, sessions
from pipeline.generators.domains.data_processing.series import partition, resample
from pipeline.generators.drafts import Pack

PACK = Pack(
    domain="data_processing",
    families={
        "clean_csv": clean_csv,
        "pivot": pivot,
        "quantiles": quantiles,
        "sessions": sessions,
        "flatten_json": flatten_json,
        "join_sources": join_sources,
        "deduplicate": deduplicate,
        "daily_merge": daily_merge,
        "resample": resample,
        "partition": partition,
        "legacy_extract": legacy_extract,
    },
)
