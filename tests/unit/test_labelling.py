"""Rows for training come from the working tables and the trees; the asset trains on them."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from assets.resources import WorkshopResource, open_workshop
from assets.score_model import score_model
from pipeline.errors import ConfigurationError
from pipeline.rows import checkout_row
from pipeline.schemas import Row
from pipeline.scoring.features import VERSION, features_of
from pipeline.scoring.learned import FOLDER, foretold, newest
from pipeline.stages.labelling import labelled
from pipeline.tables import Store
from tests.bench import scoring_scale
from tests.unit.stored_trees import stored

DAY = datetime(2026, 5, 1, tzinfo=UTC)
SUCCESS: Row = {"status": "built", "smoke_ok": True}
FAILURE: Row = {"status": "failed", "failure_class": "compile_failed"}


def filled(data: Path, builds: list[list[Row]]) -> Store:
    """A data folder with a repository for each list of attempts; the successful ones have a build file."""
    store = Store(data)
    tables: dict[str, list[Row]] = {"repositories": [], "image_builds": [], "scores": []}
    for number, attempts in enumerate(builds):
        files = {"x.py": f"import sys\n\nprint({number}, sys.argv)\n"}
        if attempts[0].get("smoke_ok"):
            files["setup.py"] = "from setuptools import setup\n\nsetup()\n"
        repository, checkout, _ = stored(data / "sources", files, full_name=f"local/r{number}")
        key = repository.repository_id
        batch: Row = {"item_key": key, "attempt": 1, "reason": "", "recorded_at": DAY}
        tables["repositories"].append({**checkout_row(repository, checkout), **batch})
        tables["image_builds"] += [{"repository_id": key, "strategy": "template", **batch, **row} for row in attempts]
        late = batch | {"item_key": f"{key}/late", "recorded_at": DAY.replace(year=2027)}
        score: Row = {"repository_id": key, "scorer": "a", "kept": True}
        tables["scores"] += [score | batch | {"propensity": 0.25}, score | late | {"propensity": 0.5}]
    for name, rows in tables.items():
        store.append(name, rows, app_id="test", sequence=1)
    return store


def test_first_attempts_become_labels_with_features_and_the_propensity_of_their_time(tmp_path: Path) -> None:
    store = filled(tmp_path, [[SUCCESS], [FAILURE, SUCCESS], [{"status": "failed", "failure_class": "infrastructure"}]])
    found = labelled(store, tmp_path / "sources")
    assert sorted(row.label for row in found.rows) == [False, True]
    (success,) = [row for row in found.rows if row.label]
    assert success.propensity == 0.25 and success.time == "2026-05-01" and success.language == "python"
    assert success.features["has_setup_py"] == 1.0
    assert found.without_tree == 0


def test_a_repository_whose_tree_is_gone_is_left_out_and_counted(tmp_path: Path) -> None:
    store = filled(tmp_path, [[SUCCESS], [FAILURE]])
    next(iter((tmp_path / "sources").glob("*.tar"))).unlink()
    found = labelled(store, tmp_path / "sources")
    assert (len(found.rows), found.without_tree) == (1, 1)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkshopResource]:
    for variable in ("TOUCHSTONE_DATA", "TOUCHSTONE_CONFIG"):
        monkeypatch.setenv(variable, "")
    settings = tmp_path / "touchstone.toml"
    settings.write_text('[scoring]\nmodel = "learned"\n')
    open_workshop.cache_clear()
    yield WorkshopResource(config=str(settings), data=str(tmp_path / "data"))
    open_workshop.cache_clear()


def test_the_asset_trains_on_the_table_of_images_and_the_scorer_takes_its_model(
    tmp_path: Path, workshop: WorkshopResource
) -> None:
    with pytest.raises(ConfigurationError, match="there is no score model"):
        workshop.open().scorer()
    filled(tmp_path / "data", [[SUCCESS] if number % 2 else [FAILURE] for number in range(44)])
    result = dg.materialize([score_model], resources={"workshop": workshop}, selection="score_model")
    assert result.success
    metadata = result.asset_materializations_for_node("score_model")[0].metadata
    assert metadata["labelled_builds"].value == 44 and metadata["auc"].value == 1.0
    assert "data:image/png;base64," in str(metadata["calibration"].value)
    assert newest(tmp_path / "data" / FOLDER) is not None
    open_workshop.cache_clear()
    scorer = workshop.open().scorer()
    assert scorer.name == f"{metadata['model'].value}:0.2:0.1"
    good = scorer.score(*stored(tmp_path, {"setup.py": "from setuptools import setup\n\nsetup()\n"}))
    assert good.explanation["has_setup_py"] > 0


def test_memory_stays_level_while_metadata_is_scored_in_a_stream() -> None:
    model = scoring_scale.model()
    stream = foretold(model, scoring_scale.listed(6_000))
    assert all(0.0 < probability < 1.0 for _, probability in itertools.islice(stream, 2_000))
    tracemalloc.start()
    try:
        for _ in stream:
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 300_000


def test_a_model_of_the_bench_looks_at_features_that_there_are(tmp_path: Path) -> None:
    known = features_of(*stored(tmp_path, {"x.py": "x = 1\n"}))
    model = scoring_scale.model()
    assert set(model.features) <= known.keys() and model.features_version == VERSION
