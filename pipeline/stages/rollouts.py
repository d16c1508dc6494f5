"""Lets agents attempt admitted instances and keeps each attempt, with its frozen final state, as a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pipeline.attempts import Attempt, Policy, passed_by_policy
from pipeline.batch import Failure, Item, ItemsOnDemand, Outcome, StageReport
from pipeline.errors import ItemRejected
from pipeline.interfaces import Environments, Sandboxes
from pipeline.llm.protocol import PromptRefused
from pipeline.rollout import RolloutConfig, rollout
from pipeline.rows import trajectory_row
from pipeline.schemas import Row, to_rows
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from sandbox.errors import ImageUnusable
from sandbox.protocol import Backend

PROMPT_REFUSED = "prompt_refused"
"""Failure class of an attempt whose server will not take what the agent sends, for another reason than its length."""
IMAGE_UNUSABLE = "image_unusable"
"""Failure class of an attempt in an image that can hold no sandbox."""


def roll_out(
    store: Store, attempts: Iterable[Attempt], backend: Backend, config: RolloutConfig, options: Options
) -> StageReport:
    """One row in `trajectories` for each attempt in a sandbox. Raises as `roll_out_in`."""
    return roll_out_in(store, attempts, Sandboxes(backend, config.command_timeout_s), config, options)


def roll_out_in(
    store: Store, attempts: Iterable[Attempt], environments: Environments, config: RolloutConfig, options: Options
) -> StageReport:
    """One row in `trajectories` for each attempt. Raises ConfigurationError for what no retry can mend."""

    def work(attempt: Attempt) -> Outcome:
        instance, agent, sample = attempt
        try:
            with environments.opened(instance, agent.interface) as environment:
                budgets = config.for_attempt(instance, agent)
                trajectory = rollout(instance, agent, environment, budgets, sample=sample)
        except PromptRefused as error:
            raise ItemRejected(PROMPT_REFUSED, str(error)) from error
        except ImageUnusable as error:
            raise ItemRejected(IMAGE_UNUSABLE, str(error)) from error
        acted = trajectory.model_copy(update={"backend": environments.name})
        return Outcome({"trajectories": [trajectory_row(acted)]})

    def failed_rows(attempt: Attempt, failure: Failure) -> Mapping[str, Sequence[Row]]:
        instance, agent, sample = attempt
        told: Row = {"instance_id": instance.instance_id, "agent": agent.name, "model": agent.model, "sample": sample}
        return {"trajectories": [told]}

    listed = list(attempts)
    items = ItemsOnDemand(len(listed), lambda number: Item(listed[number].trajectory_id, listed[number]))
    machines = options.machines
    return over_items("rollout", items, work, store=store, failed_rows=failed_rows, options=options, machines=machines)


def passed_so_far(store: Store) -> Mapping[Policy, int]:
    """How often each agent with its model passed each instance, by the verdicts on record."""
    judged = to_rows(store.current("verifications", ["trajectory_id", "outcome"]))
    verdicts = {row["trajectory_id"]: row["outcome"] for row in judged}
    return passed_by_policy(
        (
            (str(row["instance_id"]), str(row["agent"]), None if row["model"] is None else str(row["model"])),
            str(verdicts.get(row["trajectory_id"])),
        )
        for row in to_rows(store.current("trajectories", ["trajectory_id", "instance_id", "agent", "model"]))
    )
