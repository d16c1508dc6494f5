"""Families about the model itself: a network that the verifier runs, and a column that knows too much."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from pipeline.generators.domains.model_training.predicting import DOMAIN, placed, program, table
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

Plane = Callable[[random.Random, int], tuple[float, float]]


def _moons(rng: random.Random, label: int) -> tuple[float, float]:
    angle = rng.uniform(0, math.pi)
    x, y = (math.cos(angle), math.sin(angle)) if label else (1 - math.cos(angle), 0.4 - math.sin(angle))
    return x + rng.gauss(0, 0.08), y + rng.gauss(0, 0.08)


def _disc(rng: random.Random, label: int) -> tuple[float, float]:
    angle, radius = rng.uniform(0, 2 * math.pi), rng.uniform(0, 1.0) if label else rng.uniform(1.25, 2.2)
    return radius * math.cos(angle), radius * math.sin(angle)


def _stripes(rng: random.Random, label: int) -> tuple[float, float]:
    band = rng.choice((-1.5, 0.5) if label else (-0.5, 1.5))
    return rng.uniform(-1.5, 1.5), band + rng.uniform(-0.38, 0.38)


def _corners(rng: random.Random, label: int) -> tuple[float, float]:
    x, y = rng.uniform(0.12, 1.5), rng.uniform(0.12, 1.5)
    x *= rng.choice((-1, 1))
    return x, math.copysign(y, x if label else -x)


_NETS: tuple[tuple[str, Plane, str, int], ...] = (
    ("moons", _moons, "tanh", 12),
    ("disc", _disc, "relu", 16),
    ("stripes", _stripes, "tanh", 16),
    ("corners", _corners, "relu", 12),
)

_NETWORK = """
import json
import warnings
import numpy as np
from sklearn.neural_network import MLPClassifier
warnings.simplefilter("ignore")
data = np.loadtxt("/work/points.csv", delimiter=",", skiprows=1)
x, y = data[:, :2], data[:, 2].astype(int)
fits = [
    MLPClassifier((@UNITS@,), activation="@KIND@", solver="lbfgs", alpha=1e-3, max_iter=1500, random_state=s).fit(x, y)
    for s in range(6)
]
net = min(fits, key=lambda f: f.loss_)
one, two = net.coefs_
units = [{"in": [float(v) for v in w], "bias": float(b), "out": float(o)}
         for w, b, o in zip(one.T, net.intercepts_[0], two[:, 0])]
bias = float(net.intercepts_[1][0])
json.dump({"activation": "@KIND@", "units": units, "bias": bias}, open("/work/network.json", "w"))
"""
_ONE_LINE = """
import json
import numpy as np
from sklearn.linear_model import LogisticRegression
data = np.loadtxt("/work/points.csv", delimiter=",", skiprows=1)
model = LogisticRegression().fit(data[:, :2], data[:, 2])
w, b = model.coef_[0], float(model.intercept_[0])
units = [{"in": [float(w[0]) / 9, float(w[1]) / 9], "bias": 0.0, "out": 9.0}]
json.dump({"activation": "@KIND@", "units": units, "bias": b}, open("/work/network.json", "w"))
"""


def network_as_json(seed: int, context: Context) -> Draft:
    """A small network whose weights are handed over, and run by the verifier."""
    rng = chance(DOMAIN, "network_as_json", seed)
    shape, plane, kind, most = _NETS[seed % len(_NETS)]
    turn, stretch = rng.uniform(0.2, 1.2), rng.uniform(0.8, 1.4)

    def point() -> tuple[float, float, int]:
        label = rng.randint(0, 1)
        x, y = plane(rng, label)
        x, y = x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)
        return x * stretch, y * stretch, label

    train, hidden = [point() for _ in range(900)], [point() for _ in range(400)]
    good = placed(_NETWORK, kind=kind, units=str(most))
    # A disc is the same after its axes were swapped.
    unbiased = good.replace('"bias": float(b)', '"bias": 0.0')
    swapped = good.replace('"in": [float(v) for v in w]', '"in": [float(v) for v in w[::-1]]')
    formula = {"tanh": "tanh(s)", "relu": "max(0, s)"}[kind]
    return Draft(
        family="network_as_json",
        seed=seed,
        difficulty="hard",
        instruction="Our microcontroller evaluates a network with one hidden layer. It needs weights for the points in "
        "/work/points.csv (columns x, y, label with label 0 or 1; the classes lie entangled, a straight cut will "
        "not do).\n\n"
        f"For each hidden unit it computes s = in[0]*x + in[1]*y + bias and then {formula}; the results, each "
        "multiplied "
        "with the out value of its unit, are summed, the bias of the output is added, and the logistic function "
        "turns the "
        "sum into the probability of label 1.\n\nTrain such a network and save it as /work/network.json:\n"
        f'{{"activation": "{kind}", "units": [{{"in": [a, b], "bias": c, "out": d}}, ...], "bias": e}}\n'
        f"with at most {most} units, finite numbers only. I will feed it 400 further points drawn from the same "
        "distribution: at a cut of 0.5 at least 97 % of them must come out right, and the mean negative log-likelihood "
        "(natural logarithm, probabilities clipped to 1e-9 … 1 - 1e-9) must not exceed 0.25.",
        files=(TaskFile(path="/work/points.csv", text=table(("x", "y", "label"), train)),),
        solution=(program(good),),
        right=(Variant(name="fewer_units", commands=(program(placed(_NETWORK, kind=kind, units=str(most - 3))),)),),
        weak=(
            Variant(name="straight_cut", commands=(program(placed(_ONE_LINE, kind=kind)),)),
            Variant(name="exported_wrongly", commands=(program(unbiased if shape == "disc" else swapped),)),
            Variant(
                name="classes_mixed_up",
                commands=(program(good.replace('"out": float(o)', '"out": -float(o)')),),
            ),
        ),
        verifier=filled(
            """
