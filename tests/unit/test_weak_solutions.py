"""What is derived from the files that an oracle left: weak solutions, and the same one by another hand."""

from __future__ import annotations

import hashlib

import pytest

from pipeline.admission.generic import rewritten, weak_files
from pipeline.admission.outputs import Outputs, named_paths
from pipeline.types import TaskInstance
from sandbox.types import FileChange

OUT, LOG = "/work/out.csv", "/work/log"


def change(path: str, content: bytes, *, kind: str = "added", mode: int = 0o644) -> FileChange:
    digest = hashlib.sha256(content).hexdigest()
    given = {"path": path, "kind": kind, "type": "file", "sha256": digest, "size": len(content), "mode": mode}
    return FileChange.model_validate(given)


def outputs(
    files: dict[str, bytes], *, named: tuple[str, ...] = (OUT,), kind: str = "added", mode: int = 0o644
) -> Outputs:
    changes = tuple(change(path, content, kind=kind, mode=mode) for path, content in files.items())
    return Outputs(changes, files, tuple(one for one in changes if one.path in named))


def names(left: Outputs, before: dict[str, bytes] | None = None, inputs: dict[str, bytes] | None = None) -> list[str]:
    return [made.name for made in weak_files(left, before or {}, inputs or {}, live=False)]


def test_a_new_file_is_left_out_in_every_tempting_way() -> None:
    made = weak_files(outputs({OUT: b"a,b\n1,2\n"}), {}, {"/work/in.csv": b"x\n"}, live=False)
    assert {one.name: one.files[OUT] for one in made} == {
        "touched": b"",
        "empty": b"",
        "constant_number": b"0\n",
        "constant_word": b"ok\n",
        "truncated": b"a,b\n",
        "input_copied": b"x\n",
    }
    assert [one.name for one in made if one.untouched] == ["touched"]


@pytest.mark.parametrize(
    ("content", "missing"), [(b"0\n", "constant_number"), (b"ok\n", "constant_word"), (b"", "empty")]
)
def test_what_the_oracle_left_itself_is_not_weak(content: bytes, missing: str) -> None:
    assert missing not in names(outputs({OUT: content}))


def test_the_state_before_is_weak_only_where_something_else_was_changed_too() -> None:
    assert "previous_state" not in names(outputs({OUT: b"new\n"}, kind="modified"), {OUT: b"old\n"})
    assert "previous_state" in names(outputs({OUT: b"new\n", LOG: b"x\n"}, kind="modified"), {OUT: b"old\n"})


def test_a_file_whose_mode_alone_changed_gives_none() -> None:
    assert names(outputs({OUT: b"same\n"}, kind="modified", mode=0o600), {OUT: b"same\n"}) == []


def test_a_program_that_does_nothing_is_weak_where_a_program_is_asked_for() -> None:
    assert "does_nothing" in names(outputs({OUT: b"#!/bin/sh\necho 1\n"}, mode=0o755))
    assert "does_nothing" not in names(outputs({OUT: b"1\n"}))


def test_of_several_new_files_each_one_may_be_the_one_that_is_missing() -> None:
    left = outputs({OUT: b"1\n2\n", "/work/b.txt": b"3\n4\n"}, named=(OUT, "/work/b.txt"))
    assert {"empty_out.csv", "empty_b.txt"} <= set(names(left))


def test_what_no_instruction_names_gives_no_weak_solution() -> None:
    assert names(outputs({LOG: b"x\n"})) == []


def test_live_tasks_get_only_what_is_there_before_a_service_starts() -> None:
    assert [one.name for one in weak_files(outputs({OUT: b"1\n2\n"}), {}, {}, live=True)] == ["touched"]


@pytest.mark.parametrize(
    ("solution", "mode", "certain"),
    [("sort in.csv > out.csv", 0o644, True), ("cp a out.csv; chown 5 out.csv", 0o644, False), ("make", 0o755, False)],
)
def test_only_plain_files_are_written_by_another_hand(
    task: TaskInstance, solution: str, mode: int, certain: bool
) -> None:
    made = rewritten(task.model_copy(update={"solution": (solution,)}), outputs({OUT: b"1\n"}, mode=mode))
    assert (made is not None) == certain


def test_paths_are_named_absolutely_or_from_the_working_directory() -> None:
    said = "Sort data/in.csv, write `report` and /srv/x/../y.txt. The word out is none."
    assert named_paths(said, "/work") == {"/work/data/in.csv", "/work/report", "/srv/y.txt"}
