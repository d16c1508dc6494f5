"""Who may see and change which rows of a PostgreSQL server: logins, column rights, row level security."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from random import Random

from pipeline.generators.domains.sql.server import START, STOP, WRITTEN, asking, loaded, psql
from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant

Airport = dict[str, str]


@dataclass(frozen=True)
class Desk:
    """How a desk is told which airports are its own."""

    columns: str
    """Of the table desks, after the login."""
    wish: str
    belongs: str
    """The same as a condition on a row `a` of airports and a row `d` of desks."""
    wrong: str
    """A condition that comes near."""


DESKS = (
    Desk("state text", "its state is the desk's state", "a.state = d.state", "a.state >= d.state"),
    Desk(
        "south numeric, north numeric",
        "its latitude is at least `south` and below `north` of the desk",
        "a.latitude >= d.south and a.latitude < d.north",
        "a.latitude >= d.south",
    ),
    Desk(
        "letters text",
        "the first letter of its iata code is one of the desk's letters (a text like `AKX`)",
        "position(left(a.iata, 1) in d.letters) > 0",
        "position(left(a.name, 1) in d.letters) > 0",
    ),
    Desk(
        "place text",
        "its city begins with the desk's `place`, in upper or lower case",
        "starts_with(lower(a.city), lower(d.place))",
        "starts_with(a.city, d.place)",
    ),
)
VERIFY_ROWS = """
SEEN = __SEEN__
FREE, OWN, FOREIGN = __FREE__, __OWN__, __FOREIGN__
ALL = __ALL__


def codes(login):
    return ask("select iata from airports order by iata collate \\"C\\"", login)


def test_every_desk_sees_its_airports_and_no_other():
    assert {login: codes(login) for login in SEEN} == {login: [(c,) for c in seen] for login, seen in SEEN.items()}
    assert codes(FREE) == []


def test_notes_and_nothing_else_can_be_written():
    login, code = OWN
    touched = ask(f"update airports set note = 'seen' where iata in ('{code}', '{FOREIGN}') returning iata", login)
    assert touched == [(code,)]
    assert ask("select iata from airports where note = 'seen'") == [(code,)]
    assert ask("update airports set note = null returning 1", FREE) == []
    ask("update airports set note = '' where note = 'seen'")
    for change in (
        f"update airports set name = 'x' where iata = '{code}'",
        f"delete from airports where iata = '{code}'",
        "insert into airports(iata, name) values ('ZZZ', 'z')",
        "truncate airports",
        "select * from desks",
        "update desks set login = login",
    ):
        assert ask(change, login) == "42501", change


def test_the_assignment_counts_and_not_a_list_of_today():
    ask(f"insert into desks select '{FREE}', __REST__ from desks where login = '{OWN[0]}'")
    while_assigned = codes(FREE)
    ask(f"delete from desks where login = '{FREE}'")
    assert while_assigned == [(code,) for code in SEEN[OWN[0]]]
    assert codes(FREE) == []


def test_the_chief_does_everything():
    assert codes("chief") == [(code,) for code in ALL]
    assert len(ask("select login from desks", "chief")) == len(SEEN)
    made = "insert into airports(iata, name, note) values ('ZZZ', 'z', '') returning iata"
    assert ask(made, "chief") == [("ZZZ",)]
    assert ask("update airports set name = 'y' where iata = 'ZZZ' returning name", "chief") == [("y",)]
    assert ask("delete from airports where iata = 'ZZZ' returning name", "chief") == [("y",)]


def test_nobody_became_a_superuser():
    special = ask("select rolname from pg_roles where rolsuper and rolname !~ '^pg_'")
    assert special == [("postgres",)]
