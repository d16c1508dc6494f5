"""The two levels of a hierarchy as reinforcement learning sees them: answers with rewards and what follows them.

A planner's answer is worth what the environment gave while its sub-goal was followed. An executor's is worth 1 where it
says that its sub-goal is reached in an attempt that passed, -1 where it is no action, else 0: games do not say whether
a sub-goal is reached, so that of a failed attempt none was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from training.episodes import Told
from training.sequences import TokenSequence

Level = Literal["plan", "decision"]
LEVELS: tuple[Level, ...] = ("plan", "decision")


class Transition(NamedTuple):
    """One answer at one level."""

    sequence: TokenSequence
    level: Level
    reward: float
    following: int | None
    """Number of the next answer at the level; None where there is none, at the end of a sub-goal too."""


def transitions(told: Sequence[Told], *, passed: bool) -> list[Transition]:
    """The answers of an attempt, in their order, with rewards and what follows at their level."""
    turns = [(one.sequence, turn) for one in told for turn in one.turns]
    found: list[Transition] = []
    for number, (sequence, turn) in enumerate(turns):
        if turn.purpose == "plan":
            later = [place for place in range(number + 1, len(turns)) if turns[place][1].purpose == "plan"]
            group = turns[number + 1 : later[0] if later else len(turns)]
            reward = sum(one.reward for _, one in group)
            found.append(Transition(sequence, "plan", reward, later[0] if later else None))
            continue
        ends = turn.finished or number + 1 == len(turns) or turns[number + 1][1].purpose == "plan"
        reached = 1.0 if turn.finished and passed else 0.0
        reward = -1.0 if turn.rejected else reached
        found.append(Transition(sequence, "decision", reward, None if ends else number + 1))
    return found


def joined(parts: Iterable[Sequence[Transition]]) -> list[Transition]:
    """One list, in which `following` counts from its beginning."""
    found: list[Transition] = []
    for part in parts:
        start = len(found)
        found += [one if one.following is None else one._replace(following=one.following + start) for one in part]
    return found
