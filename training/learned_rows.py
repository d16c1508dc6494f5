"""Conversations that are learned from and never published: versions of their own, in `training/rows` of a data folder.

Those of others (foreign.py), and attempts that no verifier passed, which no published version holds. What was kept once
is found again by its content. Secrets of other people are not looked for: models that learned from them stay here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from pipeline import columns
from pipeline.errors import ConfigurationError
from pipeline.schemas import clean_text
from pipeline.snapshots import Draft, publish

FOLDER = "training/rows"
"""Below the data folder."""
_SCHEMA_VERSION = 1
_AT_ONCE = 1000


class LearnedRow(NamedTuple):
    """A conversation, and what rows are chosen by."""

    trajectory_id: str
    instance_id: str
    repository_id: str
    instruction: str
    full_name: str
    """Of the repository, or of whoever the conversation is from."""
    family: str
    domain: str
    difficulty: str
    messages: Sequence[Mapping[str, str]]
    """role and content."""
    split: str = "train"


_SCHEMA = pa.schema(
    [(name, columns.MESSAGES if name == "messages" else columns.TEXT) for name in LearnedRow._fields],
)


def keep_rows(data: Path, name: str, rows: Iterable[LearnedRow], code_commit: str | None) -> str:
    """Keep rows under a name; NAME@VERSION of the version that holds them, to be found below `data` / FOLDER.

    Raises ConfigurationError where there is no row or one is there twice, SnapshotDamaged.
    """
    try:
        version = publish(
            data / FOLDER,
            name,
            _tables(rows),
            schema_version=_SCHEMA_VERSION,
            parents=(),
            code_commit=code_commit,
            run_id=None,
            describe=_described,
            summary={},
        )
    except ValueError as error:
        raise ConfigurationError(f"rows {name}: {error}") from error
    return f"{version.name}@{version.version}"


def _tables(rows: Iterable[LearnedRow]) -> Iterable[pa.Table]:
    part: list[dict[str, object]] = []
    for row in rows:
        messages = [{name: clean_text(text) for name, text in message.items()} for message in row.messages]
        texts = {name: clean_text(str(text)) for name, text in row._asdict().items() if name != "messages"}
        part.append(texts | {"messages": messages})
        if len(part) == _AT_ONCE:
            yield pa.Table.from_pylist(part, schema=_SCHEMA)
            part = []
    yield pa.Table.from_pylist(part, schema=_SCHEMA)


def _described(draft: Draft) -> Mapping[str, str]:
    return {"README.md": f"{draft.rows} conversations to learn from, which are not to be published.\n"}
