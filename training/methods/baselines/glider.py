"""GLIDER: a planner and a controller with shared weights, cloned, then offline and online reinforcement learning.

Hu et al. 2025, "Divide and Conquer: Grounding LLMs as Efficient Decision-Making Agents via Offline Hierarchical
Reinforcement Learning". At each level, with critics Q(state, answer) and V(state) of whole answers, those of implicit
Q-learning (Kostrikov et al. 2022):

    L_Q = (r + gamma V(s') - Q(s, a))^2        L_V = |tau - 1(Q - V < 0)| (Q - V)^2
    L_pi = - min(exp((Q - V) / temperature), most) * log pi(a | s), the sum over the tokens of the answer

The planner gets what the environment gave while its sub-goal was followed. Online it is the planner that is updated.

Differences. The critics are heads on the policy's hidden states as they are when a stage begins, learned before the
policy is, and not along with it. The controller gets 1 where it says that its sub-goal is reached in an attempt that
passed and -1 for an action that is none: games do not say whether a sub-goal is reached, so a failed attempt has none.
What keeps the controller as it is online, with shared weights, is that turns of reference solutions are cloned along.
Prompts are those of the agent `planner_executor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import torch
from pydantic import Field
from torch import Tensor

from pipeline.types import Record
from training.episodes import Told
from training.levels import LEVELS, Level, Transition, joined, transitions
from training.losses import awr_weights, expectile, q_target, weighted_nll
from training.methods.baselines.bc import BcConfig, clone
from training.methods.baselines.course import ACTOR, Course, by_budget, endless
from training.roles import ValueHead
from training.sequences import Batch, TokenSequence


class GliderConfig(Record):
    """How the stages are done."""

    cloning: BcConfig = BcConfig()
    cloning_share: float = Field(default=0.6, gt=0.0, lt=1.0)
    """Of the budget: until here turns of reference solutions are cloned."""
    offline_share: float = Field(default=0.8, gt=0.0, lt=1.0)
    """Until here attempts that were made once are learned from; the rest is online."""
    exploring_share: float = Field(default=0.25, gt=0.0, lt=1.0)
    """Of each of these stages, spent on attempts; the critics read them again, which takes as much."""
    rounds: int = Field(default=2, gt=0)
    """Online."""
    tasks: int = Field(default=32, gt=0)
    """Tasks that are tried between two looks at the budget."""
    experts: int = Field(default=16, gt=0)
    """Reference solutions that are among the attempts from which critics and policy learn, for all are read anew."""
    temperature: float = Field(default=1.0, gt=0.0)
    learning_rate: float = Field(default=3e-4, gt=0.0)
    turns: int = Field(default=32, gt=0)
    """Answers of a step of the policy."""
    gamma: float = Field(default=0.95, gt=0.0, le=1.0)
    tau: float = Field(default=0.7, gt=0.0, lt=1.0)
    """Of the expectile."""
    advantage_temperature: float = Field(default=0.5, gt=0.0)
    most: float = Field(default=20.0, gt=0.0)
    """Weight of an answer at most."""
    critic_learning_rate: float = Field(default=1e-3, gt=0.0)
    critic_steps: int = Field(default=300, gt=0)
    """Each over all transitions."""


def train(config: GliderConfig, course: Course, gold: Sequence[Sequence[Told]]) -> None:
    """All stages. `gold`: answers of both levels along each reference solution, as `Episode.told` has them."""
    cloned = [one.sequence for told in gold for one in told]
    chosen = course.draw("experts").sample(list(gold), min(config.experts, len(gold)))
    expert = joined([transitions(told, passed=True) for told in chosen])
    clone(config.cloning, course, cloned, config.cloning_share)
    own = _explored(config, course, "offline", config.offline_share)
    _improve(config, course, joined([expert, own]), LEVELS, config.offline_share)
    for number in range(config.rounds):
        begun = course.share
        until = begun + (1.0 - begun) / (config.rounds - number)
        own = _explored(config, course, f"online {number}", until)
        _improve(config, course, joined([expert, own]), ("plan",), until, anchors=cloned)


def _explored(config: GliderConfig, course: Course, stage: str, until: float) -> list[Transition]:
    begun, draw, times = course.share, course.draw(stage), 0
    found: list[list[Transition]] = []
    while course.share < begun + config.exploring_share * (until - begun):
        tasks = draw.sample(list(course.tasks), min(config.tasks, len(course.tasks)))
        for episode in course.play(tasks, temperature=config.temperature, seed=times):
            found.append(transitions(episode.told, passed=episode.passed))
        times += 1
    return joined(found)


def _improve(
    config: GliderConfig,
    course: Course,
    material: Sequence[Transition],
    levels: Sequence[Level],
    until: float,
    anchors: Sequence[TokenSequence] = (),
) -> None:
    """Learn critics of these levels, then the policy; `anchors` are cloned along, one for each answer of a step."""
    weights = advantage_weights(config, course, material)
    rows = [(one.sequence, float(weights[number])) for number, one in enumerate(material) if one.level in levels]
    optimisation = course.optimisation(config.learning_rate)
    order = endless(len(rows), course.draw(f"improve {until}"))
    beside = endless(len(anchors), course.draw(f"anchors {until}")) if anchors else None

    def step(share: float) -> None:
        chosen = [rows[number] for number in islice(order, min(config.turns, len(rows)))]
        if beside is not None:
            chosen += [(anchors[number], 1.0) for number in islice(beside, len(chosen))]
        total = sum(sequence.n_written for sequence, _ in chosen)

        def loss_of(batch: Batch, numbers: Sequence[int]) -> Tensor:
            worth = torch.tensor([[chosen[number][1]] for number in numbers])
            return weighted_nll(course.read(batch, ACTOR).logprobs, batch.turns, worth, total)

        optimisation.step([[sequence] for sequence, _ in chosen], loss_of, share)

    if rows:
        by_budget(course, until, step)


def advantage_weights(config: GliderConfig, course: Course, material: Sequence[Transition]) -> Tensor:
    """Of each answer [N]; critics are learned for it, each level by itself."""
    groups = [[one.sequence] for one in material]

    def states(batch: Batch) -> Tensor:
        read = course.read(batch, ACTOR)
        return torch.stack([read.before[:, 0], read.after[:, 0]], dim=1)

    known = torch.cat(course.scored(groups, states))  # [N, 2, H]
    weights = torch.ones(len(material))
    for level in LEVELS:
        numbers = [number for number, one in enumerate(material) if one.level == level]
        if numbers:
            advantages = _critics(config, course, known, material, numbers)
            weights[numbers] = awr_weights(advantages, config.advantage_temperature, config.most)
    return weights


def _critics(
    config: GliderConfig, course: Course, known: Tensor, material: Sequence[Transition], numbers: Sequence[int]
) -> Tensor:
    """Q - V of these answers."""
    torch.manual_seed(course.seed)
    value, quality = (ValueHead(course.backbone.hidden_size) for _ in range(2))
    optimizer = torch.optim.Adam([*value.parameters(), *quality.parameters()], lr=config.critic_learning_rate)
    before, after = known[numbers, 0], known[numbers, 1]
    rewards = torch.tensor([material[number].reward for number in numbers])
    done = torch.tensor([material[number].following is None for number in numbers])
    later = known[[material[number].following or 0 for number in numbers], 0]
    for _ in range(config.critic_steps):
        with torch.no_grad():
            due = q_target(rewards, value(later), done, config.gamma)
            liked = quality(after)
        loss = ((quality(after) - due) ** 2).mean() + expectile(liked - value(before), config.tau).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        advantages: Tensor = quality(after) - value(before)
    return advantages
