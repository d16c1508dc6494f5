"""A table and the files of changes that came after it, in no good order."""

from __future__ import annotations

import json
from random import Random

from pipeline.generators.domains.data_processing.heredoc import altered, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

Row = dict[str, str]
Change = tuple[int, str, str, Row]
"""Sequence number, kind, key, fields."""

KINDS = (
    ("stock", "sku", ("name", "place", "count"), "csv"),
    ("staff", "badge", ("name", "team", "room"), "jsonl"),
    ("hosts", "host", ("address", "owner", "state"), "csv"),
    ("books", "isbn", ("title", "shelf", "status"), "jsonl"),
)
MERGE = """
import csv, glob, json

name, key, fields, form = __KIND__
state = {row[key]: row for row in csv.DictReader(open(f"/work/{name}.csv"))}
changes = []
for path in glob.glob(f"/work/changes/*.{form}"):
    with open(path) as given:
        changes += csv.DictReader(given) if form == "csv" else map(json.loads, given)
refused, seen = [], set()
for change in sorted(changes, key=lambda c: int(c["seq"])):
    seq, kind, who = int(change["seq"]), change["op"], change[key]
    if seq in seen:
        continue
    seen.add(seq)
    given = {f: change[f] for f in fields if change.get(f)}
    if kind == "insert" and who not in state:
        state[who] = {key: who, **{f: given.get(f, "") for f in fields}}
    elif kind == "update" and who in state:
        state[who].update(given)
    elif kind == "delete" and who in state:
        del state[who]
    else:
        refused.append(seq)
with open("/work/final.csv", "w", newline="") as out:
    writer = csv.DictWriter(out, [key, *fields], lineterminator="\\n")
    writer.writeheader()
    writer.writerows(state[who] for who in sorted(state))
json.dump({"rows": len(state), "applied": len(seen) - len(refused), "refused": refused}, open("/work/merge.json", "w"))
"""
VERIFY = """
import csv
import json

KEY, *FIELDS = __COLUMNS__
FINAL = __FINAL__


def lines(box):
    return box.text("/work/final.csv").splitlines()


def test_columns_keep_their_order(box):
    assert lines(box)[0].split(",") == [KEY, *FIELDS]


def test_final_rows_after_all_changes(box):
    rows = [tuple(row) for row in csv.reader(lines(box)[1:])]
    assert rows == FINAL


def test_account_of_the_merge(box):
    account = json.loads(box.text("/work/merge.json"))
    assert sorted(account["refused"]) == account["refused"] == __REFUSED__
    assert (account["rows"], account["applied"]) == (len(FINAL), __APPLIED__)
"""


def _history(rng: Random, fields: tuple[str, ...]) -> tuple[dict[str, Row], list[Change]]:
    """The table at the beginning and the changes by number."""
    keys = [f"{letter}{number:02d}" for letter in "BAC" for number in rng.sample(range(1, 60), 5)]

    def value(field: str) -> str:
        return f"{field[:2]}{rng.randint(10, 99)}"

    table = {key: {field: value(field) for field in fields} for key in keys[:9]}
    changes: list[Change] = []
    number = rng.randint(80, 95)
    for _ in range(42):
        number += rng.choice((1, 1, 2, 5))
        kind = rng.choice(("insert", "update", "update", "delete"))
        given = {field: value(field) for field in fields}
        if kind == "update":
            given = {field: given[field] for field in rng.sample(fields, rng.randint(1, 2))}
        changes.append((number, kind, rng.choice(keys), {} if kind == "delete" else given))
    return table, changes


def _replayed(table: dict[str, Row], changes: list[Change]) -> tuple[dict[str, Row], list[int]]:
    rows, refused = {key: dict(row) for key, row in table.items()}, []
    for number, kind, key, given in changes:
        if (key in rows) == (kind == "insert"):
            refused.append(number)
        elif kind == "delete":
            rows.pop(key)
        else:
            rows[key] = rows.get(key, {}) | given
    return rows, refused


