"""A table of a PostgreSQL server that becomes a partitioned one under everything that hangs on it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pipeline.generators.domains.sql.server import START, STOP, WRITTEN, asking, loaded, psql
from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant


@dataclass(frozen=True)
class Cut:
    """A table and the way it is cut."""

    table: str
    key: str
    kind: str
    """Type of the key."""
    values: tuple[str, ...]
    how: str
    parts: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Per partition: its name after the table's, its bounds as PostgreSQL shows them, the values that belong to it."""
    wish: str


CUTS = (
    Cut(
        "orders",
        "placed",
        "date",
        (
            "2023-01-01",
            "2023-02-11",
            "2023-03-31",
            "2023-04-01",
            "2023-06-30",
            "2023-07-01",
            "2022-12-31",
        ),
        "RANGE (placed)",
        (
            ("q1", "FOR VALUES FROM ('2023-01-01') TO ('2023-04-01')", ("2023-01-01", "2023-02-11", "2023-03-31")),
            ("q2", "FOR VALUES FROM ('2023-04-01') TO ('2023-07-01')", ("2023-04-01", "2023-06-30")),
            ("q3", "FOR VALUES FROM ('2023-07-01') TO ('2023-10-01')", ("2023-07-01",)),
            ("rest", "DEFAULT", ("2022-12-31",)),
        ),
        "by ranges of placed: orders_q1, orders_q2 and orders_q3 for the first three quarters of 2023, and a default "
        "partition orders_rest",
    ),
    Cut(
        "parcels",
        "region",
        "text",
        ("north", "coast", "south", "hills", "islands", "abroad"),
        "LIST (region)",
        (
            ("upper", "FOR VALUES IN ('north', 'hills')", ("north", "hills")),
            ("lower", "FOR VALUES IN ('south', 'coast')", ("south", "coast")),
            ("rest", "DEFAULT", ("islands", "abroad")),
        ),
        "by lists of region: parcels_upper for north and hills (bounds in this order), parcels_lower for south and "
        "coast (in this order), and a default partition parcels_rest",
    ),
    Cut(
        "readings",
        "meter",
        "integer",
        ("0", "17", "999", "1000", "1500", "1999", "2000", "73000"),
        "RANGE (meter)",
        (
            ("low", "FOR VALUES FROM (MINVALUE) TO (1000)", ("0", "17", "999")),
            ("mid", "FOR VALUES FROM (1000) TO (2000)", ("1000", "1500", "1999")),
            ("high", "FOR VALUES FROM (2000) TO (MAXVALUE)", ("2000", "73000")),
        ),
        "by ranges of meter: readings_low for everything below 1000, readings_mid from 1000 up to but without 2000, "
        "readings_high for everything from 2000, open at both ends",
    ),
    Cut(
        "visits",
        "day",
        "date",
        ("2020-02-29", "2020-12-31", "2021-01-01", "2021-12-31", "2022-01-01", "2019-05-05"),
        "RANGE (day)",
        (
            ("old", "FOR VALUES FROM (MINVALUE) TO ('2021-01-01')", ("2020-02-29", "2020-12-31", "2019-05-05")),
            ("y2021", "FOR VALUES FROM ('2021-01-01') TO ('2022-01-01')", ("2021-01-01", "2021-12-31")),
            ("new", "FOR VALUES FROM ('2022-01-01') TO (MAXVALUE)", ("2022-01-01",)),
        ),
        "by ranges of day: visits_old for everything before 2021 (open below), visits_y2021 for that year, visits_new "
        "for everything since 2022 (open above)",
    ),
)
VERIFY_CUT = """
TABLE = __TABLE__
PARTS = __PARTS__
COUNT = __COUNT__


def partitions(column):
    found = ask(
        f"select c.relname, {column} from pg_inherits join pg_class c on c.oid = inhrelid "
        f"where inhparent = '{TABLE}'::regclass"
    )
    return dict(found)


def test_the_table_is_cut_as_wished():
    assert ask(f"select pg_get_partkeydef('{TABLE}'::regclass)") == [(__HOW__,)]
    assert partitions("pg_get_expr(c.relpartbound, c.oid)") == {name: part[0] for name, part in PARTS.items()}


def test_each_row_lies_where_it_belongs():
    counts = ask(f"select tableoid::regclass, count(*) from {TABLE} group by 1")
    assert dict(counts) == {name: str(part[1]) for name, part in PARTS.items()}
    text = f"select md5(string_agg(t::text, ';' order by id)), count(*) from {TABLE} t"
    assert ask(text) == [(__DIGEST__, COUNT)]


def test_only_the_new_tables_are_left():
    tables = ask("select relname from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace")
    assert sorted(name for name, in tables) == sorted([TABLE, *PARTS])


def test_keys_and_the_index_are_those_of_the_whole():
    keys = f"select pg_get_constraintdef(oid) from pg_constraint where contype = 'p' and conrelid = '{TABLE}'::regclass"
    assert ask(keys) == [(__PRIMARY__,)]
    over = ask(
        "select pg_get_indexdef(indexrelid, 1, true) from pg_index "
        f"where indrelid = '{TABLE}'::regclass and not indisprimary and indisvalid"
    )
    assert over == [("customer",)]


def test_new_rows_get_new_numbers_and_show_in_the_view():
    added = ask(
        f"begin; insert into {TABLE}(__KEY__, customer) values ('__VALUE__', 'probe') "
        f"returning tableoid::regclass, (id > {COUNT})::text, cents; "
        "select customer, null, null from big where customer = 'probe'; rollback"
    )
    assert added == [(__WHERE__, "true", "2500"), ("probe", None, None)]


def test_the_reader_reads_and_does_not_write():
    assert ask(f"select count(*) from {TABLE}", "reader") == [(COUNT,)]
    assert ask("select count(*) from big", "reader") == [(__BIG__,)]
    assert ask(f"delete from {TABLE}", "reader") == "42501"
"""


