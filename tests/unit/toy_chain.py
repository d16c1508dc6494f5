"""A game whose answer is known: at each of a few steps one of two words is right, and one wrong word loses.

A policy that says either as often passes once in 2^STEPS attempts; reference solutions say the right ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import torch

from pipeline.agents.game_chat import messages
from pipeline.environment import StepOutcome
from pipeline.hierarchy import prompts
from pipeline.rollout import RolloutConfig
from pipeline.stages.game_verdicts import judged
from pipeline.types import Interface, Step, TaskInstance, Trajectory, VerificationResult, Verifier
from sandbox.types import FileChange
from training.backbone import load
from training.batched_policy import BatchedModel
from training.environments.game import SPLITS, Split
from training.episodes import Players, Told, Turn
from training.from_scratch import TinyConfig, make_tiny
from training.loop import LearningConfig
from training.methods.baselines import bc
from training.methods.baselines.course import ACTOR, Course
from training.roles import Backbone
from training.sequences import TokenSequence, of_chat
from training.tokens import ChatTokenizer

STEPS = 3
RIGHT, WRONG = "left", "right"


def toy_task(number: int = 0) -> TaskInstance:
    """All tasks are alike but for a number."""
    return TaskInstance(
        repository_id="toy",
        image_digest=None,
        instruction=f"Find the way out of maze {number}.",
        solution=(RIGHT,) * STEPS,
        verifier=Verifier(kind="environment", files=(), command=""),
        generator="toy",
        domain="game",
        language="text",
        family="chain",
        difficulty="easy",
        seed=number,
        provenance={"environment": "toy", "variation": str(number)},
    )


class ToyEnvironment:
    """See pipeline.environment.Environment."""

    def __init__(self) -> None:
        self._done = 0

    def reset(self) -> str:
        self._done = 0
        return "You are at fork 0."

    def step(self, command: str) -> StepOutcome:
        known = command in (RIGHT, WRONG)
        self._done += command == RIGHT
        over = self._done == STEPS or command == WRONG
        score = float(self._done == STEPS)
        extra = {"reward": score, "score": score, "rejected": not known}
        seen = f"You are at fork {self._done}."
        return StepOutcome(observation=seen, exit_code=None, seconds=0.0, done=over, extra=extra)

    def changes(self) -> tuple[FileChange, ...]:
        return ()

    def outcome(self, reference: str) -> str:
        del reference
        return ""

    def close(self) -> None:
        pass


class ToySuite:
    """See training.environments.suite.Suite."""

    name = "toy"

    def instances(self, splits: Sequence[Split] = SPLITS) -> list[tuple[TaskInstance, Split]]:
        return [(toy_task(number), "train") for number in range(4) if "train" in splits]

    @contextmanager
    def opened(self, instance: TaskInstance, interface: Interface) -> Iterator[ToyEnvironment]:
        del instance
        assert interface == "shell"
        yield ToyEnvironment()

    def judged(self, instance: TaskInstance, trajectory: Trajectory) -> VerificationResult:
        del instance
        return judged(trajectory)


def chat(words: Sequence[str], task: TaskInstance) -> list[dict[str, str]]:
    """What is said along these words."""
    steps = [
        Step(index=number, observation=f"You are at fork {number}.", action=word) for number, word in enumerate(words)
    ]
    asked = messages(task, steps[:-1], steps[-1].observation)
    told = [{"role": one.role, "content": one.content} for one in asked]
    return [*told, {"role": "assistant", "content": words[-1]}]


def undecided(task: TaskInstance) -> list[list[dict[str, str]]]:
    """Chats in which both words are said as often at each fork."""
    return [chat([RIGHT] * number + [word], task) for number in range(STEPS) for word in (RIGHT, WRONG)]


def divided(task: TaskInstance, tokenizer: ChatTokenizer, word: str = RIGHT) -> list[Told]:
    """Answers of a planner and an executor who are asked at each fork."""
    goal = f"go {word}"
    found = []
    for number in range(STEPS):
        seen = f"You are at fork {number}."
        before = [RIGHT] if number else []
        reward = float(number == STEPS - 1 and word == RIGHT)
        asked = (
            (prompts.planner(task.instruction, before, seen), goal, Turn("plan", number, 0.0, False, False)),
            (
                prompts.executor(goal, seen),
                prompts.action_answer(word, True),
                Turn("decision", number, reward, False, True),
            ),
        )
        for prompt, answer, turn in asked:
            both = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
            found.append(Told(of_chat(both, tokenizer), (turn,)))
    return found


@cache
def _undecided_weights(hierarchical: bool) -> tuple[Path, dict[str, torch.Tensor]]:
    """The folder of a model from scratch, and its weights after it learned to say either word as often."""
    tasks = _tasks()
    talks = [talk for task in tasks for talk in undecided(task)]
    kinds = [
        [talk[0]["content"] for talk in talks],
        [one["content"] for talk in talks for one in talk[1:]],
        [prompts.planner(task.instruction, [RIGHT], "You are at fork 0.") for task in tasks],
        [prompts.executor(f"go {word}", "You are at fork 0.") for word in (RIGHT, WRONG)],
        [prompts.action_answer(word, finished) for word in (RIGHT, WRONG) for finished in (True, False)],
    ]
    base = make_tiny(Path(mkdtemp()), kinds, TinyConfig(vocabulary=400, hidden=32, layers=2), seed=0)
    course = _course(base, load(base).state_dict(), 240_000.0 if hierarchical else 80_000.0, hierarchical)
    material: list[TokenSequence] = []
    for task in tasks:
        if hierarchical:
            words = (RIGHT, WRONG)
            material += [one.sequence for word in words for one in divided(task, course.tokenizer, word)]
        else:
            whole = [of_chat(talk, course.tokenizer) for talk in undecided(task)]
            # Only the last word is learned: else the right one would be said more often.
            material += [TokenSequence(one.ids, one.turns[-1:]) for one in whole]
    bc.clone(bc.BcConfig(learning_rate=3e-3, sequences=8), course, material, 1.0)
    return base, {name: one.clone() for name, one in course.backbone.model.state_dict().items()}


def toy_course(budget: float, *, hierarchical: bool = False) -> Course:
    """A course whose policy says either word as often."""
    base, weights = _undecided_weights(hierarchical)
    return _course(base, weights, budget, hierarchical)


def _course(base: Path, weights: Mapping[str, torch.Tensor], budget: float, hierarchical: bool) -> Course:
    tokenizer = ChatTokenizer(base)
    backbone = Backbone(load(base), [ACTOR])
    backbone.model.load_state_dict(weights)
    model = BatchedModel(backbone.model, tokenizer, "toy", 1024)
    tasks = _tasks()
    return Course(
        backbone=backbone,
        model=model,
        players=Players(ToySuite(), model, 16, RolloutConfig(max_steps=2 * STEPS), 12),
        tokenizer=tokenizer,
        tasks=tasks,
        gold=[_gold(task, tokenizer) for task in tasks],
        budget=budget,
        learning=LearningConfig(bf16=False),
        seed=0,
        agent="planner_executor" if hierarchical else "act",
    )


def _tasks() -> list[TaskInstance]:
    return [toy_task(number) for number in range(4)]


def rate(course: Course) -> float:
    """Share of 64 attempts by chance that pass."""
    episodes = course.players.play(course.tasks, course.agent, temperature=1.0, seed=99, samples=16)
    return sum(one.passed for one in episodes) / len(episodes)


def _gold(task: TaskInstance, tokenizer: ChatTokenizer) -> Told:
    turns = tuple(Turn("decision", number, float(number == STEPS - 1), False, False) for number in range(STEPS))
    return Told(of_chat(chat([RIGHT] * STEPS, task), tokenizer), turns)
