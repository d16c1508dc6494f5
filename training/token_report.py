"""What it costs to read one and the same path: a flat history, a classic hierarchy, and STEP-HRL, in prompt tokens.

Three policies are thought to act along given paths, with the texts of pipeline/hierarchy/prompts.py, and the tokens of
all prompts are counted, those of the chat template left out. At each step (from 1)
    flat      reads the task, everything that was seen and done, and what is seen now
    hrl       reads the history of its sub-goal; where one begins, the planner reads all of the history first
    step_hrl  reads the progress after the action before (one call), where a sub-task begins that of the one before
              (one call), and then the progress and what is seen now (one call); nothing is asked after the last action
No prompt is taken to be in a cache. Source: STEP-HRL, the figure of token use on one sequence of observations and
actions. What answers cost is in `written`; seconds are in latency.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Literal, get_args

from pipeline.hierarchy import prompts
from pipeline.hierarchy.path import NOTHING, Annotation, Path
from pipeline.types import Record

Policy = Literal["flat", "hrl", "step_hrl"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
Asked = Literal["act", "goal", "progress"]
"""What a call is for."""
Counter = Callable[[str], int]
"""Tokens of a text."""

EARLY = 5
"""Steps that count as early."""
AROUND = (3, 7)
"""Steps, both included, whose mean late ones are compared with: the fifth alone says little, since gold paths of a game
look around and change the sub-goal at the same few places."""
LONG = 20
"""Steps of a path that has late steps: its last quarter lies behind the early ones."""


class Totals(Record):
    """Mean prompt tokens of a trajectory."""

    flat: float
    hrl: float
    step_hrl: float


PAPER = Totals(flat=17_800, hrl=10_800, step_hrl=9_100)
"""What the paper of STEP-HRL reports for its example."""
EARLIER = Totals(flat=13_322, hrl=6_465, step_hrl=5_427)
"""What we counted before with other prompts, on 24 gold paths of ScienceWorld."""


class StepTokens(Totals):
    """Mean tokens of the calls at one step, over the trajectories that reach it."""

    n: int
    """Those trajectories."""


class Ratios(Record):
    """Of the totals."""

    hrl_to_flat: float
    step_hrl_to_flat: float
    step_hrl_to_hrl: float


class Peaks(Record):
    """What it costs to name a sub-goal, mean prompt tokens of one such call."""

    hrl: float
    step_hrl: float


class Late(Record):
    """Whether steps grow dearer: the mean of the last quarter of the steps (rounded down) of paths of at least LONG."""

    paths: int
    early: Totals
    """The same paths, mean of the steps AROUND the fifth."""
    at_step_5: Totals
    """The same paths, that step alone."""
    late: Totals
    ratio: Totals
    """`late` to `early`."""
    ratio_to_step_5: Totals
    """`late` to `at_step_5`."""


class TokenReport(Record):
    """Means over the paths. The keys of `per_step` and the like are numbers of steps, from 1."""

    trajectories: int
    flat: float
    hrl: float
    step_hrl: float
    step_hrl_without_progress_calls: float
    """The same prompts as if the progress cost nothing to write: what the low and the high level read."""
    ratios: Ratios
    progress_share: float
    """Of the prompt tokens of `step_hrl`, those of progress calls."""
    progress_tokens: float
    """Mean length of a progress text, NOTHING left out."""
    first_steps: Totals
    """Mean of a step among the first EARLY ones."""
    largest_step: Totals
    """The dearest single step of any path."""
    peaks: Peaks
    late: Late | None
    """None where no path is LONG."""
    written: Totals
    """Mean answer tokens of a trajectory: actions, names of sub-goals, progress."""
    per_step: dict[int, StepTokens]
    written_per_step: dict[int, StepTokens]
    """Tokens of the answers."""
    squares_per_step: dict[int, StepTokens]
    """Of the tokens of each prompt, summed over the calls of a step: what attention costs grows with them."""
    paper: Totals = PAPER
    earlier: Totals = EARLIER


@dataclass(frozen=True)
class Call:
    """One question at one step, in tokens."""

    policy: Policy
    asked: Asked
    step: int
    read: int
    written: int


@dataclass
class _Walk:
    """The calls along one path."""

    path: Path
    annotation: Annotation
    count: Counter
    calls: list[Call] = field(default_factory=list)

    def take(self) -> list[Call]:
        """All of them, step by step."""
        first = 0
        completed: list[str] = []
        for subtask in self.annotation.subtasks:
            for place in range(first, first + subtask.n_actions):
                self._step(place, first, subtask.name, completed, place == first + subtask.n_actions - 1)
            completed.append(subtask.name)
            first += subtask.n_actions
        return self.calls

    def _step(self, place: int, first: int, name: str, completed: Sequence[str], last: bool) -> None:
        """The step at `place` (from 0) of the sub-task that began at `first`."""
        task, now = self.path.task, self.path.steps[place]
        flagged = prompts.action_answer(now.action, last)
        self._ask("flat", "act", place, prompts.flat(task, self._history(0, place), now.observation), now.action)
        before = self.annotation.progress[place - 1] if place else NOTHING
        if place:
            self._progress(place - 1, before)
        if place == first:
            history = self._history(0, place)
            self._ask("hrl", "goal", place, prompts.classic_high(task, history, now.observation), name)
            self._ask("step_hrl", "goal", place, prompts.high(task, completed, before, now.observation), name)
        history = self._history(first, place)
        self._ask("hrl", "act", place, prompts.classic_low(name, history, now.observation), flagged)
        progress = NOTHING if place == first else before
        low = prompts.low(name, now.observation, progress)
        self._ask("step_hrl", "act", place, low, prompts.low_answer(now.action, last))

    def _progress(self, place: int, after: str) -> None:
        """The call after the action at `place`, made at the next step."""
        done = self.path.steps[place]
        name, first = self._subtask(place)
        previous = NOTHING if place == first else self.annotation.progress[place - 1]
        self._ask("step_hrl", "progress", place + 1, prompts.progress(name, previous, done.action, done.result), after)

    def _subtask(self, place: int) -> tuple[str, int]:
        """Name and first place of the sub-task that holds `place`."""
        first = 0
        for subtask in self.annotation.subtasks:
            if place < first + subtask.n_actions:
                return subtask.name, first
            first += subtask.n_actions
        raise IndexError(place)

    def _history(self, first: int, end: int) -> list[tuple[str, str]]:
        return [(step.action, step.observation) for step in self.path.steps[first:end]]

    def _ask(self, policy: Policy, asked: Asked, place: int, read: str, written: str) -> None:
        self.calls.append(Call(policy, asked, place + 1, self.count(read), self.count(written)))


def calls_of(path: Path, annotation: Annotation, count: Counter) -> list[Call]:
    """All calls of the three policies along a path. Raises ValueError when the annotation is of another path."""
    if len(annotation.progress) != len(path.steps):
        raise ValueError(f"the path has {len(path.steps)} steps, its annotation {len(annotation.progress)}")
    return _Walk(path, annotation, count).take()


def token_report(annotated: Iterable[tuple[Path, Annotation]], count: Counter) -> TokenReport:
    """Count along paths of at least one step. Raises ValueError without any."""
    pairs = list(annotated)
    if not pairs:
        raise ValueError("there is no path to count along")
    walks = [calls_of(path, annotation, count) for path, annotation in pairs]
    totals = {policy: mean(_sum(walk, policy) for walk in walks) for policy in POLICIES}
    bare = mean(_sum(walk, "step_hrl") - _sum(walk, "step_hrl", "progress") for walk in walks)
    said = [text for _, annotation in pairs for text in annotation.progress if text != NOTHING]
    reads = [_by_step(walk, lambda call: call.read) for walk in walks]
    writes = [_by_step(walk, lambda call: call.written) for walk in walks]
    return TokenReport(
        trajectories=len(walks),
        **{policy: round(totals[policy], 1) for policy in POLICIES},
        step_hrl_without_progress_calls=round(bare, 1),
        ratios=Ratios(
            hrl_to_flat=round(totals["hrl"] / totals["flat"], 3),
            step_hrl_to_flat=round(totals["step_hrl"] / totals["flat"], 3),
            step_hrl_to_hrl=round(totals["step_hrl"] / totals["hrl"], 3),
        ),
        progress_share=round(1 - bare / totals["step_hrl"], 3),
        progress_tokens=round(mean(map(count, said)), 1) if said else 0.0,
        first_steps=_mean_step([one for steps in reads for one in steps[:EARLY]]),
        largest_step=_totals(lambda policy: max(one[policy] for steps in reads for one in steps)),
        peaks=Peaks(hrl=_goal(walks, "hrl"), step_hrl=_goal(walks, "step_hrl")),
        late=_late([steps for steps in reads if len(steps) >= LONG]),
        written=_totals(lambda policy: mean(sum(one[policy] for one in steps) for steps in writes)),
        per_step=_means(reads),
        written_per_step=_means(writes),
        squares_per_step=_means([_by_step(walk, lambda call: call.read**2) for walk in walks]),
    )


_Steps = list[dict[Policy, int]]
"""For each step of a path, the tokens of each policy."""


def _totals(of: Callable[[Policy], float]) -> Totals:
    return Totals(flat=round(of("flat"), 1), hrl=round(of("hrl"), 1), step_hrl=round(of("step_hrl"), 1))


def _sum(walk: Iterable[Call], policy: Policy, asked: Asked | None = None) -> int:
    return sum(call.read for call in walk if call.policy == policy and asked in {None, call.asked})


def _goal(walks: Iterable[Iterable[Call]], policy: Policy) -> float:
    found = (call.read for walk in walks for call in walk if call.policy == policy and call.asked == "goal")
    return round(mean(found), 1)


def _by_step(walk: Sequence[Call], of: Callable[[Call], int]) -> _Steps:
    steps: _Steps = [dict.fromkeys(POLICIES, 0) for _ in range(max(call.step for call in walk))]
    for call in walk:
        steps[call.step - 1][call.policy] += of(call)
    return steps


def _means(paths: Sequence[_Steps]) -> dict[int, StepTokens]:
    found = {}
    for place in range(max(map(len, paths))):
        there = [steps[place] for steps in paths if len(steps) > place]
        found[place + 1] = StepTokens(**_mean_step(there).model_dump(), n=len(there))
    return found


def _mean_step(steps: Sequence[Mapping[Policy, float]]) -> Totals:
    return _totals(lambda policy: mean(one[policy] for one in steps))


def _late(paths: Sequence[_Steps]) -> Late | None:
    if not paths:
        return None
    first, last = AROUND
    early = _mean_step([one for steps in paths for one in steps[first - 1 : last]])
    fifth = _mean_step([steps[EARLY - 1] for steps in paths])
    late = _totals(lambda policy: mean(mean(one[policy] for one in steps[-(len(steps) // 4) :]) for steps in paths))
    ratio, to_fifth = _ratio(late, early), _ratio(late, fifth)
    return Late(paths=len(paths), early=early, at_step_5=fifth, late=late, ratio=ratio, ratio_to_step_5=to_fifth)


def _ratio(one: Totals, other: Totals) -> Totals:
    return Totals.model_validate({name: round(getattr(one, name) / getattr(other, name), 3) for name in POLICIES})
