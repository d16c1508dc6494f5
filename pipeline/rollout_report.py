"""How attempts ended, what they cost, and how far other ways of judging agree: `touchstone report rollouts`.

Counted over the tables trajectories, verifications, judgements and replays. A policy is an agent with a model (or
without one). What counts as failed is of the agent, of the environment, or of our infrastructure; only the first is a
label. Nothing is run or printed here; pass@k itself is in pass_rates.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import duckdb

from pipeline.attempts import SamplesConfig
from pipeline.batch import UNKNOWN
from pipeline.pass_rates import PassRates, Tally, pass_rates
from pipeline.quality.agreement import kappa
from pipeline.replay_rate import ReplayRate, replay_rate
from pipeline.schemas import Row, to_rows
from pipeline.stages.rollouts import PROMPT_REFUSED
from pipeline.tables import Store
from pipeline.types import INFRASTRUCTURE, Record

Kind = Literal["agent", "environment", "infrastructure"]
WRONG_RESULT = "wrong_result"
"""Failure class of an attempt that was handed in and did not pass; the others are named after the budget they spent."""
_OURS = frozenset({INFRASTRUCTURE, PROMPT_REFUSED, UNKNOWN})
"""A server that takes no prompts says nothing of the agent; what has no name is ours until somebody shows otherwise."""

Failures = dict[Kind, dict[str, int]]


class Spent(Record):
    """What the recorded attempts of a policy used up."""

    attempts: int
    turns: int
    prompt_tokens: int
    """Of all prompts; the conversation so far is in each of them again."""
    completion_tokens: int
    cost_usd: float | None
    """By the prices at the time; None where none were set."""
    model_seconds: float
    """Waiting for the model."""
    command_seconds: float
    """Waiting for commands."""


class Asked(Record):
    """What the questions of one purpose used up: of a policy, where an agent has several."""

    calls: int
    prompt_tokens: int
    completion_tokens: int


class PolicyFigures(PassRates):
    """One agent with one model."""

    agent: str
    model: str | None
    attempts: int
    """Attempts that were begun, those that our machinery broke included."""
    unjudged: int
    """Attempts that await their verdict."""
    by_failure: Failures
    """Kind -> class -> attempts. Only those of `agent` are samples that did not pass."""
    stop_reasons: dict[str, int]
    spent: Spent
    by_purpose: dict[str, Asked]
    """`decision`, `plan`, `progress` or `summary` -> what it used up, as far as the server counted."""
    by_difficulty: dict[str, PassRates]
    by_language: dict[str, PassRates]
    by_domain: dict[str, PassRates]


class JudgeAgreement(Record):
    """What a model thinks of attempts beside the verdict by execution."""

    model: str
    prompt_sha256: str
    compared: int
    """Attempts with both an opinion and a verdict."""
    both_passed: int
    judge_only: int
    """Passed for the judge, failed by execution."""
    execution_only: int
    """Failed for the judge, passed by execution."""
    both_failed: int
    agreement: float | None
    """Share of `compared` in which both say the same."""
    kappa: float | None
    """Cohen's kappa; None where one of them is undefined, e.g. when both said one and the same throughout."""
    unreadable: int
    """Attempts for which the model gave no opinion."""
    unavailable: int
    """Attempts for which the model could not be reached."""
    cost_usd: float | None


class RolloutReport(Record):
    """Everything there is to say of the attempts in one data folder. Its head is the policy with the most samples among
    those with a model."""

    agent: str | None
    model: str | None
    instances: int
    samples: int
    pass_at_1: float | None
    pass_at_4: float | None
    intervals: dict[str, tuple[float, float]]
    by_failure: Failures
    policies: tuple[PolicyFigures, ...]
    """Those with a model first."""
    judges: tuple[JudgeAgreement, ...]
    replays: ReplayRate | None
    """None when nothing was replayed yet."""
    enough: int | None
    """`[rollout.samples] enough`, by which instances count as stopped."""


class RecordedAttempt(NamedTuple):
    """What is counted of one attempt."""

    instance_id: str
    agent: str
    model: str | None
    recorded: bool
    stop_reason: str | None
    broke: str | None
    """Failure class of an attempt without a trajectory."""
    outcome: str | None
    unjudged: str | None
    """Failure class of a verification without a verdict."""
    turns: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    command_seconds: float
    model_seconds: float
    difficulty: str | None
    language: str | None
    domain: str | None


_TABLES = {
    "trajectories": [
        "item_key",
        "trajectory_id",
        "instance_id",
        "agent",
        "model",
        "stop_reason",
        "failure_class",
        "n_turns",
        "n_prompt_tokens",
        "n_tokens",
        "cost_usd",
        "steps",
    ],
    "verifications": ["trajectory_id", "outcome", "failure_class"],
    "instances": ["instance_id", "difficulty", "language", "domain"],
}
"""With the columns that are counted."""

