"""What a model version was trained on, beside its weights: trained_on.parquet, a row for each trajectory.

Evaluation leaves out what stands there or comes too near to it (training/evaluation_leaks.py). Not here: the folder of
a model version, and who writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.disk import sync
from pipeline.errors import ConfigurationError

FILE = "trained_on.parquet"
_AT_ONCE = 10_000
"""Rows that are held: an instruction may be long, and of most there are many copies."""


class TrainedRow(NamedTuple):
    """One trajectory that a model has learned from, by what tells its task from others."""

    trajectory_id: str
    instance_id: str
    instruction: str
    full_name: str
    """Of its repository."""
    family: str


_SCHEMA = pa.schema([(name, pa.string()) for name in TrainedRow._fields])


def write_trained_on(folder: Path, rows: Iterable[TrainedRow]) -> None:
    """Write the file into the folder of a model version; it is on disk when this returns. Raises OSError."""
    remaining = iter(rows)
    with pq.ParquetWriter(folder / FILE, _SCHEMA, compression="zstd") as writer:
        while part := list(islice(remaining, _AT_ONCE)):
            writer.write_batch(pa.RecordBatch.from_pylist([row._asdict() for row in part], schema=_SCHEMA))
    sync(folder / FILE)
    sync(folder)


def read_trained_on(folder: Path) -> Iterator[TrainedRow]:
    """The rows of a model version. Raises ConfigurationError where the file is missing or is not one of these."""
    path = folder / FILE
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_AT_ONCE, columns=list(TrainedRow._fields)):
                yield from (TrainedRow(**row) for row in batch.to_pylist())
    except (OSError, pa.ArrowException, TypeError) as error:
        raise ConfigurationError(
            f"{path} does not say what the model was trained on ({error}), so nothing can be held out; train it anew"
        ) from error
