"""The agent whose answers are its actions."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.agents.act import CUT, NOTHING_SAID, ActAgent
from pipeline.llm.protocol import Completion, Message, Sampling
from pipeline.llm.scripted import ScriptedModel
from pipeline.rollout import RolloutConfig, rollout
from tests.unit.toy_chain import RIGHT, STEPS, ToyEnvironment, toy_task


class CutModel(ScriptedModel):
    """Its second answer has no end."""

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        found = super().complete(messages, sampling)
        return found.model_copy(update={"finish_reason": "length"}) if len(self.asked) == 2 else found


def test_the_whole_history_is_read_and_the_answer_is_the_action() -> None:
    model = ScriptedModel([f" {RIGHT}\n"] * STEPS)
    trajectory = rollout(toy_task(), ActAgent(model, Sampling()), ToyEnvironment(), RolloutConfig())
    assert [step.action for step in trajectory.steps] == [RIGHT] * STEPS and trajectory.stop_reason == "done"
    last = [(one.role, one.content) for one in model.asked[-1]]
    assert [role for role, _ in last] == ["user", "assistant"] * (STEPS - 1) + ["user"]
    assert last[-2:] == [("assistant", RIGHT), ("user", "You are at fork 2.")]
    assert [one["content"] for one in trajectory.messages[1::2]] == [RIGHT] * STEPS


def test_answers_that_are_empty_or_cut_off_are_told_so_and_cost_a_step() -> None:
    model = CutModel(["", f"{RIGHT} and then", *[RIGHT] * STEPS])
    trajectory = rollout(toy_task(), ActAgent(model, Sampling()), ToyEnvironment(), RolloutConfig())
    assert [step.action for step in trajectory.steps] == ["", "", *[RIGHT] * STEPS]
    assert [step.extra.get("told") for step in trajectory.steps[:2]] == [NOTHING_SAID, CUT]
    asked = [one.content for one in model.asked[2]]
    assert asked[-3:] == [NOTHING_SAID, f"{RIGHT} and then", CUT]
