"""Quality scores: what rules see, how samples are drawn, what a sheet takes and refuses, how agreement is counted."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError, ItemRejected
from pipeline.llm.protocol import PromptRefused
from pipeline.llm.scripted import ScriptedModel
from pipeline.quality import by_model, rules
from pipeline.quality.agreement import kappa, mean_kappa, mean_of
from pipeline.quality.ratings import DIMENSIONS
from pipeline.quality.report import NO_BIN, quality_report
from pipeline.quality.sampling import BINS, bin_of, blind_name, stratified
from pipeline.quality.sheet import read_sheet, write_sheet
from pipeline.schemas import Row
from pipeline.types import TaskInstance, Verifier, VerifierFile

ALL_GATES = ("verifier_lint", "noop", "oracle", "weak_solutions", "other_solutions")
GOOD = (
    "Write the number of orders of each customer in /work/orders.csv to /work/totals.csv: the header customer,orders, "
    "then one line per customer, sorted by name."
)
CHECK = """
import csv

RESULT = "/work/totals.csv"


def test_totals(box):
    rows = list(csv.reader(box.text(RESULT).splitlines()))
    assert rows[0] == ["customer", "orders"]
    assert rows[1:] == [["a", "2"], ["b", "1"]]
    assert len(rows) == 3
"""


def changed(task: TaskInstance, instruction: str = GOOD, verifier: str = CHECK) -> TaskInstance:
    files = (VerifierFile(path="test_state.py", content=verifier),)
    return task.model_copy(update={"instruction": instruction, "verifier": Verifier(files=files)})


def test_a_task_that_says_all_and_was_proven_has_full_scores(task: TaskInstance) -> None:
    scores = rules.rate(changed(task), ALL_GATES, 0.0).scores
    assert set(scores.model_dump().values()) == {5}


@pytest.mark.parametrize(
    ("dimension", "instruction", "verifier", "gates", "flake_rate"),
    [
        ("task_soundness", "Count <something> ...", CHECK, ALL_GATES, 0.0),
        ("task_soundness", GOOD, CHECK, ("verifier_lint",), 0.0),
        ("evaluability", GOOD, "def test_it(box):\n    assert box.text('/work/totals.csv')\n", ALL_GATES, 0.0),
        ("evaluability", GOOD, CHECK, ALL_GATES, 0.1),
        ("information_sufficiency", "Count the orders of each customer and sort them by name.", CHECK, ALL_GATES, 0.0),
        ("behavioural_constrainedness", "Do something useful with the orders.", CHECK, ALL_GATES, 0.0),
        ("behavioural_constrainedness", GOOD, CHECK, ("noop", "oracle"), 0.0),
    ],
)
def test_each_dimension_falls_with_what_it_is_about(
    task: TaskInstance, dimension: str, instruction: str, verifier: str, gates: tuple[str, ...], flake_rate: float
) -> None:
    scores = rules.rate(changed(task, instruction, verifier), gates, flake_rate).scores.model_dump()
    assert scores[dimension] < 5


def test_an_instruction_that_dictates_the_command_constrains_the_way(task: TaskInstance) -> None:
    said = changed(task, f"{GOOD} Use `wc -l` for it.")
    assert rules.rate(said, ALL_GATES, 0.0).scores.behavioural_constrainedness == 4


@pytest.mark.parametrize(("score", "name"), [(0.19, BINS[0]), (0.2, BINS[1]), (0.5, BINS[1]), (0.51, BINS[2])])
def test_bins_meet_at_the_papers_limits(score: float, name: str) -> None:
    assert bin_of(score) == name


def test_samples_are_drawn_equally_and_repeatably() -> None:
    bins = {f"task-{i}": BINS[i % 3 if i < 30 else 2] for i in range(90)}
    items = {name: name for name in [*bins, "without-a-bin"]}
    chosen = stratified(items, bins, 5, seed=3)
    assert Counter(bins[one] for one in chosen) == dict.fromkeys(BINS, 5)
    assert chosen == stratified(items, bins, 5, seed=3) != stratified(items, bins, 5, seed=4)
    assert [bins[one] for one in chosen] != sorted(bins[one] for one in chosen)


def fill(path: Path, scores: list[dict[str, str]]) -> None:
    """Fill in the first lines of a sheet."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = list(csv.DictReader(file))
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows([line | (scores[i] if i < len(scores) else {}) for i, line in enumerate(lines)])


FULL = dict(zip(DIMENSIONS, ("1", "2", "3", "5"), strict=True))


@pytest.fixture
def tasks(task: TaskInstance) -> list[TaskInstance]:
    return [changed(task, f"=HYPERLINK(1) Task\nnumber {i}, with “marks” and, commas") for i in range(3)]


def test_a_sheet_comes_back_as_it_was_filled_in(tasks: list[TaskInstance], tmp_path: Path) -> None:
    write_sheet(tasks, 7, tmp_path / "sheet.csv")
    fill(tmp_path / "sheet.csv", [FULL | {"remark": "odd\nwords"}])
    (found,) = read_sheet(tmp_path / "sheet.csv", "anna", tasks)
    assert (found.instance_id, found.rater, found.kind) == (tasks[0].instance_id, "anna", "people")
    assert list(found.scores.model_dump().values()) == [1, 2, 3, 5]
    assert (found.remark, found.provenance["sheet"]) == ("odd\nwords", "7")


