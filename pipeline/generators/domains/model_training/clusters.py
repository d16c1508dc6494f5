"""Groups by stated rules, from given centres."""

from __future__ import annotations

import csv
import io
import math

from pipeline.generators.domains.model_training.predicting import DOMAIN, placed, program, table
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_GROUPS = """
import csv, json
import numpy as np
rows = [r for r in csv.DictReader(open("/work/penguins.csv")) if all(r[c] not in ("", "NA") for c in @COLUMNS@)]
x = np.array([[float(r[c]) for c in @COLUMNS@] for r in rows])
@PREPARE@
centres = x[[int(n) for n in open("/work/start.txt").read().split()]]
old, rounds = None, 0
while True:
    near = @NEAR@
    if old is not None and (near == old).all():
        break
    old, rounds = near, rounds + 1
    centres = np.array([@CENTRE@ for own in (x[near == g] for g in range(len(centres)))])
    @AFTER@
with open("/work/groups.csv", "w") as out:
    out.write("row,group\\n")
    for n, g in enumerate(near):
        out.write(f"{n},{g}\\n")
json.dump({"rounds": rounds, "sizes": [int((near == g).sum()) for g in range(len(centres))],
           "centres": centres.round(4).tolist()}, open("/work/groups.json", "w"))
"""
_EUCLID = "((x[:, None, :] - centres[None]) ** 2).sum(2).argmin(1)"
_KINDS: tuple[tuple[tuple[str, ...], int, str, str, str, str], ...] = (
    (("bill_length_mm", "bill_depth_mm"), 3, "", _EUCLID, "own.mean(0)", "pass"),
    (
        ("flipper_length_mm", "body_mass_g"),
        4,
        "",
        "abs(x[:, None, :] - centres[None]).sum(2).argmin(1)",
        "np.median(own, 0)",
        "pass",
    ),
    (
        ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"),
        3,
        "x = (x - x.mean(0)) / x.std(0)",
        _EUCLID,
        "own.mean(0)",
        "pass",
    ),
    (
        ("bill_length_mm", "flipper_length_mm", "bill_depth_mm"),
        4,
        "x = (x - x.min(0)) / (x.max(0) - x.min(0))",
        "abs(x[:, None, :] - centres[None]).max(2).argmin(1)",
        "own.mean(0)",
        "pass",
    ),
)
_SAID = (
    "Use the values as they are. A row belongs to the centre at the smallest Euclidean distance, a centre is the "
    "mean of its rows",
    "Use the values as they are. A row belongs to the centre at the smallest Manhattan distance (sum of absolute "
    "differences), a "
    "centre is the median of its rows, column by column (the mean of the middle two for an even number)",
    "Standardise each column first: minus its mean, divided by its population standard deviation. A row belongs to "
    "the centre at "
    "the smallest Euclidean distance, a centre is the mean of its rows",
    "Scale each column first so that its smallest value becomes 0 and its largest 1. A row belongs to the centre at "
    "the smallest "
    "Chebyshev distance (the largest absolute difference of a column), a centre is the mean of its rows",
)


