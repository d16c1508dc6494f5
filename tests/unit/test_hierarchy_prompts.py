"""What the policies of a hierarchy read, and how their answers are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.hierarchy import prompts
from pipeline.hierarchy.path import NOTHING


def test_a_single_step_prompt_holds_what_it_was_given_and_nothing_of_the_history() -> None:
    text = prompts.low("find the jug", "You are in the hall.\n", "The door is open.")
    assert text.endswith("Sub-task: find the jug\nProgress: The door is open.\nSeen now: You are in the hall.")
    high = prompts.high("water the plant", ("find the jug", "fill it"), "It is full.", "A hall.")
    assert "Completed: find the jug; fill it\nProgress at the last one: It is full.\n" in high
    progress = prompts.progress("find the jug", NOTHING, "go north", "A kitchen.")
    assert progress.endswith("Progress before: None\nAction: go north\nSeen now: A kitchen.")


def test_before_anything_was_done_the_prompts_say_none() -> None:
    assert "Done since the last sub-goal: None\nSeen now: None" in prompts.planner("t", (), "")
    assert "Completed: None\nProgress at the last one: None\n" in prompts.high("t", (), NOTHING, "A hall.")


def test_the_flat_prompt_tells_every_turn_in_order_and_what_is_seen_now_once() -> None:
    text = prompts.flat("t", [("go north", "A hall."), ("take jug", "A kitchen.")], "You have the jug.")
    turns = "Seen: A hall.\nAction: go north\nSeen: A kitchen.\nAction: take jug\nSeen now: You have the jug."
    assert text.endswith(f"Task: t\n{turns}")
    assert prompts.classic_high("t", [("go north", "A hall.")], "A kitchen.").count("A kitchen.") == 1
    assert "t1" in prompts.classic_low("t1", (), "A kitchen.") and prompts.flat("t", (), "x").endswith("t\nSeen now: x")


@given(st.text().map(str.strip).filter(lambda text: text and "`" not in text and "think" not in text), st.booleans())
def test_an_answer_is_read_as_it_was_written(action: str, finished: bool) -> None:
    if "\r" in action:
        return
    assert prompts.read_action(prompts.action_answer(action, finished)) == (action, finished)
    assert prompts.read_action(prompts.low_answer(action, finished)) == (action, finished)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("open door; TRUE", ("open door", True)),
        (" `open door;false` ", ("open door", False)),
        ("```bash\nls; true; false\n```", ("ls; true", False)),
        ("<think>go?; true</think>\ngo north; False", ("go north", False)),
        ("cat > a <<'X'\nb; true\nX\n; True", ("cat > a <<'X'\nb; true\nX", True)),
        ("open door", (NOTHING, False)),
        ("; true", (NOTHING, False)),
        ("open door; maybe", (NOTHING, False)),
        ("open door; true\nThis opens it.", (NOTHING, False)),
        ("", (NOTHING, False)),
    ],
)
def test_what_is_no_action_with_a_flag_becomes_none(text: str, read: tuple[str, bool]) -> None:
    assert prompts.read_action(text) == read


def test_the_two_forms_differ_only_in_the_flag() -> None:
    assert prompts.action_answer("go", True) == "go; true" and prompts.low_answer("go", True) == "go; True"


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("find the jug\nor not", "find the jug"),
        ("DONE", None),
        ("`DONE`.", None),
        (" ", NOTHING),
        ("Done it", "Done it"),
    ],
)
def test_a_goal_is_the_first_line_and_done_hands_in(text: str, goal: str | None) -> None:
    assert prompts.read_goal(text) == goal


def test_progress_is_one_line_and_never_empty() -> None:
    assert prompts.read_progress("The jug\n is full.\n") == "The jug is full."
    assert prompts.read_progress("<think>hm</think>") == NOTHING


def test_a_command_shows_its_exit_code_and_a_game_none() -> None:
    assert prompts.shown("a\n", 0) == "[exit code 0]\na"
    assert prompts.shown("", 1) == "[exit code 1]"
    assert prompts.shown("A hall.", None) == "A hall."
