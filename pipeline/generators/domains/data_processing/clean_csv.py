"""An export of a spreadsheet in a national dialect of CSV, to be written as plain CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from random import Random

from pipeline.generators.domains.data_processing.heredoc import altered, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant


@dataclass(frozen=True)
class Dialect:
    """How one export looks."""

    delimiter: str
    encoding: str
    """Name for Python and iconv."""
    date: str
    """Format of strftime, of which only %d, %m, %Y and %b occur."""
    date_words: str
    thousands: str
    decimal: str
    said: str


DIALECTS = (
    Dialect(";", "latin1", "%d.%m.%Y", "day.month.year", ".", ",", "semicolons, ISO-8859-1"),
    Dialect("\t", "utf-16", "%m/%d/%Y", "month/day/year", ",", ".", "tabs, UTF-16 with a byte order mark"),
    Dialect("|", "cp1252", "%d-%b-%Y", "day-month name-year", "'", ".", "vertical bars, Windows-1252"),
    Dialect(",", "utf-8", "%Y%m%d", "year, month and day without separators", " ", ",", "commas, UTF-8 with a BOM"),
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
NAMES = ("Café Müller", "Señor Peña", 'Haus "Zur Brücke"', "Åkesson, Björn", "O'Neill & Söhne", "Crème Brûlée SA")
NOTES = ("", "paid late", 'said "maybe"\nthen paid', "first line\nsecond line", "50 % off, twice", "a | b; c", "naïve")

SOLVE = """
import csv, io, re
from datetime import datetime

text = open("/work/export.csv", encoding=__ENCODING__, newline="").read()
seen = []
for row in csv.reader(io.StringIO(text, newline=""), delimiter=__DELIMITER__):
    row = [re.sub(r"[\\r\\n]+", " ", field).strip() for field in row]
    if not any(row) or row[0] == "Invoice No":
        continue
    number, customer, issued, amount, note = row
    amount = amount.replace(__THOUSANDS__, "").replace(__DECIMAL__, ".")
    seen.append([number, customer, datetime.strptime(issued, __DATE__).strftime("%Y-%m-%d"), amount, note])
with open("/work/clean.csv", "w", encoding="utf-8", newline="") as out:
    writer = csv.writer(out, lineterminator="\\n")
    writer.writerow(["invoice", "customer", "issued", "amount", "note"])
    writer.writerows(seen)
"""
VERIFY = """
import csv
import io

RECORDS = __RECORDS__
HEADER = ["invoice", "customer", "issued", "amount", "note"]


def test_bytes_are_plain_utf8_with_unix_lines(box):
    raw = box.read("/work/clean.csv")
    assert not raw.startswith(b"\\xef\\xbb\\xbf") and b"\\r" not in raw and b"\\0" not in raw
    assert raw.endswith(b"\\n") and raw.count(b"\\n") == len(RECORDS) + 1


def test_every_record_survives_with_its_characters(box):
    table = list(csv.reader(io.StringIO(box.text("/work/clean.csv"))))
    assert table[0] == HEADER
    assert table[1:] == RECORDS


def test_quotes_stand_only_where_they_must(box):
    again = io.StringIO()
    csv.writer(again, lineterminator="\\n").writerows([HEADER, *RECORDS])
    assert box.text("/work/clean.csv") == again.getvalue()
