from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import pipeline.journal
from pipeline.errors import ConfigurationError
from pipeline.journal import Entry, Failure, Journal
from pipeline.schemas import TABLES, to_arrow


def entry(key: str, attempt: int = 1, failure: Failure | None = None, stage: str = "score") -> Entry:
    return Entry(stage, key, attempt, failure, f"2025-01-01T00:00:0{attempt}+00:00", 0.5, ("scores",))


def rows(*keys: str) -> dict[str, pa.Table]:
    return {"scores": to_arrow(TABLES["scores"], [{"repository_id": key} for key in keys])}


def waiting(journal: Journal, stage: str = "score") -> list[tuple[int, list[object]]]:
    return [(g.sequence, g.tables["scores"].column("repository_id").to_pylist()) for g in journal.groups(stage)]


def test_the_latest_attempt_of_each_wanted_item_is_known_after_reopening(tmp_path: Path) -> None:
    failure = Failure(failure_class="infrastructure", reason="no route")
    with Journal(tmp_path) as journal:
        journal.record(entry("a", 1, failure), rows("a"))
        journal.record(entry("a", 2), rows("a"))
        journal.record(entry("b", 1, failure), rows("b"))
        journal.record(entry("c"), rows("c"))
        journal.record(entry("a", 1, stage="other"), {})
    with Journal(tmp_path) as journal:
        assert journal.want(["b", "never", "a", "b"]) == 3
        assert list(journal.wanted("score")) == [(0, entry("b", 1, failure)), (1, None), (2, entry("a", 2))]


def test_find_gives_every_attempt_of_every_stage_whose_key_begins_so(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.record(entry("repo-12", 1), rows("x"))
        journal.record(entry("repo-12", 2), rows("x"))
        journal.record(entry("repo-13", 1, stage="image"), rows("x"))
        journal.record(entry("task-12", 1), rows("x"))
        assert [(e.stage, e.key, e.attempt) for e in journal.find("repo-1")] == [
            ("image", "repo-13", 1),
            ("score", "repo-12", 1),
            ("score", "repo-12", 2),
        ]
        assert journal.find("%") == []


def test_an_item_is_not_recorded_twice_under_one_attempt(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.record(entry("a"), rows("a"))
        with pytest.raises(sqlite3.IntegrityError):
            journal.record(entry("a"), rows("again"))
        assert waiting(journal) == [(1, ["a"])]


def test_a_cut_off_flush_comes_again_under_its_number_before_newer_rows(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.record(entry("a"), rows("a"))
        journal.record(entry("b"), rows("b"))
        assert waiting(journal) == [(1, ["a", "b"])]  # numbered, but never confirmed
        journal.record(entry("c"), rows("c"))
    with Journal(tmp_path) as journal:
        assert waiting(journal) == [(1, ["a", "b"]), (2, ["c"])]
        journal.flushed("score", 1)
        assert waiting(journal) == [(2, ["c"])]
        journal.flushed("score", 2)
        journal.record(entry("d"), rows("d"))
        assert waiting(journal) == [(3, ["d"])]


def test_rows_of_one_stage_do_not_wait_in_another(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.record(entry("a"), rows("a"))
        assert waiting(journal, "other") == []


def test_text_that_is_not_unicode_is_kept_with_replacements(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.record(entry("k\ud800", 1, Failure(failure_class="unknown", reason="bad \udcff name")), rows("a"))
        journal.want(["k\ud800"])
        ((_, found),) = journal.wanted("score")
    assert found is not None
    assert found.failure == Failure(failure_class="unknown", reason="bad \ufffd name")


def test_a_new_journal_has_another_name_than_the_old_one(tmp_path: Path) -> None:
    with Journal(tmp_path / "one") as one, Journal(tmp_path / "two") as two, Journal(tmp_path / "one") as again:
        assert one.id == again.id != two.id


def test_a_journal_of_another_layout_is_refused_and_left_alone(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.record(entry("a"), rows("a"))
    with sqlite3.connect(journal.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigurationError, match=r"journal.sqlite has layout 99, this code knows 1"):
        Journal(tmp_path)


def test_every_commit_reaches_the_disk(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        connection = journal._connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_items_are_recorded_while_the_wanted_ones_are_gone_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.journal, "WINDOW", 3)
    keys = [f"k{number}" for number in range(10)]
    with Journal(tmp_path) as journal:
        journal.record(entry("k4"), rows("k4"))
        journal.want(keys)
        seen = []
        for number, found in journal.wanted("score"):
            seen.append((number, found is not None))
            if found is None:
                journal.record(entry(keys[number]), rows(keys[number]))
        assert seen == [(number, number == 4) for number in range(10)]
        assert [found for _, found in journal.wanted("score")] == [entry(key) for key in keys]


def test_the_keys_that_are_wanted_replace_those_that_were(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        assert journal.want(["a", "b"]) == 2
        assert journal.want(["b", "c\ud800", "b"]) == 2
        assert [number for number, _ in journal.wanted("score")] == [0, 1]


def test_absent_are_wanted_items_whose_last_attempt_should_be_in_the_table(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for key in ("here", "lost", "unasked"):
            journal.record(entry(key), rows(key))
        journal.record(replace(entry("elsewhere"), tables=("scores_of_old",)), {})
        journal.record(entry("emptied"), rows("emptied"))
        journal.record(replace(entry("emptied", 2), tables=()), {})
        journal.want(["never", "lost", "here", "elsewhere", "emptied"])
        assert journal.absent("score", "scores", ["here", "other"]) == ["lost"]
        assert journal.absent("score", "scores", iter(["lost", "here", "lost"])) == []


def test_a_question_that_breaks_leaves_the_journal_usable(tmp_path: Path) -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise OSError("a file is gone")

    with Journal(tmp_path) as journal:
        journal.want(["a"])
        with pytest.raises(OSError, match="a file is gone"):
            journal.absent("score", "scores", broken())
        journal.record(entry("a"), rows("a"))
        assert journal.absent("score", "scores", []) == ["a"]
