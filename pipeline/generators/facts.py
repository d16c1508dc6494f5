"""What a file of a final state holds: its kind, its structure, and a form in which two runs can be compared.

How facts become tests is in checks.py, how they become prose in phrasing.py.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, cast

Kind = Literal["json", "jsonl", "csv", "table", "sqlite", "xml", "text", "executable", "binary"]
Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Rows = list[list[str]]


@dataclass(frozen=True)
class Fact:
    """One file of the final state."""

    path: str
    """Absolute path in the sandbox."""
    kind: Kind
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace").replace("\r\n", "\n")

    @property
    def lines(self) -> list[str]:
        return normalised_lines(self.text)


@dataclass(frozen=True)
class ProgramRun:
    """A program that was built."""

    path: str
    directory: str
    lines: tuple[str, ...]
    """What it prints when started without arguments and without input; empty when that says nothing."""
    messages: tuple[str, ...] = ()
    """Texts of the sources that the program holds, for one that cannot be run by itself."""


def normalised_lines(text: str) -> list[str]:
    """Lines without trailing blanks, without empty lines at the end."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def classify(path: str, content: bytes) -> Kind:
    """What a file holds, by its content first and its name second."""
    if content.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if content.startswith(b"\x7fELF"):
        return "executable"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return "binary"
    if "\0" in text:
        return "binary"
    stripped = text.strip()
    suffix = PurePosixPath(path).suffix.lower()
    if stripped[:1] in {"{", "["} and _loads(stripped) is not None:
        return "json"
    lines = stripped.split("\n")
    if len(lines) > 1 and all(line[:1] in {"{", "["} and _loads(line) is not None for line in lines):
        return "jsonl"
    if stripped.startswith("<") and suffix not in {".html", ".htm", ".js"} and _well_formed(stripped):
        return "xml"
    if table_cells(lines):
        return "table"
    if suffix in {".csv", ".tsv"} or _looks_like_csv(lines):
        return "csv"
    return "text"


def _loads(text: str) -> Json:
    try:
        return cast(Json, json.loads(text))
    except (ValueError, RecursionError):
        return None


def _well_formed(text: str) -> bool:
    from xml.etree import ElementTree

    try:
        ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return False
    return True


def _looks_like_csv(lines: list[str]) -> bool:
    if len(lines) < 2 or not re.match(r"^[\w\" ]+([,\t][\w\" .-]*)+$", lines[0]):
        return False
    rows = list(csv.reader(lines, delimiter="\t" if "\t" in lines[0] else ","))
    return len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows)


def table_cells(lines: list[str]) -> Rows:
    """Cells of a table drawn with bars, ruler lines left out; empty when the lines draw none."""
    body = [line.strip() for line in lines if line.strip() and not re.fullmatch(r"[\s|+=:-]+", line)]
    if len(body) < 2 or not all(line.startswith("|") and line.endswith("|") for line in body):
        return []
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body]


def csv_rows(fact: Fact) -> Rows:
    return [row for row in csv.reader(io.StringIO(fact.text), delimiter=delimiter_of(fact)) if row]


def delimiter_of(fact: Fact) -> str:
    first = fact.text.split("\n", 1)[0]
    return max(",\t;|", key=first.count) if any(mark in first for mark in ",\t;|") else ","


def json_value(fact: Fact) -> Json:
    if fact.kind == "jsonl":
        return [cast(Json, json.loads(line)) for line in fact.text.strip().split("\n")]
    return cast(Json, json.loads(fact.text))


@dataclass(frozen=True)
class SqlTable:
    name: str
    kind: str
    columns: tuple[tuple[str, str, int], ...]
    """(name, declared type, position in the primary key or 0)."""
    rows: tuple[tuple[object, ...], ...]
    indexes: tuple[tuple[str, ...], ...]
    """Columns of each index that was made on purpose."""


def sql_tables(fact: Fact) -> list[SqlTable]:
    """Logical content of a database file; the shadow tables of full-text indexes are left out. Raises sqlite3.Error."""
    with tempfile.NamedTemporaryFile(suffix=".db") as copy:
        Path(copy.name).write_bytes(fact.content)
        db = sqlite3.connect(copy.name)
        try:
            found = db.execute(
                "select name, type, sql from sqlite_master where type in ('table', 'view') order by name"
            ).fetchall()
            virtual = [name for name, _, sql in found if sql and sql.upper().startswith("CREATE VIRTUAL")]
            return [
                _sql_table(db, name, kind)
                for name, kind, _ in found
                if not name.startswith("sqlite_") and not any(name.startswith(v + "_") for v in virtual)
            ]
        finally:
            db.close()


def _sql_table(db: sqlite3.Connection, name: str, kind: str) -> SqlTable:
    quoted = '"' + name.replace('"', '""') + '"'
    columns = tuple((c[1], c[2], c[5]) for c in db.execute(f"pragma table_info({quoted})"))
    rows = tuple(sorted(db.execute(f"select * from {quoted}").fetchall(), key=lambda row: repr(list(row))))
    indexes = []
    for index in db.execute(f"pragma index_list({quoted})").fetchall():
        if index[3] == "c":
            indexes.append(tuple(str(c[2]) for c in db.execute(f'pragma index_info("{index[1]}")')))
    return SqlTable(name, kind, columns, rows, tuple(sorted(indexes)))


def canonical(fact: Fact) -> str:
    """Text that is equal for two runs exactly when the facts are the same."""
    if fact.kind == "sqlite":
        return repr(sql_tables(fact))
    if fact.kind in {"json", "jsonl"}:
        return json.dumps(json_value(fact), sort_keys=True)
    if fact.kind in {"binary", "executable"}:
        return hashlib.sha256(fact.content).hexdigest()
    return "\n".join(fact.lines)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
