"""Records of a mainframe: fixed widths, EBCDIC, packed decimals."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from random import Random

from pipeline.generators.domains.data_processing.heredoc import altered, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant


@dataclass(frozen=True)
class Layout:
    """One kind of extract: its code page and its fields (name, type, bytes, decimals)."""

    name: str
    page: str
    fields: tuple[tuple[str, str, int, int], ...]
    money: str
    """The field that the trailer adds up."""
    wrong: int
    """What the trailer's sum is off by, in the smallest unit."""


LAYOUTS = (
    Layout(
        "ACCOUNTS",
        "cp037",
        (("number", "zoned", 7, 0), ("holder", "text", 18, 0), ("balance", "packed", 5, 2)),
        "balance",
        0,
    ),
    Layout(
        "ARTICLES",
        "cp500",
        (("price", "packed", 4, 3), ("article", "text", 14, 0), ("held", "binary", 2, 0)),
        "price",
        10,
    ),
    Layout(
        "METERS",
        "cp273",
        (("street", "text", 16, 0), ("reading", "zoned", 9, 1), ("day", "packed", 5, 0)),
        "reading",
        0,
    ),
    Layout(
        "WAGES", "cp1140", (("name", "text", 15, 0), ("hours", "binary", 4, 0), ("wage", "packed", 6, 2)), "wage", -1
    ),
)
WORDS = ("MÜLLER", "O'HARA", "NUÑEZ, A", "SØRENSEN", "LEFÈVRE", "HALT! AG", 'THE "OLD" MILL', "ÅS")
SOLVE = """
import csv, json
from decimal import Decimal

page, fields, money = __LAYOUT__

def number(raw, kind, decimals):
    if kind == "binary":
        value = int.from_bytes(raw, "big", signed=True)
    elif kind == "packed":
        digits = raw.hex()
        value = int(digits[:-1]) * (-1 if digits[-1] in "bd" else 1)
    else:
        value = int("".join(str(b & 15) for b in raw)) * (-1 if raw[-1] >> 4 in (11, 13) else 1)
    return str(Decimal(value).scaleb(-decimals))

raw = open("/work/extract.dat", "rb").read()
size = 1 + sum(width for _, _, width, _ in fields)
rows, total = [], Decimal(0)
for start in range(0, len(raw), size):
    record = raw[start : start + size]
    status, place, row = record[:1].decode(page), 1, {}
    if status == "T":
        count = int.from_bytes(record[1:5], "big")
        decimals = {name: places for name, _, _, places in fields}[money]
        declared = Decimal(number(record[5:13], "packed", decimals))
        break
    for name, kind, width, decimals in fields:
        part = record[place : place + width]
        row[name] = part.decode(page).rstrip() if kind == "text" else number(part, kind, decimals)
        place += width
    if status == "A":
        rows.append(row)
        total += Decimal(row[money])
with open("/work/extract.csv", "w", newline="", encoding="utf-8") as out:
    writer = csv.DictWriter(out, [name for name, *_ in fields], lineterminator="\\n")
    writer.writeheader()
    writer.writerows(rows)
report = {"records": len(rows), "sum": str(total)}
report |= {"count_matches": count == len(rows), "sum_matches": declared == total}
json.dump(report, open("/work/control.json", "w"))
"""
VERIFY = """
import csv
import json
from decimal import Decimal

ROWS = __ROWS__


def decoded(box):
    return list(csv.DictReader(box.text("/work/extract.csv").splitlines()))


def test_active_records_in_their_order_with_their_texts(box):
    rows = decoded(box)
    assert [row[__TEXT__] for row in rows] == [row[__TEXT__] for row in ROWS]
    assert list(rows[0]) == list(ROWS[0])


def test_numbers_have_their_sign_and_their_decimals(box):
    numbers = [[value for name, value in row.items() if name != __TEXT__] for row in decoded(box)]
    assert numbers == [[value for name, value in row.items() if name != __TEXT__] for row in ROWS]


def test_control_report(box):
    report = json.loads(box.text("/work/control.json"))
    assert Decimal(report["sum"]) == Decimal(__SUM__)
    assert (report["records"], report["count_matches"], report["sum_matches"]) == (len(ROWS), __COUNTED__, __SUMMED__)
"""


def _packed(value: int, width: int) -> bytes:
    return bytes.fromhex(f"{abs(value):0{width * 2 - 1}d}" + ("d" if value < 0 else "c"))


def _zoned(value: int, width: int) -> bytes:
    digits = f"{abs(value):0{width}d}"
    return bytes([*(0xF0 + int(d) for d in digits[:-1]), (0xD0 if value < 0 else 0xC0) + int(digits[-1])])


def _stored(value: int, kind: str, width: int) -> bytes:
    if kind == "binary":
        return value.to_bytes(width, "big", signed=True)
    return _packed(value, width) if kind == "packed" else _zoned(value, width)


def _shown(value: int, decimals: int) -> str:
    digits = f"{abs(value):0{decimals + 1}d}"
    whole = digits if not decimals else f"{digits[:-decimals]}.{digits[-decimals:]}"
    return f"-{whole}" if value < 0 else whole


