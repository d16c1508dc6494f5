"""A flat list taken apart into tables that refer to each other."""

from __future__ import annotations

import csv
import io

from pipeline.generators.domains.sql.commands import sqlite
from pipeline.generators.drafts import Context, Draft, TaskFile, filled
from pipeline.types import Variant

FLAT = (
    ("Island", "Species", "islands", "species", "Body Mass (g)", "mass"),
    ("studyName", "Species", "studies", "species", "Flipper Length (mm)", "flipper"),
    ("Island", "Stage", "islands", "stages", "Culmen Length (mm)", "bill"),
    ("studyName", "Island", "studies", "islands", "Culmen Depth (mm)", "depth"),
)
VERIFY_FLAT = """
import sqlite3

FLAT = __FLAT__


def ask(question):
    with sqlite3.connect("file:/work/birds.db?mode=ro", uri=True) as base:
        return base.execute(question).fetchall()


def keys_of(table):
    unique = [row[1] for row in ask(f"pragma index_list({table})") if row[2]]
    return [[part[2] for part in ask(f"pragma index_info('{name}')")] for name in unique]


def test_joined_again_the_tables_are_the_flat_list():
    joined = ask(__JOIN__)
    assert len(joined) == len(FLAT)
    assert sorted(map(repr, joined)) == sorted(map(repr, FLAT))


def test_each_name_is_stored_once():
    for table, names in __NAMES__.items():
        assert sorted(name for name, in ask(f"select name from {table}")) == names
    assert all(["name"] in keys_of(table) for table in __NAMES__)


def test_references_are_foreign_keys():
    keys = [row for table in ("birds", "measurements") for row in ask(f"pragma foreign_key_list({table})")]
    targets = {(row[3], row[2]) for row in keys}
    assert targets == __TARGETS__
    assert ask("pragma foreign_key_check") == []


def test_a_bird_is_one_row():
    assert ask("select count(*), count(distinct code || '/' || __FIRST__) from birds") == [(__BIRDS__, __BIRDS__)]
    assert ["code", "__FIRST__"] in [sorted(key, key=lambda name: name != "code") for key in keys_of("birds")]
    assert ask("select name from sqlite_master where name = 'flat'") == []
"""


def normalise(seed: int, context: Context) -> Draft:
    one, two, ones, twos, column, measure = FLAT[seed % len(FLAT)]
    rows = list(csv.DictReader(io.StringIO(context.text("penguins/penguins-raw.csv"))))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["code", "grp", "kind", "day", "value"])
    flat = []
    for row in rows:
        value = row[column]
        writer.writerow([row["Individual ID"], row[one], row[two], row["Date Egg"], value])
        number = None if value == "NA" else float(value)
        flat.append((row["Individual ID"], row[one], row[two], row["Date Egg"], number))
    singular = {"islands": "island", "studies": "study", "species": "species", "stages": "stage"}
    first, second = singular[ones], singular[twos]
    make = f"""begin;
create table {ones}(id integer primary key, name text not null unique);
insert into {ones}(name) select distinct grp from flat order by 1;
create table {twos}(id integer primary key, name text not null unique);
insert into {twos}(name) select distinct kind from flat order by 1;
create table birds(id integer primary key, code text not null, {first} integer not null references {ones}(id),
    unique (code, {first}));
insert into birds(code, {first}) select distinct code, o.id from flat join {ones} o on o.name = grp;
create table measurements(id integer primary key, bird integer not null references birds(id),
    {second} integer not null references {twos}(id), day text not null, {measure} real);
insert into measurements(bird, {second}, day, {measure})
    select b.id, t.id, day, nullif(value, 'NA') from flat join {ones} o on o.name = grp
    join birds b on b.code = flat.code and b.{first} = o.id join {twos} t on t.name = kind;
drop table flat;
commit;"""
    join = (
        f"select b.code, o.name, t.name, m.day, m.{measure} from measurements m join birds b on b.id = m.bird "
        f"join {ones} o on o.id = b.{first} join {twos} t on t.id = m.{second}"
    )
    index = make.replace(f",\n    unique (code, {first}));", f");\ncreate unique index one on birds({first}, code);")
    return Draft(
        family="normalise",
        seed=seed,
        difficulty="hard",
        instruction="In /work/birds.db (SQLite) the table flat(code, grp, kind, day, value) repeats everything on "
        "every row. "
        f"Take it apart into four tables: {ones}(id, name) for the values of grp, {twos}(id, name) for those of kind, "
        f"birds(id, code, {first}) and measurements(id, bird, {second}, day, {measure}). id is an integer primary key "
        f"everywhere, with numbers of your choice. A bird is a code together with its {first}: the same code on "
        f"another "
        f"{first} is another bird. Every row of flat, also one that occurs twice, becomes one measurement; day stays "
        f"text, "
        f"{measure} is a number, and the text NA becomes null. {first}, bird and {second} are ids with declared "
        f"foreign keys; "
        f"a name in {ones} and {twos}, and a code together with its {first} in birds, must be kept unique by the "
        f"database. "
        "Nothing of the data may be lost; the table flat goes away at the end.",
        files=(TaskFile(path="/work/flat.csv", text=text.getvalue()),),
        setup=('sqlite3 birds.db ".import --csv flat.csv flat"', "rm flat.csv"),
        solution=(sqlite("birds.db", make),),
        right=(Variant(name="unique_index", commands=(sqlite("birds.db", index),)),),
        weak=(
            Variant(
                name="codes_alone",
                commands=(
                    sqlite(
                        "birds.db",
                        make.replace("select distinct code, o.id", "select code, min(o.id)")
                        .replace("o.name = grp;", "o.name = grp group by code;", 1)
                        .replace(f" and b.{first} = o.id", ""),
                    ),
                ),
            ),
            Variant(
                name="not_available_is_zero",
                commands=(sqlite("birds.db", make.replace("nullif(value, 'NA')", "value + 0.0")),),
            ),
            Variant(
                name="equal_rows_once",
                commands=(sqlite("birds.db", make.replace("select b.id, t.id", "select distinct t.id, t.id")),),
            ),
            Variant(
                name="no_keys",
                commands=(sqlite("birds.db", make.replace(f" references {ones}(id)", "").replace(" unique)", ")")),),
            ),
        ),
        verifier=filled(
            VERIFY_FLAT.replace("__FIRST__", first),
            flat=flat,
            join=join,
            names={ones: sorted({row[1] for row in flat}), twos: sorted({row[2] for row in flat})},
            targets={(first, ones), ("bird", "birds"), (second, twos)},
            birds=len({row[:2] for row in flat}),
        ),
        contexts=("penguins",),
    )
