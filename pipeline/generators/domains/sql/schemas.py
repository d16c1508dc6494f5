"""Tables that get another shape and keep their rows: a migration, lost references."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.generators.domains.sql.commands import sqlite
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant


@dataclass(frozen=True)
class Migration:
    """A table before and after."""

    table: str
    child: str
    states: tuple[str, str, str]
    currency: str
    version: int


MIGRATIONS = (
    Migration("members", "visits", ("active", "paused", "left"), "EUR", 7),
    Migration("suppliers", "offers", ("approved", "on trial", "blocked"), "USD", 3),
    Migration("tenants", "repairs", ("current", "leaving", "gone"), "CHF", 12),
    Migration("pupils", "marks", ("enrolled", "on leave", "graduated"), "GBP", 2),
)
VERIFY_MIGRATION = """
import sqlite3

ROWS = __ROWS__


def migrated():
    base = sqlite3.connect(":memory:")
    sqlite3.connect("file:/work/club.db?mode=ro", uri=True).backup(base)
    base.execute("pragma foreign_keys = on")
    return base


def refused(statement):
    base = migrated()
    try:
        base.execute(statement)
    except sqlite3.IntegrityError:
        return True
    return False


def test_every_row_is_there_in_its_new_shape():
    rows = migrated().execute("select id, first, last, joined, fee_cents, state from __TABLE__ order by id").fetchall()
    assert rows == ROWS
    assert [row[1] for row in migrated().execute("pragma table_info('__TABLE__')")] == __COLUMNS__


def test_rules_refuse_what_they_should():
    start = "insert into __TABLE__(id, first, last, joined, fee_cents, state) values (990, "
    assert not refused(start + "'A', 'B', '2020-01-31', 0, __STATE__)")
    assert refused(start + "'A', 'B', '2020-01-31', 5, 'unheard of')")
    assert refused(start + "'A', 'B', '2020-01-31', -1, __STATE__)")
    assert refused(start + "'A', null, '2020-01-31', 5, __STATE__)")
    assert refused(start + "'A', 'B', null, 5, __STATE__)")


def test_children_still_refer_to_their_rows():
    base = migrated()
    assert base.execute("pragma foreign_key_check").fetchall() == []
    assert [row[2] for row in base.execute("pragma foreign_key_list('__CHILD__')")] == ["__TABLE__"]
    owners = base.execute("select owner, count(*) from __CHILD__ group by owner order by owner").fetchall()
    assert owners == __CHILDREN__
    assert refused("insert into __CHILD__(owner, what) values (98765, 'x')")


def test_version_and_no_left_overs():
    base = migrated()
    assert base.execute("pragma user_version").fetchone() == (__VERSION__,)
    names = base.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by 1")
    assert [name for name, in names] == sorted(["__TABLE__", "__CHILD__"])
"""
PEOPLE = ("Ada Lovelace", "Grace Brewster Hopper", "Plato", "Jean le Rond d'Alembert", "Émilie du Châtelet", "Euclid")


def migrate_schema(seed: int, context: Context) -> Draft:
    rng = chance("sql", "migrate_schema", seed)
    plan = MIGRATIONS[seed % len(MIGRATIONS)]
    rows, old, children = [], [], []
    for number in sorted(rng.sample(range(3, 400), 14)):
        name, state, cents = rng.choice(PEOPLE), rng.randint(0, 2), rng.choice((0, 5, 990, 1250, 123456))
        year, month, day = rng.randint(1998, 2022), rng.randint(1, 12), rng.randint(1, 28)
        first, _, last = name.rpartition(" ")
        rows.append((number, first or None, last, f"{year}-{month:02d}-{day:02d}", cents, plan.states[state]))
        fee = f"{cents // 100}.{cents % 100:02d} {plan.currency}"
        quoted = name.replace("'", "''")
        old.append(f"({number}, '{quoted}', '{day:02d}/{month:02d}/{year}', '{fee}', {state})")
        children += [(number, f"v{n}") for n in range(rng.randint(0, 3))]
    before = (
        f"create table {plan.table}(id integer primary key, name text, joined text, fee text, state integer);\n"
        f"create table {plan.child}(id integer primary key, owner integer references {plan.table}(id), what text);\n"
        f"insert into {plan.table} values\n{', '.join(old)};\n"
        f"insert into {plan.child}(owner, what) values\n{', '.join(map(str, children))};\n"
    )
    solution = _migration(plan)
    states = ", ".join(f"{n} is `{state}`" for n, state in enumerate(plan.states))
    counts = sorted({owner: sum(o == owner for o, _ in children) for owner, _ in children}.items())
    verifier = VERIFY_MIGRATION.replace("__TABLE__", plan.table).replace("__CHILD__", plan.child)
    verifier = verifier.replace("__STATE__", f"'{plan.states[0]}'")
    return Draft(
        family="migrate_schema",
        seed=seed,
        difficulty="medium",
        instruction=f"Migrate the SQLite database /work/club.db to schema version {plan.version}. The table "
        f"{plan.table}(id, "
        f"name, joined, fee, state) becomes {plan.table}(id, first, last, joined, fee_cents, state), these columns "
        f"in this "
        "order. last is the part of the name after its last blank, first all before that blank (null if the name is "
        "one "
        "word); joined turns from DD/MM/YYYY into YYYY-MM-DD; fee_cents is the fee, like `12.50 "
        f"{plan.currency}`, as a whole number of cents; state becomes a word: {states}. ids stay. From now on the "
        f"database "
        "itself must refuse a state that is none of these words, a negative fee_cents, and a missing last or joined. "
        f"The table {plan.child} keeps its rows, and its column owner still references {plan.table}(id). In the end "
        f"set "
        f"user_version to {plan.version} and leave no other tables behind.",
        files=(TaskFile(path="/work/old.sql", text=before),),
        setup=("sqlite3 club.db < old.sql", "rm old.sql"),
        solution=(sqlite("club.db", solution),),
        right=(Variant(name="with_python", commands=(_by_python(plan),)),),
        weak=(
            Variant(
                name="rules_forgotten",
                commands=(sqlite("club.db", solution.replace(" not null", "").replace(" check (fee_cents >= 0)", "")),),
            ),
            Variant(
                name="cents_cut_off",
                commands=(
                    sqlite("club.db", solution.replace("round(100 * cast(fee as real))", "100 * cast(fee as integer)")),
                ),
            ),
            Variant(
                name="version_forgotten", commands=(sqlite("club.db", solution.replace("pragma user_version", "-- ")),)
            ),
            Variant(
                name="old_table_kept",
                commands=(sqlite("club.db", solution.replace("drop table", "create table kept as select * from")),),
            ),
        ),
        verifier=filled(
            verifier,
            rows=rows,
            columns=["id", "first", "last", "joined", "fee_cents", "state"],
            children=counts,
            version=plan.version,
        ),
    )


def _migration(plan: Migration) -> str:
    table = plan.table
    words = ", ".join(f"'{state}'" for state in plan.states)
    cases = " ".join(f"when {n} then '{state}'" for n, state in enumerate(plan.states))
    return f"""pragma foreign_keys = off;
