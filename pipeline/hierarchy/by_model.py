"""Divides a path by asking a model: once for the sub-tasks, once after each action for the progress.

A division counts only where its actions are those of the path; one that is not is told so and asked for once more.
"""

from __future__ import annotations

import hashlib

from pipeline.errors import ItemRejected
from pipeline.hierarchy.path import NOTHING, Annotation, Path, SubTask
from pipeline.hierarchy.prompts import read_progress
from pipeline.llm.answers import NoAnswer, object_of
from pipeline.llm.protocol import ChatModel, Message, PromptRefused, Sampling
from pipeline.prompts import prompt
from pipeline.types import Record

PROMPTS = ("annotate_subtasks", "annotate_progress")
NO_DIVISION = "no_division"
"""Failure class of a path that the model did not divide as it was asked to, twice."""
REFUSED = "prompt_refused"
"""Failure class of a path that the server does not take, for instance since it is too long."""
_DIGITS = 12
_TOKENS_OF_PROGRESS = 120


class _Group(Record):
    name: str
    actions: tuple[str, ...]


class _Division(Record):
    subtasks: tuple[_Group, ...]


class ModelAnnotator:
    """One model with the prompts of today."""

    def __init__(self, model: ChatModel, *, max_tokens: int = 4_096) -> None:
        """`max_tokens` of the division, which repeats all actions of a path."""
        self._model = model
        self._division = Sampling(max_tokens=max_tokens, answer_schema=_Division.model_json_schema())
        self._summary = Sampling(max_tokens=_TOKENS_OF_PROGRESS)

    def name_of(self, environment: str) -> str:
        """What annotations are signed with: the model and the hash of the prompts, the same everywhere."""
        del environment
        wording = "".join(prompt(name).sha256 for name in PROMPTS)
        return f"{self._model.name}+{hashlib.sha256(wording.encode()).hexdigest()[:_DIGITS]}"

    def annotate(self, path: Path) -> Annotation:
        """Sub-tasks and progress. Raises ItemRejected, and ModelUnavailable, from which nothing follows."""
        try:
            subtasks = self._subtasks(path)
            progress = self._progress(path, subtasks)
        except PromptRefused as error:
            raise ItemRejected(REFUSED, str(error)) from error
        return Annotation(annotator=self.name_of(path.environment), subtasks=subtasks, progress=progress)

    def _subtasks(self, path: Path) -> tuple[SubTask, ...]:
        actions = [step.action for step in path.steps]
        listed = "\n".join(f"{number}. {' '.join(action.split())}" for number, action in enumerate(actions, start=1))
        asked = [Message(role="user", content=prompt("annotate_subtasks").render(task=path.task, actions=listed))]
        fault = ""
        for _ in range(2):
            answer = self._model.complete(asked, self._division).text
            try:
                division = object_of(answer, _Division)
            except NoAnswer as error:
                fault = str(error)
            else:
                if not (fault := _fault(division, actions)):
                    return tuple(
                        SubTask(name=one.name.strip(), n_actions=len(one.actions)) for one in division.subtasks
                    )
            asked += [
                Message(role="assistant", content=answer or "(nothing)"),
                Message(role="user", content=f"That cannot be used: {fault}. Answer with the whole JSON object again."),
            ]
        raise ItemRejected(NO_DIVISION, fault)

    def _progress(self, path: Path, subtasks: tuple[SubTask, ...]) -> tuple[str, ...]:
        told: list[str] = []
        for subtask in subtasks:
            before = NOTHING
            for step in path.steps[len(told) : len(told) + subtask.n_actions]:
                text = prompt("annotate_progress").render(
                    subtask=subtask.name, progress=before, action=step.action, result=step.result
                )
                before = read_progress(self._model.complete([Message(role="user", content=text)], self._summary).text)
                told.append(before)
        return tuple(told)


def _fault(division: _Division, actions: list[str]) -> str:
    """Why a division is none of these actions; empty where it is one."""
    given = [action for one in division.subtasks for action in one.actions]
    if len(given) != len(actions):
        return f"it has {len(given)} actions, and there are {len(actions)}"
    for number, (one, other) in enumerate(zip(given, actions, strict=True), start=1):
        if one.split() != other.split():
            return f"its action {number} is {one[:80]!r}, and there it is {other[:80]!r}"
    if empty := [number for number, one in enumerate(division.subtasks, start=1) if not one.actions]:
        return f"sub-task {empty[0]} has no action"
    if nameless := [number for number, one in enumerate(division.subtasks, start=1) if not one.name.strip()]:
        return f"sub-task {nameless[0]} has no name"
    return ""
