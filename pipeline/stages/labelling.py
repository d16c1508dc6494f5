"""What builds say of repositories, with their features: the rows that a score model is trained on."""

from __future__ import annotations

import logging
import tarfile
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pipeline.rows import checkout_of, repository_of
from pipeline.schemas import Row, to_rows
from pipeline.scoring.features import features_of
from pipeline.scoring.labels import Labelled, labels, owner_of
from pipeline.tables import Store

logger = logging.getLogger(__name__)

_BUILDS = ["repository_id", "status", "failure_class", "smoke_ok", "repairs", "recorded_at"]
_SCORES = ["repository_id", "kept", "propensity", "recorded_at"]


class Labelling(NamedTuple):
    """All labelled repositories of a data folder."""

    rows: list[Labelled]
    without_tree: int
    """Labelled ones whose tree is not in the data folder any more."""


def labelled(store: Store, trees: Path) -> Labelling:
    """Reads the tree of each labelled repository, a second or less each. Raises TableDamaged."""
    known = {str(row["repository_id"]): row for row in to_rows(store.current("repositories")) if row["tree_sha256"]}
    found = labels(map(repository_of, known.values()), to_rows(store.current("image_builds", _BUILDS)))
    scores = _by_repository(to_rows(store.current("scores", _SCORES)))
    domains = {
        str(row["repository_id"]): str(row["domain"])
        for row in to_rows(store.current("instances", ["repository_id", "domain", "admitted"]))
        if row["admitted"]
    }
    rows, without_tree = [], 0
    for number, (key, (label, build)) in enumerate(sorted(found.items()), start=1):
        repository, checkout = repository_of(known[key]), checkout_of(known[key])
        try:
            features = features_of(repository, checkout, trees / f"{checkout.tree_sha256}.tar")
        except (OSError, tarfile.TarError) as error:
            logger.warning("no features of %s: %s", repository.full_name, error)
            without_tree += 1
            continue
        recorded = build["recorded_at"]
        rows.append(
            Labelled(
                repository_id=key,
                owner=owner_of(repository),
                label=label,
                features=features,
                time=recorded.date().isoformat() if isinstance(recorded, datetime) else "",
                propensity=_propensity(scores.get(key, ()), recorded),
                language=repository.language,
                domain=domains.get(key, "general"),
            )
        )
        if number % 100 == 0:
            logger.info("features of %d of %d labelled repositories", number, len(found))
    return Labelling(rows, without_tree)


def _by_repository(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["kept"]:
            found.setdefault(str(row["repository_id"]), []).append(row)
    return found


def _propensity(scores: Iterable[Row], built_at: object) -> float:
    """Of the last decision to keep it before it was built; 1 for rows from before there was any choice at random."""
    before = [row for row in scores if _moment(row["recorded_at"]) <= _moment(built_at)]
    last = max(before, key=lambda row: _moment(row["recorded_at"]), default=None)
    propensity = last["propensity"] if last is not None else None
    return propensity if isinstance(propensity, float) and propensity > 0.0 else 1.0


def _moment(value: object) -> float:
    return value.timestamp() if isinstance(value, datetime) else 0.0