_ATTEMPTS = """
SELECT t.instance_id, t.agent, t.model, t.trajectory_id IS NOT NULL, t.stop_reason, t.failure_class,
       v.outcome, v.failure_class, coalesce(t.n_turns, 0), coalesce(t.n_prompt_tokens, 0), coalesce(t.n_tokens, 0),
       t.cost_usd, coalesce(list_sum([s.seconds FOR s IN t.steps]), 0.0),
       coalesce(list_sum(flatten([json_extract(s.extra, '$.calls[*].seconds')::DOUBLE[] FOR s IN t.steps])), 0.0),
       i.difficulty, i.language, i.domain
  FROM trajectories t LEFT JOIN verifications v ON v.trajectory_id = t.trajectory_id
  LEFT JOIN (SELECT DISTINCT ON (instance_id) instance_id, difficulty, language, domain FROM instances
              WHERE instance_id IS NOT NULL) i ON i.instance_id = t.instance_id
 WHERE t.instance_id IS NOT NULL
 ORDER BY t.item_key
"""

_PURPOSES = """
SELECT agent, model, coalesce(call ->> 'purpose', 'decision') AS purpose, count(*),
       coalesce(sum((call ->> 'prompt_tokens')::BIGINT), 0)::BIGINT,
       coalesce(sum((call ->> 'completion_tokens')::BIGINT), 0)::BIGINT
  FROM (SELECT agent, model, unnest(flatten([json_extract(s.extra, '$.calls[*]') FOR s IN steps])) AS call
          FROM trajectories WHERE trajectory_id IS NOT NULL)
 GROUP BY ALL ORDER BY ALL
"""


def recorded_attempts(store: Store) -> list[RecordedAttempt]:
    """Every attempt that was begun, those that our machinery broke included. Raises TableDamaged."""
    with duckdb.connect() as connection:
        for table, columns in _TABLES.items():
            connection.register(table, store.current(table, columns))
        return [RecordedAttempt(*row) for row in connection.execute(_ATTEMPTS).fetchall()]


def rollout_report(store: Store, samples: SamplesConfig) -> RolloutReport:
    """Count what the working tables hold now; `samples` says how often instances were to be attempted.

    Empty tables count as zero. Raises TableDamaged.
    """
    groups: dict[tuple[str, str | None], list[RecordedAttempt]] = {}
    for attempt in recorded_attempts(store):
        groups.setdefault((attempt.agent, attempt.model), []).append(attempt)
    asked = _by_purpose(store)
    policies = [_policy(*policy, made, asked.get(policy, {}), samples) for policy, made in groups.items()]
    policies.sort(key=lambda one: (one.model is None, -one.samples, one.agent, one.model or ""))
    first = next((one for one in policies if one.model is not None), None)
    return RolloutReport(
        agent=first.agent if first else None,
        model=first.model if first else None,
        instances=first.instances if first else 0,
        samples=first.samples if first else 0,
        pass_at_1=first.pass_at_1 if first else None,
        pass_at_4=first.pass_at_4 if first else None,
        intervals=first.intervals if first else {},
        by_failure=first.by_failure if first else failures_of([]),
        policies=tuple(policies),
        judges=_judges(store),
        replays=replay_rate(store),
        enough=samples.enough,
    )


def failure_of(attempt: RecordedAttempt) -> tuple[Kind, str] | None:
    """Whose fault it is that an attempt did not pass, and its class; None for one that passed or awaits its verdict."""
    if not attempt.recorded:
        return _of_class(attempt.broke or UNKNOWN)
    if attempt.outcome == "failed":
        submitted = attempt.stop_reason in {None, "submitted"}
        return "agent", WRONG_RESULT if submitted else str(attempt.stop_reason)
    if attempt.outcome == "error":
        return _of_class(attempt.unjudged or UNKNOWN)
    return None


def _of_class(failure_class: str) -> tuple[Kind, str]:
    return ("infrastructure" if failure_class in _OURS else "environment"), failure_class


def _by_purpose(store: Store) -> dict[tuple[str, str | None], dict[str, Asked]]:
    with duckdb.connect() as connection:
        connection.register("trajectories", store.current("trajectories", ["trajectory_id", "agent", "model", "steps"]))
        found: dict[tuple[str, str | None], dict[str, Asked]] = {}
        for agent, model, purpose, calls, read, written in connection.execute(_PURPOSES).fetchall():
            asked = Asked(calls=calls, prompt_tokens=read, completion_tokens=written)
            found.setdefault((agent, model), {})[purpose] = asked
        return found


