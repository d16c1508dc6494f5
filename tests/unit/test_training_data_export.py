"""Exports of tokens: files that hold every row of a version or name it as refused, and an audit that adds up."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from assets.export_tokens import tokens
from pipeline.errors import ConfigurationError
from pipeline.exports.folders import ExportDamaged, prove
from pipeline.exports.published import PublishedVersion
from pipeline.exports.tasks import NothingToExport
from pipeline.schemas import Row
from tests.unit.hostile_rows import Chat, hostile_rows, verified_row, version_of
from tests.unit.small_tokenizer import THINKING, small_tokenizer
from training.data import export_tokens
from training.token_files import TokenFiles, TokenRow, by_trajectory, digest_of, read_rows
from training.tokens import IGNORED, ChatTokenizer

REFUSED = {
    "chat_null": "no_messages",
    "chat_no_turns": "no_messages",
    "chat_only_system": "no_answer",
    "chat_answer_first": "no_task",
    "chat_unknown_role": "unknown_role",
    "chat_null_role": "unknown_role",
    "chat_null_message": "unknown_role",
    "chat_null_content": "no_content",
    "text_astral": "tokenizer_rewrites",
    "text_long_line": "turn_too_long",
    "text_many_lines": "turn_too_long",
}
"""Hostile rows that have no tokens; the answer of `text_astral` has an accent that the tokenizer composes."""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    return ChatTokenizer(small_tokenizer(tmp_path_factory.mktemp("tokenizers") / "small"))


def row(name: str, *contents: str) -> Row:
    chat: Chat = [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(contents)]
    return verified_row(name, chat=chat)


def long_row(name: str) -> Row:
    return row(name, "List it.", *["ls", "z" * 50] * 10, "done")


def written(folder: Path, split: str = "train") -> list[dict[str, Any]]:
    return [one for path in sorted((folder / "data").glob(f"{split}-*")) for one in pq.read_table(path).to_pylist()]


def texts_learned(tokenizer: ChatTokenizer, windows: list[dict[str, Any]]) -> str:
    return tokenizer.text_of([label for window in windows for label in window["labels"] if label != IGNORED])


def token_row(name: str, window: int = 0, of: int = 1, n_tokens: int = 4) -> TokenRow:
    ids = array("i", range(n_tokens))
    return TokenRow(name, "train", window, of, n_tokens, n_tokens, "small@0", ids, ids)


def test_every_hostile_row_is_written_or_refused_with_a_reason(tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    rows = hostile_rows()
    names = {str(one["trajectory_id"]): name for name, one in rows.items()}
    made = export_tokens(version_of(tmp_path / "v", list(rows.values())), tmp_path / "out", tokenizer, 2048)
    lines = [json.loads(line) for line in (tmp_path / "out" / "refused.jsonl").read_text().splitlines()]
    found = {names[one["trajectory_id"]] for one in written(tmp_path / "out")}
    assert {names[line["trajectory_id"]]: line["rule"] for line in lines} == REFUSED
    assert found == set(rows) - set(REFUSED)
    assert (made.read, made.written, made.refused) == (len(rows), {"train": len(found)}, len(REFUSED))


def test_an_over_long_row_is_written_as_numbered_windows(tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    version = version_of(tmp_path / "v", [long_row("long"), row("short", "List it.", "ls")])
    export_tokens(version, tmp_path / "out", tokenizer, 250)
    *windows, short = written(tmp_path / "out")
    count = len(windows)
    assert count > 1
    assert [(one["window"], one["n_windows"]) for one in windows] == [(at, count) for at in range(count)]
    assert (short["window"], short["n_windows"]) == (0, 1)
    assert texts_learned(tokenizer, windows) == "ls<|im_end|>" * 10 + "done<|im_end|>"
    assert max(one["n_tokens"] for one in windows) <= 250
    assert {one["trajectory_id"] for one in windows} == {long_row("long")["trajectory_id"]}


def test_each_window_says_how_many_tokens_it_has_and_whose_they_are(tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    export_tokens(version_of(tmp_path / "v", [long_row("long")]), tmp_path / "out", tokenizer, 250)
    for one in written(tmp_path / "out"):
        assert one["n_tokens"] == len(one["input_ids"]) == len(one["labels"])
        assert one["n_target_tokens"] == sum(label != IGNORED for label in one["labels"])
        assert one["tokenizer_id"] == tokenizer.tokenizer_id


def test_splits_have_files_of_their_own_and_one_can_be_had_alone(tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    version = version_of(tmp_path / "v", [row("a", "x", "ls")], test=[row("b", "x", "done")])
    both = export_tokens(version, tmp_path / "both", tokenizer, 250)
    only = export_tokens(version, tmp_path / "only", tokenizer, 250, "test")
    assert (both.written, only.written) == ({"test": 1, "train": 1}, {"test": 1})
    assert texts_learned(tokenizer, written(tmp_path / "both", "test")) == "done<|im_end|>"
    assert not written(tmp_path / "only")


def test_the_audit_adds_up_with_the_files(tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    rows = [long_row("long"), row("empty", "x", ""), row("forged", "x", "ls", "<|im_end|>", "done")]
    export_tokens(version_of(tmp_path / "v", rows), tmp_path / "out", tokenizer, 250)
    audit = json.loads((tmp_path / "out" / "audit.json").read_text())
    files = written(tmp_path / "out")
    assert audit["n_tokens"] == sum(one["n_tokens"] for one in files) == sum(r["all"] for r in audit["tokens"].values())
    assert audit["n_target_tokens"] == sum(one["n_target_tokens"] for one in files)
    assert {role for role, share in audit["tokens"].items() if share["target"]} == {"assistant"}
    assert (audit["rows"], audit["rows_split"], audit["windows"]) == (3, 1, len(files))
    assert (audit["turns"], audit["turns_proved"]) == (14, 14)
    assert (audit["empty_turns"], audit["rows_without_text"]) == (1, 1)
    assert audit["texts_spelling_control_tokens"] == 1
    assert audit["tokenizer_files"] == tokenizer.files


def test_the_sample_shows_what_is_learned_and_can_do_nothing_to_a_terminal(
    tokenizer: ChatTokenizer, tmp_path: Path
) -> None:
    rows = [row("a", "\x1b[2JList\nit.", "ls \x9b31m\u202e")]
    export_tokens(version_of(tmp_path / "v", rows), tmp_path / "out", tokenizer, 250)
    sample = (tmp_path / "out" / "audit.txt").read_text()
    assert [line for line in sample.splitlines() if line.startswith("LEARNED")] == [
        "LEARNED assistant      11  ls \\u{9b}31m\\u{202e}<|im_end|>"
    ]
    assert "\\u{1b}[2JList⏎it.<|im_end|>" in sample
    assert all(character.isprintable() or character == "\n" for character in sample)


def test_the_sample_has_the_first_over_long_row_however_late_it_comes(tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    rows = [*(row(f"r{at}", "x", "ls") for at in range(9)), long_row("long")]
    export_tokens(version_of(tmp_path / "v", rows), tmp_path / "out", tokenizer, 250)
    titles = [line for line in (tmp_path / "out" / "audit.txt").read_text().splitlines() if line.startswith("== ")]
    assert len(titles) == 6
    assert f"{long_row('long')['trajectory_id']}, window 1 of" in titles[3]


def test_a_template_that_refuses_every_row_is_no_empty_export(tmp_path: Path) -> None:
    thinking = ChatTokenizer(small_tokenizer(tmp_path / "thinking", THINKING))
    version = version_of(tmp_path / "v", [row("a", "x", "ls", "y", "done")])
    with pytest.raises(NothingToExport, match="earlier turns otherwise"):
        export_tokens(version, tmp_path / "out", thinking, 250)
    assert not (tmp_path / "out").exists()


def test_a_row_too_long_to_hold_is_refused_and_the_others_are_written(tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    rows = [row("a", *["x" * 1_000_000] * 34), row("b", "x", "ls")]
    made = export_tokens(version_of(tmp_path / "v", rows), tmp_path / "out", tokenizer, 250)
    assert (made.written, made.rules) == ({"train": 1}, {"row_too_long": 1})


@pytest.mark.parametrize("max_tokens", [127, 1_000_000_000])
def test_a_window_of_no_use_is_a_mistake(tokenizer: ChatTokenizer, tmp_path: Path, max_tokens: int) -> None:
    version = version_of(tmp_path / "v", [row("a", "x", "ls")])
    with pytest.raises(ConfigurationError, match="a window has"):
        export_tokens(version, tmp_path / "out", tokenizer, max_tokens)


def test_rows_that_a_version_lost_are_missed(tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    path, manifest = version_of(tmp_path / "v", [row("a", "x", "ls")])
    files = tuple(file.model_copy(update={"rows": 2}) for file in manifest.files)
    more = PublishedVersion(path, manifest.model_copy(update={"files": files}))
    with pytest.raises(ExportDamaged, match="2 rows"):
        export_tokens(more, tmp_path / "out", tokenizer, 250)


def test_files_and_row_groups_are_bounded_and_no_trajectory_is_in_two_files(tmp_path: Path) -> None:
    rows = [token_row(f"t{at // 3}", at % 3, 3, n_tokens=9) for at in range(30)]
    with TokenFiles(tmp_path, "train", group_tokens=20, file_tokens=40) as files:
        for one in rows:
            files.write(one)
    assert list(read_rows(tmp_path, "train")) == rows
    seen: Counter[str] = Counter()
    for path in sorted((tmp_path / "data").iterdir()):
        meta = pq.read_metadata(path)
        assert max(meta.row_group(at).num_rows for at in range(meta.num_row_groups)) == 3
        assert meta.num_rows == 6
        seen.update({one["trajectory_id"] for one in pq.read_table(path).to_pylist()})
    assert set(seen.values()) == {1}


@pytest.mark.parametrize("change", ["label", "id", "window", "order"])
def test_a_file_that_gives_back_something_else_is_found(tmp_path: Path, change: str) -> None:
    rows = [token_row("a", 0, 2), token_row("a", 1, 2), token_row("b")]
    expected = {"a": digest_of(rows[:2]), "b": digest_of(rows[2:])}
    with TokenFiles(tmp_path, "train") as files:
        for one in changed(rows, change):
            files.write(one)
    with pytest.raises(ExportDamaged):
        prove("train", by_trajectory(read_rows(tmp_path, "train")), expected)


def changed(rows: list[TokenRow], change: str) -> Iterator[TokenRow]:
    if change == "order":
        yield from reversed(rows)
    elif change == "window":
        yield from rows[1:]
    else:
        other = array("i", [0, 1, 2, 9])
        first = rows[0]
        lists = (first.input_ids, other) if change == "label" else (other, first.labels)
        yield TokenRow("a", "train", 0, 2, 4, 4, "small@0", *lists)
        yield from rows[1:]


def test_the_command_says_which_folder_holds_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    arguments = ["terminal", str(tmp_path / "out"), "--tokenizer", str(tmp_path / "missing"), "--max-tokens", "250"]
    result = CliRunner().invoke(tokens, arguments)
    assert result.exit_code == 2
    assert "missing" in result.output
