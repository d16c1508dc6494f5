"""Training a score model and scoring with it: what is learned, what is refused, and that old rows stay."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from pipeline.scoring import ScoreConfig
from pipeline.scoring.features import VERSION, features_of
from pipeline.scoring.labels import Labelled, label_of, labels, owner_of
from pipeline.scoring.learned import FOLDER, LearnedScorer, ScoreModel, newest
from pipeline.types import Repository
from tests.unit.stored_trees import stored
from training.methods.score_model import ScoreModelConfig, TooFewLabels, fit, split, train

CONFIG = ScoreModelConfig(penalties=(0.01, 0.1, 1.0))
FILES = {"setup.py": "from setuptools import setup\n\nsetup()\n", "x.py": "import sys\n\nprint(sys.argv)\n"}


def rows(count: int = 120, seed: int = 1) -> list[Labelled]:
    """Success depends on `good`, against `bad`, and not at all on `noise`."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        good, bad, noise = rng.random(), rng.random(), rng.random()
        label = good - bad + rng.gauss(0.0, 0.3) > 0.2
        features = {"good": good, "bad": bad, "noise": noise, "same": 1.0}
        owner, day = f"owner{number % 40}", f"2026-01-{number % 28 + 1:02d}"
        made.append(Labelled(repository_id=f"r{number}", owner=owner, label=label, features=features, time=day))
    return made


def model_of(**changes: object) -> ScoreModel:
    plain: dict[str, object] = {
        "features_version": VERSION,
        "features": ("log_files", "has_setup_py"),
        "means": (2.0, 0.5),
        "scales": (1.0, 0.5),
        "weights": (-0.5, 1.0),
        "bias": 0.0,
        "slope": 1.0,
        "offset": 0.0,
    }
    return ScoreModel.model_validate(plain | changes)


def test_what_decides_is_learned_with_its_sign_and_noise_is_not() -> None:
    model = fit(rows(400), CONFIG)
    weights = dict(zip(model.features, model.weights, strict=True))
    assert weights["good"] > 0.3 > abs(weights["noise"])
    assert weights["bad"] < -0.3
    assert weights["same"] == 0.0


def test_probabilities_are_calibrated_on_rows_never_seen() -> None:
    model = fit(rows(600), CONFIG)
    unseen = rows(3000, seed=2)
    told = [model.probability(row.features) for row in unseen]
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 1.0)):
        part = [(row.label, p) for row, p in zip(unseen, told, strict=True) if low <= p < high]
        rate, mean = (sum(column) / len(part) for column in zip(*part, strict=True))
        assert rate == pytest.approx(mean, abs=0.08)


def test_no_owner_is_on_both_sides_and_the_newest_are_held_out() -> None:
    known, unknown = split(rows(), CONFIG)
    assert not {row.owner for row in known} & {row.owner for row in unknown}
    assert len(unknown) == pytest.approx(60, abs=3)
    newest_known = {owner: max(row.time for row in known if row.owner == owner) for owner in {r.owner for r in known}}
    newest_unknown = {o: max(row.time for row in unknown if row.owner == o) for o in {r.owner for r in unknown}}
    assert max(newest_known.values()) <= min(newest_unknown.values())


def test_the_split_and_the_model_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    backwards = list(reversed(rows()))
    assert {row.repository_id for row in split(rows(), CONFIG)[1]} == {
        r.repository_id for r in split(backwards, CONFIG)[1]
    }
    assert train(CONFIG, rows(), tmp_path).name == train(CONFIG, backwards, tmp_path).name


def test_rows_that_were_unlikely_to_be_built_count_more() -> None:
    plain = rows(200)
    explored = [row.model_copy(update={"propensity": 0.1}) if not row.label else row for row in plain]
    mean = {"good": 0.5, "bad": 0.5, "noise": 0.5}
    assert fit(explored, CONFIG).probability(mean) < fit(plain, CONFIG).probability(mean) - 0.1


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (rows(10), "10 labelled builds, and a score model wants 40"),
        ([], "0 labelled builds"),
        ([row.model_copy(update={"label": True}) for row in rows()], "120 successes and 0 failures"),
        ([row.model_copy(update={"owner": "one"}) for row in rows()], "fewer than 5 owners"),
    ],
)
def test_too_little_to_learn_from_is_refused_with_the_remedy(tmp_path: Path, given: list[Labelled], text: str) -> None:
    with pytest.raises(TooFewLabels, match=text) as refused:
        train(CONFIG, given, tmp_path)
    assert "touchstone run" in str(refused.value)
    assert newest(tmp_path) is None


def test_the_artifact_comes_back_as_it_was_written_with_its_held_out_rows(tmp_path: Path) -> None:
    path = train(CONFIG, rows(), tmp_path)
    model = ScoreModel.read(path)
    assert newest(tmp_path) == path
    assert path.name == f"0001-{model.sha256[:12]}.json"
    assert model.training["labels"] == 120.0
    assert len(model.heldout) == len(split(rows(), CONFIG)[1])
    assert not any("owner" in one.owner for one in model.heldout)


