"""What a model was trained on is found by id, by text and by likeness; what is unrelated is not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from tests.unit.recorded_evaluations import evaluated, planned
from training.evaluation_leaks import Leak, held_out, leaks
from training.evaluation_tasks import EvaluatedTask
from training.trained_on import TrainedRow, read_trained_on, write_trained_on

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "klmnrst"]


def prose(seed: int, length: int = 60) -> str:
    """Words in an order of their own."""
    return " ".join(random.Random(seed).choices(WORDS, k=length))


def task(instruction: str, full_name: str = "own/tool", family: str = "file") -> EvaluatedTask:
    return evaluated(planned("a", instruction=instruction, family=family), full_name)


def trained(instruction: str, instance_id: str = "task-0", full_name: str = "other/tool") -> TrainedRow:
    return TrainedRow(f"traj-{instance_id}", instance_id, instruction, full_name, "file")


def found(instruction: str, *of: str) -> list[tuple[str, str]]:
    rows = [trained(text, f"task-{number}") for number, text in enumerate(of)]
    return [(leak.kind, leak.trajectory_id) for leak in leaks(rows, [task(instruction)])]


def test_the_instance_itself_is_found_by_its_id_though_its_text_is_another() -> None:
    ours = task(prose(1))
    (leak,) = leaks([trained(prose(2), ours.instance_id)], [ours])
    assert (leak.kind, leak.left_out) == ("same_id", True)


def test_the_same_text_in_another_image_is_found_in_whatever_case_and_spacing() -> None:
    text = "Sort names.txt.\nWrite the result to out.txt."
    assert found(text, prose(5), "sort names.txt.  Write the result to OUT.txt.") == [("same_text", "traj-task-1")]


def test_a_near_copy_and_a_tenth_of_the_words_are_near_duplicates() -> None:
    copied = prose(1).replace(" ", " and ", 1)
    assert found(copied, prose(5), prose(1)) == [("near_duplicate", "traj-task-1")]
    quoting = f"{prose(2, 60)} {' '.join(prose(1).split()[:20])}"
    assert found(quoting, prose(5), prose(1)) == [("near_duplicate", "traj-task-1")]


def test_thirteen_words_in_a_long_text_are_told_and_not_left_out() -> None:
    quoting = f"{prose(2, 200)} {' '.join(prose(1).split()[:13])} {prose(3, 200)}"
    (leak,) = leaks([trained(prose(1))], [task(quoting)])
    assert (leak.kind, leak.left_out) == ("review", False)


def test_unrelated_texts_and_no_training_are_no_leaks() -> None:
    assert found(prose(1), *(prose(seed) for seed in range(2, 12))) == []
    assert found(prose(1)) == []
    assert leaks([trained(prose(1))], []) == []


def test_a_paragraph_that_tasks_of_three_families_have_is_no_leak_and_one_of_two_is() -> None:
    place = f"Paths are relative to /srv/tool, {prose(9, 30)}"
    learned = [
        TrainedRow(f"traj-{family}", f"task-{family}", f"{prose(number)}\n\n{place}", "own/tool", family)
        for number, family in enumerate(("renamed", "copied", "counted"))
    ]
    asked = [task(f"{prose(5)}\n\n{place}", family="sorted")]
    assert leaks(learned, asked) == []
    assert [one.kind for one in leaks(learned[:1], asked)] == ["near_duplicate"]


def test_a_near_copy_is_found_beside_a_paragraph_that_all_have() -> None:
    place = f"Paths are relative to /srv/tool, {prose(9, 30)}"
    learned = [
        TrainedRow(f"traj-{family}", f"task-{family}", f"{prose(number)}\n\n{place}", "own/tool", family)
        for number, family in enumerate(("renamed", "copied", "counted"))
    ]
    near = leaks(learned, [task(f"{prose(1)} again\n\n{place}", family="sorted")])
    assert [(one.kind, one.trajectory_id) for one in near] == [("near_duplicate", "traj-copied")]


def test_repositories_and_families_in_common_are_figures_of_what_is_kept() -> None:
    tasks = [
        task(prose(1), "Shared/Tool", "other"),
        task(prose(2), "own/one", "file"),
        task(prose(3), "own/two", "third"),
        task(prose(4), "own/three", "third"),
        task(prose(9), "shared/tool", "file"),
    ]
    held = held_out([trained(prose(9), "task-9", "shared/tool"), trained(prose(9), "task-9", "shared/tool")], tasks)
    assert held.left_out == {tasks[4].instance_id}
    assert (held.trained_trajectories, held.trained_instances) == (2, 1)
    assert (held.same_repository, held.same_family) == (0.25, 0.25)
    assert held.leaks == (
        Leak(
            instance_id=tasks[4].instance_id,
            kind="same_text",
            trajectory_id="traj-task-9",
            reason="its instruction was trained on",
        ),
    )


def test_what_was_trained_on_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    rows = [trained(f"Text {number}\n\0 é", f"task-{number}") for number in range(3)]
    write_trained_on(tmp_path, iter(rows))
    assert list(read_trained_on(tmp_path)) == rows


@pytest.mark.parametrize("content", [None, b"PAR1 and no more"])
def test_a_model_without_its_file_is_not_taken_for_one_that_learned_nothing(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "trained_on.parquet").write_bytes(content)
    with pytest.raises(ConfigurationError, match="nothing can be held out"):
        list(read_trained_on(tmp_path))