def penguin_groups(seed: int, context: Context) -> Draft:
    """Clusters from given centres, by stated rules."""
    rng = chance(DOMAIN, "penguin_groups", seed)
    columns, k, prepare, near, centre, after = _KINDS[seed % 4]
    source = list(csv.DictReader(io.StringIO(context.text("penguins/penguins.csv"))))
    names = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
    rows = [[row[name] or "NA" for name in names] for row in source]
    rng.shuffle(rows)
    x = [
        [float(row[names.index(c)]) for c in columns]
        for row in rows
        if "NA" not in [row[names.index(c)] for c in columns]
    ]
    while True:
        begin = rng.sample(range(len(x)), k)
        groups, centres, rounds = _grouped(x, begin, seed % 4)
        if rounds >= 5 and min(groups.count(g) for g in range(k)) >= 8:
            break
    given = {"columns": repr(columns), "near": near, "centre": centre, "after": after}
    good = placed(_GROUPS, prepare=prepare, **given)
    # One column outweighs the other in the second kind: there the distance alone changes nothing.
    mistaken = {"centre": "own.mean(0)"} if seed % 4 == 1 else {"near": _EUCLID if near != _EUCLID else _KINDS[1][3]}
    swapped = placed(_GROUPS, prepare=prepare, **{**given, **mistaken})
    other = "x = x" if prepare else "x = (x - x.mean(0)) / x.std(0)"
    return Draft(
        family="penguin_groups",
        seed=seed,
        difficulty="medium",
        instruction=f"Please group the penguins in /work/penguins.csv by {', '.join(columns)} into {k} groups, "
        "starting from "
        "centres that I chose. Leave out rows where one of these columns is NA and number the remaining ones from 0 "
        "in file "
        f"order. {_SAID[seed % 4]}; the group with the lower number wins a draw.\n\nThe numbers in /work/start.txt "
        "are the "
        "rows that are the first centres (of groups 0, 1, …). Then alternate: assign all rows, recompute all "
        "centres, until "
        "an assignment equals the one before; that last one is not counted as a round.\n\nOutput: /work/groups.csv "
        "with the "
        "header row,group and all rows in ascending order; and /work/groups.json with `rounds`, `sizes` (rows per "
        "group) "
        "and `centres` (a list per group, columns in the order named above, in the scale in which you computed, at "
        "least four "
        "decimals).",
        files=(
            TaskFile(path="/work/penguins.csv", text=table(names, rows)),
            TaskFile(path="/work/start.txt", text=" ".join(map(str, begin)) + "\n"),
        ),
        solution=(program(good),),
        right=(Variant(name="all_decimals", commands=(program(good.replace("centres.round(4)", "centres")),)),),
        weak=(
            Variant(
                name="one_assignment_only",
                commands=(program(good.replace("if old is not None and (near == old).all()", "if rounds == 1")),),
            ),
            Variant(name="scaled_otherwise", commands=(program(placed(_GROUPS, prepare=other, **given)),)),
            Variant(name="other_rule", commands=(program(swapped),)),
        ),
        verifier=filled(
            """
import csv
import json

GROUPS = __GROUPS__
CENTRES = __CENTRES__
ROUNDS = __ROUNDS__


def test_every_row_is_in_its_group(box):
    read = list(csv.reader(box.text("/work/groups.csv").splitlines()))
    assert read[0] == ["row", "group"]
    assert [[int(cell) for cell in line] for line in read[1:]] == [[n, int(g)] for n, g in enumerate(GROUPS)]


def test_summary(box):
    summary = json.loads(box.text("/work/groups.json"))
    assert summary["rounds"] == ROUNDS
    assert summary["sizes"] == [GROUPS.count(str(g)) for g in range(len(CENTRES))]
    assert [len(centre) for centre in summary["centres"]] == [len(centre) for centre in CENTRES]
    for mine, centre in zip(summary["centres"], CENTRES, strict=True):
        assert all(abs(a - b) <= 2e-4 for a, b in zip(mine, centre, strict=True)), (mine, centre)
""",
            groups="".join(map(str, groups)),
            centres=[[round(v, 6) for v in c] for c in centres],
            rounds=rounds,
        ),
        contexts=("penguins",),
    )


def _grouped(raw: list[list[float]], begin: list[int], kind: int) -> tuple[list[int], list[list[float]], int]:
    columns = list(zip(*raw, strict=True))
    x = raw
    if kind == 2:
        means = [math.fsum(c) / len(c) for c in columns]
        sds = [math.sqrt(math.fsum((v - m) ** 2 for v in c) / len(c)) for c, m in zip(columns, means, strict=True)]
        x = [[(v - m) / s for v, m, s in zip(row, means, sds, strict=True)] for row in raw]
    elif kind == 3:
        x = [[(v - min(c)) / (max(c) - min(c)) for v, c in zip(row, columns, strict=True)] for row in raw]

    def distance(a: list[float], b: list[float]) -> float:
        gaps = [abs(p - q) for p, q in zip(a, b, strict=True)]
        return sum(gaps) if kind == 1 else max(gaps) if kind == 3 else math.fsum(g * g for g in gaps)

    def middle(values: list[float]) -> float:
        if kind != 1:
            return math.fsum(values) / len(values)
        ordered = sorted(values)
        return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2

    centres, old, rounds = [x[n] for n in begin], [-1], 0
    while True:
        groups = [min(range(len(centres)), key=lambda g: (distance(row, centres[g]), g)) for row in x]
        if groups == old or any(g not in groups for g in range(len(centres))):
            return groups, centres, rounds if groups == old else 0
        old, rounds = groups, rounds + 1
        members = [[row for row, g in zip(x, groups, strict=True) if g == own] for own in range(len(centres))]
        centres = [[middle(list(column)) for column in zip(*own, strict=True)] for own in members]
