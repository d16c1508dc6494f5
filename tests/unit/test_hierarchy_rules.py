"""Annotation by rules: where paths are cut, how sub-tasks are called, what progress says; recorded gold paths have none
of the faults that annotations can have."""

from __future__ import annotations

import json
from pathlib import Path as File

import pytest

from pipeline.hierarchy.by_verbs import MOST_ACTIONS
from pipeline.hierarchy.checks import faults, flags
from pipeline.hierarchy.path import Annotation, Path, PathStep
from pipeline.hierarchy.phases import command
from pipeline.hierarchy.rules import annotate, name_of
from pipeline.hierarchy.verbs import deed

RECORDED = File(__file__).parent.parent / "data" / "paths"


def recorded(name: str) -> list[Path]:
    """Gold paths as the games gave them."""
    return [Path.model_validate(one) for one in json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))]


def path(environment: str, *steps: tuple[str, str]) -> Path:
    seen = ["at first", *(result for _, result in steps)]
    made = [PathStep(observation=seen[n], action=action, result=result) for n, (action, result) in enumerate(steps)]
    return Path(environment=environment, task="Do it.", steps=tuple(made))


def divided(annotation: Annotation) -> list[tuple[str, int]]:
    return [(one.name, one.n_actions) for one in annotation.subtasks]


@pytest.mark.parametrize("name", ["alfworld", "scienceworld", "textworld_express"])
def test_gold_paths_are_divided_without_a_fault(name: str) -> None:
    for one in recorded(name):
        annotation = annotate(one)
        assert faults(one, annotation) == ()
        assert annotation.annotator == name_of(name)
        assert max(part.n_actions for part in annotation.subtasks) <= MOST_ACTIONS
        assert len(one.steps) / MOST_ACTIONS <= len(annotation.subtasks) < len(one.steps)
        assert annotate(one) == annotation


def test_a_path_is_cut_where_the_kind_of_action_changes() -> None:
    walked = path(
        "scienceworld",
        ("open door to kitchen", "The door is now open."),
        ("go to kitchen", "You move to the kitchen."),
        ("look around", "This room is called the kitchen."),
        ("focus on metal pot", "You focus on the metal pot."),
        ("pick up metal pot", "You move the metal pot to the inventory."),
        ("move metal pot to stove", "You move the metal pot to the stove."),
        ("activate stove", "The stove is now activated."),
        ("wait", "You decide to wait for 10 iterations."),
        ("wait", "You decide to wait for 10 iterations."),
    )
    assert divided(annotate(walked)) == [
        ("go to kitchen", 3),
        ("take metal pot", 2),
        ("activate stove", 2),
        ("wait", 2),
    ]


def test_no_sub_task_is_longer_than_eight_actions() -> None:
    waited = path("scienceworld", *[("wait", "You decide to wait.")] * 20)
    assert [count for _, count in divided(annotate(waited))] == [8, 8, 4]


def test_progress_tells_place_hands_deeds_and_result_and_begins_anew_with_each_sub_task() -> None:
    told = annotate(
        path(
            "scienceworld",
            ("go to kitchen", "You move to the kitchen."),
            ("pick up pot", "You move the pot to the inventory."),
            ("pick up pot", "You move the pot to the inventory."),
            ("move pot to sink", "You move the pot to the sink."),
            ("activate sink", "The sink is now activated."),
        )
    ).progress
    assert told[1] == "at kitchen; holding pot; done: pick up pot; result: You move the pot to the inventory."
    assert told[2] == told[1]  # the same again is told once
    assert told[3] == "at kitchen; done: move pot to sink; result: You move the pot to the sink."


def test_what_was_refused_is_no_deed() -> None:
    refused = PathStep(observation="", action="pick up moon", result="No known action.", rejected=True)
    walked = Path(environment="scienceworld", task="t", steps=(refused,))
    assert annotate(walked).progress == ("result: No known action.",)


