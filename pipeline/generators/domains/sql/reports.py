"""Questions to a database that take more than grouping: windows over days, trees that are added up."""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from random import Random

from pipeline.generators.domains.sql.commands import sqlite
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

Day = dict[str, str]
Table = list[list[str]]

WINDOWS = (
    (
        "rain.csv",
        "month,rain,so_far,place",
        "per month (like 2012-07) the precipitation of the month, the running total since January of that year, and "
        "the "
        "place of the month among the months of its year by precipitation, the wettest being 1; equal ones share the "
        "better place and the next place is then left out. Both amounts with one decimal. Sort by month",
        "with m as (select substr(replace(date, '/', '-'), 1, 7) as month, sum(round(precipitation * 10)) as mm "
        "from weather group by 1) select month, printf('%.1f', mm / 10.0) as rain, "
        "printf('%.1f', sum(mm) over (partition by substr(month, 1, 4) order by month) / 10.0) as so_far, "
        "rank() over (partition by substr(month, 1, 4) order by mm desc) as place from m order by month",
        (
            ("order by month) /", "order by month rows 2 preceding) /"),
            ("mm desc", "mm"),
            ("partition by substr(month, 1, 4) ", ""),
        ),
    ),
    (
        "dry.csv",
        "first,last,days",
        "every unbroken run of at least 10 days without precipitation (precipitation 0): its first day, its last day "
        "(both "
        "like 2012-07-31) and its number of days. Longest first, equally long ones by first day",
        "with d as (select replace(date, '/', '-') as day, julianday(replace(date, '/', '-')) - row_number() over "
        "(order by date) as island from weather where precipitation + 0 = 0) select min(day) as first, max(day) as "
        "last, "
        "count(*) as days from d group by island having count(*) >= 10 order by days desc, first",
        ((">= 10", "> 10"), ("days desc", "days"), ("precipitation + 0 = 0", "weather <> 'rain'")),
    ),
    (
        "warm.csv",
        "day,temp_max,average",
        "the days on which temp_max was more than 8 degrees above the mean temp_max of the seven days before it (the "
        "day "
        "itself not included): day (like 2012-07-31), temp_max with one decimal, that mean with two decimals. Leave "
        "out the "
        "first seven days of the data. Sort by day",
        "with w as (select replace(date, '/', '-') as day, temp_max + 0 as t, avg(temp_max + 0.0) over s as a, "
        "count(*) over s as n from weather window s as (order by date rows between 7 preceding and 1 preceding)) "
        "select day, printf('%.1f', t) as temp_max, printf('%.2f', a) as average from w where n = 7 and t > a + 8 "
        "order by day",
        (("7 preceding and 1 preceding", "6 preceding and current row"), ("a + 8", "a + 7"), ("by day", "by day desc")),
    ),
    (
        "windy.csv",
        "weather,place,day,wind",
        "the windiest days of each kind of weather: all days whose wind is one of the three highest different values "
        "for "
        "that kind; `place` is 1, 2 or 3 for the highest, second and third value, so equal winds share a place and no "
        "place is left out. Day like 2012-07-31, wind with one decimal. Sort by kind, place, day",
        "with r as (select weather, dense_rank() over (partition by weather order by wind + 0 desc) as place, "
        "replace(date, '/', '-') as day, wind from weather) select weather, place, day, printf('%.1f', wind) as wind "
        "from r where place <= 3 order by weather, place, day",
        (("dense_rank", "rank"), ("wind + 0 desc", "wind + 0"), ("dense_rank", "row_number")),
    ),
)
VERIFY_WINDOW = """
import csv
import io

ANSWER = __ANSWER__


def answer(box):
    return list(csv.reader(io.StringIO(box.text(__PATH__))))


def test_the_header_names_the_columns(box):
    assert answer(box)[0] == ANSWER[0]


def test_exactly_these_rows_in_this_order(box):
    rows = answer(box)[1:]
    assert len(rows) == len(ANSWER) - 1
    assert rows == ANSWER[1:]
"""


def _rain(days: list[Day]) -> Table:
    months: dict[str, int] = {}
    for day in days:
        months[day["date"][:7]] = months.get(day["date"][:7], 0) + round(10 * float(day["precipitation"]))
    rows = []
    for month, rain in months.items():
        year = {name: amount for name, amount in months.items() if name[:4] == month[:4]}
        so_far = sum(amount for name, amount in year.items() if name <= month)
        place = 1 + sum(amount > rain for amount in year.values())
        rows.append([month, f"{rain / 10:.1f}", f"{so_far / 10:.1f}", str(place)])
    return rows


