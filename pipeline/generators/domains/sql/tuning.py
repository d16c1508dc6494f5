"""What a database does by itself: an index that a query uses, triggers that keep a history."""

from __future__ import annotations

import sqlite3

from pipeline.generators.domains.sql.commands import sqlite
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

SLOW = (
    (
        "events",
        "device text, kind integer, at integer, payload text",
        "'d' || (n * 7919 % 211), n * 31 % 9, n * 104729 % 1000003, hex(n * 65537)",
        "select at, payload from events where device = 'd17' and kind = 4 order by at desc limit 20",
        ("device, kind, at", "kind, device, at desc"),
        ("device", "at", "at, device, kind", "kind"),
    ),
    (
        "orders",
        "customer integer, state text, total integer, day text",
        "n * 7919 % 523, substr('paidopendone', 1 + 4 * (n % 3), 4), n * 31 % 9973, date(18262 + n % 900 + 2440587.5)",
        "select day, total from orders where state = 'open' and customer = 42 and day >= '2021-01-01' order by day",
        ("customer, state, day", "state, customer, day"),
        ("total", "customer, state", "state, total, day", "state, customer"),
    ),
    (
        "messages",
        "room integer, author text, sent integer, text text",
        "n * 31 % 149, lower(hex(n % 57)), n * 104729 % 999983, hex(n * 257)",
        "select author, count(*) from messages where room = 77 group by author",
        ("room, author", "room, author desc"),
        ("author", "room", "author, room", "room, sent"),
    ),
    (
        "parts",
        "maker text, model text, price integer, stock integer",
        "'m' || (n % 83), 'x' || (n * 7919 % 5003), n * 104729 % 10007, n % 17",
        "select model, price from parts where maker = 'm5' and stock = 0 order by price, model",
        ("maker, stock, price, model", "stock, maker, price, model"),
        ("maker, stock", "price, model", "stock, model, maker", "maker, stock, model"),
    ),
)
VERIFY_SLOW = """
import sqlite3

QUERY = __QUERY__


def base():
    return sqlite3.connect("file:/work/app.db?mode=ro", uri=True)


def test_plan_searches_an_index_and_sorts_nothing():
    plan = " / ".join(row[3] for row in base().execute("explain query plan " + QUERY))
    assert "SEARCH" in plan and "INDEX" in plan and "AUTOMATIC" not in plan
    assert "SCAN" not in plan and "TEMP B-TREE" not in plan


def test_one_index_on_the_same_rows():
    indexes = "select sql from sqlite_master where type = 'index' and tbl_name = ?"
    found = base().execute(indexes, [__TABLE__]).fetchall()
    assert len(found) == 1 and " where " not in found[0][0].lower()
    others = "type in ('table', 'view') and name not like 'sqlite_stat%'"
    tables = base().execute("select name, sql from sqlite_master where " + others).fetchall()
    assert tables == [(__TABLE__, __MADE__)]
    assert base().execute("select count(*), max(rowid) from " + __TABLE__).fetchone() == (20000, 20000)
    assert len(base().execute(QUERY).fetchall()) == __FOUND__
"""


def slow_query(seed: int, context: Context) -> Draft:
    table, columns, values, query, good, bad = SLOW[seed % len(SLOW)]
    made = f"CREATE TABLE {table}({columns})"
    numbers = "with recursive r(n) as (select 1 union all select n + 1 from r where n < 20000)"
    script = f"{made};\ninsert into {table} {numbers} select {values} from r;\n"
    with sqlite3.connect(":memory:") as base:
        base.executescript(script)
        found = len(base.execute(query).fetchall())

    def index(columns: str) -> str:
        return f'sqlite3 app.db "create index quick on {table}({columns})"'

    return Draft(
        family="slow_query",
        seed=seed,
        difficulty="easy",
        instruction=f"The page that runs the query in /work/query.sql against the SQLite database /work/app.db is "
        f"slow. "
        f"Create the one index on `{table}` with which SQLite answers exactly this query by searching that index, "
        f"without "
        "scanning the table and without sorting in a temporary B-tree (EXPLAIN QUERY PLAN shows both). Other queries "
        "must "
        "be able to use it too, so no partial index. Rows, tables and the query stay as they are.",
        files=(TaskFile(path="/work/make.sql", text=script), TaskFile(path="/work/query.sql", text=query + ";\n")),
        setup=("sqlite3 app.db < make.sql", "rm make.sql"),
        solution=(index(good[0]),),
        right=(Variant(name="other_order", commands=(index(good[1]), "sqlite3 app.db analyze")),),
        weak=tuple(Variant(name=f"index_{n}", commands=(index(columns),)) for n, columns in enumerate(bad)),
        verifier=filled(VERIFY_SLOW, query=query, table=table, made=made, found=found),
    )


