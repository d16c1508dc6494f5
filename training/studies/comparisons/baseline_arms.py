"""How the arms of the baselines that learn, and their bounds, are done: one backbone, trained from one clone.

`bc` spends a share of the budget on reference solutions; its weights are kept, and every other method begins from them
with what is left. GLIDER, whose prompts are others, begins from the same random weights and clones as long.
"""

from __future__ import annotations

import functools
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import JsonValue

from pipeline.agents import FIXED
from pipeline.agents.fixed import FixedAgent
from pipeline.environment import Environment
from pipeline.rollout import RolloutConfig, rollout
from pipeline.stages.game_verdicts import score_of
from pipeline.types import Action, Record, Step, TaskInstance
from sandbox.locks import exclusive
from training.backbone import load
from training.batched_policy import BatchedModel
from training.cells import Cell
from training.environments.game_environment import GameEnvironment
from training.episodes import Episode, Players
from training.from_scratch import TinyConfig, make_tiny
from training.loop import LearningConfig, Meter
from training.methods.baselines import bc, best_of_n, dmpo, eto, glider, grpo, ppo, rft, rloo
from training.methods.baselines.course import ACTOR, Course
from training.roles import Backbone
from training.studies.comparisons.baselines import BaselinesConfig
from training.studies.comparisons.comparison import ComparisonConfig, ComparisonPlan, Tasks
from training.studies.comparisons.figures import ArmFigures, Group, GroupFigures, Spent
from training.studies.comparisons.grounds import Grounds
from training.studies.comparisons.prompted_arms import PROMPTED, prompted
from training.tokens import ChatTokenizer

FOLDER = "comparisons"
"""Below the data folder: weights that several arms begin from."""
_LEARNED, _TINY, _SPENT = "learned", "tiny", "spent.json"

Method = Callable[[Course], None]
METHODS: Mapping[str, tuple[Record, Callable[[Any, Course], None]]] = {
    "more_bc": (bc.BcConfig(learning_rate=2e-3), bc.train),
    "rft": (rft.RftConfig(), rft.train),
    "eto": (eto.EtoConfig(), eto.train),
    "dmpo": (dmpo.DmpoConfig(), dmpo.train),
    "grpo": (grpo.GrpoConfig(), grpo.train),
    "ppo": (ppo.PpoConfig(), ppo.train),
    "rloo": (rloo.RlooConfig(), rloo.train),
}
"""What begins from the clone."""
CLONE = bc.BcConfig()
GLIDER = glider.GliderConfig(cloning_share=0.85, offline_share=0.94)
BEST_OF_N = best_of_n.BestOfNConfig()
LEARNING = LearningConfig()


def method_settings() -> dict[str, JsonValue]:
    """All settings of the methods, which decide what comes of their cells."""
    named: dict[str, Record] = {name: config for name, (config, _) in METHODS.items()}
    named |= {"bc": CLONE, "glider": GLIDER, "best_of_n": BEST_OF_N, "learning": LEARNING}
    return {name: config.model_dump(mode="json") for name, config in sorted(named.items())}


def tasks_of(config: ComparisonConfig, data: Path) -> Tasks:
    """See Comparison. Raises ConfigurationError."""
    del data
    assert isinstance(config, BaselinesConfig)
    return {name: _grounds(name, config).judged() for name in config.environments}


def run_cell(cell: Cell, plan: ComparisonPlan, config: ComparisonConfig, data: Path) -> ArmFigures:
    """See Comparison: one arm, from the clone that its seed and environment have in common with the others."""
    assert isinstance(config, BaselinesConfig)
    torch.set_num_threads(1)  # several processes share the machine, and tiny matrices gain nothing
    grounds = _grounds(cell.environment, config)
    judged = {group: grounds.of(group, names) for group, names in plan.tasks[cell.environment].items()}
    if cell.arm in ("random", "oracle"):
        passed = {group: [_bound(cell, grounds, task, config) for task in tasks] for group, tasks in judged.items()}
        return _figures(plan, cell, passed, _nothing())
    if cell.arm in PROMPTED:
        return prompted(cell, plan, config, grounds, judged)
    return _learned(cell, plan, config, grounds, judged, data)


def _learned(
    cell: Cell,
    plan: ComparisonPlan,
    config: BaselinesConfig,
    grounds: Grounds,
    judged: Mapping[Group, Sequence[TaskInstance]],
    data: Path,
) -> ArmFigures:
    folder = data / FOLDER / plan.setting / cell.environment / str(cell.seed)
    course = _course(folder, plan, config, grounds, cell.seed)
    choose: Callable[[Sequence[TaskInstance]], list[Episode]] | None = None
    before = _nothing()
    if cell.arm == "glider":
        course.agent = "planner_executor"
        glider.train(GLIDER, course, [known.divided(course.tokenizer) for known in grounds.train])
    else:
        before = _begin(folder, course, config)
        if cell.arm in METHODS:
            settings, train = METHODS[cell.arm]
            train(settings, course)
        elif cell.arm == "best_of_n":
            choose = functools.partial(_best, course, "oracle", None)
        elif cell.arm == "best_of_n_value":
            choose = functools.partial(_best, course, "value", best_of_n.learn_head(BEST_OF_N, course))
    spent = _sum(before, _spent(course.meter))
    course.backbone.use(ACTOR)
    course.model.forget()
    choose = choose or functools.partial(course.players.play, agent=course.agent, temperature=0.0, seed=0)
    passed = {group: [float(one.passed) for one in choose(tasks)] for group, tasks in judged.items()}
    return _figures(plan, cell, passed, spent)