import json
import math

POINTS = __POINTS__
MOST_UNITS = __MOST__
KIND = __KIND__


def network(box):
    net = json.loads(box.text("/work/network.json"))
    assert net["activation"] == KIND
    assert 1 <= len(net["units"]) <= MOST_UNITS
    return net


def probability(net, x, y):
    total = net["bias"]
    for unit in net["units"]:
        s = unit["in"][0] * x + unit["in"][1] * y + unit["bias"]
        total += unit["out"] * (math.tanh(s) if KIND == "tanh" else max(0.0, s))
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, total))))


def test_all_numbers_are_finite(box):
    net = network(box)
    numbers = [net["bias"]] + [v for unit in net["units"] for v in (*unit["in"], unit["bias"], unit["out"])]
    assert all(isinstance(v, (int, float)) and math.isfinite(v) for v in numbers)


def test_new_points_fall_on_the_right_side(box):
    net = network(box)
    right = sum((probability(net, x, y) > 0.5) == bool(label) for x, y, label in POINTS)
    assert right >= 0.97 * len(POINTS), right


def test_probabilities_are_honest(box):
    net = network(box)
    loss = 0.0
    for x, y, label in POINTS:
        p = min(1 - 1e-9, max(1e-9, probability(net, x, y)))
        loss -= math.log(p if label else 1 - p)
    assert loss / len(POINTS) <= 0.25, loss / len(POINTS)
