"""Rates admitted instances by rules and by a model, and keeps what people say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from pipeline.admission.records import NONE_KNOWN
from pipeline.batch import Failure, Item, Outcome, StageReport
from pipeline.chosen import chosen_rows
from pipeline.llm.protocol import ChatModel
from pipeline.prompts import prompt
from pipeline.quality import by_model, rules
from pipeline.quality.ratings import Rating
from pipeline.quality.sampling import bin_of, stratified
from pipeline.rows import instance_of
from pipeline.schemas import Row, to_rows
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from pipeline.types import CONTEXT, Record, TaskInstance


def rate_by_rules(store: Store, options: Options) -> StageReport:
    """A row in `ratings` for each admitted instance; another wording of the rules rates anew."""
    batch = [Item(f"{row['instance_id']}/{rules.RATER}", row) for row in chosen_rows(store)]

    def work(row: Row) -> Outcome:
        gates = row["gates"]
        assert isinstance(gates, list)
        passed = {str(gate["gate"]) for gate in gates if gate["passed"] and gate["evidence"] != NONE_KNOWN}
        flake_rate = row["flake_rate"]
        assert flake_rate is None or isinstance(flake_rate, float)
        return Outcome({"ratings": [rating_row(rules.rate(instance_of(row), passed, flake_rate))]})

    return over_items("rating", batch, work, store=store, failed_rows=_failed_rows, options=options)


class QualityConfig(Record):
    """Who rates besides the rules."""

    model_per_bin: int = Field(default=0, ge=0)
    """Tasks of each bin of repository scores that the model of `[model]` rates; 0 for none."""
    seed: int = Field(default=0, ge=0)
    """Which tasks these are."""


def rate_by_model(store: Store, model: ChatModel, config: QualityConfig, options: Options) -> StageReport:
    """A row in `ratings` for each task of an equal sample of the bins. A model without an answer is a row's reason."""
    chosen = stratified(rateable(store), bins(store), config.model_per_bin, config.seed)

    def work(instance: TaskInstance) -> Outcome:
        return Outcome({"ratings": [rating_row(by_model.rate(instance, model))]})

    def failed_rows(instance: TaskInstance, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"ratings": [{"instance_id": instance.instance_id, "rater": model.name, "kind": "model"}]}

    wording = prompt(by_model.PROMPT).sha256[:12]
    batch = [Item(f"{instance.instance_id}/model/{model.name}/{wording}", instance) for instance in chosen]
    return over_items("model_rating", batch, work, store=store, failed_rows=failed_rows, options=options)


def record(store: Store, ratings: Sequence[Rating]) -> StageReport:
    """Keep what people said. The same sheet adds nothing; a corrected one is another, and the later one counts."""

    def work(rating: Rating) -> Outcome:
        return Outcome({"ratings": [rating_row(rating)]})

    def failed_rows(rating: Rating, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"ratings": [{"instance_id": rating.instance_id, "rater": rating.rater, "kind": rating.kind}]}

    batch = [
        Item(f"{one.instance_id}/{one.kind}/{one.rater}/{one.provenance.get('sheet_sha256', '')}", one)
        for one in ratings
    ]
    return over_items("rating", batch, work, store=store, failed_rows=failed_rows, options=Options())


def rating_row(rating: Rating) -> Row:
    return {**rating.model_dump(exclude={"scores"}), **rating.scores.model_dump()}


def rateable(store: Store) -> dict[str, TaskInstance]:
    """The admitted instances by id."""
    return {str(row["instance_id"]): instance_of(row) for row in chosen_rows(store)}


def bins(store: Store) -> dict[str, str]:
    """The bin of each admitted instance by the score of its repository; material of ours has no bin."""
    ours = {row["repository_id"] for row in to_rows(store.current("repositories")) if row["source"] == CONTEXT}
    scores = {row["repository_id"]: row["score"] for row in to_rows(store.current("scores"))}
    found: dict[str, str] = {}
    for row in chosen_rows(store):
        score = scores.get(row["repository_id"])
        if isinstance(score, float) and row["repository_id"] not in ours:
            found[str(row["instance_id"])] = bin_of(score)
    return found


def _failed_rows(row: Row, failure: Failure) -> Mapping[str, Sequence[Row]]:
    return {"ratings": [{"instance_id": row["instance_id"], "rater": rules.RATER, "kind": "rules"}]}