AUDITED = (
    ("products", "sku", ("name", "price", "stock")),
    ("patients", "number", ("ward", "diet", "weight")),
    ("accounts", "login", ("email", "role", "quota")),
    ("trains", "code", ("track", "state", "delay")),
)
VERIFY_AUDIT = """
import sqlite3


def opened():
    base = sqlite3.connect(":memory:")
    sqlite3.connect("file:/work/live.db?mode=ro", uri=True).backup(base)
    return base


def trail(base):
    return base.execute("select key, op, field, old, new from audit order by id").fetchall()


def grouped(base):
    return sorted(map(repr, trail(base)))


def test_beginning_is_untouched():
    base = opened()
    assert trail(base) == []
    assert base.execute("select * from __TABLE__ order by 1").fetchall() == __ROWS__


def test_updates_are_recorded_field_by_field():
    base = opened()
    base.execute("update __TABLE__ set __A__ = 'new', __C__ = __C__ + 5 where __KEY__ = ?", [__FIRST__])
    base.execute("update __TABLE__ set __B__ = __B__, __C__ = 7")
    wanted = __UPDATED__
    assert grouped(base) == sorted(map(repr, wanted))


def test_nulls_count_as_values():
    base = opened()
    base.execute("update __TABLE__ set __B__ = null where __KEY__ = ?", [__FIRST__])
    base.execute("update __TABLE__ set __B__ = null where __KEY__ = ?", [__FIRST__])
    base.execute("update __TABLE__ set __B__ = 'back' where __KEY__ = ?", [__FIRST__])
    key, old = __FIRST__, __OLD__
    assert trail(base) == [(key, "update", "__B__", old, None), (key, "update", "__B__", None, "back")]


def test_rows_that_come_and_go():
    base = opened()
    base.execute("insert into __TABLE__ values ('k99', 'in', null, 3)")
    base.execute("delete from __TABLE__ where __KEY__ in ('k99', ?)", [__FIRST__])
    ops = sorted((key, op) for key, op, *rest in trail(base) if rest == [None, None, None])
    assert ops == sorted([("k99", "insert"), ("k99", "delete"), (__FIRST__, "delete")])
    assert len(trail(base)) == 3


def test_history_cannot_be_rewritten():
    base = opened()
    base.execute("delete from __TABLE__ where __KEY__ = ?", [__FIRST__])
    refused = []
    for change in ("delete from audit", "update audit set op = 'insert'"):
        try:
            base.execute(change)
        except sqlite3.IntegrityError:
            refused.append(change.split()[0])
    assert refused == ["delete", "update"] and len(trail(base)) == 1
"""


def audit_trail(seed: int, context: Context) -> Draft:
    rng = chance("sql", "audit_trail", seed)
    table, key, fields = AUDITED[seed % len(AUDITED)]
    a, b, c = fields
    rows = [
        (f"k{n}", rng.choice(("one", "two")), rng.choice(("x", "y", "z")), rng.randint(20, 90))
        for n in sorted(rng.sample(range(10, 90), 5))
    ]
    script = f"create table {table}({key} text primary key, {a} text, {b} text, {c} integer);\n"
    script += "".join(f"insert into {table} values{row};\n" for row in rows)
    audit = "create table audit(id integer primary key, key text, op text, field text, old, new);\n"
    changes = "".join(
        f"create trigger t_{f} after update on {table} when old.{f} is not new.{f} begin "
        f"insert into audit(key, op, field, old, new) values (new.{key}, 'update', '{f}', old.{f}, new.{f}); end;\n"
        for f in fields
    )
    both = "".join(
        f"create trigger t_{op} after {op} on {table} begin "
        f"insert into audit(key, op) values ({row}.{key}, '{op}'); end;\n"
        for op, row in (("insert", "new"), ("delete", "old"))
    )
    lock = "".join(
        f"create trigger keep_{op} before {op} on audit begin select raise(abort, 'the history stays'); end;\n"
        for op in ("delete", "update")
    )
    together = (
        f"create trigger t_any after update on {table} begin insert into audit(key, op, field, old, new) "
        "select new."
        + key
        + ", 'update', f, o, n from ("
        + " union all ".join(f"select '{f}' as f, old.{f} as o, new.{f} as n" for f in fields)
        + ") where o is not n; end;\n"
    )
    updated = [(rows[0][0], "update", a, rows[0][1], "new"), (rows[0][0], "update", c, rows[0][3], rows[0][3] + 5)]
    now = {row[0]: row[3] + (5 if row is rows[0] else 0) for row in rows}
    updated += [(name, "update", c, value, 7) for name, value in now.items()]
    verifier = VERIFY_AUDIT.replace("__TABLE__", table).replace("__KEY__", key)
    for place, field in (("__A__", a), ("__B__", b), ("__C__", c)):
        verifier = verifier.replace(place, field)
    return Draft(
        family="audit_trail",
        seed=seed,
        difficulty="hard",
        instruction=f"The auditors want to know who changed what in `{table}` of the SQLite database /work/live.db. "
        f"Programs "
        "cannot be changed, so the database has to keep the trail itself. Create a table audit(id integer primary "
        "key, key, "
        f"op, field, old, new) and triggers on {table} that fill it: for each field of an updated row whose value "
        f"really "
        "changed (a change from or to null is one) a row with op `update`, the name of the field and both values as "
        "they "
        f"were stored, numbers staying numbers; for an inserted or deleted row one row with op `insert` or `delete`, "
        f"where "
        f"field, old and new are null. `key` is the row's {key}, which is never changed itself. ids grow in the "
        f"order in "
        "which things happened. Nobody may falsify the trail: an UPDATE or DELETE on audit must fail with an error. "
        "The "
        f"trail starts empty, and the rows of {table} stay as they are.",
        files=(TaskFile(path="/work/live.sql", text=script),),
        setup=("sqlite3 live.db < live.sql", "rm live.sql"),
        solution=(sqlite("live.db", audit + changes + both + lock),),
        right=(
            Variant(name="one_trigger_for_all_fields", commands=(sqlite("live.db", audit + together + both + lock),)),
        ),
        weak=(
            Variant(
                name="unequal_ignores_null",
                commands=(sqlite("live.db", audit + changes.replace("is not", "<>") + both + lock),),
            ),
            Variant(
                name="every_field_always",
                commands=(sqlite("live.db", audit + together.replace(" where o is not n", "") + both + lock),),
            ),
            Variant(name="not_protected", commands=(sqlite("live.db", audit + changes + both),)),
            Variant(name="updates_only", commands=(sqlite("live.db", audit + changes + lock),)),
        ),
        verifier=filled(verifier, rows=rows, first=rows[0][0], old=rows[0][2], updated=updated),
    )