def _best(course: Course, selector: best_of_n.Selector, head: Any, tasks: Sequence[TaskInstance]) -> list[Episode]:
    return best_of_n.attempt(BEST_OF_N, course, tasks, selector, head)


def _course(folder: Path, plan: ComparisonPlan, config: BaselinesConfig, grounds: Grounds, seed: int) -> Course:
    """A course with random weights, which are those of the seed."""
    base = folder / _TINY
    with exclusive(folder / f"{_TINY}.lock", str(base)):
        if not base.is_dir():
            sizes = TinyConfig(vocabulary=config.vocabulary, hidden=config.hidden, layers=config.layers)
            _whole(base, lambda part: make_tiny(part, grounds.texts(), sizes, seed))
    tokenizer = ChatTokenizer(base)
    backbone = Backbone(load(base), [ACTOR])
    model = BatchedModel(backbone.model, tokenizer, "tiny", TinyConfig().context)
    budgets = RolloutConfig(max_steps=config.max_steps, max_seconds=1e9)
    return Course(
        backbone=backbone,
        model=model,
        players=Players(grounds.suite, model, config.seats, budgets, config.answer_tokens),
        tokenizer=tokenizer,
        tasks=[known.instance for known in grounds.train],
        gold=[known.flat(tokenizer) for known in grounds.train],
        budget=plan.budget,
        learning=LEARNING,
        seed=seed,
    )


def _begin(folder: Path, course: Course, config: BaselinesConfig) -> Spent:
    """Give the course the weights of the clone and what is left of the budget: cloned once for all arms of a seed.

    What the clone took."""
    kept = folder / _LEARNED
    with exclusive(folder / f"{_LEARNED}.lock", str(kept)):
        if not kept.is_dir():
            clone = [told.sequence for told in course.gold]
            bc.clone(CLONE, course, clone, config.clone_share)
            told = _spent(course.meter).model_dump_json()

            def write(part: Path) -> None:
                part.mkdir(parents=True)
                torch.save(course.backbone.model.state_dict(), part / "weights.pt")
                (part / _SPENT).write_text(told, encoding="utf-8")

            _whole(kept, write)
    course.backbone.model.load_state_dict(torch.load(kept / "weights.pt", weights_only=True))
    spent = Spent.model_validate_json((kept / _SPENT).read_text(encoding="utf-8"))
    course.budget -= spent.budget
    course.meter = Meter()
    return spent


def _whole(folder: Path, write: Callable[[Path], object]) -> None:
    """All of a folder or nothing of it."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    write(part)
    part.rename(folder)


@functools.lru_cache(maxsize=8)
def _grounds(environment: str, config: BaselinesConfig) -> Grounds:
    """The same processes for all cells of an environment; they end with this one."""
    return Grounds(environment, config.seats, config.max_gold_steps, config.judged)


def _bound(cell: Cell, grounds: Grounds, task: TaskInstance, config: BaselinesConfig) -> float:
    with grounds.suite.opened(task, "shell") as environment:
        agent = FIXED["oracle"] if cell.arm == "oracle" else RandomAgent(environment, cell.seed)
        trajectory = rollout(task, agent, environment, RolloutConfig(max_steps=config.max_steps, max_seconds=1e9))
    return float(score_of(trajectory) >= 1.0)


class RandomAgent(FixedAgent):
    """Any of the actions that the game would take now, each as likely as the others."""

    name = "random"

    def __init__(self, environment: Environment, seed: int) -> None:
        assert isinstance(environment, GameEnvironment)
        self._environment = environment
        self.sampling: Mapping[str, Any] = {"seed": seed}

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent."""
        del observation
        draw = random.Random(f"{self.sampling['seed']} {task.instance_id} {len(history)}")
        named = self._environment.admissible()
        return Action(command=draw.choice(named)) if named else Action()


def _figures(plan: ComparisonPlan, cell: Cell, passed: Mapping[Group, Sequence[float]], spent: Spent) -> ArmFigures:
    names = plan.tasks[cell.environment]
    return ArmFigures(
        groups={
            group: GroupFigures(tasks=len(shares), passed=tuple(shares), names=names[group])
            for group, shares in passed.items()
        },
        spent=spent,
    )


def _nothing() -> Spent:
    return _spent(Meter()).model_copy(update={"cpu_s": 0.0})


def _spent(meter: Meter) -> Spent:
    return Spent(
        learned_tokens=meter.learned,
        read_tokens=meter.read + meter.scored,
        written_tokens=meter.written,
        environment_steps=meter.environment_steps,
        episodes=meter.episodes,
        cpu_s=round(meter.cpu_s, 1),
        budget=round(meter.units, 1),
    )


def _sum(first: Spent, second: Spent) -> Spent:
    two = second.model_dump()
    return Spent.model_validate({name: round(one + two[name], 1) for name, one in first.model_dump().items()})
