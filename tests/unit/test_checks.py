"""Verifiers made from facts: they accept the state they were made from and harmless variants, and refuse wrong ones."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline.admission.lint import lint_gate
from pipeline.generators.checks import add_checks, add_program_check
from pipeline.generators.facts import Fact, ProgramRun, canonical, classify, sql_tables
from pipeline.generators.writer import Writer, literal
from pipeline.types import Verifier, VerifierFile

LONG = [{"id": i, "name": f"name {i}", "note": "x" * 40} for i in range(100)]


def _verifier(fact: Fact) -> str:
    writer = Writer()
    writer.single(fact.path)
    add_checks(writer, fact, "result")
    return writer.text()


def _fact(path: Path, content: bytes) -> Fact:
    path.write_bytes(content)
    return Fact(str(path), classify(str(path), content), content)


def _accepts(verifier: str) -> bool:
    """Run every test of a verifier here; its paths are those of the test's own folder."""
    space: dict[str, object] = {}
    exec(compile(verifier, "test_state.py", "exec"), space)
    tests = [value for name, value in space.items() if name.startswith("test_") and callable(value)]
    assert tests
    for test in tests:
        try:
            test()
        except (AssertionError, ValueError, OSError, LookupError, TypeError, sqlite3.Error, ElementTree.ParseError):
            return False
    return True


CASES = {
    "json object": ("a.json", b'{"b": 1, "a": [1, null]}', b'{"a":[1,null],\n "b":1}\n', b'{"b": 2, "a": [1, null]}'),
    "json records": ("a.json", b'[{"id": 1}, {"id": 2}]', b'[\n{"id": 1},{"id": 2}]', b'[{"id": 1}]'),
    "json lines": ("a.json", b'{"id": 1}\n{"id": 2}\n', b'{"id": 1}\n{"id": 2}', b'{"id": 1}\n{"id": 3}\n'),
    "long json": (
        "a.json",
        json.dumps(LONG).encode(),
        json.dumps(LONG, indent=1).encode(),
        json.dumps(LONG[:-1] + LONG[:1]).encode(),
    ),
    "csv": ("a.csv", b'a,b\n1,"x, y"\n2,z\n', b'a,b\r\n"1","x, y"\r\n2,z\r\n', b"a,b\n1,x\n2,z\n"),
    "long csv": (
        "a.csv",
        "".join(["n,text\n", *(f"{i},{'t' * 40}\n" for i in range(120))]).encode(),
        "".join(["n,text\r\n", *(f"{i},{'t' * 40}\r\n" for i in range(120))]).encode(),
        "".join(["n,text\n", *(f"{i},{'t' * 40 if i != 60 else 'u'}\n" for i in range(120))]).encode(),
    ),
    "drawn table": (
        "a.txt",
        b"| a | b |\n| - | - |\n| 1 | 2 |\n",
        b"| a   | b |\n| --- | - |\n| 1   | 2 |\n",
        b"| a | b |\n| - | - |\n| 1 | 3 |\n",
    ),
    "text": ("a.txt", b"one  \n  two\n\n", b"one\n  two", b"one\ntwo\n"),
    "one line": ("a.txt", b"json.likes = [];\n", b"json.likes = [];", b"json.likes = {};\n"),
    "long text": (
        "a.txt",
        b"".join(b"line %d %s\n" % (i, b"x" * 30) for i in range(200)),
        None,
        b"".join(b"line %d %s\n" % (i % 199, b"x" * 30) for i in range(200)),
    ),
    "xml": (
        "a.xml",
        b'<r><a k="1" j="2"/>t</r>',
        b'<?xml version="1.0"?>\n<r><a j="2" k="1"></a>t</r>\n',
        b'<r><a k="1" j="3"/>t</r>',
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_a_verifier_accepts_its_own_state_and_harmless_variants_and_refuses_wrong_ones(
    case: str, tmp_path: Path
) -> None:
    name, content, harmless, wrong = CASES[case]
    path = tmp_path / name
    verifier = _verifier(_fact(path, content))
    assert _accepts(verifier)
    if harmless is not None:
        path.write_bytes(harmless)
        assert _accepts(verifier)
    path.write_bytes(wrong)
    assert not _accepts(verifier)
    for weak in (b"", b"x\n"):
        path.write_bytes(weak)
        assert not _accepts(verifier)
    path.unlink()
    assert not _accepts(verifier)


@pytest.mark.parametrize("case", list(CASES))
def test_a_verifier_passes_the_lint(case: str, tmp_path: Path) -> None:
    name, content, _, _ = CASES[case]
    text = _verifier(_fact(tmp_path / name, content))
    assert lint_gate(Verifier(files=(VerifierFile(path="test_state.py", content=text),))).passed


def _database(path: Path, *statements: str) -> Fact:
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()
    return Fact(str(path), "sqlite", path.read_bytes())


MADE = (
    "create table dogs (id integer primary key, name text)",
    "insert into dogs values (10, 'Cleo'), (2, 'Toby')",
    "create index by_name on dogs (name)",
)


def test_a_database_is_judged_by_columns_keys_rows_and_indexes(tmp_path: Path) -> None:
    path = tmp_path / "dogs.db"
    verifier = _verifier(_database(path, *MADE))
    assert _accepts(verifier)
    for wrong in (
        MADE[:1],
        MADE[:2],
        (MADE[0].replace(" primary key", ""), *MADE[1:]),
        (MADE[0], MADE[1].replace("Toby", "Tom"), MADE[2]),
    ):
        _database(path, *wrong)
        assert not _accepts(verifier)


def test_databases_of_equal_content_are_equal_facts(tmp_path: Path) -> None:
    one = _database(tmp_path / "a.db", *MADE)
    other = _database(
        tmp_path / "b.db",
        MADE[0],
        "insert into dogs values (2, 'Toby')",
        "insert into dogs values (10, 'Cleo')",
        MADE[2],
    )
    assert canonical(one) == canonical(other)
    assert [t.name for t in sql_tables(one)] == ["dogs"]


def test_a_built_program_is_run_and_its_text_compared(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_bytes(Path("/bin/pwd").read_bytes())
    program.chmod(0o755)
    writer = Writer()
    add_program_check(writer, ProgramRun(str(program), str(tmp_path), (str(tmp_path),)), "tool")
    assert _accepts(writer.text())
    program.write_text("#!/bin/sh\npwd\n")
    assert not _accepts(writer.text())


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        "tab\tnew\nline",
        "\x1b[1m",
        'quotes " and \\',
        "ünïcode",
        [1, None, True],
        {"a": ["b" * 90, "c" * 90]},
        {3, 1},
        (1,),
        [],
        {},
    ],
)
def test_literals_are_python_of_the_same_value(value: object) -> None:
    assert eval(literal(value)) == value


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a", b"SQLite format 3\0rest", "sqlite"),
        ("a", b"\x7fELF\x02", "executable"),
        ("a.txt", b'{"a": 1}', "json"),
        ("a", b'{"a": 1}\n{"a": 2}\n', "jsonl"),
        ("a", b"a,b\n1,2\n", "csv"),
        ("a.csv", b"a\n1\n", "csv"),
        ("a", b"<a><b/></a>", "xml"),
        ("a.html", b"<p>x</p>", "text"),
        ("a", b"| a | b |\n|---|---|\n| 1 | 2 |", "table"),
        ("a", b"a sentence, with a comma\nand another", "text"),
        ("a", b"\xff\xfe\x00", "binary"),
    ],
)
def test_a_file_is_classified_by_its_content(name: str, content: bytes, kind: str) -> None:
    assert classify(name, content) == kind