def _extract(rng: Random, layout: Layout) -> tuple[bytes, list[dict[str, str]], int, bool]:
    """The file, its active records, their sum in the smallest unit, whether the trailer counts them right."""
    raw, rows, total = b"", [], 0
    for number in range(24):
        status = "AAAD"[rng.randint(0, 3)] if number != 5 else "H"
        row, record = {}, status.encode(layout.page)
        for name, kind, width, decimals in layout.fields:
            if kind == "text":
                row[name] = f"{rng.choice(WORDS)} {number}"[:width].rstrip()
                record += row[name].ljust(width).encode(layout.page)
                continue
            limit = {"binary": 2 ** (8 * width - 2), "packed": 10 ** min(7, width * 2 - 2), "zoned": 10 ** (width - 2)}[
                kind
            ]
            value = rng.randint(1, limit) * (-1 if rng.random() < 0.3 else 1)
            row[name] = _shown(value, decimals)
            record += _stored(value, kind, width)
            total += value if status == "A" and name == layout.money else 0
        raw += record
        if status == "A":
            rows.append(row)
    counted = layout.page != "cp273"
    trailer = (
        "T".encode(layout.page) + (len(rows) + (not counted)).to_bytes(4, "big") + _packed(total + layout.wrong, 8)
    )
    size = 1 + sum(width for _, _, width, _ in layout.fields)
    return raw + trailer.ljust(size, " ".encode(layout.page)), rows, total, counted


def _described(layout: Layout) -> str:
    """The sheet that came with the file."""
    kinds = {
        "text": "characters, padded with blanks on the right",
        "zoned": "zoned decimal, sign in the zone of the last byte (C, F positive, D negative)",
        "packed": "packed decimal, sign in the last half-byte (C, F positive, D negative)",
        "binary": "binary, two's complement, most significant byte first",
    }
    size = 1 + sum(width for _, _, width, _ in layout.fields)
    lines = [
        f"FILE {layout.name}: records of {size} bytes without separators, code page {layout.page[2:]} (EBCDIC)",
        "",
    ]
    lines += ["byte 1: status (A active, D deleted, H on hold, T trailer)"]
    place = 2
    for name, kind, width, decimals in layout.fields:
        scale = f", {decimals} decimals (implied)" if decimals else ""
        lines.append(f"bytes {place}-{place + width - 1}: {name}: {kinds[kind]}{scale}")
        place += width
    decimals = {name: count for name, _, _, count in layout.fields}[layout.money]
    lines += ["", "Trailer, the last record: bytes 2-5 number of active records (binary, most significant byte first),"]
    lines += [
        f"bytes 6-13 sum of {layout.money} over the active records (packed, {decimals} decimals implied), rest blank."
    ]
    return "\n".join(lines) + "\n"


def legacy_extract(seed: int, context: Context) -> Draft:
    layout = LAYOUTS[seed % len(LAYOUTS)]
    raw, rows, total, counted = _extract(chance("data_processing", "legacy_extract", seed), layout)
    decimals = {name: count for name, _, _, count in layout.fields}[layout.money]
    text = next(name for name, kind, _, _ in layout.fields if kind == "text")
    script = python(filled(SOLVE, layout=(layout.page, layout.fields, layout.money)))
    by_iconv = altered(
        script,
        (
            "part.decode(page)",
            'subprocess.run(["iconv", "-f", "IBM" + page[2:], "-t", "UTF-8"], input=part, '
            "capture_output=True, check=True).stdout.decode()",
        ),
        ("import csv, json", "import csv, json, subprocess"),
        ('lineterminator="\\n"', "quoting=csv.QUOTE_ALL"),
    )
    other = "cp273" if layout.page != "cp273" else "cp037"
    return Draft(
        family="legacy_extract",
        seed=seed,
        difficulty="hard",
        language="python",
        instruction=f"The mainframe people sent /work/extract.dat and the sheet /work/layout.txt that explains it. I "
        f"need the "
        f"active records as /work/extract.csv (UTF-8), in the order of the file, with the header "
        f"`{','.join(name for name, *_ in layout.fields)}`: texts without the padding on the right, numbers as plain "
        "decimals with a leading minus where negative, without leading zeros or plus sign and with exactly as many "
        "decimals "
        "as the sheet implies (integers without a point). Quote fields as CSV requires. The trailer has to be "
        "checked against "
        "what you found, since transfers broke before: write /work/control.json, an object with `records` (active "
        "records "
        f"found), `sum` (their sum of {layout.money}, as a string with its decimals), `count_matches` and "
        f"`sum_matches` "
        "(true or false: does the trailer say the same?).",
        files=(
            TaskFile(path="/work/layout.txt", text=_described(layout)),
            TaskFile(path="/work/extract.b64", text=base64.encodebytes(raw).decode()),
        ),
        setup=("base64 -d extract.b64 > extract.dat && rm extract.b64",),
        solution=(script,),
        right=(Variant(name="iconv_and_quotes", commands=(by_iconv,)),),
        weak=(
            Variant(
                name="other_code_page", commands=(altered(script, ("part.decode(page)", f'part.decode("{other}")')),)
            ),
            Variant(name="signs_lost", commands=(altered(script, ("str(Decimal(value)", "str(Decimal(abs(value))")),)),
            Variant(name="deleted_ones_too", commands=(altered(script, ('status == "A"', 'status in "AD"')),)),
            Variant(
                name="trailer_believed",
                commands=(
                    altered(
                        script,
                        ("count == len(rows)", "True"),
                        ("declared == total", f"{layout.wrong != 0 or not counted}"),
                    ),
                ),
            ),
        ),
        verifier=filled(
            VERIFY,
            rows=rows,
            text=text,
            sum=_shown(total, decimals),
            counted=counted,
            summed=layout.wrong == 0,
        ),
    )