def _dry(days: list[Day]) -> Table:
    runs: list[list[str]] = [[]]
    for day in days:
        if float(day["precipitation"]):
            runs.append([])
        else:
            runs[-1].append(day["date"])
    long = sorted((run for run in runs if len(run) >= 10), key=lambda run: (-len(run), run[0]))
    return [[run[0], run[-1], str(len(run))] for run in long]


def _warm(days: list[Day]) -> Table:
    rows = []
    for place in range(7, len(days)):
        before = sum((Fraction(day["temp_max"]) for day in days[place - 7 : place]), Fraction(0)) / 7
        now = Fraction(days[place]["temp_max"])
        if now > before + 8:
            rows.append([days[place]["date"], f"{float(now):.1f}", f"{float(before):.2f}"])
    return rows


def _windy(days: list[Day]) -> Table:
    rows = []
    for kind in sorted({day["weather"] for day in days}):
        found = [(Fraction(day["wind"]), day["date"]) for day in days if day["weather"] == kind]
        for place, wind in enumerate(sorted({wind for wind, _ in found}, reverse=True)[:3], 1):
            rows += [[kind, str(place), day, f"{float(wind):.1f}"] for speed, day in found if speed == wind]
    return rows


def window_report(seed: int, context: Context) -> Draft:
    name, header, wish, query, mistakes = WINDOWS[seed % len(WINDOWS)]
    text = context.text("weather/seattle-weather.csv")
    days = [row | {"date": row["date"].replace("/", "-")} for row in csv.DictReader(io.StringIO(text))]
    rows = (_rain, _dry, _warm, _windy)[seed % len(WINDOWS)](days)

    def run(query: str, options: str = "-csv -header") -> str:
        return f"sqlite3 {options} weather.db <<'EOF' > {name}\n{query};\nEOF"

    return Draft(
        family="window_report",
        seed=seed,
        difficulty="medium",
        instruction=f"/work/weather.db (SQLite) has a table `weather` with a row per day; date is text like "
        f"2012/07/31, all "
        f"other columns were imported as text as well. From it I need /work/{name}, comma-separated with the header "
        f"`{header}`: {wish}. Leave the database as it is.",
        files=(TaskFile(path="/work/weather.csv", text=text),),
        setup=('sqlite3 weather.db ".import --csv weather.csv weather"', "rm weather.csv"),
        solution=(run(query),),
        right=(
            Variant(
                name="into_a_copy",
                commands=("cp weather.db /tmp/", run(query).replace("weather.db", "/tmp/weather.db")),
            ),
        ),
        weak=(
            *(
                Variant(name=f"mistake_{number}", commands=(run(query.replace(old, new, 1)),))
                for number, (old, new) in enumerate(mistakes)
            ),
            Variant(name="no_header", commands=(run(query, "-csv"),)),
        ),
        verifier=filled(VERIFY_WINDOW, answer=[header.split(","), *rows], path=f"/work/{name}"),
        contexts=("weather",),
    )


TREES = (
    ("staff", "boss", "salary", "payroll", "sum"),
    ("folders", "parent", "bytes", "total", "sum"),
    ("regions", "within", "height", "peak", "max"),
    ("tasks", "part_of", "hours", "effort", "sum"),
)
VERIFY_TREE = """
import sqlite3

BEFORE = __BEFORE__
AFTER = __AFTER__


def judged():
    base = sqlite3.connect(":memory:")
    sqlite3.connect("file:/work/tree.db?mode=ro", uri=True).backup(base)
    return base


def shown(base):
    return [list(row) for row in base.execute("select id, depth, path, below, __TOTAL__ from outline order by path")]


def test_outline_of_the_tree_as_it_is():
    assert shown(judged()) == BEFORE


def test_outline_follows_when_the_tree_grows():
    base = judged()
    base.executemany("insert into __TABLE__ values (?, ?, ?, ?)", __NEW__)
    assert shown(base) == AFTER


def test_nothing_else_was_changed():
    base = judged()
    assert base.execute("select count(*), sum(id * coalesce(__AMOUNT__, 0)) from __TABLE__").fetchone() == __SUMS__
    assert base.execute("select type from sqlite_master where name = 'outline'").fetchall() == [("view",)]
"""
Node = tuple[int, int | None, str, int | None]


def _tree(rng: Random) -> list[Node]:
    nodes: list[Node] = []
    numbers = rng.sample(range(10, 99), 22)
    for place, number in enumerate(numbers):
        parent = None if place < 2 else rng.choice(numbers[:place][-7:])
        amount = rng.randint(3, 400) if rng.random() < 0.85 else None
        nodes.append((number, parent, f"n{rng.choice('abcdefgh')}{number}", amount))
    return nodes


