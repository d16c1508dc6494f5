from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.schemas import (
    TABLES,
    TERMINAL,
    RowInvalid,
    TableSchema,
    adapt,
    clean_text,
    content_sha256,
    schema_sha256,
    table_schema,
    to_arrow,
    to_rows,
)

PUBLISHED = {
    ("listings", 1): "f09be9eee274",
    ("repositories", 1): "cd85eb888c56",
    ("repositories", 2): "4fca69bcecf9",
    ("contexts", 1): "2f02c7655134",
    ("scores", 1): "b314b11fa08f",
    ("scores", 2): "1196090546c0",
    ("contaminations", 1): "6972f1b97d51",
    ("ratings", 1): "b73701af8164",
    ("image_builds", 1): "f177b7fb2a56",
    ("image_builds", 2): "497e3a345f52",
    ("instances", 1): "19e4b45bb18c",
    ("instances", 2): "b6dfb4372ec7",
    ("selections", 1): "afa97e59627c",
    ("trajectories", 1): "6fa795f076b8",
    ("verifications", 1): "942a3645179f",
    ("terminal", 1): "4a73138276b2",
    ("trajectories", 2): "82e7767a4fb6",
    ("trajectories", 3): "4e4c352858fc",
    ("verifications", 2): "6153ebb5ea1a",
    ("terminal", 2): "cdcda8ab33b6",
    ("terminal", 3): "07f6499e8fc0",
    ("judgements", 1): "8a34ce8f3f2f",
    ("replays", 1): "05afe7eaa344",
    ("curations", 1): "aea8b39ce795",
    ("annotations", 1): "b61312943514",
}
"""First 12 digits of the hash of each schema version that data may have been written with. Add, never edit."""


def values_of(kind: pa.DataType) -> st.SearchStrategy[object]:
    """Any value a stage may give for a column of this type, odd text included."""
    odd = st.text(st.characters(exclude_categories=()), max_size=8)
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=3)
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries(
            {}, optional={kind.field(i).name: values_of(kind.field(i).type) for i in range(kind.num_fields)}
        )
    by_type: dict[pa.DataType, st.SearchStrategy[object]] = {
        pa.string(): odd,
        pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.float64(): st.floats(allow_nan=False),
        pa.bool_(): st.booleans(),
        pa.binary(): st.binary(max_size=8),
        pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(UTC), max_value=datetime(9999, 1, 1)),
    }
    return st.none() | by_type[kind]


def expected(value: object, kind: pa.DataType) -> object:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [expected(entry, kind.value_type) for entry in value]
    if isinstance(value, dict):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {field.name: expected(value.get(field.name), field.type) for field in fields}
    return value


@pytest.mark.parametrize("schema", [*TABLES.values(), TERMINAL], ids=lambda schema: schema.name)
def test_rows_of_every_table_come_back_from_arrow_as_they_went_in(schema: TableSchema) -> None:
    row = st.fixed_dictionaries({}, optional={field.name: values_of(field.type) for field in schema.arrow})

    @settings(max_examples=15, deadline=None)
    @given(st.lists(row, max_size=3))
    def round_trip(rows: list[dict[str, object]]) -> None:
        wanted = [{field.name: expected(row.get(field.name), field.type) for field in schema.arrow} for row in rows]
        assert to_rows(to_arrow(schema, rows)) == wanted

    round_trip()


def test_a_lone_surrogate_is_replaced_and_a_pair_is_joined() -> None:
    assert clean_text("a\ud800b \ud83d\ude00 ü") == "a\ufffdb 😀 ü"


def test_an_unknown_column_is_named_with_its_table() -> None:
    with pytest.raises(RowInvalid, match="table scores has no column 'scroe'"):
        to_arrow(TABLES["scores"], [{"score": 0.5}, {"scroe": 0.5}])


def test_an_unknown_field_inside_a_column_is_named_with_column_and_table() -> None:
    with pytest.raises(RowInvalid, match="table instances, column 'verifier_files' has no field 'contents'"):
        to_arrow(TABLES["instances"], [{"verifier_files": [{"path": "a.py", "contents": ""}]}])


@pytest.mark.parametrize("value", ["0.5", 2**63])
def test_a_value_of_the_wrong_type_is_named_with_its_column(value: object) -> None:
    with pytest.raises(RowInvalid, match="table repositories, column 'n_files'"):
        to_arrow(TABLES["repositories"], [{"n_files": value}])


def test_an_unknown_table_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(RowInvalid, match=r"no table 'repos'; the tables are listings, repositories"):
        table_schema("repos")


def test_free_form_columns_take_mappings_as_canonical_json() -> None:
    rows = [{"sampling": {"b": 1, "a": 2}, "steps": [{"index": 0, "extra": {"z": None}}]}]
    (row,) = to_rows(to_arrow(TABLES["trajectories"], rows))
    assert row["sampling"] == '{"a":2,"b":1}'
    assert row["steps"][0]["extra"] == '{"z":null}'  # type: ignore[index]


