"""Keeps what a language model thinks of attempts beside the verdicts by execution, which nothing here changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.batch import Failure, Item, Outcome, StageReport
from pipeline.llm.protocol import ChatModel
from pipeline.llm_judge import PROMPT, Opinion, opinion
from pipeline.prompts import prompt
from pipeline.rows import trajectory_of
from pipeline.schemas import Row, to_rows
from pipeline.stages.options import Options, over_items
from pipeline.stored_rows import StoredRows
from pipeline.tables import Store
from pipeline.types import TaskInstance

_DIGITS = 12


def judge_all(
    store: Store, instances: Sequence[TaskInstance], model: ChatModel | None, options: Options
) -> StageReport:
    """A row in `judgements` for each attempt of a model at these instances that has a verdict; none without a model.

    Another model, or another wording of the question, judges anew. A model that cannot be reached leaves a row without
    an outcome, `infrastructure`; one whose answer cannot be read an `error`.
    """
    instructions = {instance.instance_id: instance.instruction for instance in instances}
    stored = StoredRows(store, "trajectories", ["trajectory_id", "instance_id", "model", "attempt"])

    def work(number: int) -> Outcome:
        assert model is not None  # there are no items without one
        row = stored.row(number)
        found = opinion(instructions[str(row["instance_id"])], trajectory_of(row), model)
        failure = None
        if found.failure_class is not None:
            failure = Failure(failure_class=found.failure_class, reason=found.reason)
        return Outcome({"judgements": [opinion_row(found)]}, failure)

    def failed_rows(number: int, failure: Failure) -> Mapping[str, Sequence[Row]]:
        named: Row = {"trajectory_id": light[number]["trajectory_id"], "prompt_sha256": prompt(PROMPT).sha256}
        return {"judgements": [named | {"model": model.name if model else None}]}

    light = to_rows(stored.light)
    numbers = _judged(store, light, instructions)
    asked = [] if model is None else [Item(_key(light[number], model), number) for number in numbers]
    return over_items("judgement", asked, work, store=store, failed_rows=failed_rows, options=options)


def opinion_row(found: Opinion) -> Row:
    costs = [call.cost_usd for call in found.calls if call.cost_usd is not None]
    return {
        **found.model_dump(exclude={"calls"}),
        "n_prompt_tokens": sum(call.prompt_tokens or 0 for call in found.calls),
        "n_tokens": sum(call.completion_tokens or 0 for call in found.calls),
        "cost_usd": sum(costs) if costs else None,
        "seconds": sum(call.seconds for call in found.calls),
    }


def _judged(store: Store, attempts: Sequence[Row], instructions: Mapping[str, str]) -> list[int]:
    """Numbers of the attempts that both can be compared on."""
    rows = to_rows(store.current("verifications", ["trajectory_id", "outcome"]))
    verdicts = {row["trajectory_id"]: row["outcome"] for row in rows}
    return [
        number
        for number, row in enumerate(attempts)
        if row["model"] is not None
        and row["instance_id"] in instructions
        and verdicts.get(row["trajectory_id"]) in {"passed", "failed"}
    ]


def _key(row: Row, model: ChatModel) -> str:
    """An attempt that was made anew is judged anew."""
    return f"{row['trajectory_id']}@{row['attempt']}/{model.name}/{prompt(PROMPT).sha256[:_DIGITS]}"
