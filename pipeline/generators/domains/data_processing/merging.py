"""Several sources of one truth: a join that reports what has no partner, copies that become one, changes day by day."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from pipeline.generators.domains.data_processing.heredoc import altered, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant


@dataclass(frozen=True)
class Join:
    """One pair of sources."""

    people: str
    events: str
    key: str
    amount: str
    which: str
    """Which row counts where a key stands in the list more than once: `last`, `first` or `newest`."""
    total: str
    """`sum`, `max`, `count` or `latest`."""


JOINS = (
    Join("members", "payments", "member", "cents", "last", "sum"),
    Join("sensors", "alarms", "sensor", "level", "newest", "max"),
    Join("stores", "deliveries", "store", "boxes", "first", "count"),
    Join("drivers", "trips", "driver", "metres", "newest", "latest"),
)
WHICH = {
    "last": "the row further down counts",
    "first": "the first row counts",
    "newest": "the row with the highest `version` counts, wherever it stands",
}
TOTAL = {
    "sum": "the sum of its `{amount}`",
    "max": "the highest of its `{amount}`",
    "count": "the number of its entries",
    "latest": "the `{amount}` of its entry with the highest `seq`",
}
JOIN = """
import csv, json

people, events, key, amount, which, total = __JOIN__
norm = lambda text: text.strip().upper()
rows = {}
for row in csv.DictReader(open(f"/work/{people}.csv")):
    name, old = norm(row[key]), rows.get(norm(row[key]))
    if old and (which == "first" or which == "newest" and int(old["version"]) > int(row["version"])):
        continue
    rows[name] = row
entries, seen = {}, set()
for line in open(f"/work/{events}.ndjson"):
    if not line.strip():
        continue
    entry = json.loads(line)
    if entry["seq"] in seen:
        continue
    seen.add(entry["seq"])
    entries.setdefault(norm(entry[key]), []).append(entry)
find = {
    "sum": lambda found: sum(e[amount] for e in found),
    "max": lambda found: max(e[amount] for e in found),
    "count": len,
    "latest": lambda found: max(found, key=lambda e: e["seq"])[amount],
}[total]
with open("/work/joined.jsonl", "w") as out:
    for name in sorted(rows):
        found = entries.get(name, [])
        record = {key: name, "label": rows[name]["label"], "value": find(found) if found else None}
        out.write(json.dumps(record) + "\\n")
with open("/work/unmatched.txt", "w") as out:
    out.writelines(f"{seq}\\n" for seq in sorted(e["seq"] for n in entries if n not in rows for e in entries[n]))
"""
VERIFY_JOIN = """
import json

VALUES = __VALUES__


def records(box):
    return [json.loads(line) for line in box.text("/work/joined.jsonl").splitlines() if line.strip()]


def test_one_record_per_key_in_order(box):
    keys = [record[__KEY__] for record in records(box)]
    assert keys == sorted(VALUES)


def test_labels_come_from_the_row_that_counts(box):
    assert {record[__KEY__]: record["label"] for record in records(box)} == {k: v[0] for k, v in VALUES.items()}


def test_values_and_nulls(box):
    assert {record[__KEY__]: record["value"] for record in records(box)} == {k: v[1] for k, v in VALUES.items()}


def test_entries_without_a_partner(box):
    assert [int(line) for line in box.text("/work/unmatched.txt").split()] == __UNMATCHED__