def test_a_sheet_says_nothing_of_where_a_task_came_from(tasks: list[TaskInstance], tmp_path: Path) -> None:
    write_sheet(tasks, 7, tmp_path / "sheet.csv")
    text = (tmp_path / "sheet.csv").read_text()
    for one in tasks:
        assert not {one.instance_id, one.repository_id, one.image_digest, one.generator} & set(text.split(","))
        assert blind_name(one.instance_id, 7) in text
    assert "'=HYPERLINK" in text


def test_a_sheet_is_never_written_over(tasks: list[TaskInstance], tmp_path: Path) -> None:
    write_sheet(tasks, 7, tmp_path / "sheet.csv")
    with pytest.raises(ConfigurationError, match="may hold scores"):
        write_sheet(tasks, 7, tmp_path / "sheet.csv")


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ([FULL | {"evaluability": "6"}], "item 1: evaluability '6'.*whole number 1 to 5"),
        ([{}, {"evaluability": "3"}], "item 2: .*task_soundness ''"),
        ([FULL | {"item": "item-0"}], "item-0 is no admitted instance"),
        ([FULL | {"sheet": "seven"}], "column sheet holds 'seven'"),
    ],
)
def test_a_wrong_line_is_named(
    tasks: list[TaskInstance], tmp_path: Path, scores: list[dict[str, str]], reason: str
) -> None:
    write_sheet(tasks, 7, tmp_path / "sheet.csv")
    fill(tmp_path / "sheet.csv", scores)
    with pytest.raises(ConfigurationError, match=reason):
        read_sheet(tmp_path / "sheet.csv", "anna", tasks)


def test_a_line_that_stands_twice_is_refused(tasks: list[TaskInstance], tmp_path: Path) -> None:
    write_sheet([tasks[0], tasks[0]], 7, tmp_path / "sheet.csv")
    fill(tmp_path / "sheet.csv", [FULL, FULL])
    with pytest.raises(ConfigurationError, match="stands twice"):
        read_sheet(tmp_path / "sheet.csv", "anna", tasks)


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe\x00", b"sheet,item\n7,x\n"])
def test_what_is_no_sheet_is_refused(tasks: list[TaskInstance], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.csv").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"other\.csv"):
        read_sheet(tmp_path / "other.csv", "anna", tasks)


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 1.0),
        ([1, 5, 1, 5], [5, 1, 5, 1], -1.0),
        ([1, 1, 5, 5], [1, 5, 1, 5], 0.0),
        # By hand: squares of the differences are 1 in four items, and 9 + 3 + 3 + 5 in their sixteen pairs.
        ([1, 2, 2, 3], [1, 2, 3, 3], 1 - (1 / 4) / (20 / 16)),
        ([3, 3], [3, 3], None),
        ([], [], None),
    ],
)
def test_kappa(one: list[int], other: list[int], value: float | None) -> None:
    assert kappa(one, other) == (None if value is None else pytest.approx(value, abs=0.01))


def test_agreement_is_taken_over_what_raters_share() -> None:
    raters = {"a": {"x": 1, "y": 5, "z": 3}, "b": {"x": 1, "y": 5}, "c": {"w": 2}}
    assert mean_kappa(raters) == (1.0, 2)


def test_an_interval_holds_its_mean_and_narrows_with_more_scores() -> None:
    few, many = mean_of([1, 5, 3, 4]), mean_of([1, 5, 3, 4] * 25)
    assert few is not None and many is not None
    assert few.low < few.mean == many.mean == 3.25 < few.high
    assert many.high - many.low < few.high - few.low
    assert mean_of([]) is None


def test_the_report_takes_means_by_kind_and_bin() -> None:
    def row(instance: str, kind: str, rater: str, score: int | None) -> Row:
        return {"instance_id": instance, "kind": kind, "rater": rater, **dict.fromkeys(DIMENSIONS, score)}

    rows = [
        row("a", "rules", "rules@1", 4),
        row("b", "rules", "rules@1", 2),
        row("a", "people", "anna", 1),
        row("a", "people", "anna", 5),
        row("c", "people", "anna", None),
    ]
    found = quality_report(rows, {"a": BINS[2]})
    assert found.raters == {"rules: rules@1": 2, "people: anna": 1}
    means = found.by_kind["rules"]
    assert [means[name]["evaluability"] and means[name]["evaluability"].mean for name in (*BINS, NO_BIN)] == [
        None,
        None,
        4.0,
        2.0,
    ]
    corrected = found.by_kind["people"][BINS[2]]["evaluability"]
    assert corrected is not None and corrected.mean == 5.0
    assert found.agreement["evaluability"].items == 1


SCORES = json.dumps(dict.fromkeys(DIMENSIONS, 4))


def test_a_model_is_shown_what_people_are_shown_and_asked_again_once(task: TaskInstance) -> None:
    model = ScriptedModel(["It is good.", f"```json\n{SCORES}\n```"], name="judge")
    found = by_model.rate(changed(task), model)
    assert (found.rater, found.kind, found.scores.evaluability) == ("judge", "model", 4)
    first, second = model.asked
    assert GOOD in first[0].content and "test_totals" in first[0].content and "wc -l" in first[0].content
    assert task.repository_id not in first[0].content
    assert "there is no JSON object" in second[2].content


@pytest.mark.parametrize(
    ("answers", "failure_class"),
    [
        (["no", "no"], "no_answer"),
        ([SCORES.replace("4", "9")] * 2, "no_answer"),
        ([PromptRefused("long")], "prompt_refused"),
    ],
)
def test_a_model_without_scores_is_a_reason(
    task: TaskInstance, answers: list[str | Exception], failure_class: str
) -> None:
    with pytest.raises(ItemRejected) as refused:
        by_model.rate(changed(task), ScriptedModel(answers))
    assert refused.value.failure_class == failure_class
