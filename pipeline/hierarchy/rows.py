"""From a path and its annotation to the rows of the five data sets, with rewards as Multi² and STEP-HRL define them.

Both levels of a path of T actions in K sub-tasks: the upper one is asked K times, before the first action of each
sub-task, the lower one T times. The reward of the lower level is -1 for an action that the environment rejected, also
for the last one of a sub-task, else 1 for the last one of a sub-task, else 0. The upper level gets what the environment
gave inside the sub-task. Where an attempt in the terminal was handed in, the upper level is asked once more and answers
DONE: the row is named by the step n_steps, has no actions and brings nothing. Attempts that failed give the same rows,
with `verified` and `success` false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from pipeline.hierarchy import prompts
from pipeline.hierarchy.attempts import AttemptFacts
from pipeline.hierarchy.path import NOTHING, Annotation, Path, PathStep
from pipeline.schemas import Row
from pipeline.token_counts import TokenCounter

ONLINE = "round_"
"""Begins the source of what a policy did while it was being trained."""


class Group(NamedTuple):
    """The actions of one sub-task."""

    number: int
    name: str
    start: int
    """Number of its first action on the path."""
    steps: Sequence[PathStep]
    progress: Sequence[str]
    """After each action."""

    @property
    def reward(self) -> float:
        """What the environment gave inside it."""
        return total(self.steps)

    @property
    def actions(self) -> list[str]:
        return [step.action for step in self.steps]

    def before(self, at: int) -> str:
        """The progress that is known before its action number `at`."""
        return self.progress[at - 1] if at else NOTHING

    def ends(self, at: int) -> bool:
        """Whether its action number `at` is the last one."""
        return at == len(self.steps) - 1


class Sample(NamedTuple):
    """A row of which only the common columns are missing, with the texts whose tokens are counted."""

    step_idx: int
    prompt: str
    target: str
    columns: Row


def groups_of(path: Path, annotation: Annotation) -> list[Group]:
    """The path in its sub-tasks. Raises ValueError where the annotation is one of another path."""
    ends = list(accumulate((one.n_actions for one in annotation.subtasks), initial=0))
    if ends[-1] != len(path.steps):
        raise ValueError(f"the annotation has {ends[-1]} actions, the path {len(path.steps)}")
    return [
        Group(number, one.name, start, path.steps[start:end], annotation.progress[start:end])
        for number, (one, (start, end)) in enumerate(zip(annotation.subtasks, pairwise(ends), strict=True))
    ]


def total(steps: Sequence[PathStep]) -> float:
    """What the environment gave for these actions together; free of the noise of adding decimal fractions."""
    return round(sum(step.reward for step in steps), 6)


def rows_of(
    dataset: str, path: Path, annotation: Annotation, facts: AttemptFacts, tokens: TokenCounter | None = None
) -> list[Row]:
    """The rows of one attempt in the data set of that name. Raises ValueError where the annotation does not fit."""
    common = {
        **facts.model_dump(exclude={"handed_in"}),
        "n_steps": len(path.steps),
        "annotator": annotation.annotator,
        "success": facts.verified,
        "tokenizer_id": tokens.tokenizer_id if tokens else None,
    }
    found = []
    for sample in _SAMPLES[dataset](path, groups_of(path, annotation), facts):
        counted: Row = {
            "step_idx": sample.step_idx,
            "n_prompt_tokens": tokens.count(sample.prompt) if tokens else None,
            "n_target_tokens": tokens.count(sample.target) if tokens else None,
        }
        found.append(common | counted | sample.columns)
    return found


def low_reward(step: PathStep, ends: bool) -> float:
    """Of the lower level; being rejected outweighs the end of a sub-task."""
    return -1.0 if step.rejected else float(ends)


def _system1(path: Path, groups: Sequence[Group], facts: AttemptFacts) -> Iterator[Sample]:
    former: list[list[str]] = [[], *(group.actions for group in groups)]
    asked = [(one.name, one.steps[0].observation) for one in groups]
    if facts.handed_in:
        asked.append((prompts.DONE, path.steps[-1].result))
    for number, (name, seen) in enumerate(asked):
        actions = former[number]
        prompt = prompts.planner(path.task, actions, seen)
        acts = number < len(groups)
        columns: Row = {
            "task_description": path.task,
            "group_actions": actions,
            "obs": seen,
            "prompt": prompt,
            "subgoal": name,
            "h_idx": number,
            "reward_sum": groups[number].reward if acts else 0.0,
            "done": number == len(asked) - 1,
        }
        yield Sample(groups[number].start if acts else len(path.steps), prompt, name, columns)


def _system2(path: Path, groups: Sequence[Group], facts: AttemptFacts) -> Iterator[Sample]:
    for group in groups:
        for at, step in enumerate(group.steps):
            prompt = prompts.executor(group.name, step.observation)
            target = prompts.action_answer(step.action, group.ends(at))
            columns: Row = {
                "subgoal": group.name,
                "obs": step.observation,
                "action": target,
                "reward": low_reward(step, group.ends(at)),
                "env_reward": step.reward,
                "next_obs": step.result,
                "done": group.ends(at),
                "sub_trajectory_id": f"{facts.trajectory_id}/{group.number}",
                "is_online": facts.source.startswith(ONLINE),
                "return_sum": total(path.steps),
            }
            yield Sample(group.start + at, prompt, target, columns)


def _step_high(path: Path, groups: Sequence[Group], facts: AttemptFacts) -> Iterator[Sample]:
    names = [group.name for group in groups]
    asked = [(one.name, one.steps[0].observation) for one in groups]
    if facts.handed_in:
        asked.append((prompts.DONE, path.steps[-1].result))
    last = [NOTHING, *(one.progress[-1] for one in groups)]
    texts = [prompts.high(path.task, names[:k], last[k], seen) for k, (_, seen) in enumerate(asked)]
    for k, (name, _) in enumerate(asked):
        acts = k < len(groups)
        columns: Row = {
            "prompt": texts[k],
            "subtask": name,
            "reward": groups[k].reward if acts else 0.0,
            "score": groups[k].steps[-1].score if acts else path.steps[-1].score,
            "done": k == len(asked) - 1,
            "next_prompt": texts[k + 1] if k + 1 < len(asked) else None,
            "k": k,
            "completed_subtasks": names[:k],
            "last_progress": last[k],
            "n_low_steps": len(groups[k].steps) if acts else 0,
        }
        yield Sample(groups[k].start if acts else len(path.steps), texts[k], name, columns)


def _step_low(path: Path, groups: Sequence[Group], facts: AttemptFacts) -> Iterator[Sample]:
    del path, facts
    places = [(group, at, step) for group in groups for at, step in enumerate(group.steps)]
    texts = [prompts.low(group.name, step.observation, group.before(at)) for group, at, step in places]
    for number, (group, at, step) in enumerate(places):
        target = prompts.low_answer(step.action, group.ends(at))
        columns: Row = {
            "prompt": texts[number],
            "action": target,
            "reward": low_reward(step, group.ends(at)),
            "env_reward": step.reward,
            "done": group.ends(at),
            "next_prompt": texts[number + 1] if number + 1 < len(texts) else None,
            "subtask": group.name,
            "progress": group.before(at),
            "obs": step.observation,
            "rejected": step.rejected,
        }
        yield Sample(number, texts[number], target, columns)


def _step_progress(path: Path, groups: Sequence[Group], facts: AttemptFacts) -> Iterator[Sample]:
    del path, facts
    places = [(group, at, step) for group in groups for at, step in enumerate(group.steps)]
    texts = [prompts.progress(group.name, group.before(at), step.action, step.result) for group, at, step in places]
    for number, (group, at, step) in enumerate(places):
        columns: Row = {
            "prompt": texts[number],
            "progress": group.progress[at],
            "reward": low_reward(step, group.ends(at)),
            "done": group.ends(at),
            "next_prompt": texts[number + 1] if number + 1 < len(texts) else None,
            "subtask": group.name,
            "prev_progress": group.before(at),
            "action": step.action,
            "resulting_obs": step.result,
        }
        yield Sample(number, texts[number], group.progress[at], columns)


_SAMPLES: Mapping[str, Callable[[Path, Sequence[Group], AttemptFacts], Iterator[Sample]]] = {
    "system1": _system1,
    "system2": _system2,
    "step_high": _step_high,
    "step_low": _step_low,
    "step_progress": _step_progress,
}
