"""What a run of agents is going to take, before it is run: `touchstone run --plan`."""

import datetime
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from assets.attempting import AttemptsResource
from assets.resources import Workshop
from assets.visible import visible
from pipeline.attempts import rounds, wanted
from pipeline.llm.openai_server import OpenAIServerConfig
from pipeline.rollout_plan import RolloutPlan, instances_of_streams, rollout_plan
from pipeline.stages.options import Options
from pipeline.stages.rollouts import passed_so_far

if TYPE_CHECKING:
    from rich.table import Table


def plan_of(
    workshop: Workshop, attempts: AttemptsResource, streams: Sequence[str], day: str | None, options: Options
) -> RolloutPlan:
    """Over the instances admitted so far. Raises ConfigurationError for agents that cannot act."""
    config, store, model = attempts.config(workshop), workshop.store(), attempts.model(workshop)
    tasks = instances_of_streams(store, streams, day)
    asked = itertools.chain.from_iterable(rounds(tasks, config.agents, model, config.samples))
    usual, judge = workshop.settings.model, workshop.model() if config.judge else None
    prices = usual if isinstance(usual, OpenAIServerConfig) and not attempts.local_model else None
    chosen = wanted(asked, passed_so_far(store), config.samples)
    return rollout_plan(store, chosen, config, prices, options, judge=judge.name if judge else None)


def plan_table(plan: RolloutPlan) -> "Table":
    """An agent per line, then their sum."""
    from rich.table import Table

    columns = ("attempts", "to make", "prompt tokens", "written tokens", "time", "USD", "basis")
    table = Table("agent", *columns, title=f"Plan over {plan.instances} admitted instances; nothing was run")
    for one in plan.agents:
        name = visible(one.agent if one.model is None else f"{one.agent} / {one.model}")
        numbers = (str(one.attempts), *_numbers(one.to_make, one.prompt_tokens, one.completion_tokens, one.seconds))
        table.add_row(name, *numbers, _usd(one.cost_usd) if one.model is not None else "", one.basis)
    table.add_section()
    attempts = sum(one.attempts for one in plan.agents)
    sums = _numbers(plan.to_make, plan.prompt_tokens, plan.completion_tokens, plan.seconds)
    table.add_row("all", str(attempts), *sums, _usd(plan.cost_usd), "")
    wall = datetime.timedelta(seconds=round(plan.wall_seconds))
    table.caption = (
        f"about {wall} with {plan.workers} at a time, without the verification of the attempts; the stages before them "
        "may admit more instances"
    )
    return table


def _numbers(to_make: int, prompt_tokens: int, completion_tokens: int, seconds: float) -> tuple[str, ...]:
    time = str(datetime.timedelta(seconds=round(seconds)))
    return str(to_make), f"{prompt_tokens:,}", f"{completion_tokens:,}", time


def _usd(cost: float | None) -> str:
    return "no prices" if cost is None else f"{cost:.4f}"
