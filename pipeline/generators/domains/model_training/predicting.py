"""Families whose result is judged on rows nobody saw: predictions for held-out data, and a network that runs there."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

DOMAIN = "model_training"
Cell = str | int | float
Rule = Callable[[float, float, str], str]


def table(header: Sequence[str], rows: Iterable[Sequence[Cell]], separator: str = ",") -> str:
    """A text with one line per row, floats with three decimals."""
    lines = [separator.join(header)]
    for row in rows:
        lines.append(separator.join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row))
    return "\n".join(lines) + "\n"


def program(code: str) -> str:
    """A command that runs a Python program of the image's interpreter."""
    return f"python3 - <<'CODE'\n{code.strip()}\nCODE"


_SUBJECTS: tuple[tuple[tuple[str, str, str], tuple[str, ...], str, Rule], ...] = (
    (
        ("vibration", "torque", "line"),
        ("worn", "sound"),
        "bearings of a test bench",
        lambda x, y, kind: "worn" if 2.1 < math.hypot(x, y) < 3.7 else "sound",
    ),
    (
        ("drift", "tilt", "lens"),
        ("keep", "discard"),
        "frames of a survey camera",
        lambda x, y, kind: "keep" if (x * y > 0) == (kind != "B") else "discard",
    ),
    (
        ("phase", "load", "feeder"),
        ("trip", "hold"),
        "events of a relay",
        lambda x, y, kind: "trip" if math.sin(1.6 * x + 0.5 * y) > 0 else "hold",
    ),
    (
        ("east", "north", "season"),
        ("oak", "pine", "birch"),
        "plots of a forest inventory",
        lambda x, y, kind: ("oak", "pine", "birch")[(math.floor((x + 4) / 2) + math.floor((y + 4) / 4)) % 3],
    ),
)

_FOREST = """
import pandas as pd
from sklearn.ensemble import @MODEL@
train, test = pd.read_csv("@TRAIN@"), pd.read_csv("@TEST@")
def features(frame):
    return pd.get_dummies(frame.drop(columns=["id", "outcome"], errors="ignore"))
x, z = features(train), features(test)
z = z.reindex(columns=x.columns, fill_value=0)
model = @MODEL@(random_state=3).fit(x, train["outcome"])
found = pd.DataFrame({"id": test["id"], "outcome": model.predict(z)})
@MORE@
found.to_csv("/work/predictions.csv", index=False)
"""
_STRAIGHT = """
import pandas as pd
from sklearn.linear_model import LogisticRegression
train, test = pd.read_csv("@TRAIN@"), pd.read_csv("@TEST@")
columns = @COLUMNS@
model = LogisticRegression(max_iter=1000).fit(train[columns], train["outcome"])
pd.DataFrame({"id": test["id"], "outcome": model.predict(test[columns])}).to_csv("/work/predictions.csv", index=False)
"""


def placed(text: str, **values: str) -> str:
    """The text with `@NAME@` replaced."""
    for name, value in values.items():
        text = text.replace(f"@{name.upper()}@", value)
    return text


