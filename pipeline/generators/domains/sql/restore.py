"""A damaged dump of PostgreSQL that has to become a database again; the kinds of damage are in damages.py."""

from __future__ import annotations

import hashlib
import json

from pipeline.generators.domains.sql.damages import DAMAGES, MENDED, Damage
from pipeline.generators.domains.sql.dumps import Row, totals
from pipeline.generators.domains.sql.server import START, STOP, WRITTEN, asking, psql
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

VERIFY_RESTORED = """
import hashlib
import json

OWNER, READER = __OWNER__, __READER__
PARENT, CHILD = __PARENT__, __CHILD__


def digest(columns, table):
    rows = ask(f"select {columns} from public.{table} order by id")
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def test_all_rows_are_back_with_their_letters():
    found = {table: digest(columns, table) for table, columns in __COLUMNS__.items()}
    assert found == __DIGESTS__
    coded = ask("select pg_encoding_to_char(encoding) from pg_database where datname = current_database()")
    assert coded == [("UTF8",)]


def test_relations_belong_to_the_owner_and_no_role_is_too_many():
    belongs = "select relname, relowner::regrole from pg_class where relnamespace = 'public'::regnamespace "
    assert dict(ask(belongs + "and relkind not in ('i', 'I')")) == dict.fromkeys(__RELATIONS__, OWNER)
    roles = ask("select rolname, rolsuper from pg_roles where rolname !~ '^pg_'")
    assert sorted(roles) == sorted([(OWNER, "f"), ("postgres", "t"), (READER, "f")])
    assert ask("select current_user", OWNER) == [(OWNER,)]


def test_constraints_hold_and_the_index_exists():
    held = ask(
        "set search_path = public; select conrelid::regclass, pg_get_constraintdef(oid) from pg_constraint "
        "where connamespace = 'public'::regnamespace and conname not like 'zones%'"
    )
    assert sorted(held) == __CONSTRAINTS__
    over = f"select pg_get_indexdef(indexrelid, 1, true) from pg_index where indrelid = 'public.{CHILD}'::regclass "
    assert ask(over + "and not indisprimary and indisvalid") == [(__LINK__,)]


def test_rows_to_come_are_numbered_after_the_highest():
    for table, columns, values, highest in __NUMBERED__:
        adding = f"insert into public.{table}({columns}) values ({values}) returning id > {highest}"
        assert ask(f"begin; {adding}; rollback") == [("t",)], table


def test_the_view_adds_up_and_its_reader_sees_nothing_else():
    shown = ask('select name, entries, total from public.__VIEW__ order by name collate "C"', READER)
    assert shown == __TOTALS__
    assert [ask(f"select id from public.{table}", READER) for table in (PARENT, CHILD)] == ["42501", "42501"]


def test_changes_end_as_they_should():
    probes = __PROBES__
    assert [ask(question) for question, _ in probes] == [answer for _, answer in probes]
"""


def _digest(rows: list[Row]) -> str:
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _verifier(damage: Damage) -> str:
    subject, data = damage.subject, damage.data
    parent, child, link = subject.parent, subject.child, subject.link
    held = [
        (parent, "PRIMARY KEY (id)"),
        (child, "PRIMARY KEY (id)"),
        (child, f"FOREIGN KEY ({link}) REFERENCES {parent}(id) ON DELETE {subject.deleted}"),
    ]
    relations = [subject.view, *(name for table in (parent, child) for name in (table, f"{table}_id_seq"))]
    if subject.check:
        held.append((parent, "CHECK (known(town))"))
        relations.append("zones")
    return filled(
        asking(subject.base, VERIFY_RESTORED).replace("__VIEW__", subject.view),
        owner=subject.owner,
        reader=subject.reader,
        parent=parent,
        child=child,
        columns={parent: "id, name, town", child: f"id, {link}, {subject.title}, {subject.number}, day"},
        digests={parent: _digest(data.parents), child: _digest(data.children)},
        relations=relations,
        constraints=sorted(held),
        link=link,
        numbered=[
            (parent, "name, town", f"'probe', '{data.parents[0][2]}'", data.parents[-1][0]),
            (child, subject.title, "'probe'", data.children[-1][0]),
        ],
        totals=totals(data),
        probes=damage.probes,
    )


def restore_dump(seed: int, context: Context) -> Draft:
    damage = DAMAGES[seed % len(DAMAGES)](chance("sql", "restore_dump", seed))
    subject = damage.subject
    parent, child = subject.parent, subject.child
    roles = f"create role {subject.owner} login;\ncreate role {subject.reader} login;"
    base = (START, psql("postgres", roles), f"createdb -U postgres {subject.base}")
    load = f"psql -q -U postgres -v ON_ERROR_STOP=1 -d {subject.base} -f {MENDED} > /dev/null"

    def tried(name: str, commands: tuple[str, ...]) -> Variant:
        return Variant(name=name, commands=(*commands, *base, load))

    return Draft(
        family="restore_dump",
        seed=seed,
        difficulty="hard",
        instruction=f"All that is left of our database is {subject.path}, a plain text dump by pg_dump. {damage.story} "
        f"Please bring it back as the database {subject.base} (encoding UTF8) in the PostgreSQL cluster 15/main, which "
        f"is stopped and empty: start it on port 5432 and let it run. What I expect afterwards: in the schema public "
        f"the tables, the view {subject.view} and the sequences <table>_id_seq that the file names, nothing besides, "
        f"all owned by {subject.owner}. id is the primary key of {parent} and of {child}; {child}.{subject.link} "
        f"refers to {parent} (on delete {subject.deleted.lower()}) and has an index of its own. New rows in both get "
        "their id from the sequences, after the highest one there is. The logins "
        f"{subject.owner} and {subject.reader} exist, no superusers, and apart from postgres no other role; "
        f"{subject.reader} may select from {subject.view} and from neither of these two tables.",
        files=(TaskFile(path=subject.path, text=damage.text),),
        setup=damage.setup,
        solution=(*damage.mend, *base, load, WRITTEN),
        right=(tried("mended_in_another_way", damage.other),),
        weak=(
            *(tried(name, commands) for name, commands in damage.weak),
            Variant(name="stopped_again", commands=(*damage.mend, *base, load, STOP)),
        ),
        verifier=_verifier(damage),
        state_scope="live",
    )
