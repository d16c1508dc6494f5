"""Rows of the five data sets of hierarchies, worked out by hand for a path of five actions in two sub-goals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.column_meanings import meaning
from pipeline.errors import ItemRejected
from pipeline.hierarchy import prompts
from pipeline.hierarchy.attempts import AttemptFacts, facts_of, path_of, path_sha256, source_of
from pipeline.hierarchy.columns import BENCHMARK, DATASETS, meanings
from pipeline.hierarchy.path import NOTHING, Annotation, PathStep, SubTask
from pipeline.hierarchy.path import Path as TaskPath
from pipeline.hierarchy.rows import rows_of
from pipeline.schemas import schema_sha256, to_arrow
from pipeline.token_counts import TokenCounter
from tests.unit.hierarchical_attempts import (
    ANNOTATOR,
    DIVIDED,
    DIVIDED_TERMINAL,
    GAME_STEPS,
    game_row,
    played,
    step,
    stored,
    terminal_row,
)
from tests.unit.hostile_rows import TEXTS
from tests.unit.small_tokenizer import small_tokenizer

COMMON = (
    "split env task_type task_id variation_id trajectory_id source step_idx n_steps seed annotator tokenizer_id "
    "n_prompt_tokens n_target_tokens verified final_score success"
)
OWN = {
    "system1": "task_description group_actions obs prompt subgoal h_idx reward_sum done",
    "system2": "subgoal obs action reward env_reward next_obs done sub_trajectory_id is_online return_sum",
    "step_high": "prompt subtask reward score done next_prompt k completed_subtasks last_progress n_low_steps",
    "step_low": "prompt action reward env_reward done next_prompt subtask progress obs rejected",
    "step_progress": "prompt progress reward done next_prompt subtask prev_progress action resulting_obs",
}


def of(row: dict[str, Any], dataset: str, annotation: Annotation) -> list[dict[str, Any]]:
    """The rows of one attempt as a reader of the files finds them."""
    path = path_of(row)
    found: list[dict[str, Any]] = to_arrow(
        DATASETS[dataset], rows_of(dataset, path, annotation, facts_of(row, path))
    ).to_pylist()
    return found


def game(dataset: str) -> list[dict[str, Any]]:
    return of(stored(game_row()), dataset, DIVIDED)


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


@pytest.mark.parametrize("name", sorted(OWN))
def test_the_columns_are_the_common_ones_and_those_of_the_data_set(name: str) -> None:
    assert DATASETS[name].arrow.names == f"{COMMON} {OWN[name]}".split()


def test_a_schema_changes_only_together_with_its_version() -> None:
    known = {
        ("system1", 1): "e61419dd93e5",
        ("system2", 1): "5de26b5d06da",
        ("step_high", 1): "da82cb07a065",
        ("step_low", 1): "8f397226977c",
        ("step_progress", 1): "e0f8a04e97dc",
        ("benchmark", 1): "316124dbff0e",
    }
    schemas = [*DATASETS.values(), BENCHMARK]
    now = {(one.name, one.version): schema_sha256(one.arrow)[:12] for one in schemas}
    assert now == known


def test_every_column_has_a_meaning() -> None:
    for name, schema in {**DATASETS, BENCHMARK.name: BENCHMARK}.items():
        assert [column for column in schema.arrow.names if not meaning(name, column)] == []
        assert {column.split(".")[0] for column in meanings(name)} == set(schema.arrow.names)


def test_the_path_of_a_game_has_what_was_seen_before_and_after_each_action() -> None:
    path = path_of(stored(game_row()))
    assert (path.environment, path.task) == ("textcraft", "Fill a cup.")
    assert [one.observation for one in path.steps] == [one["observation"] for one in GAME_STEPS]
    assert [one.result for one in path.steps[:-1]] == [one["observation"] for one in GAME_STEPS[1:]]
    assert path.steps[-1].result == "The cup is full."
    assert [one.reward for one in path.steps] == [0.2, 0.0, 0.3, 0.0, 0.5]
    assert [one.score for one in path.steps] == [0.2, 0.2, 0.5, 0.5, 1.0]
    assert [one.rejected for one in path.steps] == [False, False, False, True, False]
    assert [one.done for one in path.steps] == [False] * 4 + [True]


def test_in_the_terminal_handing_in_and_answers_without_a_command_are_no_steps() -> None:
    path = path_of(stored(terminal_row()))
    assert [one.action for one in path.steps] == ["ls", "foo a.txt", "echo ok > b"]
    assert [one.observation for one in path.steps] == [
        "",
        "[exit code 0]\na.txt",
        "[exit code 127]\nfoo: not found",
    ]
    assert path.steps[-1].result == "[exit code 0]"
    assert [one.rejected for one in path.steps] == [False, True, False]
    assert [(one.reward, one.score) for one in path.steps] == [(0, 0), (0, 0), (1, 1)]
    assert not any(one.done for one in path.steps)


def test_a_failed_attempt_in_the_terminal_earns_nothing() -> None:
    path = path_of(stored(terminal_row(verified=False, outcome="failed")))
    assert [one.reward for one in path.steps] == [0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "why"), [({"steps": []}, "no_actions"), ({"interface": "terminal"}, "keys")], ids=["empty", "keys"]
)
def test_what_has_no_whole_actions_has_no_path(changes: dict[str, object], why: str) -> None:
    with pytest.raises(ItemRejected, match=why):
        path_of(stored(terminal_row(**changes)))


def test_facts_name_task_variation_and_seed_of_each_environment() -> None:
    row = stored(game_row())
    facts = facts_of(row, path_of(row))
    assert facts == AttemptFacts(
        split="train",
        env="textcraft",
        task_type="drink",
        task_id="task-g",
        variation_id="7",
        trajectory_id="traj-g",
        source="expert",
        seed=11,
        verified=True,
        final_score=1.0,
        handed_in=False,
    )
    row = stored(terminal_row())
    facts = facts_of(row, path_of(row))
    told = (facts.env, facts.variation_id, facts.source, facts.seed, facts.final_score, facts.handed_in)
    assert told == ("terminal", "pypi/six@1.16", "bc", 5, 1.0, True)
    generated = stored(terminal_row(source="context", seed=3))
    assert facts_of(generated, path_of(generated)).variation_id == "3"


@pytest.mark.parametrize(
    ("changes", "source"),
    [({"agent": "oracle"}, "expert"), ({"details": {"source": "round_2"}}, "round_2"), ({"details": {}}, "bash")],
)
def test_the_source_is_the_expert_or_the_collection(changes: dict[str, object], source: str) -> None:
    assert source_of(stored(terminal_row(**changes))) == source


def test_the_planner_reads_what_was_done_since_it_was_asked_last() -> None:
    rows = game("system1")
    assert column(rows, "subgoal") == ["be in the kitchen", "fill the cup"]
    assert column(rows, "group_actions") == [[], ["open door", "go kitchen"]]
    assert column(rows, "obs") == ["You are in the hall.", "This is the kitchen."]
    assert column(rows, "step_idx") == [0, 2]
    assert column(rows, "h_idx") == [0, 1]
    assert column(rows, "reward_sum") == [0.2, 0.8]
    assert column(rows, "done") == [False, True]
    expected = prompts.planner("Fill a cup.", ["open door", "go kitchen"], "This is the kitchen.")
    assert rows[1]["prompt"] == expected
    assert rows[0]["task_description"] == "Fill a cup."


def test_the_executor_gets_one_at_the_end_of_a_sub_goal_and_minus_one_for_what_was_rejected() -> None:
    rows = game("system2")
    assert column(rows, "action") == [
        "open door; false",
        "go kitchen; true",
        "take cup; false",
        "eat cup; false",
        "fill cup; true",
    ]
    assert column(rows, "reward") == [0, 1, 0, -1, 1]
    assert column(rows, "env_reward") == [0.2, 0, 0.3, 0, 0.5]
    assert column(rows, "done") == [False, True, False, False, True]
    assert column(rows, "sub_trajectory_id") == ["traj-g/0"] * 2 + ["traj-g/1"] * 3
    assert column(rows, "return_sum") == [1.0] * 5
    assert column(rows, "is_online") == [False] * 5
    assert column(rows, "next_obs")[-1] == "The cup is full."
    assert column(rows, "step_idx") == [0, 1, 2, 3, 4]


def test_the_high_level_gets_the_change_of_the_score_inside_each_sub_task() -> None:
    first, second = game("step_high")
    assert (first["subtask"], first["reward"], first["score"], first["done"]) == ("be in the kitchen", 0.2, 0.2, False)
    assert (second["subtask"], second["reward"], second["score"], second["done"]) == ("fill the cup", 0.8, 1.0, True)
    assert (first["completed_subtasks"], second["completed_subtasks"]) == ([], ["be in the kitchen"])
    assert (first["last_progress"], second["last_progress"]) == (NOTHING, "past the door")
    assert (first["n_low_steps"], second["n_low_steps"]) == (2, 3)
    assert (first["k"], second["k"], first["step_idx"], second["step_idx"]) == (0, 1, 0, 2)
    text = prompts.high("Fill a cup.", ["be in the kitchen"], "past the door", "This is the kitchen.")
    assert (first["next_prompt"], second["prompt"], second["next_prompt"]) == (text, text, None)


def test_the_low_level_reads_the_progress_before_its_action() -> None:
    rows = game("step_low")
    assert column(rows, "action")[1:3] == ["go kitchen; True", "take cup; False"]
    assert column(rows, "progress") == [NOTHING, "the door is open", NOTHING, "holds the cup", "a cup cannot be eaten"]
    assert column(rows, "reward") == [0, 1, 0, -1, 1]
    assert column(rows, "env_reward") == [0.2, 0, 0.3, 0, 0.5]
    assert column(rows, "done") == [False, True, False, False, True]
    assert column(rows, "rejected") == [False, False, False, True, False]
    assert column(rows, "prompt")[3] == prompts.low("fill the cup", "You hold the cup.", "holds the cup")
    assert column(rows, "next_prompt") == [*column(rows, "prompt")[1:], None]


def test_the_progress_policy_reads_the_action_and_what_came_of_it() -> None:
    rows = game("step_progress")
    assert column(rows, "progress") == list(DIVIDED.progress)
    assert column(rows, "prev_progress") == [
        NOTHING,
        "the door is open",
        NOTHING,
        "holds the cup",
        "a cup cannot be eaten",
    ]
    assert column(rows, "reward") == [0, 1, 0, -1, 1]
    assert column(rows, "done") == [False, True, False, False, True]
    assert column(rows, "resulting_obs")[3] == "You cannot eat that."
    expected = prompts.progress("fill the cup", "holds the cup", "eat cup", "You cannot eat that.")
    assert rows[3]["prompt"] == expected
    assert column(rows, "next_prompt") == [*column(rows, "prompt")[1:], None]


def test_what_was_handed_in_in_the_terminal_ends_with_done() -> None:
    rows = of(stored(terminal_row()), "step_high", DIVIDED_TERMINAL)
    assert column(rows, "subtask") == ["look for a.txt", "write ok", "DONE"]
    assert column(rows, "step_idx") == [0, 2, 3]
    assert column(rows, "done") == [False, False, True]
    assert column(rows, "reward") == [0, 1, 0]
    assert column(rows, "score") == [0, 1, 1]
    assert column(rows, "n_low_steps") == [2, 1, 0]
    text = prompts.high("Write b.", ["look for a.txt", "write ok"], "ok is written", "[exit code 0]")
    assert (rows[1]["next_prompt"], rows[2]["prompt"], rows[2]["next_prompt"]) == (text, text, None)
    planned = of(stored(terminal_row()), "system1", DIVIDED_TERMINAL)
    assert column(planned, "subgoal") == ["look for a.txt", "write ok", "DONE"]
    assert column(planned, "step_idx") == [0, 2, 3]
    assert column(planned, "group_actions") == [[], ["ls", "foo a.txt"], ["echo ok > b"]]
    assert column(planned, "reward_sum") == [0, 1, 0]
    assert column(planned, "done") == [False, False, True]


def test_an_attempt_that_was_cut_off_ends_without_done() -> None:
    cut = stored(terminal_row(steps=[step("ls", "", exit_code=0, extra={"after": "a.txt"})], stop_reason="max_steps"))
    one = Annotation(annotator=ANNOTATOR, subtasks=(SubTask(name="look", n_actions=1),), progress=("there is a.txt",))
    (row,) = of(cut, "step_high", one)
    assert (row["subtask"], row["done"], row["next_prompt"]) == ("look", True, None)


def test_a_rejected_action_at_the_end_of_a_sub_task_gets_minus_one() -> None:
    steps = [played("eat cup", "A cup.", 0.0, rejected=True, after="No.")]
    row = stored(game_row(steps=steps, verified=False, outcome="failed", stop_reason="max_steps"))
    one = Annotation(annotator=ANNOTATOR, subtasks=(SubTask(name="eat", n_actions=1),), progress=("no use",))
    for dataset in ("system2", "step_low", "step_progress"):
        (found,) = of(row, dataset, one)
        assert (found["reward"], found["done"]) == (-1, True)


def test_a_failed_attempt_gives_rows_that_say_so() -> None:
    row = stored(game_row(steps=GAME_STEPS[:4], verified=False, outcome="failed", stop_reason="max_steps"))
    cut = Annotation(
        annotator=ANNOTATOR,
        subtasks=(DIVIDED.subtasks[0], SubTask(name="fill the cup", n_actions=2)),
        progress=DIVIDED.progress[:4],
    )
    for dataset in DATASETS:
        rows = of(row, dataset, cut)
        assert {(one["verified"], one["success"], one["final_score"]) for one in rows} == {(False, False, 0.5)}


def test_what_a_policy_did_in_a_round_is_online() -> None:
    row = stored(terminal_row(details={"source": "round_1"}))
    assert set(column(of(row, "system2", DIVIDED_TERMINAL), "is_online")) == {True}


def test_tokens_are_counted_where_there_is_a_tokenizer(tmp_path: Path) -> None:
    row = stored(game_row())
    path, counter = path_of(row), TokenCounter(small_tokenizer(tmp_path / "small"))
    rows = rows_of("step_low", path, DIVIDED, facts_of(row, path), counter)
    assert [one["n_prompt_tokens"] for one in rows] == [counter.count(str(one["prompt"])) for one in rows]
    assert [one["n_target_tokens"] for one in rows] == [counter.count(str(one["action"])) for one in rows]
    assert {one["tokenizer_id"] for one in rows} == {counter.tokenizer_id}
    assert {one["n_prompt_tokens"] for one in game("step_low")} == {None}


def test_an_annotation_of_another_path_gives_no_rows() -> None:
    row = stored(game_row())
    path = path_of(row)
    with pytest.raises(ValueError, match="the annotation has 3 actions, the path 5"):
        rows_of("system1", path, DIVIDED_TERMINAL, facts_of(row, path))


def test_a_path_is_known_by_what_is_in_it() -> None:
    path = path_of(stored(game_row()))
    assert path_sha256(path) == path_sha256(path_of(stored(game_row("other"))))
    other = path.model_copy(update={"task": "Fill two cups."})
    assert path_sha256(path) != path_sha256(other)


TEXT = st.sampled_from([text for text in TEXTS.values() if len(text) < 1000]) | st.text(max_size=20)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(TEXT, TEXT.filter(bool), st.booleans(), st.booleans()), min_size=1, max_size=6), TEXT, st.data()
)
def test_whatever_is_in_an_attempt_its_rows_keep_their_promises(
    told: list[tuple[str, str, bool, bool]], task: str, data: st.DataObject
) -> None:
    steps = tuple(
        PathStep(observation=seen, action=action, result=seen, reward=0.1, score=0.1, rejected=rejected)
        for seen, action, rejected, _ in told
    )
    ends = sorted({at + 1 for at, one in enumerate(told) if one[3]} | {len(told)})
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    names = [data.draw(TEXT.filter(bool)) for _ in sizes]
    annotation = Annotation(
        annotator=ANNOTATOR,
        subtasks=tuple(SubTask(name=name, n_actions=size) for name, size in zip(names, sizes, strict=True)),
        progress=tuple(seen for seen, *_ in told),
    )
    path = TaskPath(environment="x", task=task, steps=steps)
    facts = facts_of(stored(game_row()), path)
    for dataset, schema in DATASETS.items():
        rows = to_arrow(schema, rows_of(dataset, path, annotation, facts)).to_pylist()
        upper = dataset in {"system1", "step_high"}
        assert len({row["step_idx"] for row in rows}) == len(rows) == len(sizes if upper else told)
        assert sum(row["done"] for row in rows) == (1 if upper else len(sizes))
        if "next_prompt" in rows[0]:
            assert [row["next_prompt"] for row in rows] == [*(row["prompt"] for row in rows[1:]), None]
        if not upper:
            assert [row["reward"] == -1 for row in rows] == [one.rejected for one in steps]
