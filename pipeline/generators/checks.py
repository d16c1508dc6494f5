"""From facts to the text of a verifier: small pytest files of the standard library that judge the final state.

Expected values are literals, so that a failing test explains itself; where they would fill pages, the structure,
some lines in clear and a digest of the normalised whole take their place. Where facts come from is not here.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pipeline.generators.facts import (
    Fact,
    Json,
    Kind,
    ProgramRun,
    Rows,
    SqlTable,
    csv_rows,
    delimiter_of,
    digest,
    json_value,
    sql_tables,
    table_cells,
)
from pipeline.generators.writer import Writer, literal

MAX_LITERAL = 3600
SHOWN_LINES = 3


def add_checks(writer: Writer, fact: Fact, subject: str) -> None:
    """Add the tests that pin one file. `subject` is a word or two for the names of the tests.

    Raises ValueError for a kind that nothing can be said about.
    """
    if fact.kind not in CHECKS:
        raise ValueError(f"no check for {fact.kind} files")
    CHECKS[fact.kind](writer, fact, subject)


def _read(writer: Writer, fact: Fact) -> str:
    return f'{writer.path(fact.path)}.read_text(encoding="utf-8")'


def _check_json(writer: Writer, fact: Fact, subject: str) -> None:
    writer.needs("json")
    value = json_value(fact)
    source = f"json.loads({_read(writer, fact)})"
    if fact.kind == "jsonl":
        source = f"[json.loads(line) for line in {_read(writer, fact)}.splitlines() if line.strip()]"
    records = [r for r in value if isinstance(r, dict)] if isinstance(value, list) else []
    if records and len(records) == len(value if isinstance(value, list) else []):
        _check_records(writer, source, records, subject)
    elif isinstance(value, dict):
        _check_mapping(writer, source, value, subject)
    elif isinstance(value, list):
        _check_array(writer, source, value, subject)
    else:
        writer.test(f"{subject} is the expected value", f"assert {source} == {literal(value)}")


def _check_records(writer: Writer, source: str, records: list[dict[str, Json]], subject: str) -> None:
    keys = list(records[0])
    same = all(list(r) == keys for r in records)
    if len(literal(records)) <= MAX_LITERAL:
        if len(records) == 1:
            writer.test(
                f"{subject} holds exactly one record",
                f"(record,) = {source}",
                f"assert record == {literal(records[0])}",
            )
        elif same and len(keys) == 1:
            writer.test(
                f"{subject} lists every {keys[0]}",
                f"values = [item[{literal(keys[0])}] for item in {source}]",
                f"assert values == {literal([r[keys[0]] for r in records])}",
            )
        else:
            writer.test(
                f"{subject} holds {len(records)} records in order",
                f"records = {source}",
                f"assert len(records) == {len(records)}",
                f"assert records == {literal(records)}",
            )
        return
    writer.needs("hashlib")
    writer.test(
        f"{subject} has {len(records)} records",
        f"records = {source}",
        f"assert len(records) == {len(records)}",
        f"assert records[0] == {literal(records[0])}",
        f"assert records[-1] == {literal(records[-1])}",
    )
    if same:
        writer.test(
            f"{subject} keeps the same fields everywhere",
            f"assert {{frozenset(record) for record in {source}}} == {{frozenset({literal(keys)})}}",
        )
    _whole_json(writer, source, records, subject)


def _whole_json(writer: Writer, source: str, value: object, subject: str) -> None:
    writer.needs("hashlib")
    expected = digest(json.dumps(value, sort_keys=True))
    writer.test(
        f"{subject} is complete",
        f"canonical = json.dumps({source}, sort_keys=True)",
        f"assert hashlib.sha256(canonical.encode()).hexdigest() == {literal(expected)}",
    )


def _check_mapping(writer: Writer, source: str, value: dict[str, Json], subject: str) -> None:
    if len(literal(value)) <= MAX_LITERAL:
        writer.test(f"{subject} is the expected object", f"assert {source} == {literal(value)}")
        return
    keys = sorted(value)
    writer.test(f"{subject} has its {len(keys)} top level keys", f"assert sorted({source}) == {literal(keys)}")
    for key in keys:
        if isinstance(value[key], str | int | bool) and len(literal(value[key])) < 120:
            writer.test(f"{subject} {key}", f"assert {source}[{literal(key)}] == {literal(value[key])}")
            break
    _whole_json(writer, source, value, subject)


def _check_array(writer: Writer, source: str, value: list[Json], subject: str) -> None:
    if len(literal(value)) <= MAX_LITERAL:
        writer.test(f"{subject} is the expected array", f"array = {source}", f"assert array == {literal(value)}")
        return
    writer.test(
        f"{subject} has {len(value)} elements",
        f"array = {source}",
        f"assert len(array) == {len(value)}",
        f"assert array[0] == {literal(value[0])}",
    )
    _whole_json(writer, source, value, subject)


def _check_csv(writer: Writer, fact: Fact, subject: str) -> None:
    writer.needs("csv")
    rows = csv_rows(fact)
    mark = delimiter_of(fact)
    option = "" if mark == "," else f", delimiter={literal(mark)}"
    source = f"csv.reader({_read(writer, fact)}.splitlines(){option})"
    _check_rows(writer, f"[row for row in {source} if row]", rows, subject)


def _check_table(writer: Writer, fact: Fact, subject: str) -> None:
    writer.needs("re")
    rows = table_cells(fact.lines)
    name = writer.path(fact.path)
    source = (
        f'[[cell.strip() for cell in line.strip().strip("|").split("|")]\n'
        f'        for line in {name}.read_text(encoding="utf-8").splitlines()\n'
        f'        if not re.fullmatch(r"[\\s|+=:-]*", line)]'
    )
    _check_rows(writer, source, rows, subject)


def _check_rows(writer: Writer, source: str, rows: Rows, subject: str) -> None:
    header, body = rows[0], rows[1:]
    if len(literal(rows)) <= MAX_LITERAL:
        if len(header) == 1:
            flat = [row[0] for row in rows]
            writer.test(
                f"{subject} lists {len(flat)} values",
                f"column = [row[0] for row in {source}]",
                f"assert column == {literal(flat)}",
            )
        elif len(body) <= 1:
            writer.test(f"{subject} rows", f"assert {source} == {literal(rows)}")
        else:
            writer.test(
                f"{subject} header and {len(body)} rows",
                f"header, *body = {source}",
                f"assert header == {literal(header)}",
                f"assert body == {literal(body)}",
            )
        return
    writer.needs("hashlib")
    writer.test(f"{subject} header", f"assert {source}[0] == {literal(header)}")
    writer.test(
        f"{subject} has {len(body)} data rows",
        f"body = {source}[1:]",
        f"assert len(body) == {len(body)}",
        f"assert body[0] == {literal(body[0])}",
        f"assert body[-1] == {literal(body[-1])}",
    )
    if (order := sorted_column(body)) is not None:
        index, falling = order
        writer.test(
            f"{subject} is ordered by {header[index]}",
            f"values = [{_number('row[' + str(index) + ']', body, index)} for row in {source}[1:]]",
            f"assert values == sorted(values{', reverse=True' if falling else ''})",
        )
    expected = digest("\n".join("\x1f".join(row) for row in rows))
    writer.test(
        f"{subject} has every cell right",
        f'cells = "\\n".join("\\x1f".join(row) for row in {source})',
        f"assert hashlib.sha256(cells.encode()).hexdigest() == {literal(expected)}",
    )


def sorted_column(body: Rows) -> tuple[int, bool] | None:
    """(column, falling) of a column that orders the rows and has more than two different values, else None."""
    for index in range(min((len(r) for r in body), default=0)):
        values = [_as_number(row[index]) for row in body]
        if len(set(map(repr, values))) < 3 or len({type(v) for v in values}) > 1:
            continue
        ordered = sorted(values, key=lambda v: v)
        if values == ordered or values == ordered[::-1]:
            return index, values != ordered
    return None


def _as_number(text: str) -> float | str:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def _number(expression: str, body: Rows, index: int) -> str:
    return f'float({expression}.replace(",", ""))' if isinstance(_as_number(body[0][index]), float) else expression


def _check_text(writer: Writer, fact: Fact, subject: str) -> None:
    lines = fact.lines
    name = writer.path(fact.path)
    if len(lines) == 1:
        writer.test(
            f"{subject} is one line",
            f'assert {name}.read_text(encoding="utf-8").strip() == {literal(lines[0].strip())}',
        )
        return
    source = f'[line.rstrip() for line in {name}.read_text(encoding="utf-8").rstrip().splitlines()]'
    if len(literal(lines)) <= MAX_LITERAL:
        writer.test(f"{subject} reads as expected", f"lines = {source}", f"assert lines == {literal(lines)}")
        return
    writer.needs("hashlib")
    middle = len(lines) // 2
    writer.test(
        f"{subject} begins and ends right",
        f"lines = {source}",
        f"assert lines[:{SHOWN_LINES}] == {literal(lines[:SHOWN_LINES])}",
        f"assert lines[{middle}] == {literal(lines[middle])}",
        f"assert lines[-1] == {literal(lines[-1])}",
    )
    writer.test(
        f"{subject} has all {len(lines)} lines",
        f"lines = {source}",
        f"assert len(lines) == {len(lines)}",
        f'assert hashlib.sha256("\\n".join(lines).encode()).hexdigest() == {literal(digest(chr(10).join(lines)))}',
    )


def _check_xml(writer: Writer, fact: Fact, subject: str) -> None:
    from xml.etree import ElementTree

    if len(fact.text) > MAX_LITERAL:
        _check_text(writer, fact, subject)
        return
    root = ElementTree.fromstring(fact.text)
    writer.needs("xml.etree.ElementTree as ElementTree")
    tags = [element.tag for element in root.iter()]
    writer.test(
        f"{subject} has the right elements",
        f"root = ElementTree.parse({writer.path(fact.path)}).getroot()",
        f"assert [element.tag for element in root.iter()] == {literal(tags)}",
    )
    canonical = ElementTree.canonicalize(fact.text, strip_text=True)
    writer.test(
        f"{subject} equals the expected document",
        f"document = ElementTree.canonicalize({_read(writer, fact)}, strip_text=True)",
        f"assert document == {literal(canonical)}",
    )


def _check_sqlite(writer: Writer, fact: Fact, subject: str) -> None:
    writer.needs("sqlite3")
    tables = sql_tables(fact)
    name = writer.path(fact.path)
    open_db = f'db = sqlite3.connect(f"file:{{{name}}}?mode=ro", uri=True)'
    for table in tables[:4]:
        _check_sql_table(writer, open_db, table)
    names = [t.name for t in tables]
    if len(names) > 1:
        writer.test(
            f"{subject} has these tables",
            open_db,
            "found = {row[0] for row in db.execute('select name from sqlite_master')}",
            f"assert found >= {literal(set(names))}",
        )


def _check_sql_table(writer: Writer, open_db: str, table: SqlTable) -> None:
    quoted = '"' + table.name.replace('"', '""') + '"'
    columns = [(name, kind) for name, kind, _ in table.columns]
    keys = [name for name, _, position in sorted(table.columns, key=lambda c: c[2]) if position]
    if table.kind == "table":
        writer.test(
            f"{table.name} columns",
            open_db,
            f"columns = db.execute({literal(f'pragma table_info({quoted})')}).fetchall()",
            f"assert [(c[1], c[2]) for c in columns] == {literal(columns)}",
            *(
                [f"assert [c[1] for c in sorted(columns, key=lambda c: c[5]) if c[5]] == {literal(keys)}"]
                if keys
                else []
            ),
        )
    rows = [list(r) for r in table.rows]
    query = literal(f"select * from {quoted}")
    if len(literal(rows)) <= MAX_LITERAL and rows:
        writer.test(
            f"{table.name} holds {len(rows)} rows",
            open_db,
            f"rows = sorted(map(list, db.execute({query})), key=repr)",
            f"assert rows == {literal(rows)}",
        )
    else:
        writer.test(
            f"{table.name} holds {len(rows)} rows",
            open_db,
            f"rows = sorted(db.execute({query}), key=repr)",
            f"assert len(rows) == {len(rows)}",
            *(
                [f"assert list(rows[0]) == {literal(rows[0])}", f"assert list(rows[-1]) == {literal(rows[-1])}"]
                if rows
                else []
            ),
        )
    if table.indexes:
        writer.test(
            f"{table.name} is indexed",
            open_db,
            f"made = [row[1] for row in db.execute({literal(f'pragma index_list({quoted})')}) if row[3] == 'c']",
            "covered = sorted([c[2] for c in db.execute(f'pragma index_info(\"{name}\")')] for name in made)",
            f"assert covered == {literal([list(i) for i in table.indexes])}",
        )


CHECKS: dict[Kind, Callable[[Writer, Fact, str], None]] = {
    "json": _check_json,
    "jsonl": _check_json,
    "csv": _check_csv,
    "table": _check_table,
    "sqlite": _check_sqlite,
    "xml": _check_xml,
    "text": _check_text,
}


def add_program_check(writer: Writer, run: ProgramRun, subject: str) -> None:
    """Add tests that a program was built and that, run as a child, it prints the expected lines."""
    name = writer.path(run.path)
    lines = list(run.lines)
    if not lines:
        writer.needs("os")
        checks = [f"assert {literal(message)}.encode() in program" for message in run.messages]
        writer.test(f"{subject} may be started", f"assert os.access({name}, os.X_OK)")
        writer.test(
            f"{subject} is compiled from its sources",
            f"program = {name}.read_bytes()",
            'assert program[:4] == b"\\x7fELF"',
            *checks,
        )
        return
    writer.needs("subprocess")
    writer.test(f"{subject} is a compiled program", f'assert {name}.read_bytes()[:4] == b"\\x7fELF"')
    options = "stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60"
    call = f"run = subprocess.run(\n    [{name}], cwd={literal(run.directory)}, {options}\n)"
    printed = "printed = [line.rstrip() for line in run.stdout.rstrip().splitlines()]"
    if len(literal(lines)) <= MAX_LITERAL:
        writer.test(
            f"{subject} prints the expected text",
            call,
            printed,
            "assert run.returncode == 0",
            f"assert printed == {literal(lines)}",
        )
        return
    writer.needs("hashlib")
    whole = f'assert hashlib.sha256("\\n".join(printed).encode()).hexdigest() == {literal(digest(chr(10).join(lines)))}'
    writer.test(
        f"{subject} prints {len(lines)} lines",
        call,
        printed,
        f"assert printed[:{SHOWN_LINES}] == {literal(lines[:SHOWN_LINES])}",
        f"assert len(printed) == {len(lines)}",
        whole,
    )
