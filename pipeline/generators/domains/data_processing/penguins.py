"""Tasks over the measurements of penguins: quantiles by a stated method, and a table turned round."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from fractions import Fraction

from pipeline.generators.domains.data_processing.heredoc import altered, python
from pipeline.generators.drafts import Context, Draft, TaskFile, filled
from pipeline.types import Variant

SOURCE = "penguins/penguins.csv"


def measurements(context: Context) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(context.text(SOURCE))))


def _linear(values: Sequence[Fraction], share: Fraction) -> Fraction:
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def _nearest_rank(values: Sequence[Fraction], share: Fraction) -> Fraction:
    return values[max(0, -int(-share * len(values) // 1) - 1)]


def _weibull(values: Sequence[Fraction], share: Fraction) -> Fraction:
    place = min(max(share * (len(values) + 1) - 1, Fraction(0)), Fraction(len(values) - 1))
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


Quantile = Callable[[Sequence[Fraction], Fraction], Fraction]
PLACE = {
    "linear": "place = p * (len(v) - 1)",
    "nearest": "place = max(0, math.ceil(p * len(v)) - 1)",
    "weibull": "place = min(max(p * (len(v) + 1) - 1, F(0)), F(len(v) - 1))",
}
METHODS: dict[str, tuple[Quantile, str]] = {
    "linear": (
        _linear,
        "with linear interpolation at position p*(n-1), counted from 0, in the sorted values (the default of NumPy)",
    ),
    "nearest": (_nearest_rank, "by nearest rank: the value at position ceil(p*n), counted from 1, no interpolation"),
    "weibull": (
        _weibull,
        "with linear interpolation at position p*(n+1), counted from 1 in the sorted values (Weibull, type 6 in R)",
    ),
}
CASES = (
    ("species", "body_mass_g", "linear", (10, 50, 90)),
    ("island", "flipper_length_mm", "nearest", (25, 50, 95)),
    ("sex", "bill_length_mm", "weibull", (5, 50, 95)),
    ("year", "bill_depth_mm", "nearest", (1, 33, 99)),
)
QUANTILES = """
import csv, json, math
from fractions import Fraction as F

groups = {}
for row in csv.DictReader(open("/work/penguins.csv")):
    if row[__GROUP__] != "NA" and row[__COLUMN__] != "NA":
        groups.setdefault(row[__GROUP__], []).append(F(row[__COLUMN__]))
report = {}
for name, v in groups.items():
    v.sort()
    report[name] = {"n": len(v)}
    for percent in __PERCENTS__:
        p = F(percent, 100)
        PLACE
        low = int(place)
        value = v[low] + (place - low) * (v[min(low + 1, len(v) - 1)] - v[low])
        report[name][f"p{percent}"] = round(float(value), 4)
json.dump(report, open("/work/quantiles.json", "w"))
"""
VERIFY_QUANTILES = """
import json

WANTED = __WANTED__


def report(box):
    return json.loads(box.text("/work/quantiles.json"))


def test_groups_and_their_sizes(box):
    found = report(box)
    assert {name: part["n"] for name, part in found.items()} == {name: part["n"] for name, part in WANTED.items()}


def test_quantiles_follow_the_stated_method(box):
    found = report(box)
    assert all(found[name].keys() == part.keys() for name, part in WANTED.items())
    assert [
        (name, key)
        for name, part in WANTED.items()
        for key, value in part.items()
        if not abs(found[name][key] - value) <= 0.0001
    ] == []
"""


def quantiles(seed: int, context: Context) -> Draft:
    group, column, method, percents = CASES[seed % len(CASES)]
    quantile, said = METHODS[method]
    groups: dict[str, list[Fraction]] = {}
    for row in measurements(context):
        if "NA" not in (row[group], row[column]):
            groups.setdefault(row[group], []).append(Fraction(row[column]))
    wanted = {
        name: {"n": len(found)}
        | {f"p{percent}": round(float(quantile(sorted(found), Fraction(percent, 100))), 4) for percent in percents}
        for name, found in sorted(groups.items())
    }
    other = "linear" if method != "linear" else "nearest"
    plain = filled(QUANTILES, group=group, column=column, percents=percents)
    script = python(altered(plain, ("PLACE", PLACE[method])))
    keys = ", ".join(f"`p{percent}`" for percent in percents)
    return Draft(
        family="quantiles",
        seed=seed,
        difficulty="easy",
        language="python",
        instruction=f"I need robust numbers from /work/penguins.csv (missing values are the word NA). For each value "
        f"of "
        f"`{group}`, ignoring rows where `{group}` or `{column}` is missing, give me the number of measurements and "
        f"the percentiles {', '.join(map(str, percents))} of `{column}`, {said}. Put it all in /work/quantiles.json: "
        f"one JSON object with a key per `{group}` (as text), each holding an object with exactly `n`, {keys}. Numbers "
        "to four decimals at least.",
        files=(TaskFile(path="/work/penguins.csv", text=context.text(SOURCE)),),
        solution=(script,),
        right=(
            Variant(
                name="pretty_and_unrounded",
                commands=(altered(script, ("round(float(value), 4)", "float(value)"), ('"w"))', '"w"), indent=1)')),),
            ),
        ),
        weak=(
            Variant(name="other_method", commands=(python(altered(plain, ("PLACE", PLACE[other]))),)),
            Variant(name="descending", commands=(altered(script, ("v.sort()", "v.sort(reverse=True)")),)),
            Variant(name="whole_numbers", commands=(altered(script, ("float(value), 4", "float(value) + 0.6")),)),
        ),
        verifier=filled(VERIFY_QUANTILES, wanted=wanted),
        contexts=("penguins",),
    )


PIVOTS = (
    ("island", "species", "count"),
    ("species", "island", "heaviest"),
    ("sex", "species", "total"),
    ("species", "sex", "lightest"),
)
MEANING = {
    "count": "the number of penguins (all rows count, also those with missing measurements)",
    "heaviest": "the largest body_mass_g in grams",
    "lightest": "the smallest body_mass_g in grams",
    "total": "the sum of body_mass_g in grams",
}
SQL = {"count": "count(*)", "heaviest": "max(g)", "lightest": "min(g)", "total": "sum(g)"}
VERIFY_PIVOT = """
CORNER = __CORNER__
ACROSS = __ACROSS__
CELLS = __CELLS__


