"""What makes an annotation unusable, and how far two of them agree."""

from __future__ import annotations

import pytest

from pipeline.hierarchy.agreement import agreement, cuts, overlap, pk, window_diff
from pipeline.hierarchy.checks import faults
from pipeline.hierarchy.path import Annotation, Path, PathStep, SubTask

ACTIONS = ("go to kitchen", "take pot", "fill pot", "go to garden", "water rose")
PATH = Path(
    environment="game",
    task="Water the plant.",
    steps=tuple(PathStep(observation="o", action=action, result="ok") for action in ACTIONS),
)
TOLD = ("at kitchen", "took pot", "took pot, fill pot", "at garden", "at garden, water rose")


def annotation(*subtasks: tuple[str, int], progress: tuple[str, ...] = TOLD, annotator: str = "a") -> Annotation:
    parts = tuple(SubTask(name=name, n_actions=count) for name, count in subtasks)
    return Annotation(annotator=annotator, subtasks=parts, progress=progress)


GOOD = (("take the pot", 3), ("water the rose", 2))


def test_a_good_annotation_has_no_fault() -> None:
    assert faults(PATH, annotation(*GOOD)) == ()


def test_other_counts_than_those_of_the_path_are_a_fault() -> None:
    short = annotation(("take the pot", 3), progress=TOLD[:3])
    assert faults(PATH, short) == ("counts: the sub-tasks have 3 actions, the path has 5",)


def test_a_fact_that_is_lost_is_a_fault() -> None:
    lost = ("at kitchen", "at kitchen, took pot", "nothing", "at garden", "at garden, water rose")
    assert [text for text in faults(PATH, annotation(*GOOD, progress=lost)) if text.startswith("inherits")]


def test_a_word_about_the_future_is_a_fault_but_for_what_is_known_or_is_the_goal() -> None:
    ahead = ("at kitchen, later the garden", *TOLD[1:])
    found = faults(PATH, annotation(*GOOD, progress=ahead))
    assert found == ("future: after action 0 progress names garden, which comes later",)
    of_the_task = ("at kitchen, for the plant", *TOLD[1:])
    assert faults(PATH, annotation(*GOOD, progress=of_the_task)) == ()


def test_a_name_that_is_about_nothing_done_is_a_fault() -> None:
    found = faults(PATH, annotation(("sing a song", 3), ("water the rose", 2)))
    assert found == ("object: sub-task 0 is called 'sing a song' and none of its actions is about that",)


def test_sub_tasks_and_progress_have_to_be_of_one_length() -> None:
    with pytest.raises(ValueError, match="2 actions, progress is told of 5"):
        annotation(("take", 2))


def test_equal_divisions_agree_wholly() -> None:
    told = agreement([(annotation(*GOOD), annotation(*GOOD, annotator="b"))])
    assert (told.first, told.second, told.paths) == ("a", "b", 1)
    assert (told.boundary_f1, told.pk, told.window_diff, told.name_f1, told.progress_f1) == (1.0, 0.0, 0.0, 1.0, 1.0)


def test_measures_of_segmentation_are_those_computed_by_hand() -> None:
    ours, theirs = annotation(("a b", 3), ("c", 2)), annotation(("a d", 2), ("c", 3))
    assert cuts(ours) == {3} and cuts(theirs) == {2}
    # Mean length 2.5, so windows of 1: pairs (0,1) (1,2) (2,3) (3,4). Ours cuts the third, theirs the second.
    assert pk(ours, theirs) == pytest.approx(2 / 4)
    assert window_diff(ours, theirs) == pytest.approx(2 / 4)
    told = agreement([(ours, theirs)])
    assert (told.boundary_precision, told.boundary_recall, told.boundary_f1) == (0.0, 0.0, 0.0)
    # Names by action: "a b"/"a d" twice (0.5 each), "a b"/"c" (0), "c"/"c" twice.
    assert told.name_f1 == pytest.approx((0.5 + 0.5 + 0 + 1 + 1) / 5)


def test_words_overlap_as_bags() -> None:
    assert overlap("red red pot", "red pot pot") == pytest.approx(2 * 2 / 6)
    assert overlap("", "") == 1.0 and overlap("a", "") == 0.0


def test_annotations_of_different_paths_and_none_are_refused() -> None:
    with pytest.raises(ValueError, match="different paths"):
        agreement([(annotation(*GOOD), annotation(("x", 1), progress=("p",)))])
    with pytest.raises(ValueError, match="no path"):
        agreement([])