def partition(seed: int, context: Context) -> Draft:
    rng = chance("sql", "partition", seed)
    cut = CUTS[seed % len(CUTS)]
    table, key = cut.table, cut.key
    rows = [
        (n, rng.choice(cut.values), rng.choice(("ada", "bela", "cem", "dora")), rng.randint(1, 40) * 100)
        for n in range(1, 241)
    ]
    view = f"view big as select id, customer, cents from {table} where cents >= 2500;\n"
    fields = f"{key} {cut.kind} not null, customer text not null, cents integer not null default 2500"
    script = (
        f"create table {table}(id serial primary key, {fields});\ncreate role reader login;\n"
        + "".join(f"insert into {table}({key}, customer, cents) values {row[1:]};\n" for row in rows)
        + f"create index on {table}(customer);\ncreate {view}"
        + f"grant select on {table}, big to reader;\n"
    )
    cuts = "".join(f"create table {table}_{name} partition of {table} {how};\n" for name, how, _ in cut.parts)
    primary = f"alter table {table} add primary key (id, {key});\n"
    make = (
        f"alter table {table} rename to was;\n"
        f"create table {table}(like was including defaults) partition by {cut.how};\n{cuts}"
        f"insert into {table} select * from was;\n"
    )
    view_on = f"create or replace {view}"
    number = f"alter sequence {table}_id_seq owned by {table}.id;\n"
    grant = f"grant select on {table} to reader;\n"
    end = f"drop table was;\n{primary}create index on {table}(customer);\n"
    whole = f"begin;\n{make}{view_on}{number}{grant}{end}commit;"
    anew = (
        f"begin;\ncreate table kept as table {table};\ndrop table {table} cascade;\n"
        f"create table {table}(id serial, {fields}, primary key (id, {key})) partition by {cut.how};\n{cuts}"
        f"create index by_customer on {table}(customer);\ninsert into {table} select * from kept;\ndrop table kept;\n"
        f"create {view}grant select on {table}, big to reader;\n"
    )
    counted = f"select setval('{table}_id_seq', (select max(id) from {table}));\n"
    files, setup = loaded("ledger", script)
    last = cut.parts[-1]

    def tried(name: str, script: str) -> Variant:
        return Variant(name=name, commands=(START, psql("ledger", script)))

    text = ";".join(f"({','.join(map(str, row))})" for row in rows)
    verifier = asking("ledger", VERIFY_CUT).replace("__KEY__", key).replace("__VALUE__", last[2][0])
    return Draft(
        family="partition",
        seed=seed,
        difficulty="hard",
        instruction=f"The table {table} in the database `ledger` of our PostgreSQL cluster 15/main has to become a "
        f"partitioned table with the same name and columns, cut {cut.wish}. Keep all rows with their ids. Its primary "
        f"key becomes (id, {key}) and the index on customer has to exist on the partitioned table itself. Whatever "
        "hangs on the table goes on as before: defaults, the numbering of new rows by the sequence (after the "
        "highest id), the view `big`, and the rights of the login reader, who may select from table and view and "
        "change nothing. Leave no other table behind in the schema public, neither the old one nor a copy. The "
        "cluster is stopped: start it on its port 5432 and keep it running.",
        files=files,
        setup=setup,
        solution=(START, psql("ledger", whole), WRITTEN),
        right=(tried("made_anew", anew + counted + "commit;"),),
        weak=(
            tried("view_dropped", whole.replace(view_on, "").replace("was;\nalter", "was cascade;\nalter")),
            tried("numbers_begin_again", anew + "commit;"),
            tried("nobody_reads", whole.replace(grant, "")),
            tried("a_copy_stays", whole + f"\ncreate table {table}_copy as table {table};"),
            tried("half_of_the_rows", whole.replace("select * from was;", "select * from was where id % 2 = 0;")),
            Variant(name="stopped_again", commands=(START, psql("ledger", whole), STOP)),
        ),
        verifier=filled(
            verifier,
            table=table,
            parts={f"{table}_{name}": (how, sum(row[1] in values for row in rows)) for name, how, values in cut.parts},
            how=cut.how,
            digest=hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
            count=str(len(rows)),
            primary=f"PRIMARY KEY (id, {key})",
            where=f"{table}_{last[0]}",
            big=str(sum(row[3] >= 2500 for row in rows)),
        ),
        state_scope="live",
    )
