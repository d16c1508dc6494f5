"""A split of rows in which no group is torn apart."""

from __future__ import annotations

import csv
import hashlib
import io

from pipeline.generators.domains.model_training.predicting import DOMAIN, placed, program, table
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_KEYS = (
    ("month", "the year and month of the date (YYYY-MM)", 'r["date"][:7]'),
    ("week", "the date with its last character removed (YYYY-MM-D)", 'r["date"][:9]'),
    ("kind and year", "the weather, a slash and the year (e.g. rain/2013)", 'r["weather"] + "/" + r["date"][:4]'),
    ("day of the year", "month and day of the date (MM-DD)", 'r["date"][5:]'),
)
_SPLIT = """
import csv, hashlib, json
rows = list(csv.DictReader(open("/work/weather.csv")))
parts = {"train": [], "valid": [], "test": []}
for n, r in enumerate(rows):
    key = @KEY@
    bucket = int(hashlib.@HASH@((@SALT@ + key).encode()).hexdigest()[:8], 16) % 100
    parts["test" if bucket < @TEST@ else "valid" if bucket < @VALID@ else "train"].append(r)
for name, own in parts.items():
    with open(f"/work/split/{name}.csv", "w", newline="") as out:
        w = csv.DictWriter(out, rows[0].keys(), lineterminator="\\n")
        w.writeheader()
        w.writerows(own)
"""


def split_by_group(seed: int, context: Context) -> Draft:
    """Train, validation and test rows without a group in two of them."""
    rng = chance(DOMAIN, "split_by_group", seed)
    rows = list(csv.DictReader(io.StringIO(context.text("weather/seattle-weather.csv"))))
    begin = rng.randrange(0, len(rows) - 900)
    rows = rows[begin : begin + 900]
    if seed % 2:
        rng.shuffle(rows)
    name, wording, code = _KEYS[seed % 4]
    digest = ("sha256", "md5", "sha1", "sha512")[seed % 4]
    salt = f"{rng.choice(('fold', 'run', 'v'))}{rng.randint(2, 99)}:"
    test, valid = rng.choice(((15, 30), (20, 35), (10, 30)))
    expected: dict[str, list[int]] = {"train": [], "valid": [], "test": []}
    for number, row in enumerate(rows):
        date = row["date"]
        key = (date[:7], date[:9], f"{row['weather']}/{date[:4]}", date[5:])[seed % 4]
        bucket = int.from_bytes(hashlib.new(digest, (salt + key).encode()).digest()[:4], "big") % 100
        expected["test" if bucket < test else "valid" if bucket < valid else "train"].append(number)
    header = list(rows[0])
    lines = [",".join(row[c] for c in header) for row in rows]
    wanted = {
        part: [len(own), hashlib.sha256("\n".join(sorted(lines[n] for n in own)).encode()).hexdigest()]
        for part, own in expected.items()
    }
    text = table(header, [[row[c] for c in header] for row in rows])
    make = "mkdir -p /work/split"
    given = {"key": code, "hash": digest, "salt": repr(salt), "test": str(test), "valid": str(valid)}
    good = placed(_SPLIT, **given)
    # The order of the rows in a part is not asked for.
    backward = good.replace("w.writerows(own)", "w.writerows(own[::-1])")
    return Draft(
        family="split_by_group",
        seed=seed,
        difficulty="easy",
        instruction=f"Split /work/weather.csv into /work/split/train.csv, valid.csv and test.csv so that no {name} "
        "is torn "
        f"apart: the group of a row is {wording}. Put {salt} directly before the group, take the {digest} of that text "
        "(UTF-8), read the first 8 hexadecimal digits of the digest as a number and reduce it modulo 100. Results "
        f"below {test} go to test, from {test} to {valid - 1} to valid, all others to train. Each file starts with "
        "the header "
        "of the original; the rows are unchanged, their order is up to you.",
        files=(TaskFile(path="/work/weather.csv", text=text),),
        solution=(make, program(good)),
        right=(Variant(name="backwards", commands=(make, program(backward))),),
        weak=(
            Variant(name="salt_forgotten", commands=(make, program(placed(_SPLIT, **{**given, "salt": "''"})))),
            Variant(name="by_row_number", commands=(make, program(placed(_SPLIT, **{**given, "key": "str(n)"})))),
            Variant(name="last_digits", commands=(make, program(good.replace("[:8]", "[-8:]")))),
        ),
        verifier=filled(
            """
import hashlib

HEADER = __HEADER__
PARTS = __PARTS__


def rows_of(box, part):
    header, *rows = box.text(f"/work/split/{part}.csv").replace("\\r\\n", "\\n").rstrip("\\n").split("\\n")
    assert header == HEADER, part
    return rows


def test_each_part_has_its_rows(box):
    found = {part: sorted(rows_of(box, part)) for part in PARTS}
    assert {part: len(rows) for part, rows in found.items()} == {part: count for part, (count, _) in PARTS.items()}
    for part, (_, digest) in PARTS.items():
        assert hashlib.sha256("\\n".join(found[part]).encode()).hexdigest() == digest, part


def test_parts_share_no_row(box):
    parts = [set(rows_of(box, part)) for part in PARTS]
    assert all(a.isdisjoint(b) for i, a in enumerate(parts) for b in parts[i + 1:])
""",
            header=",".join(header),
            parts=wanted,
        ),
        contexts=("weather",),
    )
