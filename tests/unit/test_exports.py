"""Exports of a published version: every row of it is carried whole or refused with a reason, whatever it holds."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import ConfigurationError
from pipeline.exports.account import RowRefused, VersionExport, digest_of
from pipeline.exports.atif_job import export_version_job
from pipeline.exports.folders import ExportDamaged, prove
from pipeline.exports.harbor import export_version_tasks
from pipeline.exports.megatron import Megatron
from pipeline.exports.messages import Messages
from pipeline.exports.projection import export_version
from pipeline.exports.published import PublishedVersion, published, rows_of
from pipeline.exports.rl import RlRows
from pipeline.exports.sharegpt import ShareGpt
from pipeline.exports.tasks import NothingToExport
from pipeline.exports.verified import COLUMNS
from pipeline.schemas import Row
from pipeline.snapshots import SnapshotDamaged
from pipeline.task_formats.layout import instruction_of
from pipeline.types import content_id
from sandbox.errors import ImageMissing
from tests.unit.hostile_rows import CHATS, TEXTS, Chat, hostile_rows, verified_row, version_of

FOLDER_ROLES = {"human": "user", "gpt": "assistant", "observation": "tool", "system": "system"}


def parquet(path: Path) -> list[Any]:
    return pq.read_table(path).to_pylist()


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def messages_back(folder: Path) -> dict[str, object]:
    return {row["trajectory_id"]: row["messages"] for row in parquet(folder / "train.parquet")}


def sharegpt_back(folder: Path) -> dict[str, object]:
    return {
        row["trajectory_id"]: [
            {"role": FOLDER_ROLES[one["from"]], "content": one["value"]} for one in row["conversations"]
        ]
        for row in lines(folder / "train.jsonl")
    }


def megatron_back(folder: Path) -> dict[str, object]:
    texts = [row["text"] for row in lines(folder / "train.jsonl")]
    return dict(zip((folder / "train.ids.txt").read_text().splitlines(), texts, strict=True))


def rl_back(folder: Path, judged: str = "reward_model") -> dict[str, object]:
    return {
        row["extra_info"]["instance_id"]: (
            row["prompt"],
            json.loads(row[judged]["ground_truth"])["files"],
            row["extra_info"]["image_digest"],
            row["extra_info"]["verifier_sha256"],
        )
        for row in parquet(folder / "train.parquet")
    }


def atif_back(folder: Path) -> dict[str, object]:
    found = [json.loads(path.read_text()) for path in folder.glob("touchstone/*/agent/trajectory.json")]
    return {
        one["trajectory_id"]: (
            one["extra"]["messages"],
            [step.get("extra", {}).get("arguments") for step in one["steps"] if step.get("tool_calls")],
            [step["tool_calls"][0]["arguments"] for step in one["steps"] if step.get("tool_calls")],
        )
        for one in found
    }


def harbor_back(folder: Path) -> dict[str, object]:
    return {
        path.parent.name: (
            instruction_of(path.read_bytes().decode()),
            (path.parent / "tests" / "verifier" / "test_state.py").read_bytes().decode(),
            json.loads((path.parent / "solution" / "commands.json").read_text()),
        )
        for path in folder.glob("*/instruction.md")
    }


def of_rl(row: Any) -> object:
    prompt = [{"role": "user", "content": row["instruction"]}]
    return prompt, row["verifier_files"], row["image_digest"], row["verifier_sha256"]


def of_atif(row: Any) -> object:
    acted = [step for step in row["steps"] if step["action"]]
    return (
        row["messages"] or [],
        [json.loads(step["extra"]).get("arguments") for step in acted],
        [{"command": step["action"]} for step in acted],
    )


def chatml(row: Any) -> object:
    return "".join(f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in row["messages"])


@dataclass(frozen=True)
class Form:
    """An export, and how its rows are read and what they have to be without any code of its own."""

    write: Callable[[PublishedVersion, Path], VersionExport]
    back: Callable[[Path], Mapping[str, object]]
    of: Callable[[Any], object]
    refuses: frozenset[str] = frozenset()
    """Names of the rows that it refuses besides those of CHATS, if it is one of conversations."""
    chat: bool = False


TASKS = frozenset({"no_task", "other_task", "other_verifier", "no_verifier_files"})
FORMS = {
    "messages": Form(lambda v, f: export_version(v, f, Messages()), messages_back, lambda r: r["messages"], chat=True),
    "sharegpt": Form(lambda v, f: export_version(v, f, ShareGpt()), sharegpt_back, lambda r: r["messages"], chat=True),
    "megatron": Form(
        lambda v, f: export_version(v, f, Megatron()), megatron_back, chatml, frozenset({"text_chatml"}), chat=True
    ),
    "verl": Form(lambda v, f: export_version(v, f, RlRows(skyrl=False)), rl_back, of_rl, TASKS),
    "skyrl": Form(
        lambda v, f: export_version(v, f, RlRows(skyrl=True)), lambda f: rl_back(f, "reward_spec"), of_rl, TASKS
    ),
    "atif": Form(
        export_version_job,
        atif_back,
        of_atif,
        frozenset({"no_task", "no_steps", "chat_null_role", "chat_null_message", "chat_null_content"}),
    ),
    "harbor": Form(
        lambda v, f: export_version_tasks(v, f, "runtime:1", lambda image: f"at-{image}"),
        harbor_back,
        lambda r: (r["instruction"], r["verifier_files"][0]["content"], r["solution"]),
        TASKS,
    ),
}


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return hostile_rows()


@pytest.fixture(scope="module")
def version(rows: dict[str, Row], tmp_path_factory: pytest.TempPathFactory) -> PublishedVersion:
    return version_of(tmp_path_factory.mktemp("version"), list(rows.values()))


@pytest.fixture(scope="module")
def stored(version: PublishedVersion) -> list[Row]:
    """The rows as the version gives them back."""
    return parquet(version.path / "data")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> PublishedVersion:
    """A version with a cell of 50 megabytes."""
    chat: Chat = [{"role": "user", "content": "z" * 50_000_000}, {"role": "assistant", "content": ""}]
    return version_of(tmp_path_factory.mktemp("large") / "v", [verified_row("large", chat=chat)])


Exported = Callable[[str], tuple[VersionExport, Path]]


@pytest.fixture(scope="module")
def exported(version: PublishedVersion, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Exports the hostile rows in a form, once, for tests that only read; gives the account and the folder."""

    @functools.cache
    def write(name: str) -> tuple[VersionExport, Path]:
        folder = tmp_path_factory.mktemp("exported") / name
        return FORMS[name].write(version, folder), folder

    return write