pragma legacy_alter_table = on;
begin;
create table fresh(id integer primary key, first text, last text not null, joined text not null,
    fee_cents integer check (fee_cents >= 0), state text check (state in ({words})));
insert into fresh select id, nullif(rtrim(rtrim(name, replace(name, ' ', ''))), ''),
    replace(name, rtrim(name, replace(name, ' ', '')), ''),
    substr(joined, 7) || '-' || substr(joined, 4, 2) || '-' || substr(joined, 1, 2),
    cast(round(100 * cast(fee as real)) as integer), case state {cases} end from {table};
drop table {table};
alter table fresh rename to {table};
pragma user_version = {plan.version};
commit;"""


def _by_python(plan: Migration) -> str:
    return f"""python3 - <<'EOF'
import sqlite3
base = sqlite3.connect("club.db", isolation_level=None)
people = base.execute("select * from {plan.table}").fetchall()
children = base.execute("select * from {plan.child}").fetchall()
base.executescript('''drop table {plan.child}; drop table {plan.table};
create table {plan.table}(id integer not null primary key, first, last text not null check (last <> ''),
    joined text not null, fee_cents integer not null, state text not null,
    check (state = '{plan.states[0]}' or state = '{plan.states[1]}' or state = '{plan.states[2]}'),
    check (fee_cents > -1));
create table {plan.child}(id integer primary key, owner integer references {plan.table}(id), what text);''')
for number, name, joined, fee, state in people:
    *first, last = name.split(" ")
    day, month, year = joined.split("/")
    row = (number, " ".join(first) or None, last, "-".join((year, month, day)), int(fee.split()[0].replace(".", "")))
    base.execute("insert into {plan.table} values (?, ?, ?, ?, ?, ?)", (*row, {plan.states!r}[state]))
base.executemany("insert into {plan.child} values (?, ?, ?)", children)
base.execute("pragma user_version = {plan.version}")
EOF"""


LOST = (
    ("authors", "books", "loans", "author", "book"),
    ("customers", "orders", "items", "customer", "purchase"),
    ("clubs", "teams", "players", "club", "team"),
    ("genera", "species", "sightings", "genus", "species"),
)
VERIFY_LOST = """
import sqlite3


def tables(*names):
    with sqlite3.connect("file:/work/store.db?mode=ro", uri=True) as opened:
        return [opened.execute(f"select * from {name} order by id").fetchall() for name in names]


def test_what_stays_is_consistent():
    assert tables(*__KEPT_NAMES__) == __KEPT__


def test_what_was_lost_lies_in_quarantine_with_its_reason():
    middle, leaf = tables(*__LOST_NAMES__)
    assert middle == __MIDDLE__
    assert leaf == __LEAF__


def test_references_are_declared_and_hold():
    with sqlite3.connect("file:/work/store.db?mode=ro", uri=True) as opened:
        declared = [
            tuple(row[2:5]) for name in __KEPT_NAMES__ for row in opened.execute(f"pragma foreign_key_list({name})")
        ]
        broken = opened.execute("pragma foreign_key_check").fetchall()
    assert declared == __DECLARED__
    assert broken == []
