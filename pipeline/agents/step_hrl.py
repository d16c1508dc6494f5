"""The three policies of STEP-HRL, none of which reads the history: sub-tasks, actions, and progress as a short text.

After each action the progress policy sums up what was done for the sub-task; the low level reads that with what is
seen now, acts, and says whether the action completes the sub-task. Then the high level names the next one: it reads
the task, the names of the completed sub-tasks and the last progress of the one before. Its answer DONE hands the task
in. An answer of the low level that cannot be read is the action `None`, which the environment rejects. The prompts are
step_high.md, step_low.md and step_progress.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.agents.single_step import SingleStepAgent, seen
from pipeline.hierarchy import prompts
from pipeline.hierarchy.path import NOTHING
from pipeline.types import Action, ModelCall, Step, TaskInstance


class StepHRLAgent(SingleStepAgent):
    """One model for all three."""

    name = "step_hrl"
    prompts = prompts.STEP_HRL

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent. `extra` keeps the progress that the low level read, and of a new sub-task what the high level
        read."""
        now = seen(history, observation)
        calls: list[ModelCall] = []
        progress, subtask, kept = NOTHING, None, {}
        if history and "subgoal" in history[-1].extra:
            progress, call = self._progress(history[-1], now)
            calls.append(call)
            subtask = None if history[-1].extra["finished"] else str(history[-1].extra["subgoal"])
        if subtask is None:
            subtask, call = self._subtask(task, history, progress, now)
            calls.append(call)
            kept, progress = {"last_progress": progress}, NOTHING
            if subtask is None:
                return Action(calls=tuple(calls), extra=kept)
        name, done = subtask, progress
        answer, call = self._ask(lambda short: prompts.low(name, short(now), done), "decision")
        action, finished = prompts.read_action(answer)
        found = {"subgoal": name, "progress": done, "finished": finished}
        return Action(command=action, calls=(*calls, call), extra=kept | found)

    def _progress(self, last: Step, now: str) -> tuple[str, ModelCall]:
        """What was done for the sub-task of `last` after it."""
        subtask, before = str(last.extra["subgoal"]), str(last.extra["progress"])
        answer, call = self._ask(
            lambda short: prompts.progress(subtask, before, short(last.action), short(now)), "progress"
        )
        return prompts.read_progress(answer), call

    def _subtask(
        self, task: TaskInstance, history: Sequence[Step], progress: str, now: str
    ) -> tuple[str | None, ModelCall]:
        """The next sub-task, None for DONE; `progress` is that of the one before at its end."""
        completed = [str(step.extra["subgoal"]) for step in history if step.extra.get("finished")]
        answer, call = self._ask(lambda short: prompts.high(task.instruction, completed, progress, short(now)), "plan")
        return prompts.read_goal(answer), call
