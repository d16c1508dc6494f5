"""What studies choose from: the rows of versions that tokens can be made of, and the order in which they are taken."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from pipeline.curation.splits import SplitConfig
from pipeline.errors import ConfigurationError
from pipeline.exports.published import published, rows_of
from pipeline.tables import Store
from training.data import tokens_of
from training.token_files import token_counts
from training.tokens import ChatTokenizer
from training.trained_on import TrainedRow

_COLUMNS = ("instance_id", "repository_id", "instruction", "full_name", "family", "domain", "difficulty")
SPLIT = "train"


class Version(NamedTuple):
    """A version of rows."""

    reference: str
    """NAME@VERSION."""
    sha256: str
    """Of its content."""
    root: Path
    """The folder whose snapshots/ it is in."""


class StudyRow(NamedTuple):
    """What a row is chosen by."""

    trajectory_id: str
    instance_id: str
    repository_id: str
    instruction: str
    full_name: str
    family: str
    domain: str
    difficulty: str
    n_tokens: int
    """Of all its windows."""

    @property
    def trained(self) -> TrainedRow:
        return TrainedRow(self.trajectory_id, self.instance_id, self.instruction, self.full_name, self.family)


@dataclass(frozen=True)
class Material:
    """A data folder, and how rows of it become tokens."""

    data: Path
    store: Store
    splits: SplitConfig
    base: Path
    """Folder with the tokenizer."""
    max_tokens: int
    code_commit: str | None = None

    def version(self, reference: str, root: Path | None = None) -> Version:
        """Raises NothingToExport and SnapshotDamaged."""
        place = root or self.data
        found = published(place, reference)
        return Version(found.reference, found.manifest.content_sha256, place)

    def rows(self, version: Version) -> list[StudyRow]:
        """Those of its split `train` that tokens can be made of, sorted by id."""
        return list(_rows(self.data, version, self.base, self.max_tokens))


@cache
def _rows(data: Path, version: Version, base: Path, max_tokens: int) -> tuple[StudyRow, ...]:
    place = published(version.root, version.reference)
    counts = token_counts(tokens_of(data, place, ChatTokenizer(base), max_tokens), SPLIT)
    found = []
    for one in rows_of(place, _COLUMNS, SPLIT):
        if one.row is not None and one.trajectory_id in counts:
            texts = {name: str(one.row.get(name) or "") for name in _COLUMNS}
            found.append(StudyRow(one.trajectory_id, **texts, n_tokens=counts[one.trajectory_id]))
    return tuple(sorted(found))


def digest(seed: int, name: str) -> str:
    """Puts names into an order that depends on nothing but them and the seed."""
    return hashlib.sha256(f"{seed} {name}".encode()).hexdigest()


def in_turn(rows: Iterable[StudyRow], seed: int, group: Callable[[StudyRow], str]) -> list[StudyRow]:
    """One row of each group in turn, as long as it has one: the first n are balanced, and are among the first n + 1.

    Within a group a second row of an instance comes when each has had its first.
    """
    groups: dict[str, list[StudyRow]] = {}
    for row in sorted(rows, key=lambda row: digest(seed, row.trajectory_id)):
        groups.setdefault(group(row), []).append(row)
    names = sorted(groups, key=lambda name: digest(seed, name))
    turns = zip_longest(*(_instances_first(groups[name]) for name in names))
    return [row for turn in turns for row in turn if row is not None]


def _instances_first(rows: Sequence[StudyRow]) -> list[StudyRow]:
    seen: dict[str, int] = {}
    order = []
    for row in rows:
        order.append(seen.get(row.instance_id, 0))
        seen[row.instance_id] = order[-1] + 1
    return [row for _, _, row in sorted(zip(order, range(len(rows)), rows, strict=True))]


def first(rows: Sequence[StudyRow], count: int, what: str) -> tuple[StudyRow, ...]:
    """So many. Raises ConfigurationError where there are fewer."""
    if len(rows) < count:
        raise ConfigurationError(f"{what}: {count} rows are asked for and {len(rows)} are there; ask for fewer")
    return tuple(rows[:count])


def counted(rows: Iterable[StudyRow], group: Callable[[StudyRow], str]) -> Mapping[str, int]:
    """Rows by group, sorted."""
    found: dict[str, int] = {}
    for row in rows:
        found[group(row)] = found.get(group(row), 0) + 1
    return dict(sorted(found.items()))