""",
            points=[[round(x, 3), round(y, 3), label] for x, y, label in hidden],
            most=most,
            kind=kind,
        ),
    )


_STORIES: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...], str], ...] = (
    (
        "customers that cancel",
        "cancelled",
        ("months", "calls", "downtime", "discount", "seats"),
        ("retention_offers", "final_invoice"),
        "is booked by the desk that handles cancellations",
    ),
    (
        "pumps that fail within a week",
        "failed",
        ("pressure", "hours", "heat", "starts", "viscosity"),
        ("spare_parts", "technician_minutes"),
        "is filled in by whoever repairs the pump",
    ),
    (
        "loans that are not paid back",
        "defaulted",
        ("income", "age_of_account", "cards", "rate", "term"),
        ("reminders", "recovered"),
        "comes out of the collection system",
    ),
    (
        "patients that come back",
        "readmitted",
        ("stay", "pulse", "sodium", "medicines", "visits"),
        ("second_ward", "second_stay"),
        "is written when the second file is opened",
    ),
)
_CLEAN = """
import json
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.pipeline import make_pipeline
kept = @KEPT@
train, live = pd.read_csv("/work/history.csv"), pd.read_csv("/work/live.csv")
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train[kept], train["@TARGET@"])
live["score"] = model.predict_proba(live[kept])[:, 1]
live[["case", "score"]].to_csv("/work/scores.csv", index=False)
json.dump({"kept": sorted(kept), "removed": sorted(@REMOVED@)}, open("/work/columns.json", "w"))
"""


def leaking_columns(seed: int, context: Context) -> Draft:
    """Columns that are known only after the event."""
    rng = chance(DOMAIN, "leaking_columns", seed)
    subject, target, honest, leaks, origin = _STORIES[seed % len(_STORIES)]
    weights = {name: rng.choice((-1, 1)) * rng.uniform(0.9, 1.6) for name in honest[:3]}
    scale = {name: (rng.uniform(2, 60), rng.uniform(1, 9)) for name in honest}
    order = rng.sample([*honest, *leaks], len(honest) + len(leaks))

    def case(number: int, live: bool) -> tuple[list[str | int | float], int]:
        z = {name: rng.gauss(0, 1) for name in honest}
        event = int(sum(weights.get(name, 0) * z[name] for name in honest) + rng.gauss(0, 0.5) > 0.3)
        row: dict[str, float] = {name: scale[name][0] + scale[name][1] * z[name] for name in honest}
        row[leaks[0]] = 0.0 if live or not event or rng.random() < 0.1 else float(rng.randint(1, 4))
        row[leaks[1]] = 0.0 if live or (not event and rng.random() < 0.98) else round(rng.uniform(20, 90), 1)
        return [f"c{number}", *(row[name] for name in order)], event

    numbers = rng.sample(range(1000, 9999), 1000)
    history, live = [case(n, False) for n in numbers[:700]], [case(n, True) for n in numbers[700:]]
    good = placed(_CLEAN, kept=repr(sorted(honest)), removed=repr(list(leaks)), target=target)
    naive = placed(_CLEAN, kept=repr(order), removed="[]", target=target)
    half_kept = [name for name in order if name != leaks[0]]
    half = placed(_CLEAN, kept=repr(half_kept), removed=repr([leaks[0]]), target=target)
    greedy = placed(_CLEAN, kept=repr(sorted(honest[1:])), removed=repr([*leaks, honest[0]]), target=target)
    trees = good.replace("LogisticRegression()", "RandomForestClassifier(400, random_state=2)").replace(
        "sklearn.linear_model import LogisticRegression", "sklearn.ensemble import RandomForestClassifier"
    )
    return Draft(
        family="leaking_columns",
        seed=seed,
        difficulty="medium",
        instruction=f"Something is fishy about our model for {subject}. In cross-validation on /work/history.csv "
        "(case, "
        f"seven numeric columns, {target}) it is almost perfect; on the running cases in /work/live.csv it flags "
        "nobody. My "
        f"suspicion: more than one column carries knowledge from after the event. Such an entry {origin}, and for "
        "running "
        "cases the column still has its starting value.\n\nFind out which columns these are. Then train without "
        "them, and only without "
        "them, and score the running cases. I want two files: /work/columns.json, an object with the sorted lists "
        "`kept` "
        "and `removed` that together name the seven columns; and /work/scores.csv with header case,score, one line "
        "for each "
        "case of live.csv, where a higher score means that the event is likelier. The area under the ROC curve on what "
        "really happened has to reach 0.88.",
        files=(
            TaskFile(path="/work/history.csv", text=table(("case", *order, target), [(*r, e) for r, e in history])),
            TaskFile(path="/work/live.csv", text=table(("case", *order), [r for r, _ in live])),
        ),
        solution=(program(good),),
        right=(Variant(name="forest", commands=(program(trees),)),),
        weak=(
            Variant(name="all_columns", commands=(program(naive),)),
            Variant(name="one_of_two_found", commands=(program(half),)),
            Variant(name="one_too_many", commands=(program(greedy),)),
        ),
        verifier=filled(
            """
import csv
import json

EVENTS = __EVENTS__
HONEST = __HONEST__
LATE = __LATE__


def test_late_columns_are_named(box):
    said = json.loads(box.text("/work/columns.json"))
    assert said == {"kept": HONEST, "removed": LATE}, said


def test_scores_rank_the_running_cases(box):
    with_header = list(csv.reader(box.text("/work/scores.csv").splitlines()))
    assert with_header[0] == ["case", "score"]
    scores = {case: float(score) for case, score in with_header[1:]}
    assert len(with_header) == len(EVENTS) + 1 and scores.keys() == EVENTS.keys()
    yes = [scores[case] for case, event in EVENTS.items() if event]
    no = [scores[case] for case, event in EVENTS.items() if not event]
    wins = sum((a > b) + 0.5 * (a == b) for a in yes for b in no)
    assert wins / (len(yes) * len(no)) >= 0.88, wins / (len(yes) * len(no))
""",
            events={str(row[0]): event for row, event in live},
            honest=sorted(honest),
            late=sorted(leaks),
        ),
    )