@pytest.mark.parametrize("name", FORMS)
def test_every_hostile_row_comes_back_whole_or_is_refused(
    name: str, rows: dict[str, Row], stored: list[Row], exported: Exported
) -> None:
    form = FORMS[name]
    made, folder = exported(name)
    key = made.unit
    refused = {line["trajectory_id"]: line for line in lines(folder / "refused.jsonl")}
    wrong = {f"chat_{chat}" for chat, (_, rule) in CHATS.items() if rule} if form.chat else set()
    expected = {n: row for n, row in rows.items() if n not in form.refuses | wrong}
    assert {n for n, row in rows.items() if row["trajectory_id"] in refused} == set(rows) - set(expected)
    assert all(line["reason"] and line["rule"] for line in refused.values())
    back, found = form.back(folder), {str(row[key]): row for row in stored}
    assert set(back) == {str(row[key]) for row in expected.values()}
    different = [n for n, row in expected.items() if back[str(row[key])] != form.of(found[str(row[key])])]
    assert not different
    assert made.rules == Counter(line["rule"] for line in refused.values())
    assert (made.written, made.refused) == ({"train": len(expected)}, len(refused))


@pytest.mark.parametrize("name", ["messages", "sharegpt", "megatron"])
@pytest.mark.parametrize("chat", [chat for chat, (_, rule) in CHATS.items() if rule])
def test_a_conversation_that_trainers_do_not_take_is_refused_by_its_rule(
    chat: str, name: str, rows: dict[str, Row], exported: Exported
) -> None:
    _, folder = exported(name)
    identity = rows[f"chat_{chat}"]["trajectory_id"]
    found = [line["rule"] for line in lines(folder / "refused.jsonl") if line["trajectory_id"] == identity]
    assert found == [CHATS[chat][1]]


@pytest.mark.parametrize("name", ["messages", "sharegpt", "megatron"])
def test_a_cell_of_50_megabytes_is_carried(name: str, large: PublishedVersion, tmp_path: Path) -> None:
    assert FORMS[name].write(large, tmp_path / "out").written == {"train": 1}
    [(_, back)] = FORMS[name].back(tmp_path / "out").items()
    assert back == FORMS[name].of(parquet(large.path / "data" / "train-00000.parquet")[0])


def test_a_half_of_a_character_is_replaced_on_entry_and_refused_behind_it(tmp_path: Path) -> None:
    row = verified_row("halves", chat=[{"role": "user", "content": "a\udcffb"}, {"role": "assistant", "content": "c"}])
    FORMS["messages"].write(version_of(tmp_path / "v", [row]), tmp_path / "out")
    [messages] = messages_back(tmp_path / "out").values()
    assert messages == [{"role": "user", "content": "a\ufffdb"}, {"role": "assistant", "content": "c"}]
    with pytest.raises(RowRefused, match="udcff") as refused:
        digest_of(Messages().essence(row))
    assert refused.value.rule == "not_unicode"