def _files(rng: Random, kind: tuple[str, str, tuple[str, ...], str], changes: list[Change]) -> list[TaskFile]:
    """Files of changes named by day; each is shuffled, and some changes come again on a later day."""
    _, key, fields, form = kind
    days: list[list[Change]] = [[], [], [], []]
    for place, change in enumerate(changes):
        days[place // 11 if rng.random() < 0.75 else rng.randint(0, 3)].append(change)
    for day in (1, 3):
        days[day] += rng.sample(days[day - 1], 2)
    files = []
    for day, found in enumerate(days, 1):
        rng.shuffle(found)
        if form == "csv":
            lines = [",".join(("seq", "op", key, *fields))]
            lines += [",".join((str(n), op, who, *(given.get(f, "") for f in fields))) for n, op, who, given in found]
        else:
            lines = [json.dumps({"seq": n, "op": op, key: who, **given}) for n, op, who, given in found]
        text = "\n".join(lines) + "\n"
        files.append(TaskFile(path=f"/work/changes/2024-05-{30 - day * 7:02d}.{form}", text=text))
    return files


def daily_merge(seed: int, context: Context) -> Draft:
    rng = chance("data_processing", "daily_merge", seed)
    kind = KINDS[seed % len(KINDS)]
    name, key, fields, form = kind
    table, changes = _history(rng, fields)
    final, refused = _replayed(table, changes)
    head = ",".join((key, *fields))
    base = "".join(f"{who},{','.join(row.values())}\n" for who, row in table.items())
    script = python(filled(MERGE, kind=kind))
    streaming = altered(
        script,
        ("refused, seen =", 'distinct = {int(c["seq"]): c for c in changes}\nrefused, seen ='),
        ('sorted(changes, key=lambda c: int(c["seq"]))', "(distinct[number] for number in sorted(distinct))"),
        ("    if seq in seen:\n        continue\n", ""),
        ('"refused": refused}', '"refused": sorted(refused)}'),
        ('lineterminator="\\n"', 'lineterminator="\\r\\n"'),
    )
    partial = "an empty cell" if form == "csv" else "an absent member"
    return Draft(
        family="daily_merge",
        seed=seed,
        difficulty="hard",
        language="python",
        instruction=f"/work/{name}.csv is last month's state of a table with the key `{key}`. Since then "
        f"/work/changes/*.{form} arrived, one file per delivery; deliveries were late and mixed up, so neither file "
        f"names "
        "nor the order of lines say anything: only the number `seq` does. Apply the changes in the order of seq. "
        "Some were "
        "delivered twice (same seq, same content) and must be applied once. `op` is insert (only valid if the key "
        "does not "
        f"exist at that moment), update (only if it exists; {partial} leaves that field as it is) or delete (only if "
        f"it "
        "exists). A change that is not valid at its turn is refused: it has no effect and the rest goes on. Write "
        f"/work/final.csv (header `{head}`, sorted by {key}) and /work/merge.json, an object with `rows` (rows at the "
        "end), `applied` (number of distinct changes that took effect) and `refused` (list of their seq, ascending).",
        files=(TaskFile(path=f"/work/{name}.csv", text=f"{head}\n{base}"), *_files(rng, kind, changes)),
        solution=(script,),
        right=(Variant(name="distinct_first", commands=(streaming,)),),
        weak=(
            Variant(
                name="by_file_name",
                commands=(
                    altered(
                        script,
                        ('sorted(changes, key=lambda c: int(c["seq"]))', "changes"),
                        ("glob.glob(", "sorted(glob.glob("),
                        ('.{form}"):', '.{form}")):'),
                    ),
                ),
            ),
            Variant(
                name="twice_delivered_refused",
                commands=(altered(script, ("    if seq in seen:\n        continue\n", "")),),
            ),
            Variant(name="upsert", commands=(altered(script, (" and who not in state", "")),)),
            Variant(
                name="nothing_said_of_refusals", commands=(altered(script, ('"refused": refused', '"refused": []')),)
            ),
        ),
        verifier=filled(
            VERIFY,
            columns=[key, *fields],
            final=[(who, *(row.get(field, "") for field in fields)) for who, row in sorted(final.items())],
            refused=refused,
            applied=len(changes) - len(refused),
        ),
    )
