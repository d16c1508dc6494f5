"""The hash of a row: equal for equal values however they lie in memory, different for anything else."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.snapshots.contents import Checksums, content_sha256, row_digests

STEP = pa.struct([("action", pa.string()), ("exit_code", pa.int64()), ("seconds", pa.float64())])
SCHEMA = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("n", pa.int64()),
        ("score", pa.float64()),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("words", pa.list_(pa.string())),
        ("steps", pa.list_(STEP)),
        ("nested", pa.list_(pa.list_(pa.int32()))),
        ("seconds", pa.float64()),
    ]
)
TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBER = st.none() | st.integers(-(2**63), 2**63 - 1)
ROW = st.fixed_dictionaries(
    {
        "trajectory_id": TEXT,
        "n": NUMBER,
        "score": st.none() | st.floats(),
        "ok": st.none() | st.booleans(),
        "raw": st.none() | st.binary(max_size=4),
        "words": st.none() | st.lists(TEXT, max_size=3),
        "steps": st.none()
        | st.lists(st.none() | st.fixed_dictionaries({"action": TEXT, "exit_code": NUMBER}), max_size=3),
        "nested": st.none() | st.lists(st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=2), max_size=2),
    }
)


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def same(one: object, other: object) -> bool:
    """Equality in which NaN equals itself and the two zeros differ."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one * 1) == math.copysign(1, other)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


@settings(deadline=None)
@given(st.lists(ROW, max_size=6), st.integers(0, 6))
def test_a_row_has_one_hash_wherever_it_lies(rows: list[dict[str, Any]], cut: int) -> None:
    together = table(*rows)
    alone = [digest for row in rows for digest in row_digests(table(row))]
    assert row_digests(together) == alone
    assert row_digests(pa.concat_tables([together.slice(0, cut), together.slice(cut)])) == alone
    assert row_digests(pa.concat_tables([table({"trajectory_id": "before"}), together]).slice(1)) == alone
    assert row_digests(together.combine_chunks()) == alone


def test_rows_of_a_long_batch_have_the_hashes_that_they_have_alone() -> None:
    rows = [
        {"trajectory_id": f"t{n}", "words": ["w"] * (n % 3), "steps": [{"action": "ls"}] * (n % 4)} for n in range(250)
    ]
    assert row_digests(table(*rows)) == [digest for row in rows for digest in row_digests(table(row))]


def test_rows_of_run_dependent_columns_alone_all_have_the_hash_of_nothing() -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert [one.hex() for one in row_digests(table({"seconds": 1.0}, {"seconds": 2.0}).select(["seconds"]))] == [
        empty
    ] * 2


@settings(deadline=None)
@given(st.lists(ROW, max_size=6), st.integers(0, 6))
def test_checksums_and_hashes_from_one_look_are_those_from_two(rows: list[dict[str, Any]], cut: int) -> None:
    one, other, together = Checksums(), Checksums(), table(*rows)
    digests = one.add_and_digest(together.slice(0, cut)) + one.add_and_digest(together.slice(cut))
    other.add(together)
    assert one.same(other)
    assert digests == row_digests(together)


def test_checksums_notice_columns_that_the_hash_leaves_out() -> None:
    one, other = Checksums(), Checksums()
    steps = [[{"action": "ls", "seconds": s}] for s in (1.0, 2.0)]
    assert one.add_and_digest(table({"steps": steps[0]})) == other.add_and_digest(table({"steps": steps[1]}))
    assert not one.same(other)


@settings(deadline=None)
@given(ROW, ROW)
def test_two_rows_have_one_hash_when_they_are_equal_and_only_then(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = row_digests(table(one, other))
    assert (first == second) is same(*table(one, other).select(range(len(SCHEMA) - 1)).to_pylist())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"words": ["ab", "c"]}, {"words": ["a", "bc"]}),
        ({"words": []}, {"words": None}),
        ({"words": [""]}, {"words": [None]}),
        ({"words": ["a"], "steps": []}, {"words": [], "steps": [{"action": "a"}]}),
        ({"steps": [None]}, {"steps": [{}]}),
        ({"n": 0}, {"n": None}),
        ({"trajectory_id": "a\0"}, {"trajectory_id": "a"}),
        ({"nested": [[1], []]}, {"nested": [[], [1]]}),
        ({"nested": [[1, 2]]}, {"nested": [[1], [2]]}),
    ],
)
def test_what_looks_alike_differs(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = row_digests(table(one, other))
    assert first != second


def test_columns_that_differ_from_run_to_run_are_left_out() -> None:
    rows = [{"seconds": s, "steps": [{"action": "ls", "seconds": s}]} for s in (1.0, 2.0)]
    first, second = row_digests(table(*rows))
    assert first == second


def test_nulls_that_hide_bytes_are_nulls() -> None:
    texts = pa.StringArray.from_buffers(
        2, pa.py_buffer(b"\0\0\0\0\3\0\0\0\4\0\0\0"), pa.py_buffer(b"abcd"), pa.py_buffer(b"\2"), null_count=1
    )
    plain = pa.array([None, "d"], pa.string())
    assert texts.to_pylist() == plain.to_pylist()
    first, second = (row_digests(pa.table({"t": column})) for column in (texts, plain))
    assert first == second


def test_the_content_is_a_bag() -> None:
    one, other = row_digests(table({"n": 1}, {"n": 2}))
    assert content_sha256([one, other]) == content_sha256([other, one])
    assert content_sha256([one, one]) != content_sha256([one])


def test_the_hash_of_a_row_is_the_one_of_the_first_versions() -> None:
    row = {"trajectory_id": "ü", "n": 7, "ok": True, "words": ["a", None], "steps": [{"action": "ls", "exit_code": 0}]}
    assert row_digests(table(row))[0].hex() == "0d587701cde07e4d21421c3fd96adc4bfedefee17a942358ac7361e95ef286af"