"""


def _amount(cents: int, dialect: Dialect) -> str:
    grouped = f"{cents // 100:,}".replace(",", dialect.thousands)
    return f"{grouped}{dialect.decimal}{cents % 100:02d}"


def _export(rng: Random, dialect: Dialect) -> tuple[str, list[list[str]]]:
    """Text of the export, and the records that it stands for."""
    out, records = io.StringIO(), []
    writer = csv.writer(out, delimiter=dialect.delimiter, lineterminator="\r\n")
    header = ["Invoice No", "Customer", "Issued", "Amount", "Note"]
    writer.writerow(header)
    for number in range(18):
        year, month, day = rng.choice((2021, 2022, 2023)), rng.randint(1, 12), rng.randint(1, 28)
        issued = dialect.date.replace("%d", f"{day:02d}").replace("%m", f"{month:02d}").replace("%Y", str(year))
        issued = issued.replace("%b", MONTHS[month - 1])
        name, note, cents = rng.choice(NAMES), rng.choice(NOTES), rng.randint(100, 4_000_000)
        invoice = f"{rng.randint(0, 999):05d}"
        padded = f"  {name} " if rng.random() < 0.4 else name
        writer.writerow([invoice, padded, issued, _amount(cents, dialect), note])
        plain = f"{cents // 100}.{cents % 100:02d}"
        records.append([invoice, name, f"{year}-{month:02d}-{day:02d}", plain, note.replace("\n", " ")])
        if number % 6 == 3:
            writer.writerow([""] * 5)
        if number == 10:
            writer.writerow(header)
    return out.getvalue(), records


def clean_csv(seed: int, context: Context) -> Draft:
    rng = chance("data_processing", "clean_csv", seed)
    dialect = DIALECTS[seed % len(DIALECTS)]
    text, records = _export(rng, dialect)
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    named = {"delimiter": dialect.delimiter, "thousands": dialect.thousands, "decimal": dialect.decimal}
    script = python(filled(SOLVE, encoding=encoding, date=dialect.date, **named))
    convert = f"iconv -f UTF-8 -t {dialect.encoding.upper()} export.utf8 > export.csv && rm export.utf8"
    sql = (
        "import csv, sqlite3\nbase = sqlite3.connect(':memory:')\n"
        "base.execute('create table t(a, b, c, d, e)')\n"
        + filled(SOLVE, encoding=encoding, date=dialect.date, **named).split("with open")[0]
        + "base.executemany('insert into t values(?, ?, ?, ?, ?)', seen)\n"
        "quote = lambda v: '\"' + v.replace('\"', '\"\"') + '\"' if set(v) & set(',\"') else v\n"
        "lines = [','.join(map(quote, row)) for row in base.execute('select * from t order by rowid')]\n"
        "open('/work/clean.csv', 'wb').write('\\n'.join(['invoice,customer,issued,amount,note', *lines, '']).encode())"
    )
    return Draft(
        family="clean_csv",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction=f"Our accounting program only exports its own dialect of CSV ({dialect.said}, CRLF line ends), see "
        "/work/export.csv. Please turn it into /work/clean.csv that any tool can load: UTF-8 without a byte order "
        "mark, commas, every line ending in a single LF, header `invoice,customer,issued,amount,note` for the five "
        "columns in their order, and a field in double quotes only if it contains a comma or a double quote (inner "
        "quotes doubled). Keep the records in the order of the export. Drop records whose fields are all empty and "
        "repetitions of the header. Trim blanks around each field; a line break inside a field becomes one space; "
        f"leading zeros of invoice numbers stay. Dates come as {dialect.date_words} and go out as YYYY-MM-DD. Amounts "
        f"come with {dialect.thousands!r} between thousands and {dialect.decimal!r} before the cents: write them like "
        "1234.50, without grouping and with both decimals.",
        files=(TaskFile(path="/work/export.utf8", text="\ufeff" * (dialect.encoding == "utf-8") + text),),
        setup=(convert,),
        solution=(script,),
        right=(Variant(name="through_sqlite", commands=(python(sql),)),),
        weak=(
            Variant(name="all_quoted", commands=(altered(script, ("(out, ", "(out, quoting=csv.QUOTE_ALL, ")),)),
            Variant(name="breaks_kept", commands=(altered(script, ('re.sub(r"[\\r\\n]+", " ", field)', "field")),)),
            Variant(name="not_trimmed", commands=(altered(script, (".strip() for", " for")),)),
            Variant(name="zeros_lost", commands=(altered(script, ("append([number,", "append([int(number),")),)),
        ),
        verifier=filled(VERIFY, records=records),
    )
