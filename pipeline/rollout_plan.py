"""What a run of agents is going to take: attempts still to make, tokens, time and cost, and what the estimate rests on.

Nothing is run and no model is asked. Not here: which attempts there are (attempts.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import duckdb

from pipeline.attempts import Attempt
from pipeline.batch import Retry
from pipeline.chosen import chosen_rows
from pipeline.llm.openai_server import OpenAIServerConfig
from pipeline.llm_judge import PROMPT
from pipeline.prompts import prompt
from pipeline.rollout import RolloutConfig
from pipeline.rows import instance_of
from pipeline.schemas import to_rows
from pipeline.stages.options import Options
from pipeline.tables import Store
from pipeline.types import INFRASTRUCTURE, Record, TaskInstance

TURNS = 12
FIRST_PROMPT = 500
"""Tokens of the first prompt of an attempt …"""
GROWTH = 350
"""… and by how many each turn's is longer than the one before."""
ANSWER = 120
"""Tokens that a model writes for a turn."""
TOKENS_PER_S = 30.0
COMMAND_S = 1.0
WITHOUT_MODEL_S = 2.0
"""For an attempt of an agent that asks no model."""
JUDGE = "judge"
"""Stands for the agent where a model is asked what it thinks of attempts."""


class AgentPlan(Record):
    """What one agent, or the judge of the attempts, is still to do."""

    agent: str
    model: str | None
    attempts: int
    """Attempts that the settings ask for."""
    to_make: int
    """… of which there is none on record."""
    prompt_tokens: int
    """Expected of all attempts to make, like what follows."""
    completion_tokens: int
    seconds: float
    """One after the other, without verification."""
    cost_usd: float | None
    """None where the model has no prices."""
    basis: str
    """What was measured or assumed."""


class RolloutPlan(Record):
    """Of one run, over the instances that are admitted already."""

    instances: int
    agents: tuple[AgentPlan, ...]
    to_make: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    """Of all agents with a model; None where it has no prices."""
    seconds: float
    workers: int
    wall_seconds: float
    """`seconds` shared by the workers, as far as the model answers several as fast as one."""


class _Expected(NamedTuple):
    """Means of one attempt."""

    prompt_tokens: float
    cached_tokens: float
    completion_tokens: float
    seconds: float
    basis: str


_RECORDED = """
SELECT agent, model, count(*), coalesce(avg(n_prompt_tokens), 0.0),
       avg(coalesce(list_sum(cached), 0)), coalesce(avg(n_tokens), 0.0),
       avg(coalesce(list_sum(asking), 0.0) + coalesce(list_sum(acting), 0.0))
  FROM (SELECT agent, model, n_prompt_tokens, n_tokens, [s.seconds FOR s IN steps] AS acting,
               flatten([json_extract(s.extra, '$.calls[*].seconds')::DOUBLE[] FOR s IN steps]) AS asking,
               flatten([json_extract(s.extra, '$.calls[*].cached_tokens')::BIGINT[] FOR s IN steps]) AS cached
          FROM trajectories WHERE trajectory_id IS NOT NULL)
 GROUP BY agent, model
"""


def instances_of_streams(store: Store, streams: Sequence[str], day: str | None) -> list[TaskInstance]:
    """The chosen instances made from repositories of these streams, as listed on one day or (None) on any."""
    listed = {
        row["repository_id"]
        for row in to_rows(store.current("listings"))
        if row["stream"] in streams and day in {None, row["day"]}
    }
    return [instance_of(row) for row in chosen_rows(store) if row["repository_id"] in listed]


def rollout_plan(
    store: Store,
    attempts: Iterable[Attempt],
    config: RolloutConfig,
    prices: OpenAIServerConfig | None,
    options: Options,
    *,
    judge: str | None = None,
) -> RolloutPlan:
    """What is left of `attempts`, which `options` may add failed ones to; with `judge`, the name of a model, its
    questions too. Raises TableDamaged."""
    settled, recorded = _settled(store, options), _recorded(store)
    groups: dict[tuple[str, str | None], list[Attempt]] = {}
    for attempt in attempts:
        groups.setdefault((attempt.agent.name, attempt.agent.model), []).append(attempt)
    agents = []
    for (agent, model), group in groups.items():
        to_make = sum(one.trajectory_id not in settled for one in group)
        one = recorded.get((agent, model)) or _assumed(model, config)
        agents.append(_agent(agent, model, len(group), to_make, one, prices))
    if judge is not None:
        asked = {one.trajectory_id for group in groups.values() for one in group if one.agent.model is not None}
        agents.append(_judge(store, judge, asked, prices))
    costs = [one.cost_usd for one in agents if one.model is not None]
    seconds = sum(one.seconds for one in agents)
    workers = min(options.workers, max(1, sum(one.to_make for one in agents)))
    return RolloutPlan(
        instances=len({one.instance.instance_id for group in groups.values() for one in group}),
        agents=tuple(agents),
        to_make=sum(one.to_make for one in agents),
        prompt_tokens=sum(one.prompt_tokens for one in agents),
        completion_tokens=sum(one.completion_tokens for one in agents),
        cost_usd=None if None in costs else round(sum(cost for cost in costs if cost is not None), 6),
        seconds=seconds,
        workers=workers,
        wall_seconds=round(seconds / workers, 1),
    )