"""


def orphans(seed: int, context: Context) -> Draft:
    rng = chance("sql", "orphans", seed)
    top, middle, leaf, up, over = LOST[seed % len(LOST)]
    tops = [(n, f"t{n}") for n in rng.sample(range(1, 40), 6)]
    known = {n for n, _ in tops}
    middles = [
        (n, rng.choice([*sorted(known), *sorted(known), 70 + n % 5, 75, 76, None, None]), f"m{n}")
        for n in rng.sample(range(100, 200), 14)
    ]
    kept_middle = sorted(row for row in middles if row[1] in known)
    lost_middle = sorted(
        (*row, "no reference" if row[1] is None else "unknown reference") for row in middles if row[1] not in known
    )
    fine, bad = {row[0] for row in kept_middle}, {row[0] for row in lost_middle}
    parents = [*sorted(bad)[:3], 977, None, *(rng.choice(sorted(fine)) for _ in range(17))]
    leaves = [
        (n, parent, rng.randint(1, 9)) for n, parent in zip(rng.sample(range(500, 700), 22), parents, strict=False)
    ]
    kept_leaf = sorted(row for row in leaves if row[1] in fine)
    why = {n: "lost with its parent" for n in bad} | {None: "no reference"}
    lost_leaf = sorted((*row, why.get(row[1], "unknown reference")) for row in leaves if row[1] not in fine)
    sql = (
        f"create table {top}(id integer primary key, name text);\n"
        f"create table {middle}(id integer primary key, {up} integer, title text);\n"
        f"create table {leaf}(id integer primary key, {over} integer, amount integer);\n"
    )
    for name, rows in ((top, tops), (middle, middles), (leaf, leaves)):
        values = ", ".join(str(row).replace("None", "null") for row in rows)
        sql += f"insert into {name} values {values};\n"
    reason = "case when {} is null then 'no reference' {}else 'unknown reference' end as reason"
    lost = f"case when {over} in (select id from lost_{middle}) then 'lost with its parent' "
    move = f"""begin;
create table lost_{middle} as select *, {reason.format(up, "")} from {middle}
    where {up} is null or {up} not in (select id from {top});
create table lost_{leaf} as select *, {reason.format(over, lost[5:])} from {leaf}
    where {over} is null or {over} not in (select id from {middle}) or {over} in (select id from lost_{middle});
create table a(id integer primary key, {up} integer references {top}(id), title text);
insert into a select * from {middle} where id not in (select id from lost_{middle});
create table b(id integer primary key, {over} integer references {middle}(id), amount integer);
insert into b select * from {leaf} where id not in (select id from lost_{leaf});
drop table {leaf}; drop table {middle};
alter table a rename to {middle}; alter table b rename to {leaf};
commit;"""
    one_level = move.replace(f" or {over} in (select id from lost_{middle})", "")
    inner = f"id not in (select id from lost_{middle})"
    by_join = move.replace(inner, f"exists (select 1 from {top} t where t.id = {middle}.{up})")
    return Draft(
        family="orphans",
        seed=seed,
        difficulty="medium",
        instruction=f"/work/store.db (SQLite) was filled for years without foreign keys: {middle}.{up} should be an "
        f"id of "
        f"{top}, and {leaf}.{over} an id of {middle}. Repair it. Rows of {middle} whose {up} is null or unknown move "
        f"to a "
        f"new table lost_{middle}, rows of {leaf} whose {over} is null or unknown, or whose row of {middle} just "
        f"moved, to "
        f"lost_{leaf}. Both have the columns of the original table plus a last column `reason`: `no reference` for "
        f"null, "
        "`unknown reference` for an id that exists nowhere in the table it should be in, `lost with its parent` for "
        "the "
        f"row whose parent moved. Afterwards {middle} and {leaf} hold only the other rows, unchanged, with the same "
        f"columns, "
        "and declare their references as foreign keys. No row may get lost on the way.",
        files=(TaskFile(path="/work/store.sql", text=sql),),
        setup=("sqlite3 store.db < store.sql", "rm store.sql"),
        solution=(sqlite("store.db", move),),
        right=(Variant(name="kept_by_join", commands=(sqlite("store.db", by_join),)),),
        weak=(
            Variant(name="one_level", commands=(sqlite("store.db", one_level),)),
            Variant(
                name="no_keys_declared", commands=(sqlite("store.db", move.replace(f" references {top}(id)", "")),)
            ),
            Variant(name="deleted", commands=(sqlite("store.db", move + f"\ndelete from lost_{leaf};"),)),
            Variant(
                name="nulls_unknown",
                commands=(sqlite("store.db", move.replace("then 'no reference'", "then 'unknown reference'")),),
            ),
        ),
        verifier=filled(
            VERIFY_LOST,
            kept_names=[top, middle, leaf],
            kept=[sorted(tops), kept_middle, kept_leaf],
            lost_names=[f"lost_{middle}", f"lost_{leaf}"],
            middle=lost_middle,
            leaf=lost_leaf,
            declared=[(top, up, "id"), (middle, over, "id")],
        ),
    )