def held_out_classes(seed: int, context: Context) -> Draft:
    """Classes that no straight line separates."""
    rng = chance(DOMAIN, "held_out_classes", seed)
    columns, classes, subject, rule = _SUBJECTS[seed % len(_SUBJECTS)]
    rows = [(rng.uniform(-4, 4), rng.uniform(-4, 4), rng.choice("ABC"), rng.gauss(0, 2)) for _ in range(2100)]
    ids = [f"{columns[0][:2].upper()}{number}" for number in rng.sample(range(10000, 99999), len(rows))]
    truth = [rule(x, y, kind) for x, y, kind, _ in rows]
    seen = [rng.choice(classes) if rng.random() < 0.02 else label for label in truth]
    shown = [(name, *row) for name, row in zip(ids, rows, strict=True)]
    header = ("id", *columns, "noise_floor")
    files = {"TRAIN": f"/work/{columns[0]}_train.csv", "TEST": f"/work/{columns[0]}_test.csv"}
    least, shift = 0.86, 'found["outcome"] = found["outcome"].shift(1).fillna(found["outcome"].iloc[-1])'
    forest = placed(_FOREST, model="ExtraTreesClassifier", more="", **files)
    boosted = placed(_FOREST, model="GradientBoostingClassifier", more='found = found.sort_values("id")', **files)
    line = placed(_STRAIGHT, columns=repr([*columns[:2], "noise_floor"]), **files)
    common = Counter(seen).most_common(1)[0][0]
    constant = f'awk -F, \'NR == 1 {{print "id,outcome"; next}} {{print $1 ",{common}"}}\' {files["TEST"]}'
    return Draft(
        family="held_out_classes",
        seed=seed,
        difficulty="hard",
        instruction=f"{files['TRAIN']} holds 1800 labelled {subject}: an id, the measurements "
        f"{', '.join(header[1:])} and the column outcome ({', '.join(classes)}; about two in a hundred labels are "
        "typing "
        "errors). Our logistic regression on those columns is hardly better than guessing. Please train something "
        "that "
        f"works and label the 300 rows of {files['TEST']}, which has the same columns but no outcome.\n\n"
        "Write /work/predictions.csv with the header id,outcome and exactly one row for each id of the test file, "
        "in any "
        f"order. I know the true outcomes of these rows: at least {least:.0%} of your labels have to be right, and "
        "of the "
        "rows of every single class at least 70 % must be found. scikit-learn and pandas are installed; there is no "
        "network.",
        files=(
            TaskFile(
                path=files["TRAIN"],
                text=table((*header, "outcome"), [(*a, b) for a, b in zip(shown[:1800], seen, strict=False)]),
            ),
            TaskFile(path=files["TEST"], text=table(header, shown[1800:])),
        ),
        solution=(program(forest),),
        right=(Variant(name="boosted_trees_sorted", commands=(program(boosted),)),),
        weak=(
            Variant(name="straight_line", commands=(program(line),)),
            Variant(name="commonest_class", commands=(f"{constant} > /work/predictions.csv",)),
            Variant(
                name="labels_one_row_off",
                commands=(program(placed(_FOREST, model="RandomForestClassifier", more=shift, **files)),),
            ),
        ),
        verifier=filled(
            """
import csv
import io

TRUTH = __TRUTH__
LEAST = __LEAST__


def labels(box):
    rows = list(csv.DictReader(io.StringIO(box.text("/work/predictions.csv"))))
    assert rows and list(rows[0]) == ["id", "outcome"], "the header is not id,outcome"
    assert len(rows) == len(TRUTH), f"{len(rows)} rows"
    return {row["id"]: row["outcome"] for row in rows}


def test_each_row_has_one_label(box):
    assert set(labels(box)) == set(TRUTH)


def test_enough_labels_are_right(box):
    given = labels(box)
    hits = sum(given.get(name) == outcome for name, outcome in TRUTH.items())
    assert hits >= LEAST * len(TRUTH), f"{hits} of {len(TRUTH)}"


def test_no_class_is_neglected(box):
    given = labels(box)
    found = {}
    for name, outcome in TRUTH.items():
        found.setdefault(outcome, []).append(given.get(name) == outcome)
    assert all(sum(hits) >= 0.7 * len(hits) for hits in found.values())
""",
            truth=dict(zip(ids[1800:], truth[1800:], strict=True)),
            least=least,
        ),
    )


_UNITS: tuple[tuple[str, str, str, float, Callable[[float, random.Random], str]], ...] = (
    ("flat", "area", "rent", 11.0, lambda q, r: f"{q:.1f} m2" if r.random() < 0.5 else f"{q * 10.7639:.0f} sqft"),
    ("delivery", "distance", "fee", 0.9, lambda q, r: f"{q:.2f} km" if r.random() < 0.5 else f"{q / 1.609344:.2f} mi"),
    ("parcel", "weight", "postage", 0.4, lambda q, r: f"{q:.2f} kg" if r.random() < 0.6 else f"{q * 1000:.0f} g"),
    ("repair", "duration", "charge", 1.3, lambda q, r: f"{q:.0f} min" if r.random() < 0.5 else f"{q / 60:.3f} h"),
)
_FACTORS = {"m2": 1, "sqft": 1 / 10.7639, "km": 1, "mi": 1.609344, "kg": 1, "g": 0.001, "min": 1, "h": 60}

_FIT = """
import pandas as pd
from sklearn.linear_model import LinearRegression
factors = @FACTORS@
train, test = pd.read_csv("/work/past.tsv", sep="\\t"), pd.read_csv("/work/open.tsv", sep="\\t")
def features(frame):
    parts = frame["@QUANTITY@"].str.split(" ", expand=True)
    q = parts[0].astype(float) * parts[1].map(factors)
    x = pd.get_dummies(frame["zone"]).astype(float)
    x["q"], x["q2"], x["extra"] = q, q * q, frame["extra"]
    for zone in sorted(set(frame["zone"])):
        x["q" + zone] = q * (frame["zone"] == zone)
    return x
model = LinearRegression().fit(features(train), train["@TARGET@"])
test["estimate"] = model.predict(features(test)).round(3)
test[["ref", "estimate"]].to_csv("/work/estimates.tsv", sep="\\t", index=False)
"""


