"""Near copies: what only differs in literals is one task; what is decided does not depend on the order of arrival."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.curation.dedup import TaskText, masked_code, masked_prose, near_copies

CODE = """import json
from pathlib import Path

{name} = Path("/w/{file}")


def test_{test}():
    assert json.loads({name}.read_text()) == {expected}
"""
PROSE = {
    "a": "Sort the rows of `a.csv` by the second column and keep the header where it is.",
    "b": "Turn the nested document into a flat list of assignments, one for each leaf of the tree.",
    "c": "Every dog that is older than three years belongs in a new table with an index on its name.",
}
OTHER_CODE = {
    PROSE["b"]: """from pathlib import Path


def test_lines():
    lines = [line.rstrip() for line in Path("out.txt").read_text().splitlines()]
    assert len(lines) == 7 and lines[0].startswith("a")
""",
    PROSE["c"]: """import sqlite3


def test_table():
    rows = sorted(sqlite3.connect("dogs.db").execute("select * from old"))
    assert rows == [(4, "Cleo")]
""",
}


def _task(task_id: str, prose: str, **given: str) -> TaskText:
    values = {"name": "RESULT", "file": "x.json", "test": "result", "expected": "[1, 2]"} | given
    verifier = OTHER_CODE.get(prose) or CODE.format(**values)
    return TaskText(instance_id=task_id, instruction=prose, verifier=verifier)


def test_tasks_that_differ_only_in_literals_are_near_copies() -> None:
    one = _task("1", PROSE["a"])
    other = _task(
        "2",
        PROSE["a"].replace("a.csv", "data/b.csv"),
        name="OTHER",
        file="y.json",
        test="other",
        expected='{"k": [None, 3.5]}',
    )
    assert near_copies([one, other])["2"].kept_id == "1"


def test_tasks_with_other_words_are_not_near_copies() -> None:
    assert near_copies([_task(k, PROSE[k]) for k in PROSE]) == {}


def test_a_verifier_that_is_nearly_all_of_a_task_makes_it_a_near_copy() -> None:
    assert set(near_copies([_task("1", "Sort `a.csv`."), _task("2", "Turn the tree into a list.")])) == {"2"}


def test_of_a_group_the_task_that_is_like_the_fewest_others_is_kept() -> None:
    def words(letter: str, count: int) -> str:
        return " ".join(f"{letter}{number}" for number in "abcdefghijklmnopqrstuvwxyz"[:count])

    common = words("x", 22)
    tasks = {"1": common, "2": f"{common} {words('y', 14)}", "3": f"{common} {words('z', 14)}"}
    alike = near_copies([TaskText(instance_id=i, instruction=text, verifier="") for i, text in tasks.items()])
    assert set(alike) == {"1"}


def test_a_kept_task_is_never_dropped() -> None:
    assert set(near_copies([_task("0", PROSE["a"])], [_task("1", PROSE["a"])])) == {"0"}
    assert near_copies([_task("1", PROSE["a"])], [_task("1", PROSE["a"])]) == {}


def test_a_later_repository_changes_nothing_for_earlier_tasks() -> None:
    earlier = [_task("5", PROSE["a"]), _task("6", PROSE["b"])]
    first = near_copies(earlier)
    later = near_copies([_task("1", PROSE["a"]), _task("2", PROSE["c"])], earlier)
    assert first == {}
    assert {i: c.kept_id for i, c in later.items()} == {"1": "5"}


@settings(deadline=None)
@given(st.permutations(["1", "2", "3", "4", "5"]))
def test_the_order_of_arrival_does_not_matter(order: list[str]) -> None:
    prose = {"1": PROSE["a"], "2": PROSE["b"], "3": PROSE["a"], "4": PROSE["c"], "5": PROSE["b"]}
    found = near_copies([_task(i, prose[i]) for i in order])
    assert {i: c.kept_id for i, c in found.items()} == {"3": "1", "5": "2"}


def test_literals_of_prose_are_masked() -> None:
    words = masked_prose('Save `x y` as "a b" in /w/out.json, 12 lines:\n\n```json\n{"a": 1}\n```\n\nDone.')
    assert words == ["save", "LITERAL", "as", "LITERAL", "in", "LITERAL", "lines", "LITERAL", "done"]


def test_literals_of_code_are_masked_whatever_their_size() -> None:
    short = masked_code("assert rows == [1]\n")
    long = masked_code("assert rows == [\n    {'a': [1, 2.5, None], 'b': 'x' 'y'},\n    {},\n    (1, True),\n]\n")
    assert short == ["assert", "rows", "==", "LITERAL"]
    assert long[:4] == short


def test_code_that_does_not_parse_is_compared_as_prose() -> None:
    assert masked_code("def broken(:\n  'x'") == masked_prose("def broken(:\n  'x'")
