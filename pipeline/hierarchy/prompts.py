"""What the policies of a hierarchy read and how their answers are written: one user message each, no system message.

Agents, datasets and the token report all take the texts from here, so that a model is trained on what it will read and
the report counts the same. The wording is in pipeline/prompts. `flat`, `classic_high` and `classic_low` are what the
hierarchies are compared with: an agent that reads everything, and a hierarchy whose planner still does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.hierarchy.path import NOTHING
from pipeline.llm.answers import plain
from pipeline.prompts import prompt

PLANNER_EXECUTOR = ("planner", "executor")
STEP_HRL = ("step_high", "step_low", "step_progress")
"""The prompt files of the two agents."""
DONE = "DONE"
"""The answer of a planner that wants no further sub-goal: the attempt is handed in."""
_FLAGGED = re.compile(r"(?P<action>.*\S)\s*;\s*(?P<flag>true|false)", re.DOTALL | re.IGNORECASE)
_WRAPPED = re.compile(r"(?P<fence>`+)(?:\w*\n)?(?P<text>.*?)(?P=fence)", re.DOTALL)


def planner(task: str, group_actions: Sequence[str], observation: str) -> str:
    """`group_actions`: those since the planner was asked last, none at the start."""
    return prompt("planner").render(task=task, actions=_listed(group_actions), observation=_seen(observation))


def executor(subgoal: str, observation: str) -> str:
    """Answered in the form of `action_answer`."""
    return prompt("executor").render(subgoal=subgoal, observation=_seen(observation))


def high(task: str, completed: Sequence[str], last_progress: str, observation: str) -> str:
    """`completed`: names of the finished sub-tasks; `last_progress`: at the end of the last one, NOTHING at first."""
    return prompt("step_high").render(
        task=task, completed=_listed(completed), progress=last_progress, observation=_seen(observation)
    )


def low(subtask: str, observation: str, progress: str) -> str:
    """Answered in the form of `low_answer`."""
    return prompt("step_low").render(subtask=subtask, progress=progress, observation=_seen(observation))


def progress(subtask: str, previous: str, action: str, observation: str) -> str:
    """`previous`: the progress before `action`; `observation`: what was seen after it."""
    return prompt("step_progress").render(
        subtask=subtask, progress=previous, action=action, observation=_seen(observation)
    )


def flat(task: str, history: Sequence[tuple[str, str]], observation: str) -> str:
    """`history`: pairs of an action and what was seen before it, so that `observation` is not in it."""
    return prompt("flat").render(task=task, history=_turns(history), observation=_seen(observation))


def classic_high(task: str, history: Sequence[tuple[str, str]], observation: str) -> str:
    """`history` as in `flat`: all of the attempt."""
    return prompt("classic_high").render(task=task, history=_turns(history), observation=_seen(observation))


def classic_low(subgoal: str, history: Sequence[tuple[str, str]], observation: str) -> str:
    """`history` as in `flat`: only what was done for this sub-goal. Answered in the form of `action_answer`."""
    return prompt("classic_low").render(subgoal=subgoal, history=_turns(history), observation=_seen(observation))


def action_answer(action: str, finished: bool) -> str:
    """What an executor answers: the action, and whether the sub-goal is finished by it."""
    return f"{action}; {'true' if finished else 'false'}"


def low_answer(action: str, finished: bool) -> str:
    """The same as the low level of STEP-HRL writes it."""
    return f"{action}; {finished}"


def read_action(text: str) -> tuple[str, bool]:
    """(action, whether it finishes the sub-goal) of an answer in either form; (NOTHING, False) for any other text."""
    found = _FLAGGED.fullmatch(_unwrapped(text))
    if found is None:
        return NOTHING, False
    return found["action"].lstrip(), found["flag"].lower() == "true"


def read_goal(text: str) -> str | None:
    """The sub-goal of an answer, in one line; None for DONE, NOTHING for an empty answer."""
    lines = [line.strip() for line in _unwrapped(text).split("\n") if line.strip()]
    if not lines:
        return NOTHING
    return None if lines[0].strip("`*.\"' ") == DONE else lines[0]


def read_progress(text: str) -> str:
    """The summary of an answer, in one line; NOTHING for an empty one."""
    return " ".join(_unwrapped(text).split()) or NOTHING


def shown(output: str, exit_code: int | None) -> str:
    """An observation as the policies read it: that of a command begins with its exit code, that of a game has none."""
    return output if exit_code is None else f"[exit code {exit_code}]\n{output.rstrip()}".rstrip()


def _unwrapped(text: str) -> str:
    answer = plain(text).strip()
    wrapped = _WRAPPED.fullmatch(answer)
    return wrapped["text"].strip() if wrapped else answer


def _listed(names: Sequence[str]) -> str:
    return "; ".join(names) if names else NOTHING


def _turns(history: Sequence[tuple[str, str]]) -> str:
    return "".join(f"Seen: {_seen(observation)}\nAction: {action}\n" for action, observation in history)


def _seen(observation: str) -> str:
    return observation.rstrip() or NOTHING