@pytest.mark.parametrize("name", FORMS)
def test_a_text_that_is_no_utf8_costs_its_own_row_only(name: str, tmp_path: Path) -> None:
    version = version_of(tmp_path / "v", [verified_row("good"), verified_row("bad")])
    path = version.path / "data" / "train-00000.parquet"
    table = pq.read_table(path)
    for column in ("instruction", "domain", "agent"):
        broken = pa.array([str(table[column][0]).encode(), b"\xed\xb3\xbf"]).view(pa.string())
        table = table.set_column(table.column_names.index(column), column, broken)
    pq.write_table(table, path)
    made = FORMS[name].write(version, tmp_path / "out")
    assert (made.written, made.rules) == ({"train": 1}, {"not_utf8": 1})


@pytest.mark.parametrize("name", FORMS)
def test_an_export_says_of_what_it_was_made(name: str, tmp_path: Path) -> None:
    version = version_of(tmp_path / "v", [verified_row("a")], validation=[verified_row("b"), verified_row("c")])
    made = FORMS[name].write(version, tmp_path / "out")
    said = json.loads((tmp_path / "out" / "export.json").read_text())
    assert said == made.model_dump(exclude={"folder"})
    assert (said["source"], said["content_sha256"], said["read"]) == ("terminal@v0001", "0" * 64, 3)
    assert said["written"] == {"train": 1, "validation": 2}
    assert not (tmp_path / "out" / "refused.jsonl").exists()


@pytest.mark.parametrize("name", ["verl", "skyrl", "harbor"])
def test_further_attempts_at_a_task_are_counted_and_not_written_again(name: str, tmp_path: Path) -> None:
    first = verified_row("same")
    other = first | {"trajectory_id": "traj-0000000000000000", "sample": 1}
    made = FORMS[name].write(version_of(tmp_path / "v", [first, other]), tmp_path / "out")
    assert (made.read, made.written, made.repeated, made.refused) == (2, {"train": 1}, 1, 0)


@pytest.mark.parametrize("name", ["messages", "sharegpt", "megatron", "atif"])
def test_the_second_row_of_one_id_is_refused(name: str, tmp_path: Path) -> None:
    version = version_of(tmp_path / "v", [verified_row("same"), verified_row("same")])
    assert FORMS[name].write(version, tmp_path / "out").rules == {"same_id": 1}


def test_an_attempt_under_the_id_of_another_is_refused(tmp_path: Path) -> None:
    version = version_of(tmp_path / "v", [verified_row("a"), verified_row("b") | {"trajectory_id": "../../b"}])
    assert FORMS["atif"].write(version, tmp_path / "out").rules == {"attempt_changed": 1}


def test_files_of_a_verifier_stay_in_the_folder_of_their_task(tmp_path: Path) -> None:
    task = verified_row("a")
    unsafe = verified_row("b")
    unsafe |= {"verifier_files": [{"path": "/etc/x", "content": ""}]}
    made = FORMS["harbor"].write(version_of(tmp_path / "v", [task, unsafe]), tmp_path / "out")
    assert made.refused == 1 and made.written == {"train": 1}


def test_a_task_whose_image_is_not_there_is_refused(tmp_path: Path) -> None:
    there, gone = verified_row("a"), verified_row("b")

    def reference(image: str) -> str:
        if image == "gone":
            raise ImageMissing("the image is gone")
        return image

    version = version_of(tmp_path / "v", [there, with_image(gone, "gone")])
    made = export_version_tasks(version, tmp_path / "out", "runtime:1", reference)
    assert made.rules == {"no_image": 1}


def with_image(row: Row, image: str) -> Row:
    told = (row["repository_id"], image, row["instruction"], list(row["solution"]), row["verifier_sha256"])
    return row | {"image_digest": image, "instance_id": content_id("task", *told)}


@pytest.mark.parametrize("name", FORMS)
def test_only_the_split_that_was_asked_for_is_read(name: str, tmp_path: Path) -> None:
    version = version_of(tmp_path / "v", [verified_row("a")], test=[verified_row("b")])
    writers = {
        "atif": lambda: export_version_job(version, tmp_path / "out", "test"),
        "harbor": lambda: export_version_tasks(version, tmp_path / "out", "r:1", str, "test"),
        "messages": lambda: export_version(version, tmp_path / "out", Messages(), "test"),
        "sharegpt": lambda: export_version(version, tmp_path / "out", ShareGpt(), "test"),
        "megatron": lambda: export_version(version, tmp_path / "out", Megatron(), "test"),
        "verl": lambda: export_version(version, tmp_path / "out", RlRows(skyrl=False), "test"),
        "skyrl": lambda: export_version(version, tmp_path / "out", RlRows(skyrl=True), "test"),
    }
    assert writers[name]().written == {"test": 1}
    with pytest.raises(NothingToExport, match="no split 'dev'; it has test, train"):
        export_version(version, tmp_path / "other", Messages(), "dev")


