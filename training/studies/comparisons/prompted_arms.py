"""How the arms of the baselines that are prompted are done: agents with a model that was trained elsewhere.

They learn nothing, so they spend nothing before they are judged; what judging took stands in its place. A model answers
in a process of its own: its seconds are those of its answers, one at a time with one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipeline.agents import MODELLED
from pipeline.errors import ConfigurationError
from pipeline.llm.local_server import LocalModel, LocalModelConfig
from pipeline.llm.protocol import ChatModel, Sampling
from pipeline.llm.weights import find_weights
from pipeline.reflexion import tries
from pipeline.rollout import RolloutConfig, rollout
from pipeline.stages.game_verdicts import judged as verdict
from pipeline.types import TaskInstance, Trajectory
from training.cells import Cell
from training.studies.comparisons.baselines import PROMPTED_TASKS, BaselinesConfig
from training.studies.comparisons.comparison import ComparisonPlan
from training.studies.comparisons.figures import ArmFigures, Group, GroupFigures, Spent
from training.studies.comparisons.grounds import Grounds
from training.studies.comparisons.planning import held_out

PROMPTED = ("react", "reflexion", "adapt")
TRIES = 2
"""Of reflexion."""
ANSWER_TOKENS = 200
STEPS = 12
"""Of an attempt: enough for any of the tasks, whose reference solutions have 12 at most."""

Tried = Callable[[TaskInstance], list[Trajectory]]
"""All attempts at a task, of which the first one counts."""


def prompted(
    cell: Cell,
    plan: ComparisonPlan,
    config: BaselinesConfig,
    grounds: Grounds,
    judged: Mapping[Group, Sequence[TaskInstance]],
) -> ArmFigures:
    """Judge an arm on the first tasks of the group that is farthest from what others learned.

    Raises ConfigurationError without weights, ModelUnavailable and SandboxUnavailable.
    """
    group = held_out(plan.tasks[cell.environment])
    tasks = judged[group][:PROMPTED_TASKS]
    with _model(config.gguf) as model:
        made = [_attempts(cell, model, grounds, task) for task in tasks]
    first = [float(verdict(attempts[0]).outcome == "passed") for attempts in made]
    within = [float(any(verdict(one).outcome == "passed" for one in attempts)) for attempts in made]
    names = plan.tasks[cell.environment][group][: len(tasks)]
    return ArmFigures(
        groups={group: GroupFigures(tasks=len(tasks), passed=tuple(first), names=names)},
        later={group: tuple(within)} if cell.arm == "reflexion" else {},
        spent=_spent([one for attempts in made for one in attempts]),
    )


def _attempts(cell: Cell, model: ChatModel, grounds: Grounds, task: TaskInstance) -> list[Trajectory]:
    sampling = Sampling(temperature=0.0, max_tokens=ANSWER_TOKENS, seed=cell.seed)
    budgets = RolloutConfig(max_steps=STEPS, max_seconds=1e9)
    if cell.arm == "reflexion":
        suite = grounds.suite
        made = tries(task, model, sampling, suite, suite.judged, budgets, most=TRIES)
        return [one.trajectory for one in made]
    agent = MODELLED[cell.arm](model, sampling)
    with grounds.suite.opened(task, agent.interface) as environment:
        return [rollout(task, agent, environment, budgets)]


@contextmanager
def _model(gguf: Path | None) -> Iterator[LocalModel]:
    if gguf is None:
        raise ConfigurationError("arms that are prompted answer from a GGUF file: give it with --gguf")
    model = LocalModel(find_weights(str(gguf), Path()), LocalModelConfig(local=str(gguf), threads=1))
    try:
        yield model
    finally:
        model.close()


def _spent(attempts: Sequence[Trajectory]) -> Spent:
    steps = [step for one in attempts for step in one.steps]
    calls = [call for step in steps for call in step.extra.get("calls", ())]
    read = sum(int(call["prompt_tokens"] or 0) - int(call.get("cached_tokens") or 0) for call in calls)
    return Spent(
        learned_tokens=0,
        read_tokens=read,
        written_tokens=sum(int(call["completion_tokens"] or 0) for call in calls),
        environment_steps=sum(bool(step.action) for step in steps),
        episodes=len(attempts),
        cpu_s=round(sum(float(call["seconds"]) for call in calls), 1),
        budget=0.0,
    )
