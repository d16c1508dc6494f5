"""Annotations of published attempts: one row each, durable, made anew only for what reads otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.batch import Retry, StageReport
from pipeline.errors import ConfigurationError, ItemRejected
from pipeline.hierarchy.annotated import Annotated, Annotations, LeftOut, annotated
from pipeline.hierarchy.attempts import COLUMNS
from pipeline.hierarchy.path import Annotation, SubTask
from pipeline.hierarchy.path import Path as TaskPath
from pipeline.schemas import Row, to_rows
from pipeline.snapshots.attempts import VersionAttempts
from pipeline.stages.annotating import RULES, Annotator, annotate_all
from pipeline.stages.options import Options
from pipeline.tables import Store
from tests.unit.hierarchical_attempts import (
    ANNOTATOR,
    DIVIDED,
    DIVIDED_TERMINAL,
    KNOWING,
    divide,
    game_row,
    put,
    terminal_row,
)


def versions(root: Path, *references: str) -> list[VersionAttempts]:
    return [VersionAttempts(root, reference, COLUMNS) for reference in references]


def annotate(root: Path, *references: str, by: Annotator = KNOWING, options: Options = Options()) -> StageReport:  # noqa: B008
    return annotate_all(Store(root), versions(root, *references), by, options)


def named(name: str, annotate: Callable[[TaskPath], Annotation]) -> Annotator:
    return Annotator(lambda environment: name, annotate)


def rows(root: Path) -> list[Row]:
    return sorted(to_rows(Store(root).current("annotations")), key=lambda row: str(row["trajectory_id"]))


def test_each_attempt_of_the_versions_has_a_row(tmp_path: Path) -> None:
    put(tmp_path, "games", game_row())
    put(tmp_path, "terminal", terminal_row())
    report = annotate(tmp_path, "games@v0001", "terminal")
    assert (report.total, report.done, report.failed) == (2, 2, {})
    game, terminal = rows(tmp_path)
    assert (game["trajectory_id"], game["annotator"], game["environment"]) == ("traj-g", ANNOTATOR, "textcraft")
    assert game["subtasks"] == [one.model_dump() for one in DIVIDED.subtasks]
    assert game["progress"] == list(DIVIDED.progress)
    assert (terminal["environment"], terminal["progress"]) == ("terminal", list(DIVIDED_TERMINAL.progress))
    assert (game["faults"], game["failure_class"]) == ([], None)


def test_what_is_done_is_not_done_again_unless_it_reads_otherwise(tmp_path: Path) -> None:
    put(tmp_path, "games", game_row("a"), game_row("b"))
    annotate(tmp_path, "games")
    put(tmp_path, "games", game_row("a"), game_row("b", instruction="Fill two cups."), game_row("c"))
    report = annotate(tmp_path, "games")
    assert (report.total, report.skipped) == (3, 1)
    found = [one for one in annotated(versions(tmp_path, "games"), Annotations(Store(tmp_path), (ANNOTATOR,)))]
    assert [one.facts.trajectory_id for one in found if isinstance(one, Annotated)] == ["a", "b", "c"]
    assert annotate(tmp_path, "games@v0001", "games@v0002").skipped == 4


def test_a_failure_is_a_row_with_class_and_reason_and_can_be_tried_again(tmp_path: Path) -> None:
    def refuse(path: TaskPath) -> Annotation:
        raise ItemRejected("unreadable_answer", "3 actions of 5 are in it")

    put(tmp_path, "games", game_row())
    report = annotate(tmp_path, "games", by=named(ANNOTATOR, refuse))
    assert report.failed == {"unreadable_answer": 1}
    (row,) = rows(tmp_path)
    assert (row["trajectory_id"], row["failure_class"], row["subtasks"]) == ("traj-g", "unreadable_answer", None)
    (left,) = annotated(versions(tmp_path, "games"), Annotations(Store(tmp_path), (ANNOTATOR,)))
    assert left == LeftOut("traj-g", "annotation_failed", "unreadable_answer: 3 actions of 5 are in it")
    again = annotate(tmp_path, "games", options=Options(retry=Retry.ALL))
    assert (again.done, again.failed) == (1, {})
    (found,) = annotated(versions(tmp_path, "games"), Annotations(Store(tmp_path), (ANNOTATOR,)))
    assert isinstance(found, Annotated)
    assert found.annotation == DIVIDED


def test_faults_are_kept_and_leave_the_attempt_out(tmp_path: Path) -> None:
    vague = DIVIDED.model_copy(update={"subtasks": (SubTask(name="sing", n_actions=2), DIVIDED.subtasks[1])})
    put(tmp_path, "games", game_row())
    assert annotate(tmp_path, "games", by=named(ANNOTATOR, lambda path: vague)).done == 1
    (left,) = annotated(versions(tmp_path, "games"), Annotations(Store(tmp_path), (ANNOTATOR,)))
    reason = "object: sub-task 0 is called 'sing' and none of its actions is about that"
    assert left == LeftOut("traj-g", "annotation_faults", reason)
    assert rows(tmp_path)[0]["faults"] == [reason]


def test_where_the_first_annotator_is_of_no_use_the_next_one_counts(tmp_path: Path) -> None:
    put(tmp_path, "games", game_row())
    annotate(
        tmp_path,
        "games",
        by=named("model@1", lambda path: DIVIDED_TERMINAL.model_copy(update={"annotator": "model@1"})),
    )
    annotate(tmp_path, "games")
    (found,) = annotated(versions(tmp_path, "games"), Annotations(Store(tmp_path), ("model@1", ANNOTATOR)))
    assert isinstance(found, Annotated)
    assert found.annotation == DIVIDED
    (left,) = annotated(versions(tmp_path, "games"), Annotations(Store(tmp_path), ("model@1",)))
    assert left == LeftOut("traj-g", "annotation_faults", "counts: the sub-tasks have 3 actions, the path has 5")


def test_rules_sign_by_environment(tmp_path: Path) -> None:
    put(tmp_path, "games", game_row("a"), game_row("b", told={"environment": "alfworld"}))
    put(tmp_path, "terminal", terminal_row("c"))
    annotate(tmp_path, "games", "terminal", by=RULES)
    assert [row["annotator"] for row in rows(tmp_path)] == ["crafting@1", "verbs@1", "phases@1"]
    assert {row["failure_class"] for row in rows(tmp_path)} == {None}


def test_attempts_without_whole_actions_are_rows_that_say_so(tmp_path: Path) -> None:
    put(tmp_path, "terminal", terminal_row("a", steps=[]), terminal_row("b", interface="terminal"))
    assert annotate(tmp_path, "terminal").failed == {"no_actions": 1, "keys": 1}
    found = list(annotated(versions(tmp_path, "terminal"), Annotations(Store(tmp_path), (ANNOTATOR,))))
    assert [one.step for one in found if isinstance(one, LeftOut)] == ["no_actions", "keys"]


def test_annotators_do_not_share_annotations(tmp_path: Path) -> None:
    put(tmp_path, "games", game_row())
    annotate(tmp_path, "games")
    other = DIVIDED.model_copy(update={"annotator": "other@1"})
    assert annotate(tmp_path, "games", by=named("other@1", lambda path: other)).skipped == 0
    (left,) = annotated(versions(tmp_path, "games"), Annotations(Store(tmp_path), ("third@1",)))
    assert isinstance(left, LeftOut)
    assert left.step == "not_annotated"


def test_an_annotator_under_another_name_stops_the_run(tmp_path: Path) -> None:
    put(tmp_path, "games", game_row())
    with pytest.raises(ConfigurationError, match=r"the annotator other@1 signs as rules@1"):
        annotate(tmp_path, "games", by=named("other@1", divide))


def test_a_version_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no snapshot 'games'"):
        versions(tmp_path, "games")


def test_a_row_is_read_at_its_place(tmp_path: Path) -> None:
    put(tmp_path, "games", *(game_row(f"t{number:03}") for number in range(250)))
    (version,) = versions(tmp_path, "games")
    places = [(place, row["trajectory_id"]) for place, row in version]
    assert [name for _, name in places] == [f"t{number:03}" for number in range(250)]
    assert {version.at(place)["trajectory_id"] == name for place, name in places[::17]} == {True}
