"""The agent that thinks aloud: which action it reads out of every kind of answer, and what it sends."""

from __future__ import annotations

import pytest

from pipeline.agents import MODELLED
from pipeline.agents.calling import prompt_sha256
from pipeline.agents.protocol import ContextFull
from pipeline.agents.react_answers import CUT, DONE, NO_ACTION, SEVERAL_LINES, read
from pipeline.environment import StepOutcome
from pipeline.llm.protocol import Sampling
from pipeline.llm.scripted import ScriptedModel
from pipeline.rollout import RolloutConfig, rollout
from pipeline.types import TaskInstance
from tests.unit.games import WAY, LampGame, lamp_task
from tests.unit.recorded_clients import Acting, RecordedModel, alternates, said

SCRIPT = "cat > a.yml <<'EOF'\nAction: none\n```\nThought: x\n```\nEOF\ncat a.yml"

IN_A_GAME = {
    "plain": "Thought: It is shut.\nAction: open door",
    "lower case": "thought: it is shut.\naction: open door",
    "bold": "**Thought:** It is shut.\n**Action:** open door",
    "bold before the colon": "**Thought**: It is shut.\n**Action**: open door",
    "headings": "### Thought: It is shut.\n### Action: open door",
    "numbered": "Thought 1: It is shut.\nAction 1: open door",
    "in a list": "- Thought: It is shut.\n- Action: open door",
    "on the next line": "Thought: It is shut.\nAction:\nopen door",
    "quoted": 'Thought: It is shut.\nAction: "open door"',
    "in backticks": "Thought: It is shut.\nAction: `open door`",
    "fenced": "Thought: It is shut.\nAction:\n```\nopen door\n```",
    "all of it fenced": "```\nThought: It is shut.\nAction: open door\n```",
    "a guess behind": "Thought: It is shut.\nAction: open door\nObservation: It is open.\nAction: go east",
    "thought aloud": "<think>Action: take lamp</think>Thought: It is shut.\nAction: open door",
    "carriage returns": "Thought: It is shut.\r\nAction: open door\r\n",
    "no thought": "Action: open door",
    "nothing but the action": "open door",
}


@pytest.mark.parametrize("name", IN_A_GAME)
def test_the_action_is_found_however_it_is_marked(name: str) -> None:
    found = read(IN_A_GAME[name], shell=False, cut=False)
    assert (found.action, found.told) == ("open door", "")
    assert found.thought.lower() in ("it is shut.", "")


AT_THE_COMMAND_LINE = {
    "one line": ("Thought: Look.\nAction: ls -la", "ls -la"),
    "a prompt": ("Thought: Look.\nAction: $ ls -la", "ls -la"),
    "in backticks": ("Thought: Look.\nAction: `ls -la`", "ls -la"),
    "commands in backticks": ("Thought: Look.\nAction: `which ls` -l `pwd`", "`which ls` -l `pwd`"),
    "explained behind": ("Thought: Look.\nAction: ls -la\n\nThis lists rm -rf files.", "ls -la"),
    "a block": (f"Thought: Look.\nAction:\n````bash\n{SCRIPT}\n````", SCRIPT),
    "a block whose script has fences": (f"Thought: Look.\nAction:\n```bash\n{SCRIPT}\n```\nDONE", SCRIPT),
    "a block without the mark": (f"Thought: Look.\n```bash\n{SCRIPT}\n```\n", SCRIPT),
    "a bare command": ("ls -la", "ls -la"),
    "done": ("Thought: It is there.\nAction: DONE", DONE),
    "done with a dot": ("Thought: It is there.\nAction: **DONE**.", DONE),
    "done in a block": ("Thought: It is there.\nAction:\n```\nDONE\n```", DONE),
    "done alone": ("DONE", DONE),
}


@pytest.mark.parametrize("name", AT_THE_COMMAND_LINE)
def test_the_command_is_found_however_it_is_written(name: str) -> None:
    answer, command = AT_THE_COMMAND_LINE[name]
    assert read(answer, shell=True, cut=False).action == command


NONE = (
    "",
    "Thought: I wonder.",
    "Thought: I wonder.\nAction:",
    "Thought: I wonder.\nAction:\nObservation: I see.",
    "Thought: one\n\nand more of it",
    "My next action: to think about it.\nThen more.",
)


@pytest.mark.parametrize("answer", NONE)
@pytest.mark.parametrize("shell", [False, True])
def test_an_answer_without_an_action_is_told_so(answer: str, shell: bool) -> None:
    found = read(answer, shell=shell, cut=False)
    assert (found.action, found.told) == (None, NO_ACTION)


@pytest.mark.parametrize(
    "line", ["cat > a <<EOF", 'python3 -c "import os', "gcc a.c \\", "echo 'a", "cat <<'A' > a; cat <<-B"]
)
def test_the_first_line_of_a_script_is_not_run_without_the_rest(line: str) -> None:
    found = read(f"Thought: Write it.\nAction: {line}\nx\nEOF", shell=True, cut=False)
    assert (found.action, found.told) == (None, SEVERAL_LINES)


