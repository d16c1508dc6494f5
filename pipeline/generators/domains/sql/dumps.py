"""What pg_dump writes of a small database, whole and undamaged, and what that database says when it is asked.

What goes wrong with a dump is not here: damages.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from random import Random

Row = tuple[str | None, ...]


@dataclass(frozen=True)
class Subject:
    """The names of a database: a table, a table that refers to it, a view over both."""

    base: str
    parent: str
    child: str
    link: str
    """Column of the child that names the parent."""
    title: str
    number: str
    view: str
    owner: str
    reader: str
    deleted: str
    """What becomes of children when a parent is deleted."""
    opened: str = ""
    """Definition that PostgreSQL needs before the tables."""
    check: str = ""
    """Constraint of the parent's column town."""

    @property
    def path(self) -> str:
        return f"/work/{self.base}.sql"


@dataclass
class Stock:
    """The rows of both tables, as texts."""

    parents: list[Row]
    children: list[Row]


_FIRST = ("Zoë", "Jürgen", "Åsa", "Chloé", "Iñigo", "Anna", "Tomas", "Brigitte", "Søren", "Maria", "François", "Paul")
_LAST = ("Müller", "Weiß", "Lefèvre", "Núñez", "Bjørk", "Stone", "Hernández", "Grün", "Dubois", "Field", "Öhman")
_TOWNS = ("Köln", "Málaga", "Lyon", "Århus", "Bristol", "Besançon")
_NOUNS = ("north side", "café", "winter – early", "façade", "old stock", "“second” try", "price in €", "señal", "plain")


def stock(rng: Random) -> Stock:
    """Rows with letters beyond ASCII, gaps between their numbers and a few values that are unknown."""
    names = rng.sample([f"{first} {last}" for first in _FIRST for last in _LAST], 26)
    identities = sorted(rng.sample(range(3, 90), len(names)))
    parents: list[Row] = [(str(i), name, rng.choice(_TOWNS)) for i, name in zip(identities, names, strict=True)]
    children: list[Row] = []
    for number in sorted(rng.sample(range(11, 400), 70)):
        day = f"20{rng.randint(10, 23)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        title = f"{rng.choice(_NOUNS)}, {rng.choice(_NOUNS)} {number}"
        cents = Decimal(rng.randint(100, 90000)) / 100
        day_or_none = None if rng.random() < 0.15 else day
        children.append((str(number), str(rng.choice(identities[:-4])), title, f"{cents:.2f}", day_or_none))
    return Stock(parents, children)


def totals(data: Stock) -> list[Row]:
    """What the view says: per parent the number of its children and their sum, in the order of the names."""
    found: list[Row] = []
    for identity, name, _ in data.parents:
        numbers = [Decimal(row[3] or 0) for row in data.children if row[1] == identity]
        found.append((name, str(len(numbers)), str(sum(numbers)) if numbers else None))
    return sorted(found, key=lambda row: str(row[0]))


def constraints(subject: Subject) -> tuple[str, str, str]:
    """The statements that add both primary keys and the foreign key."""
    parent, child, link = subject.parent, subject.child, subject.link

    def added(table: str, name: str, what: str) -> str:
        return f"ALTER TABLE ONLY public.{table}\n    ADD CONSTRAINT {name} {what};\n"

    foreign = f"FOREIGN KEY ({link}) REFERENCES public.{parent}(id) ON DELETE {subject.deleted}"
    return (
        added(parent, f"{parent}_pkey", "PRIMARY KEY (id)"),
        added(child, f"{child}_pkey", "PRIMARY KEY (id)"),
        added(child, f"{child}_{link}_fkey", foreign),
    )


def copied(table: str, columns: str, rows: list[Row]) -> str:
    """The rows of a table as pg_dump writes them."""
    lines = "".join("\t".join("\\N" if cell is None else cell for cell in row) + "\n" for row in rows)
    return f"COPY public.{table} ({columns}) FROM stdin;\n{lines}\\.\n\n\n"


def both_copied(subject: Subject, data: Stock) -> tuple[str, str]:
    """The rows of the parent and of the child."""
    columns = f"id, {subject.link}, {subject.title}, {subject.number}, day"
    return copied(subject.parent, "id, name, town", data.parents), copied(subject.child, columns, data.children)


def opening(subject: Subject) -> str:
    """Settings, tables, sequences and the view: what stands before the rows."""
    parent, child, link = subject.parent, subject.child, subject.link
    check = f",\n    CONSTRAINT {parent}_town_check {subject.check}" if subject.check else ""
    text = (
        "--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\nSET client_encoding = 'UTF8';\n"
        "SET standard_conforming_strings = on;\nSELECT pg_catalog.set_config('search_path', '', false);\n"
        f"SET check_function_bodies = false;\n\n{subject.opened}CREATE TABLE public.{parent} (\n"
        f"    id integer NOT NULL,\n    name text NOT NULL,\n    town text{check}\n);\n\n"
        f"CREATE TABLE public.{child} (\n    id integer NOT NULL,\n    {link} integer,\n    {subject.title} text,\n"
        f"    {subject.number} numeric(8,2),\n    day date\n);\n\n"
        f"CREATE VIEW public.{subject.view} AS\n SELECT p.name,\n    count(c.id) AS entries,\n"
        f"    sum(c.{subject.number}) AS total\n   FROM (public.{parent} p\n"
        f"     LEFT JOIN public.{child} c ON ((c.{link} = p.id)))\n  GROUP BY p.id, p.name;\n\n"
    )
    for table in (parent, child):
        text += (
            f"CREATE SEQUENCE public.{table}_id_seq\n    AS integer\n    START WITH 1\n    INCREMENT BY 1\n"
            f"    NO MINVALUE\n    NO MAXVALUE\n    CACHE 1;\n\nALTER TABLE public.{table} OWNER TO {subject.owner};\n"
            f"ALTER TABLE public.{table}_id_seq OWNER TO {subject.owner};\n"
            f"ALTER SEQUENCE public.{table}_id_seq OWNED BY public.{table}.id;\n"
            f"ALTER TABLE ONLY public.{table} ALTER COLUMN id SET DEFAULT "
            f"nextval('public.{table}_id_seq'::regclass);\n\n"
        )
    return text + f"ALTER TABLE public.{subject.view} OWNER TO {subject.owner};\n\n"


def numbered(subject: Subject, data: Stock) -> str:
    """The states of the sequences."""
    pairs = ((subject.parent, data.parents), (subject.child, data.children))
    return "".join(
        f"SELECT pg_catalog.setval('public.{table}_id_seq', {max(int(row[0] or 0) for row in rows)}, true);\n\n"
        for table, rows in pairs
    )


def indexed(subject: Subject) -> str:
    """The index on the column that names the parent."""
    return f"CREATE INDEX by_{subject.link} ON public.{subject.child} USING btree ({subject.link});\n"


def granted(subject: Subject) -> str:
    """The right of the reader."""
    return f"GRANT SELECT ON TABLE public.{subject.view} TO {subject.reader};\n"