def _outline(nodes: list[Node], kind: str) -> list[list[object]]:
    by_id = {node[0]: node for node in nodes}

    def line(number: int) -> list[int]:
        parent = by_id[number][1]
        return [number] if parent is None else [*line(parent), number]

    rows: list[list[object]] = []
    for number in by_id:
        family = [other for other in by_id if number in line(other)]
        amounts = [by_id[other][3] or 0 for other in family]
        path = "/".join(by_id[step][2] for step in line(number))
        total = sum(amounts) if kind == "sum" else max(amounts)
        rows.append([number, len(line(number)) - 1, path, len(family) - 1, total])
    return sorted(rows, key=lambda row: str(row[2]))


def hierarchy(seed: int, context: Context) -> Draft:
    rng = chance("sql", "hierarchy", seed)
    table, parent, amount, total, kind = TREES[seed % len(TREES)]
    nodes = _tree(rng)
    new: list[Node] = [(100, nodes[-1][0], "nz100", 1000), (101, 100, "na101", None), (102, None, "n_102", 7)]
    rows = ",\n".join(
        f"({n}, {'null' if p is None else p}, '{name}', {'null' if a is None else a})" for n, p, name, a in nodes
    )
    columns = f"id integer primary key, {parent} integer references {table}, name text, {amount} integer"
    script = f"create table {table}({columns});\n"
    view = f"""create view outline as
with recursive up(id, depth, path) as (
    select id, 0, name from {table} where {parent} is null
    union all select t.id, up.depth + 1, up.path || '/' || t.name from {table} t join up on t.{parent} = up.id
), under(top, id) as (
    select id, id from {table} union all select under.top, t.id from under join {table} t on t.{parent} = under.id
)
select up.id, up.depth, up.path, count(*) - 1 as below, {kind}(coalesce(t.{amount}, 0)) as {total}
from up join under on under.top = up.id join {table} t on t.id = under.id group by up.id, up.depth, up.path;"""
    by_path = f"""create view outline as
with recursive up(id, depth, path, line, a) as (
    select id, 0, name, '/' || id || '/', ifnull({amount}, 0) from {table} where {parent} is null
    union all select t.id, depth + 1, path || '/' || t.name, line || t.id || '/', ifnull(t.{amount}, 0)
    from up join {table} t on t.{parent} = up.id
)
select id, depth, path, (select count(*) - 1 from up u where u.line like up.line || '%') as below,
    (select {kind}(u.a) from up u where u.line like up.line || '%') as {total} from up;"""
    frozen = view.replace("create view outline", "create table outline", 1)
    verb = "the sum" if kind == "sum" else "the maximum"
    verifier = VERIFY_TREE.replace("__TOTAL__", total).replace("__TABLE__", table).replace("__AMOUNT__", amount)
    return Draft(
        family="hierarchy",
        seed=seed,
        difficulty="hard",
        instruction=f"In the SQLite file /work/tree.db the table {table}(id, {parent}, name, {amount}) is a forest: "
        f"{parent} "
        f"is the id of the row above, null at the top; {amount} may be null and then counts as 0. Our reports need a "
        f"view "
        f"called `outline` with one row per row of {table} and the columns id, depth (0 at the top), path (the names "
        f"from "
        "the top down to the row itself, joined by /), below (how many rows are anywhere underneath it, not counting "
        f"itself) and {total} ({verb} of {amount} over the row itself and everything underneath). It has to be a "
        f"real view: "
        "rows are added all day, to any depth, and it must show them at once. Do not touch the table.",
        files=(TaskFile(path="/work/tree.sql", text=f"{script}insert into {table} values\n{rows};\n"),),
        setup=("sqlite3 tree.db < tree.sql", "rm tree.sql"),
        solution=(sqlite("tree.db", view),),
        right=(Variant(name="one_recursion", commands=(sqlite("tree.db", by_path),)),),
        weak=(
            Variant(name="frozen_table", commands=(sqlite("tree.db", frozen),)),
            Variant(
                name="without_itself",
                commands=(sqlite("tree.db", view.replace("select id, id from", f"select {parent}, id from")),),
            ),
            Variant(
                name="two_levels",
                commands=(sqlite("tree.db", view.replace("= up.id\n", "= up.id where up.depth < 2\n")),),
            ),
            Variant(name="counts_itself", commands=(sqlite("tree.db", view.replace("count(*) - 1", "count(*)")),)),
        ),
        verifier=filled(
            verifier,
            before=_outline(nodes, kind),
            after=_outline(nodes + new, kind),
            new=new,
            sums=(len(nodes), sum(n * (a or 0) for n, _, _, a in nodes)),
        ),
    )
