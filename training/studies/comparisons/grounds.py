"""Where arms of a comparison act: one game, its tasks, and what its reference solutions say.

An environment is the name of a game, or GAME_TEMPLATE for one template of it (`textworld_express_sorting`). Tasks are
those of the published splits whose reference solution is short enough; some of each split, evenly of all templates, are
judged, all of train are learned from. Where one template of TextWorldExpress has too few held-out tasks, the next seeds
of the package's fold are judged too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.agents import FIXED
from pipeline.agents.game_chat import game_chat
from pipeline.errors import ConfigurationError
from pipeline.hierarchy import prompts
from pipeline.hierarchy.path import Path as ActionPath
from pipeline.hierarchy.path import PathStep
from pipeline.hierarchy.rows import groups_of
from pipeline.hierarchy.rules import annotate
from pipeline.rollout import RolloutConfig, rollout
from pipeline.types import TaskInstance, Trajectory
from training.environments import textworld_express
from training.environments.game import SPLITS, GameTask
from training.environments.registry import MODULES
from training.environments.suite import GameSuite
from training.environments.task_lists import evenly, tasks_of
from training.episodes import Told, Turn
from training.sequences import of_chat
from training.studies.comparisons.figures import Group
from training.tokens import ChatTokenizer

Chat = Sequence[dict[str, str]]
_MORE_SEEDS = 200
"""Tried at most."""


@dataclass(frozen=True)
class Known:
    """A task whose reference solution was played to its end."""

    instance: TaskInstance
    gold: Trajectory

    @property
    def chat(self) -> Chat:
        """As the agent `act` would have talked."""
        return game_chat(self.instance, self.gold.steps)

    def flat(self, tokenizer: ChatTokenizer) -> Told:
        """The reference solution as one conversation."""
        turns = [
            Turn("decision", step.index, step.extra.get("reward", 0.0), bool(step.extra.get("rejected")), False)
            for step in self.gold.steps
            if step.action
        ]
        return Told(of_chat(self.chat, tokenizer), tuple(turns))

    def divided(self, tokenizer: ChatTokenizer) -> list[Told]:
        """The same as the agent `planner_executor` would have answered, divided into sub-goals by the rules."""
        return [_told(prompt, answer, turn, tokenizer) for prompt, answer, turn in self.asked()]

    def asked(self) -> list[tuple[str, str, Turn]]:
        """Prompts and answers of that agent."""
        found = []
        path = self._path()
        former: list[str] = []
        for group in groups_of(path, annotate(path)):
            prompt = prompts.planner(path.task, former, group.steps[0].observation)
            turn = Turn("plan", group.start, 0.0, False, False)
            found.append((prompt, group.name, turn))
            for at, step in enumerate(group.steps):
                answer = prompts.action_answer(step.action, group.ends(at))
                turn = Turn("decision", group.start + at, step.reward, step.rejected, group.ends(at))
                found.append((prompts.executor(group.name, step.observation), answer, turn))
            former = group.actions
        return found

    def _path(self) -> ActionPath:
        steps = [step for step in self.gold.steps if step.action]
        seen = [*(step.observation for step in steps), steps[-1].extra["after"]]
        found = [
            PathStep(
                observation=seen[number],
                action=step.action,
                result=seen[number + 1],
                reward=step.extra["reward"],
                score=step.extra["score"],
                rejected=step.extra["rejected"],
            )
            for number, step in enumerate(steps)
        ]
        game = self.instance.provenance["environment"]
        return ActionPath(environment=game, task=self.instance.instruction, steps=tuple(found))


class Grounds:
    """One environment with its processes."""

    def __init__(self, environment: str, seats: int, max_gold_steps: int, judged: int) -> None:
        """Raises ConfigurationError for an environment that there is not."""
        self.game, self._template = _named(environment)
        self._max_gold_steps = max_gold_steps
        self._judged = judged
        self.suite = GameSuite(self.game, seats)

    def listed(self, split: Group) -> list[GameTask]:
        """All tasks of a split that are short enough."""
        return [
            task
            for task in tasks_of(self.game, [split])
            if task.gold_steps <= self._max_gold_steps and self._template in (None, task.task_type)
        ]

    def _held_out(self) -> list[GameTask]:
        """Tasks of `seen`; those of one template of TextWorldExpress, whose seeds go on, until there are enough."""
        found = self.listed("seen")
        if self.game == textworld_express.FACTS.name and self._template is not None:
            every = [task for task in tasks_of(self.game, ["seen"]) if task.task_type == self._template]
            fold, _, last = every[-1].variation.partition("-")
            for seed in range(int(last) + 1, int(last) + 1 + _MORE_SEEDS):
                if len(found) >= self._judged:
                    break
                task = every[-1].model_copy(update={"variation": f"{fold}-{seed}"})
                instance, solved = self.suite.instance(task)
                if solved and len(instance.solution) <= self._max_gold_steps:
                    found.append(task.model_copy(update={"gold_steps": len(instance.solution)}))
        return found

    def judged(self) -> Mapping[Group, tuple[str, ...]]:
        """Names of the tasks that arms are judged on, by split; splits without tasks are left out."""
        every = {split: self.listed(split) if split != "seen" else self._seen for split in SPLITS}
        chosen = {split: evenly(tasks, self._judged) for split, tasks in every.items()}
        return {split: tuple(map(name_of, tasks)) for split, tasks in chosen.items() if tasks}

    @cached_property
    def _seen(self) -> list[GameTask]:
        return self._held_out()

    def texts(self) -> list[list[str]]:
        """What is read and written in train, by the prompt that it comes of."""
        chats = [known.chat for known in self.train]
        asked = [one for known in self.train for one in known.asked()]
        return [
            [chat[0]["content"] for chat in chats],
            [one["content"] for chat in chats for one in chat[1:]],
            *([prompt for prompt, _, turn in asked if turn.purpose == purpose] for purpose in ("plan", "decision")),
            [answer for _, answer, _ in asked],
        ]

    @cached_property
    def train(self) -> list[Known]:
        """All of train."""
        return list(self.known(self.listed("train")))

    def of(self, split: Group, names: Sequence[str]) -> list[TaskInstance]:
        """The tasks with these names."""
        by_name = {name_of(task): task for task in (self._seen if split == "seen" else self.listed(split))}
        return [self.suite.instance(by_name[name])[0] for name in names]

    def known(self, tasks: Sequence[GameTask]) -> Iterator[Known]:
        """Play the reference solutions; one that does not pass is left out. Raises SandboxUnavailable."""
        for task in tasks:
            instance, solved = self.suite.instance(task)
            if solved:
                with self.suite.opened(instance, "shell") as environment:
                    yield Known(instance, rollout(instance, FIXED["oracle"], environment, self._whole))

    @property
    def _whole(self) -> RolloutConfig:
        return RolloutConfig(max_steps=self.suite.facts.max_steps)

    def close(self) -> None:
        """End the processes; safe to call twice."""
        self.suite.close()


def name_of(task: GameTask) -> str:
    """Of a task, within its game."""
    return f"{task.task_type}/{task.variation}"


def _named(environment: str) -> tuple[str, str | None]:
    """(game, template or None for all)."""
    for game in MODULES:
        if environment == game:
            return game, None
        template = environment.removeprefix(f"{game}_")
        if template != environment and any(task.task_type == template for task in tasks_of(game)):
            return game, template
    raise ConfigurationError(
        f"there is no environment {environment!r}; there are {', '.join(MODULES)}, and GAME_TEMPLATE for one template"
    )


def _told(prompt: str, answer: str, turn: Turn, tokenizer: ChatTokenizer) -> Told:
    chat = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    return Told(of_chat(chat, tokenizer), (turn,))
