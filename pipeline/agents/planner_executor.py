"""The two systems of Multi²: a planner names sub-goals, an executor reads the sub-goal and what is seen, and acts.

The planner is asked at the start and when the executor said that its action completes the sub-goal; it reads the task
and what was done since it was asked last. Its answer DONE hands the task in. An answer of the executor that cannot be
read is the action `None`, which the environment rejects. The prompts are planner.md and executor.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.agents.single_step import SingleStepAgent, latest_group, seen
from pipeline.hierarchy import prompts
from pipeline.types import Action, ModelCall, Step, TaskInstance


class PlannerExecutorAgent(SingleStepAgent):
    """One model for both."""

    name = "planner_executor"
    prompts = prompts.PLANNER_EXECUTOR

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent."""
        now = seen(history, observation)
        calls: list[ModelCall] = []
        last = history[-1].extra if history else {}
        subgoal: str | None = None if last.get("finished") else last.get("subgoal")
        if subgoal is None:
            done = [step.action for step in latest_group(history)]
            answer, call = self._ask(
                lambda short: prompts.planner(task.instruction, list(map(short, done)), short(now)), "plan"
            )
            calls.append(call)
            subgoal = prompts.read_goal(answer)
            if subgoal is None:
                return Action(calls=tuple(calls))
        goal = subgoal
        answer, call = self._ask(lambda short: prompts.executor(goal, short(now)), "decision")
        action, finished = prompts.read_action(answer)
        return Action(command=action, calls=(*calls, call), extra={"subgoal": goal, "finished": finished})