def mixed_units(seed: int, context: Context) -> Draft:
    """A regression whose most important column mixes two units."""
    rng = chance(DOMAIN, "mixed_units", seed)
    thing, quantity, target, slope, written = _UNITS[seed % len(_UNITS)]
    zones = {zone: (rng.uniform(5, 60), slope * rng.uniform(0.7, 1.6)) for zone in ("N", "E", "S", "W")}
    rows: list[tuple[str, str, str, int, float]] = []
    for number in rng.sample(range(100000, 999999), 760):
        q, zone, extra = rng.uniform(10, 150), rng.choice(sorted(zones)), rng.randint(0, 5)
        base, rate = zones[zone]
        value = base + rate * q + slope * 3 * extra + rng.gauss(0, slope * 3)
        rows.append((f"{thing[0]}-{number}", written(q, rng), zone, extra, value))
    past, held = rows[:600], rows[600:]
    largest = round(slope * 5.0, 2)
    good = placed(_FIT, factors=repr(_FACTORS), quantity=quantity, target=target)
    blind = placed(_FIT, factors=repr(dict.fromkeys(_FACTORS, 1)), quantity=quantity, target=target)
    flat = good.replace('for zone in sorted(set(frame["zone"])):', "for zone in ():").replace(
        'pd.get_dummies(frame["zone"]).astype(float)', "pd.DataFrame(index=frame.index)"
    )
    mean = good.replace("model.predict(features(test)).round(3)", f'train["{target}"].mean()')
    names = f"two units, written after the number ({_pair(past)})"
    return Draft(
        family="mixed_units",
        seed=seed,
        difficulty="medium",
        instruction=f"I need {target} estimates for the {thing} requests in /work/open.tsv. What we charged before "
        "is in "
        f"/work/past.tsv (tab-separated: ref, {quantity}, zone, extra, {target}). Mind that the people at the "
        "counter typed "
        f"the {quantity} in {names}; the price depends on the quantity itself, at a rate of its own in each zone, "
        "and goes "
        "up with every extra.\n\nFit a regression on the past requests and save /work/estimates.tsv, tab-separated, "
        "header "
        "ref and estimate, one line per open request in the order of open.tsv, the estimate being a plain decimal "
        "number. "
        f"When the invoices arrive I shall compare: the root mean squared error over the open requests may be at most "
        f"{largest}, and no zone on its own may be worse than {round(largest * 1.3, 2)}.",
        files=(
            TaskFile(path="/work/past.tsv", text=table(("ref", quantity, "zone", "extra", target), past, "\t")),
            TaskFile(
                path="/work/open.tsv",
                text=table(("ref", quantity, "zone", "extra"), [row[:4] for row in held], "\t"),
            ),
        ),
        solution=(program(good),),
        right=(
            Variant(name="rates_only", commands=(program(good.replace(', x["q2"]', "").replace("q, q * q,", "q,")),)),
        ),
        weak=(
            Variant(name="units_ignored", commands=(program(blind),)),
            Variant(name="average_of_the_past", commands=(program(mean),)),
            Variant(name="zones_ignored", commands=(program(flat),)),
        ),
        verifier=filled(
            """
import math

INVOICES = __INVOICES__
ZONES = __ZONES__
LARGEST = __LARGEST__


def read_estimates(box):
    lines = box.text("/work/estimates.tsv").splitlines()
    assert lines[0].split("\\t") == ["ref", "estimate"]
    return [line.split("\\t") for line in lines[1:]]


def spread(pairs):
    return math.sqrt(sum((float(estimate) - value) ** 2 for estimate, value in pairs) / len(pairs))


def test_references_stand_in_the_given_order(box):
    assert [line[0] for line in read_estimates(box)] == [ref for ref, _ in INVOICES]


def test_error_is_small_everywhere(box):
    pairs = [(line[1], value) for line, (_, value) in zip(read_estimates(box), INVOICES, strict=True)]
    overall = spread(pairs)
    assert overall <= LARGEST, overall
    for zone in sorted(set(ZONES)):
        own = spread([pair for pair, place in zip(pairs, ZONES, strict=True) if place == zone])
        assert own <= LARGEST * 1.3, (zone, own)
""",
            invoices=[[row[0], round(row[4], 3)] for row in held],
            zones="".join(row[2] for row in held),
            largest=largest,
        ),
    )


def _pair(rows: Sequence[tuple[str, str, str, int, float]]) -> str:
    return " or ".join(sorted({row[1].split(" ")[1] for row in rows}))