"""


def _assigned(kind: int, rows: list[Airport], rng: Random) -> list[tuple[str, set[str]]]:
    """Per desk: its values as SQL, and the airports that follow from them."""
    found: list[tuple[str, set[str]]] = []
    if kind == 0:
        for state in rng.sample(sorted({row["state"] for row in rows}), 3):
            found.append((f"'{state}'", {r["iata"] for r in rows if r["state"] == state}))
    elif kind == 1:
        lines = sorted(float(row["latitude"]) for row in rows)
        for low, high in ((lines[5], lines[20]), (lines[15], lines[40]), (lines[50], lines[55])):
            mine = {r["iata"] for r in rows if low <= float(r["latitude"]) < high}
            found.append((f"{low}, {high}", mine))
    elif kind == 2:
        first = sorted({row["iata"][0] for row in rows})
        for letters in (rng.sample(first, 3) for _ in range(3)):
            found.append((f"'{''.join(letters)}'", {r["iata"] for r in rows if r["iata"][0] in letters}))
    else:
        for start in rng.sample(sorted({row["city"][0] for row in rows}), 3):
            found.append((f"'{start.lower()}'", {r["iata"] for r in rows if r["city"][0].lower() == start.lower()}))
    return found


def row_security(seed: int, context: Context) -> Draft:
    rng = chance("sql", "row_security", seed)
    kind = seed % len(DESKS)
    desk = DESKS[kind]
    every = csv.DictReader(io.StringIO(context.text("airports/airports.csv")))
    usual = [r for r in every if r["country"] == "USA" and (r["name"] + r["city"]).replace(" ", "").isalpha()]
    states = rng.sample(sorted({row["state"] for row in usual}), 8)
    rows = sorted(rng.sample([r for r in usual if r["state"] in states], 70), key=lambda row: row["iata"])
    rows = [row | {"latitude": f"{float(row['latitude']):.4f}"} for row in rows]
    logins = rng.sample(("amber", "birch", "cedar", "dune", "ember", "fjord"), 4)
    assigned = _assigned(kind, rows, rng)
    script = (
        f"create table desks(login name primary key, {desk.columns});\n"
        "create table airports(iata text primary key, name text, city text, state text, latitude numeric, "
        "note text default '');\n"
        + "".join(f"create role {login} login;\n" for login in (*logins, "chief"))
        + "".join(f"insert into desks values ('{n}', {v});\n" for n, (v, _) in zip(logins, assigned, strict=False))
        + "".join(
            f"insert into airports values ('{r['iata']}', '{r['name']}', '{r['city']}', '{r['state']}', "
            f"{r['latitude']});\n"
            for r in rows
        )
    )
    everyone = ", ".join(logins)
    grants = (
        f"grant select, update (note) on airports to {everyone};\n"
        "grant select, insert, update, delete on airports, desks to chief;\n"
    )
    mine = (
        "create function mine(a airports, who name) returns boolean stable security definer language sql as\n"
        f"$$ select exists (select from desks d where d.login = who and {desk.belongs}) $$;\n"
    )
    enable = "alter table airports enable row level security;\n"
    chief = "create policy chief on airports to chief using (true) with check (true);\n"
    policy = f"create policy desk on airports to {everyone} using (mine(airports, current_user));\n"
    listed = (
        "create function codes() returns setof text stable security definer language sql as\n"
        f"$$ select a.iata from airports a join desks d on {desk.belongs} where d.login = session_user $$;\n"
        "create policy see on airports for select using (iata in (select codes()));\n"
        "create policy note on airports for update using (iata in (select codes()));\n"
        "alter role chief bypassrls;\n"
    )
    seen = {login: sorted(codes) for login, (_, codes) in zip(logins, assigned, strict=False)}
    whole = grants + mine + enable + chief + policy
    today = "".join(
        f"create policy p_{login} on airports to {login} using (iata = any ('{{{','.join(codes)}}}'));\n"
        for login, codes in seen.items()
    )
    inside = whole.replace("d.login = who", "d.login = current_user")
    free, own = logins[3], (logins[0], seen[logins[0]][0])
    foreign = next(code for code in seen[logins[1]] + seen[logins[2]] if code not in seen[logins[0]])
    files, setup = loaded("field", script)

    def tried(name: str, script: str) -> Variant:
        return Variant(name=name, commands=(START, psql("field", script)))

    return Draft(
        family="row_security",
        seed=seed,
        difficulty="hard",
        instruction="Our PostgreSQL cluster (15/main, stopped at the moment; start it and leave it running on port "
        "5432) has a database `field` with two tables: airports(iata, name, city, state, latitude, note) and "
        f"desks(login, {', '.join(desk.columns.split()[::2])}). The logins {everyone} and chief exist, none of them "
        "may do anything yet. Please set the rights up. A desk login may read exactly the airports of its desk: an "
        f"airport belongs to a desk if {desk.wish}; a login without a row in desks sees no airport. Of its own "
        "airports it may change the column note, no other column, and it may neither insert, delete nor truncate. It "
        "must not be able to read or write desks: a query on that table has to be refused. When the chief changes "
        "desks, the next query of the desk already has to follow, so do not write the present assignment down "
        "anywhere else. chief reads, inserts, updates and deletes any row of both tables. None of the logins becomes a "
        "superuser, and the rows stay as they are.",
        files=files,
        setup=setup,
        solution=(START, psql("field", whole), WRITTEN),
        right=(tried("codes_of_the_session", grants + listed + enable),),
        weak=(
            tried("assignment_of_today", grants + enable + chief + today),
            tried("not_enabled", grants + mine + chief + policy),
            tried("asks_who_runs_the_function", inside),
            tried("desks_are_open", whole + f"grant select on desks to {everyone};"),
            tried("every_column", whole.replace("update (note)", "update")),
            tried("near_condition", whole.replace(desk.belongs, desk.wrong)),
            Variant(name="stopped_again", commands=(START, psql("field", whole), STOP)),
        ),
        verifier=filled(
            asking("field", VERIFY_ROWS).replace("__REST__", ", ".join(desk.columns.split()[::2])),
            seen=seen,
            free=free,
            own=own,
            foreign=foreign,
            all=[row["iata"] for row in rows],
        ),
        state_scope="live",
        contexts=("airports",),
    )
