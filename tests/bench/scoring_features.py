"""The features of what was labelled, from its stored tree, and the rows that training and the report take.

A line of features.jsonl holds numbers alone, so that the figures can be had again from the committed files, without the
trees. Which features there are is pipeline/scoring/features.py; a line of another version is made anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assets.resources import Workshop
from pipeline.rows import checkout_of, repository_of
from pipeline.schemas import to_rows
from pipeline.scoring import ScoreConfig, StaticScorer
from pipeline.scoring.features import VERSION, features_of
from pipeline.scoring.labels import Labelled, label_of
from pipeline.stages.scoring import Fetched
from tests.bench.scoring_sample import EXPERIMENT, Listed

FEATURES = EXPERIMENT / "features.jsonl"
logger = logging.getLogger(__name__)


def known_features(path: Path = FEATURES) -> dict[str, dict[str, Any]]:
    """The committed lines of this version of the features, by id."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {one["id"]: one for one in map(json.loads, lines) if one["features_version"] == VERSION}


def compute(shop: Workshop, listed: Sequence[Listed], cells: Mapping[str, Mapping[str, Any]]) -> None:
    """A line for each labelled outcome that has none, in the order of the list."""
    known = known_features()
    stored = {(str(row["full_name"]), str(row["commit"])): row for row in to_rows(shop.store().current("repositories"))}
    static = StaticScorer(ScoreConfig())
    for one in listed:
        if one.id in known or one.id not in cells or label_of(cells[one.id]) is None:
            continue
        name = f"local/{one.name.partition('/')[2]}" if one.ecosystem == "github" else one.id
        row = stored.get((name, one.version))
        if row is None:
            logger.warning("%s: its tree is not in this data folder", one.id)
            continue
        item = Fetched(repository_of(row), checkout_of(row))
        tree = shop.trees / f"{item.checkout.tree_sha256}.tar"
        known[one.id] = {
            "id": one.id,
            "features_version": VERSION,
            "static": static.score(item.repository, item.checkout, tree).score,
            "features": features_of(item.repository, item.checkout, tree),
        }
    ordered = [known[one.id] for one in listed if one.id in known]
    FEATURES.write_text("".join(json.dumps(line) + "\n" for line in ordered))


def labels_of(cells: Mapping[str, Mapping[str, Any]], features: Mapping[str, Mapping[str, Any]]) -> list[Labelled]:
    """What has a label and features, as the training takes it, in the order of the ids."""
    found = []
    for name in sorted(cells.keys() & features.keys()):
        if (label := label_of(cells[name])) is not None:
            cell = cells[name]
            found.append(
                Labelled(
                    repository_id=name,
                    owner=cell["owner"],
                    label=label,
                    features=features[name]["features"],
                    time=cell["date"] or "",
                    language=cell["language"],
                )
            )
    return found