@pytest.mark.parametrize(
    ("answer", "shell", "whole"),
    [
        ("Thought: Away.\nAction: rm -r /work", True, False),
        ("Thought: Away.\nAction:\n```bash\nrm -r /work", True, False),
        ("Thought: Away.\nAction:\n```bash\nrm -r /work/old\n```\nSo it", True, True),
        ("Thought: Away.\nAction: rm -r /work/old\nObser", True, True),
        ("Thought: Away.\nAction: DONE", True, False),
        ("Thought: I go on and on", True, False),
        ("Thought: Away.\nAction: get 1", False, False),
        ("Thought: Away.\nAction: get 10 oak log\nObserv", False, True),
        ("get 1", False, False),
    ],
)
def test_an_action_that_may_have_been_cut_short_is_not_carried_out(answer: str, shell: bool, whole: bool) -> None:
    found = read(answer, shell=shell, cut=True)
    assert (found.action is not None, found.told) == ((True, "") if whole else (False, CUT))


def test_a_game_is_played_to_its_end_and_every_prompt_tells_all_before() -> None:
    answers = (f"Thought: First.\nAction: {WAY[0]}", "I have no idea.\nNone.", f"Action: {WAY[1]}", f"Action: {WAY[2]}")
    model = ScriptedModel(answers)
    done = rollout(lamp_task(), MODELLED["react"](model, Sampling()), LampGame(), RolloutConfig(max_steps=9))
    assert (done.stop_reason, [step.action for step in done.steps]) == ("done", [WAY[0], "", WAY[1], WAY[2]])
    assert done.steps[0].thought == "First." and done.steps[1].extra["told"] == NO_ACTION
    last = [one.content for one in model.asked[-1]]
    assert "Take lamp 0." in last[0] and last[0].endswith("Observation: You are in a hall. There is a door.")
    assert last[1:] == [
        "Thought: First.\nAction: open door",
        "Observation: You did it: open door.",
        "I have no idea.\nNone.",
        NO_ACTION,
        "Action: go east",
        "Observation: You did it: go east.",
    ]
    assert [one["content"] for one in done.messages] == [*last, "Action: take lamp"]
    assert [step.extra["calls"][0]["purpose"] for step in done.steps] == ["decision"] * 4


def test_done_is_no_action_of_a_game_and_is_left_to_the_game_to_reject() -> None:
    model = RecordedModel("Action: DONE")
    done = rollout(lamp_task(), MODELLED["react"](model, Sampling()), LampGame(), RolloutConfig(max_steps=2))
    assert (done.stop_reason, done.steps[0].action, done.steps[0].extra["rejected"]) == ("max_steps", "DONE", True)


def test_a_terminal_shows_exit_codes_and_done_hands_in(task: TaskInstance) -> None:
    script = f"Thought: Write.\nAction:\n````bash\n{SCRIPT}\n````"
    model = ScriptedModel((script, "Thought: Good.\nAction: DONE"))
    observe = StepOutcome(observation="none\n", exit_code=3, seconds=0.1)
    attempt = Acting(task, MODELLED["react"](model, Sampling()), lambda command: observe)
    assert attempt.turn().action == SCRIPT
    attempt.turn()
    assert attempt.submitted
    asked = [one.content for one in model.asked[-1]]
    assert "bash" in asked[0] and asked[0].endswith("Observation: (nothing)")
    assert asked[1:] == [script, "Observation: [exit code 3]\nnone"]
    assert attempt.conversation()[-1] == ("assistant", "Thought: Good.\nAction: DONE")


def test_old_outputs_are_left_out_when_the_context_is_full_and_the_row_keeps_what_was_sent(task: TaskInstance) -> None:
    model = RecordedModel("Thought: Again.\nAction: seq 9", context=8_000)
    agent = MODELLED["react"](model, Sampling())
    attempt = Acting(task, agent, lambda command: StepOutcome(observation="x" * 2_000, exit_code=0, seconds=0.1))
    for _ in range(30):
        attempt.turn()
    assert model.refused and all(alternates(chat) for chat in model.asked)
    assert any("characters left out]" in one.content for one in model.asked[-1])
    assert [(one.role, one.content) for one in model.asked[-1]] == attempt.conversation()[:-1]
    assert attempt.history[-1].extra["calls"][-1]["prompt_sha256"] == prompt_sha256(model.asked[-1])


def test_a_context_that_does_not_even_hold_the_task_ends_the_attempt(task: TaskInstance) -> None:
    with pytest.raises(ContextFull):
        MODELLED["react"](RecordedModel("look", context=10), Sampling()).act(task, (), "")


def test_a_cut_answer_costs_a_turn_and_its_words_stay_short(task: TaskInstance) -> None:
    model = RecordedModel(said("Thought: " + "on and on " * 500, finish_reason="length"))
    attempt = Acting(task, MODELLED["react"](model, Sampling()), lambda command: pytest.fail(command))
    attempt.turn()
    assert attempt.turn().extra["told"] == CUT
    assert len(model.asked[-1][1].content) < 1_000
