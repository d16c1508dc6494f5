"""Some of what a scorer rejects is kept at random; each row says how likely that was; other numbers decide anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import ItemRejected
from pipeline.llm.scripted import ScriptedModel
from pipeline.schemas import TABLES, adapt, to_arrow, to_rows
from pipeline.scoring import ScoreConfig
from pipeline.scoring.exploration import ExplorationConfig, ExploringScorer
from pipeline.scoring.llm_files import LlmFilesConfig, LlmFileScorer
from pipeline.stages.options import Options
from pipeline.stages.scoring import Fetched, kept, score
from pipeline.tables import Store
from pipeline.types import Checkout, Repository, Score
from tests.unit.stored_trees import stored

CHECKOUT = Checkout(
    repository_id="x", tree_sha256="0", n_files=1, n_bytes=1, license=None, license_path=None, license_sha256=None
)


class Fixed:
    """Gives every repository the same score."""

    def __init__(self, value: float, name: str = "fixed@1") -> None:
        self.value, self.name = value, name

    def score(self, repository: Repository, checkout: Checkout, tree: Path) -> Score:
        return Score(
            repository_id=repository.repository_id,
            scorer=self.name,
            score=self.value,
            kept=self.value >= 0.5,
            features={"a": 1.0},
            explanation={"a": 0.5},
        )


def fetched(number: int) -> Fetched:
    repository = Repository(source="github", full_name=f"o/r{number}", commit="1", language="c", locator="x")
    return Fetched(repository, CHECKOUT.model_copy(update={"repository_id": repository.repository_id}))


def exploring(value: float, share: float, seed: int = 0) -> ExploringScorer:
    return ExploringScorer(Fixed(value), ExplorationConfig(threshold=0.5, exploration=share, exploration_seed=seed))


def all_scores(scorer: ExploringScorer, count: int = 1000) -> list[Score]:
    return [scorer.score(*fetched(number), Path()) for number in range(count)]


def test_the_share_of_those_under_the_threshold_is_kept_with_its_propensity() -> None:
    found = all_scores(exploring(0.1, 0.1))
    chosen = [one for one in found if one.kept]
    assert len(chosen) == pytest.approx(100, abs=35)
    assert all(one.explored for one in chosen)
    assert {one.propensity for one in found} == {0.1}


def test_what_reaches_the_threshold_is_kept_with_certainty() -> None:
    found = all_scores(exploring(0.9, 0.1), 50)
    assert all(one.kept and not one.explored and one.propensity == 1.0 for one in found)


def test_without_exploration_nothing_under_the_threshold_is_kept() -> None:
    assert not any(one.kept or one.propensity for one in all_scores(exploring(0.1, 0.0), 50))


def test_a_rerun_chooses_the_same_and_another_seed_others() -> None:
    first, again, other = (
        {one.repository_id for one in all_scores(exploring(0.1, 0.2, seed), 300) if one.kept} for seed in (0, 0, 1)
    )
    assert first == again
    assert len(first & other) < len(first) / 2


def test_rows_carry_the_decision_and_another_model_or_threshold_leaves_them_as_they_are(tmp_path: Path) -> None:
    store, items = Store(tmp_path), [fetched(number) for number in range(12)]
    first = exploring(0.1, 0.3)
    score(store, items, tmp_path, first, Options())
    before = {row["item_key"]: row for row in to_rows(store.current("scores"))}
    explored = {one.repository.repository_id for one in kept(store, items, first)}
    assert 0 < len(explored) < 12
    assert {str(row["repository_id"]) for row in before.values() if row["explored"]} == explored
    assert {row["propensity"] for row in before.values()} == {0.3}
    other = ExploringScorer(Fixed(0.9, "fixed@2"), ExplorationConfig(threshold=0.5, exploration=0.3))
    stricter = ExploringScorer(Fixed(0.1), ExplorationConfig(threshold=0.5, exploration=0.0))
    score(store, items, tmp_path, other, Options())
    score(store, items, tmp_path, stricter, Options())
    after = {row["item_key"]: row for row in to_rows(store.current("scores"))}
    assert len(after) == 36 and {key: after[key] for key in before} == before
    assert len(kept(store, items, other)) == 12 and kept(store, items, stricter) == []
    assert {one.repository.repository_id for one in kept(store, items, first)} == explored


def test_rows_of_version_1_of_the_table_can_be_read_and_know_no_choice_at_random() -> None:
    new = {"explanation", "explored", "propensity"}
    old = to_arrow(TABLES["scores"], [{"score": 0.5, "kept": True}]).drop_columns(sorted(new))
    (row,) = to_rows(adapt(TABLES["scores"], old))
    assert row["kept"] is True and {row[name] for name in new} == {None}


FILES = {"Makefile": "all:\n\ttrue\n", "x.c": "int x;\n" * 20, "README.md": "# x\n", "big.c": "int y;\n" * 5000}


def llm(answers: list[str]) -> tuple[LlmFileScorer, ScriptedModel]:
    model = ScriptedModel(answers)
    return LlmFileScorer(model, ScoreConfig(threshold=0.2), LlmFilesConfig()), model


def answer(completeness: int, executability: int) -> str:
    return json.dumps({"completeness": completeness, "executability": executability})


def test_a_model_scores_single_files_and_the_best_of_a_signal_counts(tmp_path: Path) -> None:
    scorer, _ = llm([answer(10, 10), answer(5, 10), answer(10, 5)])
    found = scorer.score(*stored(tmp_path, FILES, "c"))
    assert found.features["files_asked"] == 3.0
    assert found.features["best_build"] == 1.0 and found.features["best_sources"] == 0.5
    assert found.score == pytest.approx(0.35 + 0.25 * 0.5 + 0.2 * 0.5)
    assert found.kept and found.scorer == scorer.name and scorer.name.startswith("llm@")


def test_a_model_is_asked_again_once_and_then_the_repository_has_no_score(tmp_path: Path) -> None:
    scorer, _ = llm(["no", answer(1, 1), answer(1, 1), answer(1, 1)])
    assert scorer.score(*stored(tmp_path, FILES, "c")).score < 0.1
    scorer, _ = llm(["no", answer(11, 1)])
    with pytest.raises(ItemRejected, match="no_answer"):
        scorer.score(*stored(tmp_path, FILES, "c"))