def _agent(
    agent: str, model: str | None, attempts: int, to_make: int, one: _Expected, prices: OpenAIServerConfig | None
) -> AgentPlan:
    cost = None if model is None else _cost_usd(one, prices)
    return AgentPlan(
        agent=agent,
        model=model,
        attempts=attempts,
        to_make=to_make,
        prompt_tokens=round(to_make * one.prompt_tokens),
        completion_tokens=round(to_make * one.completion_tokens),
        seconds=round(to_make * one.seconds, 1),
        cost_usd=None if cost is None else round(to_make * cost, 6),
        basis=one.basis,
    )


def _judge(store: Store, model: str, asked: set[str], prices: OpenAIServerConfig | None) -> AgentPlan:
    """Each attempt of a model is a question, as far as it gets a verdict."""
    wording = prompt(PROMPT).sha256
    rows = [
        row
        for row in to_rows(store.current("judgements"))
        if row["outcome"] is not None and row["model"] == model and row["prompt_sha256"] == wording
    ]
    columns = ("n_prompt_tokens", "n_tokens", "seconds")
    if rows:
        prompts, answers, seconds = (fmean(float(str(row[column])) for row in rows) for column in columns)
        one = _Expected(prompts, 0.0, answers, seconds, f"mean of {len(rows)} recorded answers")
    else:
        prompts = FIRST_PROMPT + TURNS * GROWTH
        basis = f"assumed: {prompts} tokens of transcript, {ANSWER} an answer at {TOKENS_PER_S:g} a second"
        one = _Expected(prompts, 0.0, ANSWER, ANSWER / TOKENS_PER_S, basis)
    to_make = len(asked - {str(row["trajectory_id"]) for row in rows})
    return _agent(JUDGE, model, len(asked), to_make, one, prices)


def _settled(store: Store, options: Options) -> set[str]:
    """Ids of the attempts that a run with these options passes over."""
    settled = set()
    for row in to_rows(store.current("trajectories", ["item_key", "failure_class"])):
        key, failure = str(row["item_key"]), row["failure_class"]
        named = not options.only or key.startswith(options.only)
        covered = options.retry is Retry.ALL or (options.retry is Retry.INFRASTRUCTURE and failure == INFRASTRUCTURE)
        if failure is None or not (named and covered):
            settled.add(key)
    return settled


def _recorded(store: Store) -> Mapping[tuple[str, str | None], _Expected]:
    """Means over the attempts on record, by agent and model."""
    with duckdb.connect() as connection:
        connection.register("trajectories", store.current("trajectories"))
        rows = connection.execute(_RECORDED).fetchall()
    return {
        (agent, model): _Expected(prompt, cached, written, seconds, f"mean of {count} recorded attempts")
        for agent, model, count, prompt, cached, written, seconds in rows
    }


def _assumed(model: str | None, config: RolloutConfig) -> _Expected:
    """What is said of an agent that made no attempt yet."""
    if model is None:
        return _Expected(0.0, 0.0, 0.0, WITHOUT_MODEL_S, f"assumed: {WITHOUT_MODEL_S:g} s an attempt")
    turns = min(TURNS, config.max_steps)
    prompts, answers = turns * FIRST_PROMPT + GROWTH * turns * (turns - 1) // 2, turns * ANSWER
    seconds = answers / TOKENS_PER_S + turns * COMMAND_S
    basis = (
        f"assumed: {turns} turns, a first prompt of {FIRST_PROMPT} tokens that grows by {GROWTH} a turn, {ANSWER} "
        f"tokens an answer at {TOKENS_PER_S:g} a second, {COMMAND_S:g} s a command, nothing cached"
    )
    return _Expected(prompts, 0.0, answers, min(seconds, config.max_seconds), basis)


def _cost_usd(one: _Expected, prices: OpenAIServerConfig | None) -> float | None:
    """Of one attempt, by today's prices."""
    if prices is None or prices.usd_per_million_prompt_tokens is None:
        return None
    price, written = prices.usd_per_million_prompt_tokens, prices.usd_per_million_completion_tokens
    if written is None:
        return None
    again = price if prices.usd_per_million_cached_tokens is None else prices.usd_per_million_cached_tokens
    fresh = one.prompt_tokens - one.cached_tokens
    return (fresh * price + one.cached_tokens * again + one.completion_tokens * written) / 1e6