"""


def _sources(rng: Random, join: Join) -> tuple[str, str, dict[str, tuple[str, int | None]], list[int]]:
    """The list, the entries, label and value by key, numbers of the entries without partner."""
    keys = [f"K{number}" for number in rng.sample(range(10, 99), 16)]
    listed, strangers = keys[:12], keys[12:]
    rows = [(key, rng.randint(1, 9) * 10, f"{key.lower()}-a") for key in listed]
    rows += [(key, rng.randint(1, 9) * 10 + 5, f"{key.lower()}-b") for key in rng.sample(listed, 6)]
    rng.shuffle(rows)
    labels: dict[str, tuple[int, str]] = {}
    for place, (key, version, label) in enumerate(rows):
        rank = {"last": place, "first": -place, "newest": version}[join.which]
        labels[key] = max(labels.get(key, (-99, "")), (rank, label))
    entries = [
        (seq, rng.choice(listed[:9] + strangers), rng.randint(1, 500)) for seq in rng.sample(range(1000, 9999), 34)
    ]
    by_key: dict[str, list[tuple[int, int]]] = {}
    for seq, key, amount in entries:
        by_key.setdefault(key, []).append((seq, amount))
    values: dict[str, tuple[str, int | None]] = {}
    for key in sorted(listed):
        found = by_key.get(key, [])
        amounts = [amount for _, amount in found]
        kinds = {
            "sum": sum(amounts),
            "max": max(amounts, default=0),
            "count": len(found),
            "latest": max(found, default=(0, 0))[1],
        }
        values[key] = (labels[key][1], kinds[join.total] if found else None)
    spelled = [(rng.choice((key, key.lower(), f" {key}")), *rest) for key, *rest in rows]
    table = f"{join.key},version,label\n" + "".join(f"{key},{version},{label}\n" for key, version, label in spelled)
    repeated = entries + rng.sample(entries, 5)
    rng.shuffle(repeated)
    stream = "\n".join(
        json.dumps({"seq": seq, join.key: rng.choice((key, key.lower(), key + " ")), join.amount: amount})
        for seq, key, amount in repeated
    )
    return table, stream + "\n", values, sorted(seq for key in strangers for seq, _ in by_key.get(key, []))


def join_sources(seed: int, context: Context) -> Draft:
    join = JOINS[seed % len(JOINS)]
    table, stream, values, unmatched = _sources(chance("data_processing", "join_sources", seed), join)
    parts = (join.people, join.events, join.key, join.amount, join.which, join.total)
    script = python(filled(JOIN, join=parts))
    order = {"last": "rowid desc", "first": "rowid", "newest": "version + 0 desc"}[join.which]
    value = {"sum": "sum(a)", "max": "max(a)", "count": "count(*)", "latest": "a"}[join.total]
    latest = "order by seq desc limit 1" if join.total == "latest" else "having count(*) > 0"
    sql = (
        f"create table p as select upper(trim({join.key})) k, label from "
        f"(select *, row_number() over (partition by upper(trim({join.key})) order by {order}) n from "
        "(select rowid, * from raw)) where n = 1;\n"
        f"create table e as select distinct j ->> 'seq' seq, upper(trim(j ->> '{join.key}')) k, j ->> "
        f"'{join.amount}' a "
        "from lines;\n.once joined.jsonl\n"
        f"select json_object('{join.key}', k, 'label', label, 'value', "
        f"(select {value} from e where e.k = p.k {latest})) from p order by k;\n"
        ".once unmatched.txt\nselect seq from e where k not in (select k from p) order by seq;\n"
    )
    load = f".import --csv {join.people}.csv raw\ncreate table lines(j);\n.mode ascii\n.separator \\t \\n\n"
    load += f".import {join.events}.ndjson lines\n.mode list\n"
    return Draft(
        family="join_sources",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction=f"Two systems have to be brought together: /work/{join.people}.csv is the register, "
        f"/work/{join.events}.ndjson has one JSON entry per line. They meet in `{join.key}`, but people typed it: "
        "compare it without blanks at the ends and without regard to case, and write it trimmed and in upper case. "
        f"The register has some keys twice: {WHICH[join.which]}. Entries were partly delivered twice; equal `seq` "
        f"means "
        f"the same entry. I need two files. /work/joined.jsonl: for every {join.key} of the register, sorted by it, "
        f"one "
        f"line with a JSON object with `{join.key}`, `label` and `value`, where value is "
        f"{TOTAL[join.total].format(amount=join.amount)} in the entries, or null if it has none. /work/unmatched.txt: "
        f"the `seq` of each entry whose {join.key} is not in the register, ascending, one per line.",
        files=(
            TaskFile(path=f"/work/{join.people}.csv", text=table),
            TaskFile(path=f"/work/{join.events}.ndjson", text=stream),
        ),
        solution=(script,),
        right=(Variant(name="sqlite", commands=(f"sqlite3 :memory: <<'EOF'\n{load}{sql}EOF",)),),
        weak=(
            Variant(
                name="other_duplicate", commands=(python(filled(JOIN, join=(*parts[:4], _other(join), parts[5]))),)
            ),
            Variant(name="repetitions_counted_apart", commands=(altered(script, (".strip().upper()", ".strip()")),)),
            Variant(
                name="only_with_entries",
                commands=(altered(script, ("in sorted(rows)", "in sorted(set(rows) & set(entries))")),),
            ),
            Variant(name="nobody_unmatched", commands=(script, "echo > unmatched.txt")),
        ),
        verifier=filled(VERIFY_JOIN, values=values, key=join.key, unmatched=unmatched),
    )


def _other(join: Join) -> str:
    return "first" if join.which != "first" else "last"


RULES = (
    ("email", "created", "oldest"),
    ("phone", "updated", "newest"),
    ("email", "updated", "newest"),
    ("phone", "created", "oldest"),
)
SAYING = {
    "email": "their addresses are equal after lower-casing them, removing blanks and everything from a `+` to the `@` "
    "in the part before the `@`",
    "phone": "their numbers have the same last nine digits, whatever stands between the digits",
}
DEDUPE = """
import csv, re