def grid(box):
    return [line.split(",") for line in box.text("/work/pivot.csv").splitlines()]


def test_head_of_the_pivot_names_the_columns_in_order(box):
    assert grid(box)[0] == [CORNER, *ACROSS]


def test_rows_stand_in_order_and_each_once(box):
    assert [line[0] for line in grid(box)[1:]] == sorted({row for row, _ in CELLS})


def test_cells_and_holes(box):
    for name, *cells in grid(box)[1:]:
        wanted = [CELLS.get((name, across), __HOLE__) for across in ACROSS]
        assert cells == wanted, name
    assert len(grid(box)) > 1
"""


def _cell(kind: str, masses: list[str]) -> str:
    weights = [int(mass) for mass in masses if mass != "NA"]
    found = {"count": len(masses), "heaviest": max(weights), "lightest": min(weights), "total": sum(weights)}
    return str(found[kind])


def pivot(seed: int, context: Context) -> Draft:
    down, across, kind = PIVOTS[seed % len(PIVOTS)]
    hole = ("0", "", "-", "none")[seed % 4]
    masses: dict[tuple[str, str], list[str]] = {}
    for row in measurements(context):
        masses.setdefault((row[down], row[across]), []).append(row["body_mass_g"])
    columns = sorted({name for _, name in masses})
    query = (
        f"create view v as select {down} as d, {across} as a, "
        "cast(nullif(body_mass_g, 'NA') as integer) as g from penguins; "
    )
    cells = ", ".join(
        f"coalesce((select {SQL[kind]} from v where v.d = r.d and v.a = '{name}' group by v.a), '{hole}') as [{name}]"
        for name in columns
    )
    select = f"select d as {down}, {cells} from (select distinct d from v) r order by d;"
    run = f'sqlite3 -csv -header :memory: ".import --csv penguins.csv penguins" "{query}" "{select}"'
    script = python(
        f"""
import csv
rows = list(csv.DictReader(open("penguins.csv")))
across = sorted(set(r["{across}"] for r in rows))
find = dict(count=len, heaviest=lambda v: max(map(int, v)), lightest=lambda v: min(map(int, v)),
            total=lambda v: sum(map(int, v)))["{kind}"]
with open("pivot.csv", "w") as out:
    print("{down}", *across, sep=",", file=out)
    for d in sorted(set(r["{down}"] for r in rows)):
        cells = []
        for a in across:
            v = [r["body_mass_g"] for r in rows if (r["{down}"], r["{across}"]) == (d, a)]
            v = v if "{kind}" == "count" else [x for x in v if x != "NA"]
            cells.append(find(v) if v else "{hole}")
        print(d, *cells, sep=",", file=out)
"""
    )
    absent = "an empty cell" if not hole else f"`{hole}`"
    return Draft(
        family="pivot",
        seed=seed,
        difficulty="easy",
        instruction=f"Make a cross table of /work/penguins.csv for a slide: one line per `{down}`, one column per "
        f"`{across}`, and in the cell {MEANING[kind]}. NA is a value like any other in `{down}` and `{across}`, but a "
        f"missing mass is never used. Save it as /work/pivot.csv, comma-separated without quotes: the first line is "
        f"`{down}` followed by the values of `{across}` in alphabetical order, the lines below are in alphabetical "
        f"order too, and a combination without any penguin gets {absent}.",
        files=(TaskFile(path="/work/penguins.csv", text=context.text(SOURCE)),),
        solution=(f"{run} | tr -d '\"\\r' > pivot.csv",),
        right=(Variant(name="python", commands=(script,)),),
        weak=(
            Variant(name="turned", commands=(script.replace(down, "@").replace(across, down).replace("@", across),)),
            Variant(
                name="order_of_the_file",
                commands=(altered(script, ('sorted(set(r["', 'dict.fromkeys((r["')),),
            ),
            Variant(name="other_hole", commands=(altered(script, (f'"{hole}")', '"?")')),)),
        ),
        verifier=filled(
            VERIFY_PIVOT,
            corner=down,
            across=columns,
            hole=hole,
            cells={key: _cell(kind, found) for key, found in sorted(masses.items())},
        ),
        contexts=("penguins",),
    )
