"""Evaluates a policy: independent attempts at held-out instances, judged by running code.

Each attempt has a seed of its own, and none is left out since others passed or failed: pass@k is estimated without
bias. Attempts and verdicts are durable one by one; the same call again makes those that have no result yet, those that
our machinery broke included. Everything goes below data/evaluations/NAME, which is neither published nor trained on,
and what the model was trained on is left out (evaluation_leaks.py).

Not here: which server the policy answers from, and what comes of it in figures (evaluation_report.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from pipeline.agents import MODELLED
from pipeline.attempts import Attempt, SamplesConfig, rounds
from pipeline.batch import Retry
from pipeline.errors import ConfigurationError
from pipeline.journal import Journal
from pipeline.llm.protocol import ChatModel, Sampling
from pipeline.rollout import RolloutConfig
from pipeline.schemas import Row
from pipeline.stages.options import Options
from pipeline.stages.rollouts import roll_out
from pipeline.stages.verifications import verify_all
from pipeline.types import Record, TaskInstance, content_id
from sandbox.locks import exclusive
from sandbox.protocol import Backend
from training.evaluation_folder import EvaluatedPolicy, Evaluation, EvaluationFolder, refuse_another
from training.evaluation_leaks import held_out
from training.evaluation_tasks import EvaluatedTask, Selection
from training.trained_on import TrainedRow

logger = logging.getLogger(__name__)

AT_ONCE = 64
"""Attempts, at least, between two rounds of verdicts: so many final states are kept at a time."""


class EvaluationConfig(Record):
    """How an evaluation acts."""

    agent: Literal["bash", "terminus"] = "bash"
    runs: int = Field(default=4, gt=0)
    """Attempts at each instance; a later call may ask for more, which come on top."""
    temperature: float = Field(default=0.7, ge=0.0)
    top_p: float = Field(default=0.95, gt=0.0, le=1.0)
    max_tokens: int = Field(default=1024, gt=0)
    """Of one answer."""
    budgets: RolloutConfig = RolloutConfig()


@dataclass(frozen=True)
class Policy:
    """Who is evaluated."""

    model: ChatModel
    trained_model: str | None = None
    """NAME@VERSION of a model that was trained here."""
    trained: Sequence[TrainedRow] | None = None
    """What it was trained on; None where nobody knows."""

    def described(self, config: EvaluationConfig) -> EvaluatedPolicy:
        """All that decides what it does."""
        sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens)
        agent = MODELLED[config.agent](self.model, sampling)
        return EvaluatedPolicy(
            agent=agent.name,
            model=self.model.name,
            trained_model=self.trained_model,
            details=dict(agent.details),
            budgets=RolloutConfig.model_validate(config.budgets.model_dump(include=set(RolloutConfig.model_fields))),
            **sampling.model_dump(include={"temperature", "top_p", "max_tokens"}),
        )


def evaluate(
    folder: EvaluationFolder,
    tasks: Sequence[EvaluatedTask],
    selection: Selection,
    policy: Policy,
    config: EvaluationConfig,
    backend: Backend,
    options: Options,
    *,
    code_commit: str | None,
) -> Evaluation:
    """Make every attempt that has no result yet, and judge it.

    `tasks` are those of `selection`; an evaluation that has begun keeps those it began with, and looks at none.
    Raises ConfigurationError when the folder is that of another policy or selection, when nothing is left that the
    model was not trained on, and for what no retry can mend.
    """
    evaluation = begin(folder, tasks, selection, policy, config, code_commit=code_commit)
    attempt_all(folder, evaluation, policy.model, backend, options)
    return evaluation


def begin(
    folder: EvaluationFolder,
    tasks: Sequence[EvaluatedTask],
    selection: Selection,
    policy: Policy,
    config: EvaluationConfig,
    *,
    code_commit: str | None,
) -> Evaluation:
    """Fix what is evaluated, or find it as it was fixed; more runs than before are noted. Raises as `evaluate`."""
    described = policy.described(config)
    with exclusive(folder.store.lock("evaluation"), f"evaluation {folder.name}"):
        if folder.begun:
            evaluation = folder.read()
            refuse_another(evaluation, described, selection)
        else:
            evaluation = _first(folder.name, tasks, selection, policy, described)
            _keep(folder, evaluation, tasks)  # first: what evaluation.json names is there
        commits = dict.fromkeys([*evaluation.code_commits, code_commit or "unknown"])
        runs = max(config.runs, evaluation.runs)
        evaluation = evaluation.model_copy(update={"runs": runs, "code_commits": tuple(commits)})
        folder.write(evaluation)
    return evaluation


def _first(
    name: str, tasks: Sequence[EvaluatedTask], selection: Selection, policy: Policy, described: EvaluatedPolicy
) -> Evaluation:
    held = None if policy.trained is None else held_out(policy.trained, tasks)
    gone = held.left_out if held is not None else frozenset()
    kept = [task.instance_id for task in tasks if task.instance_id not in gone]
    if not kept:
        raise ConfigurationError(
            f"evaluation {name!r}: {policy.trained_model or described.model} was trained on all {len(tasks)} instances "
            "that are asked for, or on tasks too near to them; ask for others"
        )
    if gone:
        logger.warning("evaluation %s: %d of %d instances are left out: trained on", name, len(gone), len(tasks))
    return Evaluation(
        name=name,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        policy=described,
        selection=selection,
        instances=tuple(kept),
        held_out=held,
        runs=1,
        seed=int(content_id("evaluation", name).removeprefix("evaluation-"), 16) % 2**31,
        code_commits=(),
    )


def _keep(folder: EvaluationFolder, evaluation: Evaluation, tasks: Sequence[EvaluatedTask]) -> None:
    """Write the rows of what is evaluated into its own tables, once."""
    Journal(folder.path).close()  # tables without a journal are taken for harmed ones
    chosen = set(evaluation.instances)
    kept = [task for task in tasks if task.instance_id in chosen]
    repositories: dict[object, Row] = {task.repository["repository_id"]: task.repository for task in kept}
    for table, rows in (("repositories", list(repositories.values())), ("instances", [task.row for task in kept])):
        folder.store.append(table, rows, app_id="evaluation", sequence=1)


def attempt_all(
    folder: EvaluationFolder,
    evaluation: Evaluation,
    model: ChatModel,
    backend: Backend,
    options: Options,
) -> None:
    """Make and judge the attempts of an evaluation that have no result yet. Raises ConfigurationError."""
    instances = [task.instance for task in folder.tasks(evaluation)]
    attempts = attempts_of(evaluation, instances, model)
    budgets, again = evaluation.policy.budgets, options.model_copy(update={"retry": Retry.ALL})
    portion = max(AT_ONCE, 4 * options.workers)
    for start in range(0, len(attempts), portion):
        roll_out(folder.store, attempts[start : start + portion], backend, budgets, again)
        verify_all(folder.store, instances, backend, again, command_timeout_s=budgets.command_timeout_s)


def attempts_of(evaluation: Evaluation, instances: Sequence[TaskInstance], model: ChatModel) -> list[Attempt]:
    """All of them, one run of everything after the other, so that a stop leaves whole runs."""
    policy = evaluation.policy
    samples = SamplesConfig(
        count=evaluation.runs,
        temperatures=(policy.temperature,),
        top_p=policy.top_p,
        max_tokens=policy.max_tokens,
        seed=evaluation.seed,
    )
    return [attempt for each in rounds(instances, [policy.agent], model, samples) for attempt in each]
