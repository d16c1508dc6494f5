"""What is near to a benchmark is dropped or shown, boilerplate is not taken for it, and folders of both formats are
read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pipeline.curation.benchmarks import BenchmarkTask, fingerprint, read_benchmarks
from pipeline.curation.decontamination import Benchmark, Contamination, Ours
from pipeline.errors import ConfigurationError

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "klmnrst"]


def prose(seed: int, length: int = 80) -> str:
    """Words in an order of their own."""
    return " ".join(random.Random(seed).choices(WORDS, k=length))


def held(seed: int, name: str = "", extra: str = "") -> BenchmarkTask:
    tests = f"def test_it():\n    assert open('/app/{prose(seed, 1)}-{seed}.csv').read() == '{prose(seed + 500, 30)}'\n"
    return BenchmarkTask(name=name or f"task-number-{seed}", instruction=f"{prose(seed)} {extra}", tests=tests)


def checked(instruction: str, verifier: str = "", repository: str = "own/tool", tasks: int = 6) -> Contamination:
    ours = Ours(instance_id="task-1", repository=repository, instruction=instruction, verifier=verifier)
    return Benchmark([held(seed) for seed in range(tasks)]).check([ours])["task-1"]


def test_a_task_of_ones_own_is_clean() -> None:
    assert checked(prose(100), prose(101)).decision == "clean"


def test_a_copy_of_a_task_is_dropped_and_named() -> None:
    copied = held(3)
    found = checked(copied.instruction, copied.tests)
    assert (found.decision, found.task) == ("drop", "task-number-3")


def test_a_tenth_of_the_runs_of_eight_words_drops() -> None:
    part = " ".join(prose(2).split()[:20])
    found = checked(f"{prose(100, 60)} {part} {prose(101, 20)}")
    assert found.decision == "drop" and "runs of 8 words stand in task-number-2" in found.reason


def test_one_run_of_thirteen_words_is_for_review() -> None:
    part = " ".join(prose(2).split()[:13])
    found = checked(f"{prose(100, 200)} {part} {prose(101, 200)}")
    assert (found.decision, found.task) == ("review", "task-number-2")
    assert part in found.reason


def test_a_run_of_twelve_words_says_nothing() -> None:
    part = " ".join(prose(2).split()[:12])
    assert checked(f"{prose(100, 200)} {part} {prose(101, 200)}").decision == "clean"


def test_what_many_tasks_of_the_benchmark_say_is_boilerplate() -> None:
    canary = prose(900, 20)
    tasks = [held(seed, extra=canary) for seed in range(6)]
    ours = Ours(instance_id="task-1", repository="own/tool", instruction=f"{prose(100)} {canary}", verifier="")
    assert Benchmark(tasks).check([ours])["task-1"].decision == "clean"


def test_what_many_tasks_of_ours_say_is_boilerplate() -> None:
    frame = " ".join(prose(2).split()[:25])
    ours = [
        Ours(instance_id=f"task-{i}", repository="own/tool", instruction=f"{prose(100 + i, 60)} {frame}", verifier="")
        for i in range(6)
    ]
    benchmark = Benchmark([held(seed) for seed in range(6)])
    assert {one.decision for one in benchmark.check(ours).values()} == {"clean"}
    assert {one.decision for one in benchmark.check(ours[:2]).values()} == {"drop"}


def test_unusual_file_names_in_common_are_for_review() -> None:
    tasks = [held(0), BenchmarkTask(name="x", instruction="Read kessel_run.csv, write parsec_sums.json.", tests="")]
    ours = Ours(
        instance_id="task-1", repository="own/tool", instruction=prose(100), verifier="kessel_run.csv parsec_sums.json"
    )
    found = Benchmark(tasks).check([ours])["task-1"]
    assert (found.decision, found.task) == ("review", "x") and "parsec_sums.json" in found.reason


@pytest.mark.parametrize("repository", ["own/task-number-4", "own/Task_Number_4-copy"])
def test_a_repository_that_is_called_like_a_task_is_for_review(repository: str) -> None:
    assert checked(prose(100), repository=repository).decision == "review"


def test_folders_of_both_formats_are_read_at_any_depth(tmp_path: Path) -> None:
    harbor, older = tmp_path / "set" / "b-task", tmp_path / "set" / "deep" / "a-task"
    (harbor / "tests").mkdir(parents=True)
    (harbor / "task.toml").write_text("")
    (harbor / "instruction.md").write_text("Do it.\n")
    (harbor / "tests" / "test_outputs.py").write_text("assert 1\n")
    (harbor / "tests" / "data.bin").write_bytes(b"\xff")
    older.mkdir(parents=True)
    (older / "task.yaml").write_text("instruction: |-\n  Do that.\n")
    found = read_benchmarks([tmp_path / "set"])
    assert [(one.name, one.instruction, one.tests) for one in found] == [
        ("a-task", "Do that.", ""),
        ("b-task", "Do it.\n", "assert 1\n"),
    ]
    assert fingerprint(found) == fingerprint(read_benchmarks([tmp_path / "set"])) != fingerprint(found[:1])


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "no task.toml and no task.yaml"),
        ({"task.yaml": "- a list"}, "no instruction that can be read"),
        ({"task.yaml": "a: [1"}, "no instruction that can be read"),
        ({"task.toml": ""}, "cannot be read: No such file"),
    ],
)
def test_what_is_no_task_is_named(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=reason):
        read_benchmarks([tmp_path])


def test_a_path_that_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="gone is no folder"):
        read_benchmarks([tmp_path / "gone"])
