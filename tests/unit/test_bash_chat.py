"""The chat of an attempt without a model: what the agent `bash` would have read and said with the same commands."""

from __future__ import annotations

import pytest

from pipeline.agents import FIXED
from pipeline.agents.bash import BashAgent
from pipeline.agents.bash_answers import read
from pipeline.agents.bash_chat import chat_of
from pipeline.agents.protocol import Agent
from pipeline.environment import StepOutcome
from pipeline.llm.protocol import Sampling
from pipeline.prompts import fenced
from pipeline.types import TaskInstance
from tests.unit.recorded_clients import Acting, RecordedModel, alternates

HEREDOC = "cat > README.md <<'EOF'\n# Title\n\n```python\nprint(1)\n```\n{{output}}\nEOF"
OUTCOMES = {
    "wc -l < a > b": (0, ""),
    "cat b": (0, "12\n"),
    "grep -q none a": (1, ""),
    "sleep 1000": (None, "begun\n"),
    "seq 100000": (0, "1\n" * 60_000),
    HEREDOC: (0, "```\n{{status}}\n```\n\n"),
}


def observed(command: str) -> StepOutcome:
    exit_code, output = OUTCOMES[command]
    return StepOutcome(observation=output, exit_code=exit_code, seconds=0.1)


def attempted(task: TaskInstance, agent: Agent) -> Acting:
    """An attempt to its end."""
    attempt = Acting(task, agent, observed)
    while not attempt.submitted:
        attempt.turn()
    return attempt


@pytest.fixture
def solved(task: TaskInstance) -> TaskInstance:
    return task.model_copy(update={"solution": tuple(OUTCOMES)})


def test_each_prompt_is_the_one_that_the_agent_sends_after_the_same_steps(solved: TaskInstance) -> None:
    chat = chat_of(solved, attempted(solved, FIXED["oracle"]).history)
    model = RecordedModel(*(fenced(command, "bash") for command in solved.solution), "DONE")
    asked = attempted(solved, BashAgent(model, Sampling())).conversation()
    assert [(one["role"], one["content"]) for one in chat] == asked
    assert len(model.asked) == len(OUTCOMES) + 1
    for turn, sent in enumerate(model.asked):
        assert [one.model_dump() for one in sent] == list(chat[: 2 * turn + 1])


def test_the_agent_reads_the_commands_out_of_its_answers(solved: TaskInstance) -> None:
    chat = chat_of(solved, attempted(solved, FIXED["oracle"]).history)
    answers = [read(one["content"]) for one in chat if one["role"] == "assistant"]
    assert answers == [*(("", command, False) for command in solved.solution), ("", None, True)]


def test_user_and_assistant_speak_in_turn_and_the_assistant_ends(solved: TaskInstance) -> None:
    history = attempted(solved, FIXED["oracle"]).history
    for length in range(1, len(history) + 1):
        chat = [(one["role"], one["content"]) for one in chat_of(solved, history[:length])]
        assert alternates(chat) and chat[-1][0] == "assistant"


def test_who_does_nothing_hands_in_at_once(task: TaskInstance) -> None:
    chat = chat_of(task, attempted(task, FIXED["noop"]).history)
    assert [one["content"] for one in chat[1:]] == ["DONE"]
    assert task.instruction in chat[0]["content"]
    assert chat_of(task, ()) == ()
