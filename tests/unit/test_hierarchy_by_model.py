"""Annotation by a model, with answers written beforehand."""

from __future__ import annotations

import json

import pytest

from pipeline.errors import ItemRejected
from pipeline.hierarchy.by_model import ModelAnnotator
from pipeline.hierarchy.checks import faults
from pipeline.hierarchy.path import Path, PathStep
from pipeline.llm.protocol import ContextOverflow, ModelUnavailable
from pipeline.llm.scripted import ScriptedModel

PATH = Path(
    environment="alfworld",
    task="Put the mug on the desk.",
    steps=(
        PathStep(observation="hall", action="take mug 1 from shelf 1", result="You pick up the mug 1."),
        PathStep(observation="…", action="go to desk 1", result="You arrive at desk 1."),
        PathStep(observation="…", action="move mug 1 to desk 1", result="You move the mug 1."),
    ),
)


def division(*groups: tuple[str, list[str]]) -> str:
    return json.dumps({"subtasks": [{"name": name, "actions": actions} for name, actions in groups]})


GOOD = division(("take the mug", ["take mug 1 from shelf 1"]), ("put it", ["go to desk 1", "move mug 1 to desk 1"]))


def test_a_division_and_a_summary_for_each_action() -> None:
    model = ScriptedModel([f"Here it is:\n```json\n{GOOD}\n```", "holding mug 1", "at desk 1", "at desk 1; mug moved"])
    annotation = ModelAnnotator(model).annotate(PATH)
    assert [(one.name, one.n_actions) for one in annotation.subtasks] == [("take the mug", 1), ("put it", 2)]
    assert annotation.progress == ("holding mug 1", "at desk 1", "at desk 1; mug moved")
    summaries = [messages[0].content for messages in model.asked[1:]]
    assert ["Summary before: None" in text for text in summaries] == [True, True, False]
    assert "Summary before: at desk 1" in summaries[2]
    assert faults(PATH, annotation) == ("object: sub-task 1 is called 'put it' and none of its actions is about that",)


def test_the_name_changes_with_the_model_and_is_signed() -> None:
    model = ScriptedModel([GOOD, "a", "b", "c"], name="judge")
    annotator = ModelAnnotator(model)
    assert annotator.name_of("alfworld") == annotator.name_of("terminal") == annotator.annotate(PATH).annotator
    assert annotator.name_of("").startswith("judge+")
    assert ModelAnnotator(ScriptedModel([], name="other")).name_of("") != annotator.name_of("")


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (division(("all", ["take mug 1 from shelf 1", "go to desk 1"])), "it has 2 actions, and there are 3"),
        (division(("all", ["take mug", "go to desk 1", "move mug 1 to desk 1"])), "its action 1 is 'take mug'"),
        ("I cannot do that.", "no JSON object"),
        (
            division(("", ["take mug 1 from shelf 1", "go to desk 1", "move mug 1 to desk 1"])),
            "sub-task 1 has no name",
        ),
        (
            division(("a", []), ("b", ["take mug 1 from shelf 1", "go to desk 1", "move mug 1 to desk 1"])),
            "sub-task 1 has no action",
        ),
    ],
)
def test_a_bad_division_is_told_so_once_and_then_given_up(bad: str, fault: str) -> None:
    mended = ScriptedModel([bad, GOOD, "a", "b", "c"])
    assert len(ModelAnnotator(mended).annotate(PATH).subtasks) == 2
    assert fault in mended.asked[1][-1].content
    with pytest.raises(ItemRejected, match="no_division"):
        ModelAnnotator(ScriptedModel([bad, bad])).annotate(PATH)


def test_what_the_server_refuses_is_the_path_s_and_what_it_fails_at_is_not() -> None:
    with pytest.raises(ItemRejected, match="prompt_refused"):
        ModelAnnotator(ScriptedModel([ContextOverflow("too long")])).annotate(PATH)
    with pytest.raises(ModelUnavailable):
        ModelAnnotator(ScriptedModel([GOOD, ModelUnavailable("gone")])).annotate(PATH)