@pytest.mark.parametrize("name", FORMS)
def test_an_export_that_carries_no_row_leaves_no_folder_and_says_why(name: str, tmp_path: Path) -> None:
    row = verified_row("a", chat=[]) | {"instruction": None, "steps": None, "messages": None}
    with pytest.raises(NothingToExport, match="none of the 1 rows of terminal@v0001"):
        FORMS[name].write(version_of(tmp_path / "v", [row]), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["v"]


@pytest.mark.parametrize("name", FORMS)
def test_a_folder_that_is_not_empty_is_left_alone(name: str, version: PublishedVersion, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(ConfigurationError, match="not empty"):
        FORMS[name].write(version, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_what_is_lost_on_the_way_to_disk_stops_the_export(tmp_path: Path) -> None:
    class Narrower(Messages):
        schema = pa.schema([field for field in Messages.schema or () if field.name != "language"])

        def recovered(self, record: Row) -> Row:
            return {"language": ""} | record

    version = version_of(tmp_path / "v", [verified_row("a")])
    with pytest.raises(ExportDamaged, match=r"train\.parquet"):
        export_version(version, tmp_path / "out", Narrower())
    assert not (tmp_path / "out").exists()


def test_a_row_that_would_be_another_row_is_refused(tmp_path: Path) -> None:
    class Forgetful(Messages):
        def record(self, essence: Row, split: str, number: int) -> Row:
            return essence | {"messages": []} if number == 1 else essence

    version = version_of(tmp_path / "v", [verified_row("a"), verified_row("b")])
    assert export_version(version, tmp_path / "out", Forgetful()).rules == {"not_lossless": 1}


def test_a_version_with_more_rows_than_can_be_read_is_not_exported(tmp_path: Path) -> None:
    path, manifest = version_of(tmp_path / "v", [verified_row("a")])
    files = tuple(file.model_copy(update={"rows": 2}) for file in manifest.files)
    with pytest.raises(ExportDamaged, match="has 2 rows in train, of which 1"):
        export_version(
            PublishedVersion(path, manifest.model_copy(update={"files": files})), tmp_path / "out", Messages()
        )


def test_a_version_that_was_changed_is_not_exported(tmp_path: Path) -> None:
    path, _ = version_of(tmp_path / "snapshots" / "terminal" / "v0001", [verified_row("a")])
    pq.write_table(pq.read_table(path / "data").slice(0, 0), path / "data" / "train-00000.parquet")
    with pytest.raises(SnapshotDamaged, match="was changed"):
        published(tmp_path, "terminal@v0001")


@pytest.mark.parametrize(
    "found", [[("a", 1)], [("b", 2), ("a", 1)], [("a", 1), ("b", 3)], [("a", 1), ("b", 2), ("c", 3)]]
)
def test_a_missing_a_swapped_a_changed_and_a_further_row_are_each_found(found: list[tuple[str, object]]) -> None:
    with pytest.raises(ExportDamaged):
        prove("out", found, {"a": 1, "b": 2})
    prove("out", [("a", 1), ("b", 2)], {"a": 1, "b": 2})


def test_rows_of_a_version_come_in_the_order_of_its_files(version: PublishedVersion, rows: dict[str, Row]) -> None:
    found = [one.trajectory_id for one in rows_of(version, COLUMNS, "train")]
    assert found == [row["trajectory_id"] for row in rows.values()]


def test_lines_hold_no_character_that_some_reader_ends_a_line_at(tmp_path: Path) -> None:
    FORMS["sharegpt"].write(version_of(tmp_path / "v", [verified_row("a", TEXTS["line_separators"])]), tmp_path / "out")
    text = (tmp_path / "out" / "train.jsonl").read_bytes().decode()
    assert len(text.splitlines()) == len(text.split("\n")) - 1 == 1


def test_megatron_reads_a_document_from_each_line(exported: Exported) -> None:
    made, folder = exported("megatron")
    # As tools/preprocess_data.py does: lines of a text file, of each the value of the key `text`.
    with (folder / "train.jsonl").open(encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    assert len(texts) == made.written["train"] and all(texts)
