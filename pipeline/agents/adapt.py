"""An agent that acts, and splits what it failed at into parts, down to a depth: ADaPT.

Prasad et al. 2024, "ADaPT: As-Needed Decomposition and Planning with Language Models". The executor reads the thoughts,
actions and observations of its part alone. When it says that it failed, or used up its steps, the planner splits the
part into parts joined by AND or OR, each of which is done in the same way; at the greatest depth a failure stays one.
The attempt is handed in when the whole task ended, whether well or not.

Other than in the paper, a plan joins by either AND or OR; a plan that cannot be read is asked for once more, and the
part failed when the second one cannot be read either. The prompts are those of ReAct, adapt_part.md and adapt_plan.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.agents.adapt_plan import MOST_PARTS, Level, NoPlan, after, read_plan
from pipeline.agents.calling import ask
from pipeline.agents.react_answers import DONE, Answer
from pipeline.agents.react_chat import PROMPTS, forms, read_for
from pipeline.agents.single_step import SingleStepAgent, seen
from pipeline.hierarchy.path import NOTHING
from pipeline.prompts import prompt
from pipeline.types import Action, ModelCall, Record, Step, TaskInstance

FAILED = "FAILED"
"""The action of an executor that gives up."""
DEPTH = 3
"""How often parts are split: the whole task, its parts, and their parts."""
STEPS = 10
"""Decisions of the executor about one part."""
MOVES = 4
"""Parts that may end in one decision, which costs a step: so a model that only gives up uses up its budget too."""
WHOLE = "the whole task"


class _Place(Record):
    """Where an attempt stands; kept in `Step.extra`."""

    levels: tuple[Level, ...] = ()
    begun: int = 0
    """Number of the first step for the part that is worked on."""

    @property
    def part(self) -> str:
        return self.levels[-1].part if self.levels else WHOLE


class AdaptAgent(SingleStepAgent):
    """One model for both."""

    name = "adapt"
    prompts = (*PROMPTS, "adapt_part", "adapt_plan")

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent. `extra` keeps the parts above the one that is worked on, and where that began."""
        place = _Place.model_validate(history[-1].extra["place"]) if history else _Place()
        calls: list[ModelCall] = []
        for _ in range(MOVES):
            succeeded = False
            if len(history) - place.begun < STEPS:
                answer, call = self._execute(task, history, observation, place)
                calls.append(call)
                said = (answer.action or "").strip(".! ").upper()
                if said not in (DONE, FAILED):
                    told = answer.told if answer.action is None else None
                    return _action(place, calls, thought=answer.thought, command=answer.action, told=told)
                succeeded = said == DONE
            levels = None if succeeded else self._split(task, history, observation, place, calls)
            levels = levels or after(place.levels, succeeded)
            if levels is None:
                return _action(place, calls)
            place = _Place(levels=levels, begun=len(history))
        return _action(place.model_copy(update={"begun": len(history) + 1}), calls, told=observation)

    def _execute(
        self, task: TaskInstance, history: Sequence[Step], observation: str, place: _Place
    ) -> tuple[Answer, ModelCall]:
        notes = prompt("adapt_part").render(part=place.part)
        chats = forms(task, history, observation, notes=notes, begun=place.begun)
        completion, call = ask(self._model, chats, self._sampling)
        return read_for(task, completion), call

    def _split(
        self,
        task: TaskInstance,
        history: Sequence[Step],
        observation: str,
        place: _Place,
        calls: list[ModelCall],
    ) -> tuple[Level, ...] | None:
        """The levels with the parts of the part that failed; None when it cannot be split. Adds to `calls`."""
        if len(place.levels) == DEPTH:
            return None
        fault = ""
        for _ in range(2):
            answer, call = self._plan(task, history, observation, place, fault)
            calls.append(call)
            try:
                if call.finish_reason == "length":
                    raise NoPlan("it was cut off: be shorter")
                return (*place.levels, read_plan(answer, place.part))
            except NoPlan as error:
                fault = f"\n\nYour last answer could not be used: {error}."
        return None

    def _plan(
        self, task: TaskInstance, history: Sequence[Step], observation: str, place: _Place, fault: str
    ) -> tuple[str, ModelCall]:
        done = [step.action for step in history[place.begun :] if step.action]
        now = seen(history, observation)
        return self._ask(
            lambda short: prompt("adapt_plan").render(
                most=str(MOST_PARTS),
                task=task.instruction,
                part=place.part,
                actions="; ".join(map(short, done)) or NOTHING,
                observation=short(now).rstrip() or NOTHING,
                fault=fault,
            ),
            "plan",
        )


def _action(
    place: _Place, calls: Sequence[ModelCall], *, thought: str = "", command: str | None = None, told: str | None = None
) -> Action:
    extra = {"place": place.model_dump(mode="json")}
    return Action(thought=thought, command=command, told=told, calls=tuple(calls), extra=extra)
