"""What went wrong with a dump of PostgreSQL, and how it is mended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from pipeline.generators.domains.sql import dumps
from pipeline.generators.domains.sql.dumps import Stock, Subject

MENDED = "/tmp/mended.sql"
_ADDED = "/^ALTER TABLE ONLY [a-z_.]*$/,/;$/"
"""The statements that add constraints, for sed."""


@dataclass(frozen=True)
class Damage:
    """A damaged dump, the data that can be had from it and the ways to get there."""

    subject: Subject
    data: Stock
    """What has to be in the database in the end."""
    text: str
    story: str
    mend: tuple[str, ...]
    """Commands that make MENDED."""
    other: tuple[str, ...]
    weak: tuple[tuple[str, tuple[str, ...]], ...]
    probes: tuple[tuple[str, object], ...]
    """Questions with their answers, beyond those that every dump is asked."""
    setup: tuple[str, ...] = ()


def _added(lines: str) -> str:
    """Append lines to MENDED."""
    return f"cat >> {MENDED} <<'EOF'\n{lines.strip()}\nEOF"


def _highest(subject: Subject) -> str:
    return "".join(
        f"select setval('public.{table}_id_seq', (select max(id) from public.{table}));\n"
        for table in (subject.parent, subject.child)
    )


def _closing(subject: Subject) -> str:
    return "".join(dumps.constraints(subject)) + dumps.indexed(subject) + dumps.granted(subject)


def _deleting(subject: Subject, parent: str | None, answer: object) -> tuple[str, object]:
    """Delete a parent that has children, and ask for the children without one."""
    gone = (
        f"begin; delete from public.{subject.parent} where id = {parent}; select count(*) from public.{subject.child} "
        f"where {subject.link} = {parent}; rollback"
    )
    return gone, answer


def broken_off(rng: Random) -> Damage:
    """The file ends in the middle of a row."""
    names = ("library", "authors", "books", "author_id", "title", "price", "shelf", "curator", "visitor", "CASCADE")
    subject, data = Subject(*names), dumps.stock(rng)
    parents, children = dumps.both_copied(subject, data)
    lost = "\t".join(str(cell) for cell in data.children[-1][:4])
    text = dumps.opening(subject) + parents + children[: children.index(lost) + len(lost) - 8]
    data = Stock(data.parents, data.children[:-1])
    cut = f"sed '$d' {subject.path} > {MENDED}"
    end, numbers = _closing(subject), _highest(subject)
    dotted = f"sed '$s/.*/\\\\./' {subject.path} > {MENDED} && echo >> {MENDED}"
    made_up = f"sed '$s/$/\\t0\\t2020-01-01/' {subject.path} > {MENDED} && echo >> {MENDED}"
    action = f" ON DELETE {subject.deleted}"
    return Damage(
        subject=subject,
        data=data,
        text=text,
        story="The disk was full when it was written, so it breaks off in the middle of a row. That row is lost: "
        "leave it out, do not guess the rest of it. What pg_dump writes after the rows of the tables is not there at "
        "all and has to be made good from this description.",
        mend=(cut, _added(f"\\.\n{numbers}{end}")),
        other=(dotted, _added(f"{end}{numbers}")),
        weak=(
            ("numbers_begin_again", (cut, _added(f"\\.\n{end}"))),
            ("row_made_up", (made_up, _added(f"\\.\n{numbers}{end}"))),
            ("deleting_is_refused", (cut, _added(f"\\.\n{numbers}{end.replace(action, '')}"))),
            ("no_keys", (cut, _added(f"\\.\n{numbers}{dumps.indexed(subject)}{dumps.granted(subject)}"))),
        ),
        probes=(_deleting(subject, data.children[0][1], [("0",)]),),
    )


def other_letters(rng: Random) -> Damage:
    """The bytes are those of Windows, and the roles those of a server that is no more."""
    names = ("choir", "singers", "fees", "singer_id", "purpose", "euros", "dues", "treasurer", "checker", "RESTRICT")
    subject, data = Subject(*names), dumps.stock(rng)
    gone = replace(subject, owner="www_old", reader="intranet")
    text = dumps.opening(gone) + "".join(dumps.both_copied(subject, data)) + dumps.numbered(subject, data)
    text += _closing(gone)
    roles = f"s/OWNER TO {gone.owner};/OWNER TO {subject.owner};/; s/TO {gone.reader};/TO {subject.reader};/"
    said = f"s/client_encoding = 'UTF8'/client_encoding = 'WIN1252'/; {roles}"
    made = f"create role {gone.owner};\ncreate role {gone.reader};\n"
    return Damage(
        subject=subject,
        data=data,
        text=text,
        story="Somebody saved it with a Western European editor of Windows, whatever its head says about the "
        "encoding; the names, the dashes and the euro signs have to arrive as they were meant. It also names two "
        f"roles of the old server. Neither may exist here: what belonged to {gone.owner} belongs to {subject.owner}, "
        f"and what {gone.reader} was allowed goes to {subject.reader}.",
        setup=(f"iconv -f UTF-8 -t CP1252 {subject.path} > /tmp/bytes", f"mv /tmp/bytes {subject.path}"),
        mend=(f'iconv -f CP1252 -t UTF-8 {subject.path} | sed "{roles}" > {MENDED}',),
        other=(f'LC_ALL=C sed "{said}" {subject.path} > {MENDED}',),
        weak=(
            ("latin_1", (f'LC_ALL=C sed "{said.replace("WIN1252", "LATIN1")}" {subject.path} > {MENDED}',)),
            ("letters_dropped", (f'iconv -c -f UTF-8 -t ASCII {subject.path} | sed "{roles}" > {MENDED}',)),
            (
                "old_roles_made",
                (f"echo '{made}' > {MENDED}", f"iconv -f CP1252 -t UTF-8 {subject.path} >> {MENDED}"),
            ),
            ("nobody_reads", (f'iconv -f CP1252 -t UTF-8 {subject.path} | sed "{roles}; /^GRANT/d" > {MENDED}',)),
        ),
        probes=(_deleting(subject, data.children[0][1], "23503"),),
    )


def out_of_order(rng: Random) -> Damage:
    """Constraints stand before the rows, some rows stand twice, some refer to nothing."""
    names = ("harbour", "skippers", "berths", "skipper_id", "pier", "metres", "usage", "warden", "tower", "SET NULL")
    subject, data = Subject(*names), dumps.stock(rng)
    parent, child, link = subject.parent, subject.child, subject.link
    twice = rng.sample(range(len(data.parents)), 5)
    earlier = [(data.parents[i][0], data.parents[i][1], rng.choice(("?", "unknown", None))) for i in twice]
    adrift = {data.children[i][0]: str(rng.randint(200, 300)) for i in rng.sample(range(len(data.children)), 6)}
    written = [(row[0], adrift.get(str(row[0]), row[1]), *row[2:]) for row in data.children]
    meant = [(row[0], None if row[0] in adrift else row[1], *row[2:]) for row in data.children]
    parents, children = dumps.both_copied(subject, Stock([*earlier, *data.parents], written))
    text = dumps.opening(subject) + _closing(subject) + children + parents + dumps.numbered(subject, data)
    late = f"delete from public.{parent} a using public.{parent} b where a.id = b.id and a.ctid < b.ctid;\n"
    free = f"update public.{child} set {link} = null where {link} not in (select id from public.{parent});\n"
    keys = "".join(dumps.constraints(subject))
    without = f"sed '{_ADDED}d' {subject.path} > {MENDED}"
    drop = f"alter table public.{child} drop constraint {child}_{link}_fkey;\n"
    drop += f"alter table public.{parent} drop constraint {parent}_pkey;\n"
    first, _, foreign = dumps.constraints(subject)
    split = f"(sed '/^COPY /,$d' {subject.path}; echo '{drop}'; sed -n '/^COPY /,$p' {subject.path}) > {MENDED}"
    cleared = f"delete from public.{child} where {link} not in (select id from public.{parent});\n"
    unproven = keys.replace("SET NULL;", "SET NULL NOT VALID;")
    return Damage(
        subject=subject,
        data=Stock(data.parents, meant),
        text=text,
        story="It was put together from pieces by hand and does not load in the order in which it stands. Besides, "
        f"some ids occur twice in {parent}: of such rows only the one that stands later in the file counts. And some "
        f"rows of {child} refer to {parent} that no longer exist: keep these rows, with {link} set to null.",
        mend=(without, _added(late + free + keys)),
        other=(split, _added(late + free + first + foreign)),
        weak=(
            ("earlier_rows_kept", (without, _added(late.replace("<", ">") + free + keys))),
            ("rows_thrown_away", (without, _added(late + cleared + keys))),
            ("not_proven", (without, _added(late + unproven))),
            ("keys_left_out", (without, _added(late + free))),
        ),
        probes=(
            _deleting(subject, next(row[1] for row in meant if row[1]), [("0",)]),
            (f"select count(*) from public.{child} where {link} is null", [(str(len(adrift)),)]),
        ),
    )


def hidden_tables(rng: Random) -> Damage:
    """A check asks a table that is not found under the search path of a dump, and that is filled too late."""
    opened = (
        "CREATE FUNCTION public.known(place text) RETURNS boolean\n    LANGUAGE sql STABLE\n"
        "    AS $$ select exists (select from zones where zone = place) $$;\n\n"
        "CREATE TABLE public.zones (\n    zone text NOT NULL\n);\n\nALTER TABLE public.zones OWNER TO registrar;\n\n"
    )
    names = ("museum", "donors", "gifts", "donor_id", "object", "worth", "honours", "registrar", "press", "CASCADE")
    subject = Subject(*names, opened=opened, check="CHECK (public.known(town))")
    data = dumps.stock(rng)
    towns = sorted({str(row[2]) for row in data.parents})
    zones = dumps.copied("zones", "zone", [(town,) for town in towns])
    before = dumps.opening(subject).replace(f"sum(c.{subject.number})", "sum(c.estimate)")
    text = before + "".join(dumps.both_copied(subject, data)) + zones + _closing(subject)
    block = "/^COPY public.zones/,/^\\\\\\.$/"
    named = f"s/c[.]estimate/c.{subject.number}/; s/from zones/from public.zones/"
    path = subject.path
    order = (
        f"(sed '/^COPY /,$d' {path}; sed -n '{block}p' {path}; sed -n '/^COPY /,$p' {path} | sed '{block}d') "
        f"| sed '{named}' > {MENDED}"
    )
    only = order.replace("; s/from zones/from public.zones/", "; s/^SET check.*/&\\nSET search_path TO public;/")
    later = "ALTER FUNCTION public.known(text) SET search_path TO public;\n"
    bound = f"sed -i 's/^CREATE TABLE public.donors/{later.strip()}\\n&/' {MENDED}"
    unchecked = f"sed -i '/_town_check/d; s/^    town text,$/    town text/' {MENDED}"
    always = order.replace("s/from zones/from public.zones/", "s/exists (.*) [$]/true $/")
    numbers = _added(_highest(subject))
    parent = f"insert into public.{subject.parent}(name, town) values ('probe', "
    return Damage(
        subject=subject,
        data=data,
        text=text,
        story="It was edited before it got lost. In the view, the column is still called estimate, which is now "
        f"{subject.number}. The states of the sequences were removed. And the check on {subject.parent}.town fails "
        "while the rows are loaded although all of them satisfy it: both that it asks the table zones and the way it "
        "does so are in the way. The check stays, and so do zones and the function known, which has to give the right "
        "answer whatever the search path of the session is, an empty one included.",
        mend=(order, numbers),
        other=(only, bound, numbers),
        weak=(
            ("search_path_of_the_file", (only, numbers)),
            ("check_left_out", (order, unchecked, numbers)),
            ("knows_everything", (always, numbers)),
            ("numbers_begin_again", (order,)),
        ),
        probes=(
            (f"set search_path = ''; {parent}'Atlantis')", "23514"),
            (
                f"set search_path = ''; begin; {parent}'{data.parents[0][2]}') returning town; rollback",
                [(data.parents[0][2],)],
            ),
            (
                "begin; insert into public.zones values ('Atlantis'); select public.known('Atlantis'); rollback",
                [("t",)],
            ),
            ('select zone from public.zones order by zone collate "C"', [(town,) for town in towns]),
        ),
    )


DAMAGES: tuple[Callable[[Random], Damage], ...] = (broken_off, other_letters, out_of_order, hidden_tables)
