"""Trajectories that others made become conversations, and what is none of them is passed over and counted."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from pipeline.exports.atif import document
from pipeline.exports.atif_job import export_job
from pipeline.exports.published import published
from pipeline.schemas import clean_text
from pipeline.types import TaskInstance
from tests.unit.recorded_trials import attempt
from tests.unit.small_tokenizer import small_tokenizer
from training.data import tokens_of
from training.foreign import read_foreign
from training.learned_rows import FOLDER, LearnedRow, keep_rows
from training.token_files import token_counts
from training.tokens import ChatTokenizer

ASKED = {"from": "human", "value": "Count the words."}
ANSWERED = {"from": "gpt", "value": "```bash\nwc -w a\n```"}
TALK = [("user", "Count the words."), ("assistant", "```bash\nwc -w a\n```")]


def told(row: LearnedRow) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in row.messages]


def written(folder: Path, name: str, records: list[object]) -> Path:
    file = folder / name
    lines = "".join(json.dumps(record) + "\n" for record in records)
    file.write_text(lines if name.endswith("jsonl") else json.dumps(records))
    return file


@pytest.mark.parametrize("name", ["theirs.json", "theirs.jsonl"])
def test_sharegpt_is_read_in_its_dialects(tmp_path: Path, name: str) -> None:
    records: list[object] = [
        {"conversations": [ASKED, ANSWERED]},
        {"conversations": [ASKED, ANSWERED, {"from": "observation", "value": "3"}, ANSWERED], "system": "Be brief."},
        {"messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Ho."}]},
    ]
    first, second, third = read_foreign(written(tmp_path, name, records))
    assert told(first) == TALK
    assert told(second) == [("system", "Be brief."), *TALK, ("tool", "3"), TALK[1]]
    assert told(third) == [("user", "Hi."), ("assistant", "Ho.")]
    assert (first.instruction, first.full_name) == ("Count the words.", "theirs")


def test_what_is_no_conversation_is_passed_over_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    records: list[object] = [
        {"conversations": [ASKED, ANSWERED]},
        {"conversations": [ASKED, ANSWERED]},
        {"conversations": [ASKED]},
        {"conversations": [ANSWERED, ASKED]},
        {"conversations": [{"from": "narrator", "value": "x"}, ANSWERED]},
        {"conversations": [{"from": "human", "value": None}, ANSWERED]},
        {"other": 1},
        7,
    ]
    with caplog.at_level(logging.WARNING):
        (row,) = read_foreign(written(tmp_path, "theirs.jsonl", records))
    assert told(row) == TALK
    for reason in (
        "twice",
        "nobody answers",
        "no instruction",
        "unknown role",
        "no text",
        "no conversation",
        "no object",
    ):
        assert reason in caplog.text


def test_our_own_atif_export_gives_the_messages_back(tmp_path: Path, task: TaskInstance) -> None:
    made = attempt("shell", task)
    export_job([made], tmp_path / "job")
    (row,) = read_foreign(tmp_path / "job")
    assert told(row) == [(one["role"], clean_text(one["content"])) for one in made.trajectory.messages]


def test_steps_of_an_atif_document_become_turns(tmp_path: Path) -> None:
    call = {"tool_call_id": "1", "function_name": "bash_command", "arguments": {"keystrokes": "ls\n"}}
    other = {"tool_call_id": "2", "function_name": "look", "arguments": {"at": "a.png"}}
    steps = [
        {"step_id": 1, "source": "system", "message": "Be brief."},
        {"step_id": 2, "source": "user", "message": "Look."},
        {
            "step_id": 3,
            "source": "agent",
            "message": "I look.",
            "tool_calls": [call],
            "observation": {"results": [{"content": "a\nb"}]},
        },
        {"step_id": 4, "source": "user", "message": "Go on."},
        {"step_id": 5, "source": "agent", "message": "```bash\nls\n```", "tool_calls": [call, other]},
    ]
    written(tmp_path, "one.json", [{"schema_version": "ATIF-v1.4", "agent": {}, "steps": steps}])
    (row,) = read_foreign(tmp_path)
    assert told(row) == [
        ("system", "Be brief."),
        ("user", "Look."),
        ("assistant", "I look.\n\n```bash\nls\n```"),
        ("user", "a\nb\n\nGo on."),
        ("assistant", '```bash\nls\n```\n\n```json\n{"arguments": {"at": "a.png"}, "name": "look"}\n```'),
    ]


def test_an_atif_document_of_ours_without_its_messages_is_read_too(tmp_path: Path, task: TaskInstance) -> None:
    found = document(attempt("shell", task))
    del found["extra"]["messages"]
    written(tmp_path, "one.json", [found])
    (row,) = read_foreign(tmp_path)
    assert row.messages[-1]["role"] in {"assistant", "user"}
    assert "assistant" in {message["role"] for message in row.messages}


@pytest.mark.parametrize(("name", "text"), [("x.json", "{"), ("x.jsonl", '{"a": 1}\n{'), ("x.json", "[]")])
def test_a_file_without_anything_to_read_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=name):
        list(read_foreign(tmp_path / name))
    with pytest.raises(ConfigurationError, match="is not there"):
        list(read_foreign(tmp_path / "nothing"))


def test_they_are_kept_once_and_become_tokens_like_rows_of_ours(tmp_path: Path) -> None:
    file = written(tmp_path, "theirs.jsonl", [{"conversations": [ASKED, ANSWERED]}])
    names = [keep_rows(tmp_path / "data", "theirs", read_foreign(file), None) for _ in range(2)]
    assert names == ["theirs@v0001"] * 2
    assert not (tmp_path / "data/snapshots").exists()
    small_tokenizer(tmp_path / "tokenizer")
    version = published(tmp_path / "data" / FOLDER, names[0])
    tokens = tokens_of(tmp_path / "data", version, ChatTokenizer(tmp_path / "tokenizer"), 256)
    (row,) = read_foreign(file)
    assert list(token_counts(tokens, "train")) == [row.trajectory_id]