def test_in_textcraft_each_craft_closes_a_sub_task_and_a_refused_one_does_not() -> None:
    steps = (
        PathStep(observation="", action="get 1 oak log", result="Got 1 oak log"),
        PathStep(observation="", action="craft 1 stick using 2 oak planks", result="Could not find", rejected=True),
        PathStep(observation="", action="craft 4 oak planks using 1 oak log", result="Crafted 4 oak planks"),
        PathStep(observation="", action="craft 4 stick using 2 oak planks", result="Crafted 4 stick"),
        PathStep(observation="", action="inventory", result="Inventory: stick"),
    )
    annotation = annotate(Path(environment="textcraft", task="t", steps=steps))
    assert divided(annotation)[:2] == [("craft 4 oak planks", 3), ("craft 4 stick", 1)]
    assert sum(count for _, count in divided(annotation)) == 5


@pytest.mark.parametrize(
    ("action", "kind", "name"),
    [
        ("take mug 1 from shelf 2", "take", "take mug 1 from shelf 2"),
        ("move mug 1 to desk 1", "put", "put mug 1 in desk 1"),
        ("move north", "navigate", "go north"),
        ("heat apple 1 with microwave 1", "change", "heat apple 1 with microwave 1"),
        ("connect battery anode to red wire terminal 1", "wire", "connect battery anode to red wire terminal 1"),
        ("search[red shoes]", "search", "search red shoes"),
        ("click[Buy Now]", "search", "choose Buy Now"),
        ("craft 4 oak planks using 1 oak log", "craft", "craft 4 oak planks"),
        ("wait1", "wait", "wait"),
        ("sing a song", "other", "do sing a song"),
    ],
)
def test_actions_are_read_by_their_words(action: str, kind: str, name: str) -> None:
    assert (deed(action).kind, deed(action).name) == (kind, name)


@pytest.mark.parametrize(
    ("text", "phase", "thing"),
    [
        ("ls -la src", "explore", "src"),
        ("cd app && grep -rn pattern src", "explore", "src"),
        ("pip install requests", "setup", "requests"),
        ("sed -i 's/a/b/' conf.ini", "edit", "conf.ini"),
        ("sed -n 1,5p conf.ini", "explore", "conf.ini"),
        ("cat > out.txt <<'EOF'\nmake all\npip install x\nEOF", "edit", "out.txt"),
        ("make -j2 all", "build", "all"),
        ("npm run build", "build", "build"),
        ("python3 -m pytest tests/test_a.py", "verify", "tests/test_a.py"),
        ("python3 solve.py --fast", "run", "solve.py"),
        ("git log --oneline", "explore", "log"),
        ("FOO=1 sudo apt-get install -y curl", "setup", "curl"),
        ("echo 'unclosed", "explore", "'unclosed"),
        ("", "run", ""),
    ],
)
def test_commands_are_read_by_their_words(text: str, phase: str, thing: str) -> None:
    assert (command(text).phase, command(text).thing) == (phase, thing)


def test_a_path_at_a_terminal_is_divided_by_phases() -> None:
    walked = path(
        "terminal",
        ("ls", "[exit code 0]\nREADME.md count.py"),
        ("cat README.md", "[exit code 0]\nRun count.py."),
        ("python3 count.py > total.txt", "[exit code 0]"),
        ("sed -i 's/^/n=/' total.txt", "[exit code 0]"),
        ("cat total.txt", "[exit code 0]\nn=12"),
        ("python3 -m pytest", "[exit code 1]\nE   AssertionError\n1 failed, 2 passed in 0.1s"),
    )
    annotation = annotate(walked)
    assert divided(annotation) == [("look at README.md", 2), ("write total.txt", 2), ("check pytest", 2)]
    assert faults(walked, annotation) == ()
    assert annotation.progress[3].startswith("written: total.txt; done: python3 total.txt, sed total.txt; exit code 0")
    assert "exit code 1; tests: 1 failed, 2 passed" in annotation.progress[5]


def test_an_error_is_kept_and_what_failed_is_not_done() -> None:
    walked = path("terminal", ("cat missing.txt", "[exit code 1]\ncat: missing.txt: No such file or directory"))
    assert annotate(walked).progress == ("exit code 1; error: cat: missing.txt: No such file or directory",)


def test_the_flag_is_true_on_the_last_action_of_each_sub_task() -> None:
    annotation = Annotation.model_validate(
        {
            "annotator": "a",
            "subtasks": [{"name": "one", "n_actions": 2}, {"name": "two", "n_actions": 1}],
            "progress": ["a", "b", "c"],
        }
    )
    assert flags(annotation) == (False, True, True)