def test_training_again_on_the_same_rows_adds_no_model_and_on_others_a_newer_one(tmp_path: Path) -> None:
    first = train(CONFIG, rows(), tmp_path)
    assert train(CONFIG, rows(), tmp_path) == first
    second = train(CONFIG, rows(121), tmp_path)
    assert second != first and newest(tmp_path) == second and first.exists()
    assert ScoreModel.read(first).name != ScoreModel.read(second).name


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "is no score model"),
        ('{"model": ', "is no score model, or was cut"),
        ("[]", "is no score model"),
        ('{"sha256": "0", "model": {"weights": "x"}}', "is no score model"),
    ],
)
def test_what_is_no_artifact_is_refused_with_the_remedy(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "0001-aaaaaaaaaaaa.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=text) as refused:
        ScoreModel.read(path)
    assert "materialize the asset score_model again" in str(refused.value)


def test_an_artifact_that_was_changed_or_is_for_other_features_is_refused(tmp_path: Path) -> None:
    path = model_of().write(tmp_path)
    content = json.loads(path.read_text())
    content["model"]["weights"][0] = 5.0
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigurationError, match="was changed after it was written"):
        ScoreModel.read(path)
    foreign = model_of(features_version="features@0").write(tmp_path / "foreign")
    with pytest.raises(ConfigurationError, match=r"was trained on features@0.*computes features@"):
        ScoreModel.read(foreign)


@pytest.mark.parametrize("changes", [{"means": (1.0,)}, {"scales": (0.0, 1.0)}, {"weights": (float("nan"), 0.0)}])
def test_a_model_whose_numbers_make_no_sense_is_none(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"differ in length|not finite"):
        model_of(**changes)


def test_the_scorer_says_what_moved_the_score(tmp_path: Path) -> None:
    repository, checkout, tree = stored(tmp_path, FILES)
    model = model_of()
    score = LearnedScorer(model, ScoreConfig(threshold=0.5)).score(repository, checkout, tree)
    assert score.scorer == model.name and score.scorer.startswith("learned@")
    assert score.features == features_of(repository, checkout, tree)
    assert score.explanation["has_setup_py"] == pytest.approx(1.0)
    assert list(score.explanation) == ["has_setup_py", "log_files"]
    assert score.kept == (score.score >= 0.5) and score.score == pytest.approx(0.805, abs=0.01)


def test_owner_name_and_folder_leave_the_learned_score_as_it_is(tmp_path: Path) -> None:
    scorer = LearnedScorer(model_of(), ScoreConfig())
    one = scorer.score(*stored(tmp_path / "a", FILES, full_name="anna/pears"))
    other = scorer.score(*stored(tmp_path / "b" / "c", FILES, full_name="debian/cargo-plums"))
    assert (one.score, one.features, one.explanation) == (other.score, other.features, other.explanation)


def test_material_of_a_domain_is_kept_whatever_the_model_says(tmp_path: Path) -> None:
    repository, checkout, tree = stored(tmp_path, FILES)
    ours = repository.model_copy(update={"source": "context", "full_name": "context/sql"})
    assert LearnedScorer(model_of(bias=-50.0), ScoreConfig()).score(ours, checkout, tree).score == 1.0


def test_a_feature_that_is_missing_counts_as_average() -> None:
    model = model_of()
    assert model.probability({}) == model.probability({"log_files": 2.0, "has_setup_py": 0.5}) == 0.5


@pytest.mark.parametrize(
    ("row", "label"),
    [
        ({"status": "built", "smoke_ok": True}, True),
        ({"status": "built", "smoke_ok": False, "failure_class": "smoke_failed"}, False),
        ({"status": "failed", "failure_class": "compile_failed"}, False),
        ({"status": "failed", "failure_class": "infrastructure"}, None),
        ({"status": "failed", "failure_class": "needs_buildkit"}, None),
        ({"status": "failed", "failure_class": "disk"}, None),
        ({"status": "failed", "failure_class": "host_not_allowed"}, None),
        ({"status": "failed", "failure_class": "unknown"}, None),
        ({"status": "failed", "failure_class": None}, None),
        ({"status": "built", "smoke_ok": None}, None),
        ({"status": "built", "smoke_ok": True, "repairs": ["base"]}, None),
    ],
)
def test_only_what_a_build_says_of_the_repository_is_a_label(row: dict[str, object], label: bool | None) -> None:
    assert label_of(row) is label


def repository(full_name: str, source: str = "github") -> Repository:
    return Repository(source=source, full_name=full_name, commit="1", language="c", locator="x")


def test_the_first_attempt_gives_the_label_and_our_own_material_none() -> None:
    one, ours = repository("anna/a"), repository("context/sql", source="context")
    builds = [
        {"repository_id": one.repository_id, "status": "failed", "failure_class": "compile_failed"},
        {"repository_id": one.repository_id, "status": "built", "smoke_ok": True, "repairs": ["x"]},
        {"repository_id": ours.repository_id, "status": "built", "smoke_ok": True},
    ]
    assert {key: label for key, (label, _) in labels([one, ours], builds).items()} == {one.repository_id: False}


def test_packages_of_a_registry_do_not_belong_to_one_owner() -> None:
    assert owner_of(repository("anna/a")) == owner_of(repository("anna/b")) == "anna"
    assert owner_of(repository("debian/jq", "registry")) != owner_of(repository("debian/gron", "registry"))
    assert owner_of(repository("npm/@x/a", "registry")) == owner_of(repository("npm/@x/b", "registry"))


def test_models_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    assert newest(tmp_path / FOLDER) is None