def test_mappings_become_key_value_pairs_in_key_order() -> None:
    (row,) = to_rows(to_arrow(TABLES["scores"], [{"features": {"b": 1, "a": 0.5}}]))
    assert row["features"] == [{"key": "a", "value": 0.5}, {"key": "b", "value": 1.0}]


def test_a_schema_changes_only_together_with_its_version() -> None:
    now = {(schema.name, schema.version): schema_sha256(schema.arrow)[:12] for schema in [*TABLES.values(), TERMINAL]}
    assert now.items() <= PUBLISHED.items()


def test_the_hash_of_a_schema_survives_a_parquet_file(tmp_path: Path) -> None:
    pq.write_table(to_arrow(TERMINAL, [{}]), tmp_path / "x.parquet")
    assert schema_sha256(pq.read_schema(tmp_path / "x.parquet")) == schema_sha256(TERMINAL.arrow)


def test_no_published_column_is_a_map_since_data_set_readers_refuse_maps() -> None:
    assert "map<" not in str(TERMINAL.arrow)


def test_rows_of_an_older_version_get_nulls_in_the_columns_they_lack() -> None:
    old = to_arrow(TABLES["scores"], [{"score": 0.5}]).drop_columns(["features", "reason"])
    (row,) = to_rows(adapt(TABLES["scores"], old))
    assert (row["score"], row["features"], row["reason"]) == (0.5, None, None)


OF_CURATION = TERMINAL.arrow.names[TERMINAL.arrow.names.index("split") :]
OF_MODELS = ["interface", "messages", "details", "changes", "n_prompt_tokens", "cost_usd"]


@pytest.mark.parametrize(
    ("schema", "version", "lacking"),
    [
        (TABLES["trajectories"], 1, ["backend", *OF_MODELS]),
        (TABLES["trajectories"], 2, OF_MODELS),
        (TABLES["verifications"], 1, ["backend"]),
        (TERMINAL, 1, ["backend", "integrity", *OF_CURATION]),
        (TERMINAL, 2, OF_CURATION),
        (TABLES["repositories"], 1, ["submodules"]),
        (TABLES["instances"], 1, ["flake_rate", "repository_image_digest", "right", "weak"]),
    ],
    ids=lambda value: value.name if isinstance(value, TableSchema) else "",
)
def test_rows_of_an_older_version_are_read_by_the_newest(schema: TableSchema, version: int, lacking: list[str]) -> None:
    key = next(name for name in ("trajectory_id", "instance_id", "repository_id") if name in schema.arrow.names)
    old = to_arrow(schema, [{key: "t1"}]).drop_columns(lacking)
    assert schema_sha256(old.schema)[:12] == PUBLISHED[schema.name, version]
    (row,) = to_rows(adapt(schema, old))
    assert row[key] == "t1" and all(row[name] is None for name in lacking)


def test_rows_of_a_newer_version_are_refused_with_the_unknown_column() -> None:
    new = to_arrow(TABLES["scores"], [{}]).append_column("rank", pa.array([1]))
    with pytest.raises(RowInvalid, match="table scores holds 'rank', unknown to version 2"):
        adapt(TABLES["scores"], new)


def trajectory(index: int, **changes: object) -> dict[str, object]:
    step = {"index": 0, "action": "ls", "exit_code": 0, "seconds": 0.1}
    return {"trajectory_id": f"t{index}", "steps": [step], "n_turns": 1, "attempt": 1, **changes}


def test_the_content_hash_does_not_depend_on_order_division_or_run() -> None:
    schema = TABLES["trajectories"]
    whole = to_arrow(schema, [trajectory(1), trajectory(2)])
    later = [
        trajectory(2, attempt=2, recorded_at=datetime.now(UTC), state_reference="other"),
        trajectory(1, steps=[{"index": 0, "action": "ls", "exit_code": 0, "seconds": 9.0}]),
    ]
    assert content_sha256([whole]) == content_sha256([to_arrow(schema, [row]) for row in later])


@pytest.mark.parametrize(
    "changes", [{"n_turns": 2}, {"steps": []}, {"steps": None}, {"steps": [{"index": 0, "action": "ls -l"}]}]
)
def test_the_content_hash_depends_on_every_lasting_value(changes: dict[str, object]) -> None:
    schema = TABLES["trajectories"]
    assert content_sha256([to_arrow(schema, [trajectory(1)])]) != content_sha256(
        [to_arrow(schema, [trajectory(1, **changes)])]
    )


def test_the_content_hash_counts_equal_rows() -> None:
    schema = TABLES["trajectories"]
    assert content_sha256([to_arrow(schema, [trajectory(1)])]) != content_sha256(
        [to_arrow(schema, [trajectory(1), trajectory(1)])]
    )
