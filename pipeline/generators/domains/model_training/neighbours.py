"""Nearest neighbours and folds by stated rules: counts of a cross-validation that are exact."""

from __future__ import annotations

import csv
import io

from pipeline.generators.domains.model_training.predicting import DOMAIN, placed, program, table
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_FOLDS = (
    ("the row number (the first data row is 0) modulo 5", "i % 5"),
    ("the row number (the first data row is 0) divided by 40, rounded down", "i // 40"),
    ("the last digit of the id, halved and rounded down", "int(ids[i][-1]) // 2"),
    ("the sum of the decimal digits of the id modulo 5", "sum(map(int, ids[i][1:])) % 5"),
)
_SEARCH = """
import csv, json
from collections import Counter as Tally
rows = list(csv.DictReader(open("/work/@NAME@.csv")))
ids = [r["id"] for r in rows]
x = [tuple(int(r[c]) for c in ("a", "b", "c")) for r in rows]
y = [r["kind"] for r in rows]
fold = [@FOLD@ for i in range(len(rows))]
def guess(i, k, pool):
    near = sorted(pool, key=lambda j: (sum(@METRIC@ for p, q in zip(x[i], x[j])), j))[:k]
    votes = Tally(y[j] for j in near)
    return min(votes, key=lambda label: (-votes[label], label))
table = {}
for k in (1, 3, 5, 9, 15):
    table[str(k)] = [
        sum(guess(i, k, [j for j in range(len(rows)) if @POOL@]) == y[i] for i in range(len(rows)) if fold[i] == f)
        for f in range(5)
    ]
best = max(table, key=lambda k: (sum(table[k]), -int(k)))
json.dump({"correct": table, "best_k": int(best)}, open("/work/search.json", "w"))
"""


def neighbour_search(seed: int, context: Context) -> Draft:
    """Cross-validation whose counts are exact."""
    rng = chance(DOMAIN, "neighbour_search", seed)
    name = ("islands", "birds", "penguins", "rookery")[seed % 4]
    squared = seed % 2 == 1
    fold_text, fold_code = _FOLDS[seed % 4]
    measured = list(csv.DictReader(io.StringIO(context.text("penguins/penguins.csv"))))
    complete = [bird for bird in measured if "NA" not in (bird["bill_length_mm"], bird["flipper_length_mm"])]
    rows: list[tuple[str, int, int, int, str]] = []
    for number, bird in zip(rng.sample(range(100, 999), 200), rng.sample(complete, 200), strict=True):
        bill, depth = round(10 * float(bird["bill_length_mm"])), round(10 * float(bird["bill_depth_mm"]))
        rows.append((f"s{number}", bill, depth, int(bird["body_mass_g"]) // 25, bird["island"]))
    metric = "(p - q) ** 2" if squared else "abs(p - q)"
    good = placed(_SEARCH, name=name, fold=fold_code, metric=metric, pool="fold[j] != fold[i]")
    table_of = _neighbours(rows, seed % 4, squared)
    totals = {k: sum(v) for k, v in table_of.items()}
    best = min(totals, key=lambda k: (-totals[k], k))
    other = placed(
        _SEARCH,
        name=name,
        fold=fold_code,
        metric="abs(p - q)" if squared else "(p - q) ** 2",
        pool="fold[j] != fold[i]",
    )
    quick = good.replace(
        "sorted(pool, key=lambda j: (sum(", "__import__('heapq').nsmallest(k, pool, key=lambda j: (sum("
    ).replace(", j))[:k]", ", j))")
    return Draft(
        family="neighbour_search",
        seed=seed,
        difficulty="medium",
        instruction=f"How many neighbours suit /work/{name}.csv (id, the integers a, b and c, which are bill "
        "length and depth in tenths of a millimetre and a class of weight, and the island as `kind`)? "
        "Please run a "
        "5-fold cross-validation of a k-nearest-neighbour classifier for k = 1, 3, 5, 9 and 15, exactly so that my "
        "colleague "
        f"gets the same counts: the fold of a row (0 to 4) is {fold_text}. Distance is the "
        f"{'sum of squared' if squared else 'sum of absolute'} differences of a, b and c, unscaled. Neighbours come "
        "from the "
        "other four folds; of equally distant rows the one that stands earlier in the file is nearer. The class "
        "with the most "
        "votes wins, a draw goes to the alphabetically first of the classes in the draw.\n\n"
        "Result: /work/search.json with `correct`, an object from each k (as a string) to the list of five numbers of "
        "correctly classified rows, fold 0 first; and `best_k`, the integer k with the most correct rows overall, the "
        "smallest if several are equal.",
        files=(TaskFile(path=f"/work/{name}.csv", text=table(("id", "a", "b", "c", "kind"), rows)),),
        solution=(program(good),),
        right=(Variant(name="smallest_by_heap", commands=(program(quick),)),),
        weak=(
            Variant(name="other_distance", commands=(program(other),)),
            Variant(name="trained_on_the_test_fold", commands=(program(good.replace("fold[j] != fold[i]", "j != i")),)),
            Variant(
                name="folds_shifted",
                commands=(program(good.replace(fold_code + " for i", f"({fold_code} + 1) % 5 for i")),),
            ),
        ),
        verifier=filled(
            """
import json

COUNTS = __COUNTS__
BEST = __BEST__


def result(box):
    found = json.loads(box.text("/work/search.json"))
    assert isinstance(found, dict) and sorted(found) == ["best_k", "correct"]
    return found


def test_every_fold_of_every_k(box):
    correct = result(box)["correct"]
    assert sorted(correct, key=int) == sorted(COUNTS, key=int)
    wrong = [k for k, counts in COUNTS.items() if correct[k] != counts]
    assert not wrong, wrong


def test_choice(box):
    assert result(box)["best_k"] == BEST
""",
            counts={str(k): v for k, v in table_of.items()},
            best=best,
        ),
        contexts=("penguins",),
    )


def _neighbours(rows: list[tuple[str, int, int, int, str]], rule: int, squared: bool) -> dict[int, list[int]]:
    def fold(i: int) -> int:
        digits = [int(d) for d in rows[i][0][1:]]
        return (i % 5, i // 40, digits[-1] // 2, sum(digits) % 5)[rule]

    found: dict[int, list[int]] = {k: [0] * 5 for k in (1, 3, 5, 9, 15)}
    for i, row in enumerate(rows):
        ranked: list[tuple[int, int]] = []
        for j, other in enumerate(rows):
            if fold(j) != fold(i):
                gaps = (row[1] - other[1], row[2] - other[2], row[3] - other[3])
                ranked.append((sum(g * g if squared else abs(g) for g in gaps), j))
        ranked.sort()
        for k, counts in found.items():
            votes: dict[str, int] = {}
            for _, j in ranked[:k]:
                votes[rows[j][4]] = votes.get(rows[j][4], 0) + 1
            winner = sorted(votes, key=lambda label: (-votes[label], label))[0]
            counts[fold(i)] += winner == row[4]
    return found
