"""The five data sets and the benchmarks as versions: what is in them, what is not, and when they are made anew."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from pipeline.errors import ConfigurationError
from pipeline.hierarchy.agreement import agreement
from pipeline.hierarchy.attempts import COLUMNS
from pipeline.hierarchy.columns import BENCHMARK, DATASETS, meanings
from pipeline.hierarchy.path import Annotation, SubTask
from pipeline.hierarchy.path import Path as TaskPath
from pipeline.published_checks import unreadable
from pipeline.snapshots import SnapshotVersion, check, load, manifest_of
from pipeline.snapshots.attempts import VersionAttempts
from pipeline.stages.annotating import Annotator, annotate_all
from pipeline.stages.benchmarks import BenchmarkPublication, publish_benchmark
from pipeline.stages.hierarchical import HierarchicalPublication, publish_hierarchical
from pipeline.stages.options import Options
from pipeline.tables import Store
from pipeline.token_counts import TokenCounter
from tests.unit.hierarchical_attempts import ANNOTATOR, DIVIDED, divide, game_row, played, put, terminal_row
from tests.unit.hostile_rows import TEXTS
from tests.unit.small_tokenizer import small_tokenizer


def divide_oddly(path: TaskPath) -> Annotation:
    """The odd task has a sub-goal that is about nothing."""
    found = divide(path)
    if path.task != "odd":
        return found
    first = found.subtasks[0].model_copy(update={"name": "sing"})
    return found.model_copy(update={"subtasks": (first, *found.subtasks[1:])})


def annotate(root: Path, *references: str) -> None:
    versions = [VersionAttempts(root, reference, COLUMNS) for reference in references]
    annotate_all(Store(root), versions, Annotator(lambda environment: ANNOTATOR, divide_oddly), Options())


def filled(tmp_path: Path) -> Path:
    """Annotated attempts, of which some are of no use."""
    failed = {"verified": False, "outcome": "failed", "agent": "wander", "details": {"source": "random"}}
    put(
        tmp_path,
        "games",
        game_row("g1"),
        game_row("g2", split="unseen", instance_id="task-2", told={"split": "unseen", "variation": "8"}),
        game_row("g3", **failed),
        game_row("g4", instruction="odd", split="seen"),
    )
    put(tmp_path, "terminal", terminal_row("t1"), terminal_row("t2", steps=[]))
    annotate(tmp_path, "games", "terminal")
    return tmp_path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def five(root: Path) -> dict[str, SnapshotVersion]:
    return published(root, agreement=agreement([(DIVIDED, DIVIDED)]))


def published(root: Path, **changes: object) -> dict[str, SnapshotVersion]:
    told: dict[str, object] = {"parents": ("games", "terminal@v0001"), "annotators": (ANNOTATOR,), **changes}
    publication = HierarchicalPublication(**told)  # type: ignore[arg-type]
    return publish_hierarchical(Store(root), root, publication, code_commit="abc", run_id=None)


def test_five_versions_hold_the_rows_of_all_usable_attempts(five: dict[str, SnapshotVersion]) -> None:
    assert {name: one.rows for name, one in five.items()} == {
        "system1": 3 * 2 + 3,
        "system2": 3 * 5 + 3,
        "step_high": 3 * 2 + 3,
        "step_low": 3 * 5 + 3,
        "step_progress": 3 * 5 + 3,
    }
    for name, version in five.items():
        assert check(version.path) == []
        assert unreadable(version.path, DATASETS[name]) == []
        manifest = manifest_of(version.path)
        assert manifest.parents == ("games@v0001", "terminal@v0001")
        assert manifest.key == ("trajectory_id", "step_idx")
        assert set(manifest.splits) == {"train", "unseen", "test"}
        assert manifest.summary == {
            "attempts": {"terminal": 1, "textcraft": 3},
            "left_out": {"annotation_faults": 1, "no_actions": 1},
        }


def test_what_is_left_out_is_listed_by_attempt_with_its_reason(five: dict[str, SnapshotVersion]) -> None:
    out = pq.read_table(five["step_low"].path / "excluded.parquet").to_pylist()
    assert [(one["trajectory_id"], one["step"], one["reason"]) for one in out] == [
        ("g4", "annotation_faults", "object: sub-task 0 is called 'sing' and none of its actions is about that"),
        ("t2", "no_actions", "there is no action in it"),
    ]


def test_failed_attempts_are_there_and_told_apart(five: dict[str, SnapshotVersion]) -> None:
    rows = load(five["step_low"].path).to_pylist()
    told = {(one["trajectory_id"], one["source"], one["verified"], one["success"]) for one in rows}
    assert told == {
        ("g1", "expert", True, True),
        ("g2", "expert", True, True),
        ("g3", "random", False, False),
        ("t1", "bc", True, True),
    }


def test_the_same_annotations_make_no_new_version_and_others_do(tmp_path: Path) -> None:
    root = filled(tmp_path)
    published(root)
    again = published(root)
    assert {(one.version, one.created) for one in again.values()} == {("v0001", False)}
    put(root, "games", game_row("g1"), game_row("g5"))
    annotate(root, "games")
    more = published(root)
    assert {(one.version, one.created) for one in more.values()} == {("v0002", True)}
    assert manifest_of(more["system1"].path).parents == ("games@v0002", "terminal@v0001")


def test_tokens_are_counted_when_a_tokenizer_is_given(tmp_path: Path) -> None:
    root = filled(tmp_path / "data")
    counter = TokenCounter(small_tokenizer(tmp_path / "small"))
    version = published(root, tokens=counter)["step_low"]
    rows = load(version.path).to_pylist()
    assert all(one["n_prompt_tokens"] == counter.count(one["prompt"]) for one in rows)
    assert manifest_of(version.path).filters["tokenizer"] == counter.tokenizer_id


def test_nothing_usable_stops_with_the_remedy(root: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none of the 6 attempts of games@v0001, terminal@v0001 .*other@1"):
        published(root, annotators=("other@1",))


def head_of(card: str) -> dict[str, object]:
    lines = card.split("---\n")[1].splitlines()
    return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in lines)}


def test_the_card_says_what_a_row_is_how_many_and_how_to_filter(five: dict[str, SnapshotVersion]) -> None:
    for name, version in five.items():
        card = (version.path / "README.md").read_text()
        assert f"# Hierarchical trajectories: {name} v0001" in card
        assert "keep the rows with `verified`" in card
        assert "attempts with rows here | 4" in card
        assert "| left out: annotation_faults | 1 |" in card
        assert "| pk | 0.0 |" in card
        assert 'load_dataset("DIR", split="train")' in card
        assert head_of(card)["license"] == ["mit"]
        assert head_of(card)["configs"] == [
            {
                "config_name": "default",
                "data_files": [{"split": one, "path": f"data/{one}-*.parquet"} for one in ("test", "train", "unseen")],
            }
        ]
        assert all(text.split(":")[0].replace("<", "&lt;")[:20] in card for text in meanings(name).values())


def test_odd_texts_come_through_as_they_are(tmp_path: Path) -> None:
    odd = [text for text in TEXTS.values() if text]
    steps = [played(text, text, 0.0) for text in odd]
    put(tmp_path, "games", game_row("odd", steps=steps, instruction=TEXTS["markup"], solution=odd))
    versions = [VersionAttempts(tmp_path, "games", COLUMNS)]
    annotate_all(Store(tmp_path), versions, Annotator(lambda environment: ANNOTATOR, one_by_one), Options())
    found = published(tmp_path, parents=("games",))
    rows = load(found["step_progress"].path).to_pylist()
    assert [row["action"] for row in rows] == odd
    assert [row["resulting_obs"] for row in rows[:-1]] == odd[1:]
    assert [row["action"] for row in load(found["step_low"].path).to_pylist()] == [f"{text}; True" for text in odd]
    assert {one: check(version.path) for one, version in found.items()} == {name: [] for name in found}


def one_by_one(path: TaskPath) -> Annotation:
    """Every action is a sub-goal of its own, named like it."""
    names = [step.action for step in path.steps]
    subtasks = tuple(SubTask(name=name, n_actions=1) for name in names)
    return Annotation(annotator=ANNOTATOR, subtasks=subtasks, progress=tuple(names))


def test_readers_of_others_find_every_row(five: dict[str, SnapshotVersion]) -> None:
    version = five["step_high"]
    keys = "count(DISTINCT (trajectory_id, step_idx))"
    count = duckdb.sql(f"SELECT count(*), {keys} FROM '{version.path}/data/*.parquet'")
    assert count.fetchall() == [(9, 9)]


def benchmark(root: Path, **changes: object) -> SnapshotVersion:
    told: dict[str, object] = {
        "environment": "textcraft",
        "parent": "games",
        "annotators": (ANNOTATOR,),
        "max_steps": 40,
    }
    publication = BenchmarkPublication(**{**told, **changes})  # type: ignore[arg-type]
    return publish_benchmark(Store(root), root, publication, code_commit=None, run_id=None)


def test_a_benchmark_has_a_row_for_each_solved_and_annotated_task(root: Path) -> None:
    version = benchmark(root)
    assert (version.name, version.rows) == ("hierarchical-textcraft", 2)
    assert check(version.path) == []
    assert unreadable(version.path, BENCHMARK) == []
    first, second = sorted(load(version.path).to_pylist(), key=lambda row: str(row["task_id"]))
    assert (first["task_id"], first["split"]) == ("task-2", "ood")
    assert (second["task_id"], second["split"], second["variation_id"]) == ("task-g", "train", "7")
    assert (second["gold_steps"], second["max_steps"], second["max_score"]) == (5, 40, 1.0)
    assert second["observation"] == "You are in the hall."
    assert (second["package"], second["package_version"], second["depth"]) == ("textcraft", "0.0.3", None)
    assert second["subgoals"] == [
        {
            "subgoal": "be in the kitchen",
            "actions": ["open door", "go kitchen"],
            "progress": ["the door is open", "past the door"],
        },
        {
            "subgoal": "fill the cup",
            "actions": ["take cup", "eat cup", "fill cup"],
            "progress": ["holds the cup", "a cup cannot be eaten", "the cup is full"],
        },
    ]


def test_a_benchmark_lists_its_tasks_and_those_it_lacks(root: Path) -> None:
    version = benchmark(root)
    assert (version.path / "tasks_id.txt").read_text() == ""
    assert (version.path / "tasks_ood.txt").read_text() == "task-2\tdrink\t8\n"
    out = pq.read_table(version.path / "excluded.parquet").to_pylist()
    assert [(one["trajectory_id"], one["step"]) for one in out] == [("g4", "annotation_faults")]
    card = (version.path / "README.md").read_text()
    assert "Benchmark of hierarchical agents: hierarchical-textcraft v0001" in card
    assert "tasks_ood.txt" in card


def test_only_attempts_that_carry_out_the_reference_solution_stand_for_a_task(tmp_path: Path) -> None:
    put(tmp_path, "games", game_row("a", solution=["fill cup"]), game_row("b", instance_id="task-b"))
    annotate(tmp_path, "games")
    assert [row["task_id"] for row in load(benchmark(tmp_path).path).to_pylist()] == ["task-b"]


def test_a_benchmark_without_tasks_is_refused(root: Path) -> None:
    with pytest.raises(ConfigurationError, match="reference solution of alfworld"):
        benchmark(root, environment="alfworld")


def test_the_same_tasks_make_no_new_version(tmp_path: Path) -> None:
    root = filled(tmp_path)
    benchmark(root)
    assert not benchmark(root).created
    assert benchmark(root, max_steps=50).version == "v0002"