def _policy(
    agent: str, model: str | None, made: Sequence[RecordedAttempt], asked: dict[str, Asked], samples: SamplesConfig
) -> PolicyFigures:
    count, enough = (samples.count, samples.enough) if model is not None else (1, None)

    def rates(chosen: Sequence[RecordedAttempt]) -> PassRates:
        return pass_rates(tallies_of(chosen).values(), count=count, enough=enough)

    def parts(of: Callable[[RecordedAttempt], str | None]) -> dict[str, PassRates]:
        names = sorted({name for one in made if (name := of(one)) is not None})
        return {name: rates([one for one in made if of(one) == name]) for name in names}

    return PolicyFigures(
        **rates(made).model_dump(),
        agent=agent,
        model=model,
        attempts=len(made),
        unjudged=sum(one.recorded and one.outcome is None for one in made),
        by_failure=failures_of(made),
        stop_reasons=dict(Counter(one.stop_reason for one in made if one.stop_reason is not None)),
        spent=spent_by([one for one in made if one.recorded]),
        by_purpose=asked,
        by_difficulty=parts(lambda one: one.difficulty),
        by_language=parts(lambda one: one.language),
        by_domain=parts(lambda one: one.domain),
    )


def tallies_of(made: Iterable[RecordedAttempt]) -> dict[str, Tally]:
    """Of attempts of one policy, by instance."""
    groups: dict[str, list[RecordedAttempt]] = {}
    for one in made:
        groups.setdefault(one.instance_id, []).append(one)
    return {
        instance_id: Tally(
            attempts=len(group),
            judged=sum(one.outcome in {"passed", "failed"} for one in group),
            passed=sum(one.outcome == "passed" for one in group),
        )
        for instance_id, group in groups.items()
    }


def failures_of(made: Iterable[RecordedAttempt]) -> Failures:
    """What did not pass, by whose fault it is and by its class."""
    found: Failures = {kind: {} for kind in get_args(Kind)}
    for kind, name in sorted(failure for one in made if (failure := failure_of(one)) is not None):
        found[kind][name] = found[kind].get(name, 0) + 1
    return found


def spent_by(recorded: Sequence[RecordedAttempt]) -> Spent:
    """What attempts that have a trajectory used up."""
    costs = [one.cost_usd for one in recorded if one.cost_usd is not None]
    return Spent(
        attempts=len(recorded),
        turns=sum(one.turns for one in recorded),
        prompt_tokens=sum(one.prompt_tokens for one in recorded),
        completion_tokens=sum(one.completion_tokens for one in recorded),
        cost_usd=round(sum(costs), 6) if costs else None,
        model_seconds=round(sum(one.model_seconds for one in recorded), 2),
        command_seconds=round(sum(one.command_seconds for one in recorded), 2),
    )


def _judges(store: Store) -> tuple[JudgeAgreement, ...]:
    """One for each model and wording of the question, sorted."""
    columns = ["trajectory_id", "outcome"]
    verdicts = {
        str(row["trajectory_id"]): str(row["outcome"]) for row in to_rows(store.current("verifications", columns))
    }
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in to_rows(store.current("judgements")):
        groups.setdefault((str(row["model"]), str(row["prompt_sha256"])), []).append(row)
    return tuple(_agreement(model, wording, groups[model, wording], verdicts) for model, wording in sorted(groups))


def _agreement(model: str, wording: str, rows: Sequence[Row], verdicts: Mapping[str, str]) -> JudgeAgreement:
    pairs = [
        (row["outcome"] == "passed", verdicts.get(str(row["trajectory_id"])) == "passed")
        for row in rows
        if row["outcome"] in {"passed", "failed"} and verdicts.get(str(row["trajectory_id"])) in {"passed", "failed"}
    ]
    table = Counter(pairs)
    same = table[True, True] + table[False, False]
    costs = [cost for row in rows if isinstance(cost := row["cost_usd"], float)]
    return JudgeAgreement(
        model=model,
        prompt_sha256=wording,
        compared=len(pairs),
        both_passed=table[True, True],
        judge_only=table[True, False],
        execution_only=table[False, True],
        both_failed=table[False, False],
        agreement=round(same / len(pairs), 4) if pairs else None,
        kappa=kappa([int(judge) for judge, _ in pairs], [int(verdict) for _, verdict in pairs]),
        unreadable=sum(row["outcome"] == "error" for row in rows),
        unavailable=sum(row["outcome"] is None for row in rows),
        cost_usd=round(sum(costs), 6) if costs else None,
    )