def same(row):
    if __BY__ == "phone":
        return re.sub(r"\\D", "", row["phone"])[-9:]
    return re.sub(r"\\+[^@]*", "", row["email"].lower().replace(" ", ""))

with open("/work/contacts.csv", newline="") as given:
    rows = list(csv.DictReader(given))
groups = {}
for row in rows:
    groups.setdefault(same(row), []).append(row)
kept = []
for group in groups.values():
    group.sort(key=lambda r: int(r["id"]))
    group.sort(key=lambda r: r[__WHEN__], reverse=__NEWEST__)
    winner = dict(group[0])
    for field in ("name", "city", "email", "phone"):
        winner[field] = next((r[field] for r in group if r[field].strip()), "")
    winner["merged"] = " ".join(str(i) for i in sorted(int(r["id"]) for r in group[1:]))
    kept.append(winner)
kept.sort(key=lambda r: int(r["id"]))
with open("/work/unique.csv", "w", newline="") as out:
    writer = csv.DictWriter(out, kept[0].keys(), lineterminator="\\n")
    writer.writeheader()
    writer.writerows(kept)
"""
VERIFY_DEDUPE = """
import csv

SURVIVORS = __SURVIVORS__


def survivors(box):
    return {row["id"]: row for row in csv.DictReader(box.text("/work/unique.csv").splitlines())}


def test_who_survives_in_which_order(box):
    assert list(survivors(box)) == list(SURVIVORS)
    assert len(box.text("/work/unique.csv").splitlines()) == 1 + len(SURVIVORS)


def test_who_was_merged_into_whom(box):
    merged = {number: row["merged"].split() for number, row in survivors(box).items()}
    assert merged == {number: row["merged"].split() for number, row in SURVIVORS.items()}


def test_gaps_are_filled_from_the_copies(box):
    assert survivors(box) == SURVIVORS
"""


def _contacts(rng: Random, by: str, when: str, newest: bool) -> tuple[list[dict[str, str]], dict[str, dict[str, str]]]:
    """Rows of the list, and what remains of them by id."""
    rows: list[dict[str, str]] = []
    kept: list[dict[str, str]] = []
    numbers = rng.sample(range(8, 140), 36)
    for person in range(12):
        group = []
        for _ in range(rng.choice((1, 2, 3, 3))):
            user = f"{rng.choice(('p', 'P'))}{person}"
            mail = f"{user}{rng.choice(('', '+shop', '+x.y'))}@{rng.choice(('mail.test', 'MAIL.test'))}"
            digits = f"{600100200 + person * 1111}"
            call = rng.choice((f"0{digits}", f"+49 {digits[:3]} {digits[3:]}", f"0049/{digits[:4]}-{digits[4:]}"))
            other = (
                rng.choice(("", f"o{len(rows)}@mail.test")) if by == "phone" else rng.choice(("", f"03{numbers[-1]}7"))
            )
            days = [f"202{rng.randint(1, 2)}-02-1{rng.randint(0, 1)}" for _ in range(2)]
            group.append(
                {
                    "id": str(numbers.pop()),
                    "name": rng.choice(("", f"Person {person}", f"P. {person}")),
                    "city": rng.choice(("", "Oslo", "Bern, BE")),
                    "email": mail if by == "email" else other,
                    "phone": call if by == "phone" else other,
                    "created": min(days),
                    "updated": max(days),
                }
            )
        rows += group
        first = sorted(group, key=lambda r: (_age(r[when], newest), int(r["id"])))
        winner = dict(first[0])
        for field in ("name", "city", "email", "phone"):
            winner[field] = next((row[field] for row in first if row[field]), "")
        kept.append(winner | {"merged": " ".join(sorted((row["id"] for row in first[1:]), key=int))})
    rng.shuffle(rows)
    return rows, {row["id"]: row for row in sorted(kept, key=lambda row: int(row["id"]))}


def _age(day: str, newest: bool) -> int:
    number = int(day.replace("-", ""))
    return -number if newest else number


def deduplicate(seed: int, context: Context) -> Draft:
    by, when, which = RULES[seed % len(RULES)]
    rows, kept = _contacts(chance("data_processing", "deduplicate", seed), by, when, which == "newest")
    lines = [",".join(rows[0])]
    lines += [",".join(f'"{value}"' if "," in value else value for value in row.values()) for row in rows]
    script = python(filled(DEDUPE, by=by, when=when, newest=which == "newest"))
    # Sorted once by both keys, from the file turned round.
    sign = "-" if which == "newest" else ""
    other = altered(
        script,
        ('    group.sort(key=lambda r: int(r["id"]))\n', ""),
        (
            f'group.sort(key=lambda r: r["{when}"], reverse={which == "newest"})',
            f'group.sort(key=lambda r: ({sign}int(r["{when}"].replace("-", "")), int(r["id"])))',
        ),
        ("for row in rows:", "for row in reversed(rows):"),
        ('lineterminator="\\n"', 'lineterminator="\\r\\n", quoting=csv.QUOTE_ALL'),
    )
    return Draft(
        family="deduplicate",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction=f"Our contact list /work/contacts.csv is full of copies. Two rows are the same person if "
        f"{SAYING[by]}. "
        f"Of each person keep the row with the {which} `{when}` date; if several share that date, the one with the "
        "smallest id. Where the kept row has nothing in name, city, email or phone, take the value from the person's "
        "other rows: the first one that has it, in the same order of preference (date, then id). Values are otherwise "
        "left as they are written. Save /work/unique.csv with the same columns plus a last one, `merged`: the ids of "
        "the "
        "rows that went away, ascending and separated by one blank (empty if there were none). Sort by id as a number.",
        files=(TaskFile(path="/work/contacts.csv", text="\n".join(lines) + "\n"),),
        solution=(script,),
        right=(Variant(name="one_sort_all_quoted", commands=(other,)),),
        weak=(
            Variant(name="other_end", commands=(python(filled(DEDUPE, by=by, when=when, newest=which != "newest")),)),
            Variant(
                name="exact_copies_only",
                commands=(altered(script, ("groups.setdefault(same(row)", f'groups.setdefault(row["{by}"]')),),
            ),
            Variant(name="gaps_stay", commands=(altered(script, ("if r[field].strip()", "if True")),)),
            Variant(
                name="ties_by_place", commands=(altered(script, ('    group.sort(key=lambda r: int(r["id"]))\n', "")),)
            ),
        ),
        verifier=filled(VERIFY_DEDUPE, survivors=kept),
    )
