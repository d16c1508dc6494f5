"""Families about what training leaves behind: checkpoints, weights in few bits, and a split without leaks."""

from __future__ import annotations

import json
import math
from fractions import Fraction

from pipeline.generators.domains.model_training.predicting import DOMAIN, placed, program
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_RULES = (
    ("the three with the lowest val_loss", 'sorted(saved, key=lambda r: (r["val_loss"], r["epoch"]))[:3]'),
    ("the four with the highest val_acc", 'sorted(saved, key=lambda r: (-r["val_acc"], r["epoch"]))[:4]'),
    (
        "the best one (lowest val_loss) and the two saved directly before it",
        '(lambda b: saved[b - 2:b + 1])(min(range(2, len(saved)), key=lambda i: (saved[i]["val_loss"], i)))',
    ),
    ("the last five whose val_loss is below 0.6", '[r for r in saved if r["val_loss"] < 0.6][-5:]'),
)
_AVERAGE = """
import json
log = [json.loads(line) for line in open("/work/run/log.jsonl")]
saved = [r for r in log if r.get("checkpoint")]
chosen = @RULE@
weights = [json.load(open("/work/run/" + r["checkpoint"])) for r in chosen]
def mean(parts):
    if isinstance(parts[0], list):
        return [mean(list(p)) for p in zip(*parts)]
    return sum(parts) / len(parts)
@BODY@
"""
_ALL = """
result = {name: mean([w[name] for w in weights]) for name in weights[0]}
json.dump(result, open("/work/run/averaged.json", "w"))
json.dump({"epochs": sorted(r["epoch"] for r in chosen)}, open("/work/run/chosen.json", "w"))
"""


def averaged_checkpoints(seed: int, context: Context) -> Draft:
    """Selection by a log, then the mean of the weights."""
    rng = chance(DOMAIN, "averaged_checkpoints", seed)
    wording, rule = _RULES[seed % len(_RULES)]
    shapes = {"embed.weight": (3, 2), "dense.weight": (2, 3), "dense.bias": (2, 0), "scale": (0, 0)}
    files: list[TaskFile] = []
    saved: list[dict[str, float]] = []
    weights: dict[int, dict[str, object]] = {}
    lines: list[str] = []
    losses = rng.sample(range(300, 900), 24)
    for epoch in range(1, 25):
        entry: dict[str, object] = {"epoch": epoch, "train_loss": round(2 / (epoch + 1) + 0.1, 3)}
        entry["val_loss"] = losses[epoch - 1] / 1000
        entry["val_acc"] = rng.randint(60, 75) / 100
        if epoch % 2 == 0:
            name = f"ckpt-{rng.randrange(16**6):06x}.json"
            entry["checkpoint"] = name
            weights[epoch] = {
                key: _block(rows, columns, lambda: rng.randint(-9000, 9000) / 1000)
                for key, (rows, columns) in shapes.items()
            }
            files.append(TaskFile(path=f"/work/run/{name}", text=json.dumps(weights[epoch]) + "\n"))
            saved.append({"epoch": epoch, "loss": losses[epoch - 1], "acc": float(str(entry["val_acc"]))})
        lines.append(json.dumps(entry))
    if seed % 4 == 0:
        chosen = sorted(saved, key=lambda r: r["loss"])[:3]
    elif seed % 4 == 1:
        chosen = sorted(saved, key=lambda r: (-r["acc"], r["epoch"]))[:4]
    elif seed % 4 == 2:
        at = min(range(2, len(saved)), key=lambda i: saved[i]["loss"])
        chosen = saved[at - 2 : at + 1]
    else:
        chosen = [r for r in saved if r["loss"] < 600][-5:]
    epochs = sorted(int(r["epoch"]) for r in chosen)
    expected = {key: _mean([weights[epoch][key] for epoch in epochs]) for key in shapes}
    good = placed(_AVERAGE, rule=rule, body=_ALL)
    unsaved = good.replace("chosen = " + rule, f"chosen = saved[-{len(epochs)}:]")
    first = good.replace("chosen = " + rule, f"chosen = ({rule})[:1]")
    return Draft(
        family="averaged_checkpoints",
        seed=seed,
        difficulty="easy",
        instruction="/work/run/log.jsonl is the log of a training, one JSON object per epoch; epochs with a "
        "`checkpoint` "
        "key were saved under that file name in the same folder (JSON: parameter name to a number or nested lists of "
        f"numbers). Of the saved epochs select {wording}; where values are equal the earlier epoch is preferred"
        f"{'; the best one is to be searched from the third saved epoch on' if seed % 4 == 2 else ''}. Average these "
        "checkpoints element by element with equal weights and write /work/run/averaged.json in the same form (same "
        "keys, "
        "same nesting). Also write /work/run/chosen.json: an object whose key `epochs` lists the selected epochs in "
        "ascending order. Don't round; I accept deviations up to 1e-9.",
        files=(TaskFile(path="/work/run/log.jsonl", text="\n".join(lines) + "\n"), *files),
        solution=(program(good),),
        right=(
            Variant(
                name="numpy_mean",
                commands=(
                    program(
                        good.replace(
                            "result = {name: mean([w[name] for w in weights])",
                            "import numpy as np\nresult = {name: np.mean([w[name] for w in weights], axis=0).tolist()",
                        )
                    ),
                ),
            ),
        ),
        weak=(
            Variant(name="last_saved_ones", commands=(program(unsaved),)),
            Variant(
                name="only_the_first_chosen",
                commands=(program(first),),
            ),
            Variant(
                name="rounded",
                commands=(
                    program(good.replace("return sum(parts) / len(parts)", "return round(sum(parts) / len(parts), 2)")),
                ),
            ),
        ),
        verifier=filled(
            """
import json

MEANS = __MEANS__
EPOCHS = __EPOCHS__


def numbers(value, place=""):
    if isinstance(value, (list, dict)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [pair for key, part in items for pair in numbers(part, f"{place}/{key}")]
    return [(place, value)]


def test_selected_epochs(box):
    assert json.loads(box.text("/work/run/chosen.json")) == {"epochs": EPOCHS}


def test_parameters_are_means(box):
    mine, wanted = numbers(json.loads(box.text("/work/run/averaged.json"))), numbers(MEANS)
    assert sorted(place for place, _ in mine) == sorted(place for place, _ in wanted)
    known = dict(mine)
    assert all(abs(known[place] - value) <= 1e-9 for place, value in wanted)
""",
            means=expected,
            epochs=epochs,
        ),
    )


def _block(rows: int, columns: int, draw: object) -> object:
    assert callable(draw)
    if not rows:
        return draw()
    return [_block(columns, 0, draw) for _ in range(rows)]


def _mean(parts: list[object]) -> object:
    first = parts[0]
    if isinstance(first, list):
        return [_mean([part[i] for part in parts if isinstance(part, list)]) for i in range(len(first))]
    return float(sum(Fraction(str(part)) for part in parts) / len(parts))


_SCHEMES = (
    (
        "symmetric, one scale per row: scale = (largest absolute value of the row) / 127, q = w / scale",
        "s, z = max(map(abs, row)) / 127, 0",
        127,
        False,
    ),
    (
        "symmetric, one scale for the whole matrix: scale = (largest absolute value of the matrix) / 127, q = w / "
        "scale",
        "s, z = max(abs(w) for r in matrix for w in r) / 127, 0",
        127,
        True,
    ),
    (
        "asymmetric per row: scale = (max - min) / 255 of the row, zero = -128 - min / scale rounded, q = w / scale "
        "+ zero",
        "s = (max(row) - min(row)) / 255; z = nearest(-128 - min(row) / s)",
        128,
        False,
    ),
    (
        "symmetric 4-bit per row: scale = (largest absolute value of the row) / 7, q = w / scale",
        "s, z = max(map(abs, row)) / 7, 0",
        7,
        False,
    ),
)
_QUANTISE = """
import json, math
layers = json.load(open("/work/model.json"))
def nearest(v):
    return @ROUND@
out = {}
for name, matrix in layers.items():
    rows = []
    worst = 0.0
    for row in matrix:
        @SCALE@
        q = [max(@LOW@, min(@HIGH@, nearest(w / s + z))) for w in row]
        worst = max([worst, *(abs((a - z) * s - w) for a, w in zip(q, row))])
        rows.append({"scale": s, "zero": z, "q": q})
    out[name] = {"rows": rows, "max_error": worst}
json.dump(out, open("/work/quantised.json", "w"))
"""


def few_bits(seed: int, context: Context) -> Draft:
    """Quantised weights, exact integers."""
    rng = chance(DOMAIN, "few_bits", seed)
    wording, scale, high, _ = _SCHEMES[seed % 4]
    low = {127: -127, 128: -128, 7: -7}[high]
    top = 127 if high == 128 else high
    half_even = seed % 2 == 1
    layers: dict[str, list[list[float]]] = {}
    for name, (rows, columns) in {"encoder": (6, 9), "decoder": (4, 12), "head": (3, 7)}.items():
        matrix = [[rng.choice((-1, 1)) * rng.randint(1, 999) / 512 for _ in range(columns)] for _ in range(rows)]
        for number, row in enumerate(matrix):
            if high == 7:
                row[:] = [w / 32 for w in row]
            # A power of two times the highest integer makes scales that give true halves, where rounding rules differ.
            at, largest = rng.randrange(columns), high * (2.0, 1.0, 4.0)[number % 3] / 64
            row[at] = largest
            row[(at + 1) % columns] = rng.choice((-5, 3, -3, 5)) * largest / high / 2
        layers[name] = matrix
    rounding = "round(v)" if half_even else "int(math.copysign(math.floor(abs(v) + 0.5), v))"
    other = "int(math.copysign(math.floor(abs(v) + 0.5), v))" if half_even else "round(v)"
    given = {"scale": scale, "low": str(low), "high": str(top)}
    good = placed(_QUANTISE, round=rounding, **given)
    # An asymmetric scheme has no true halves.
    near = good.replace("/ 255", "/ 256") if seed % 4 == 2 else placed(_QUANTISE, round=other, **given)
    cut = placed(_QUANTISE, round="int(v)", **given)
    expected = {name: _quantised(matrix, seed % 4, low, top, half_even) for name, matrix in layers.items()}
    per_other = placed(
        _QUANTISE, round=rounding, **{**given, "scale": _SCHEMES[0 if seed % 4 == 1 else 1][1].replace("127", str(top))}
    )
    return Draft(
        family="few_bits",
        seed=seed,
        difficulty="medium",
        instruction="Shrink /work/model.json (layer name → matrix as a list of rows) to small integers. The scheme is "
        f"{wording}, rounded to the nearest integer and limited to {low} … {top}. Exact halves are rounded "
        f"{'to the even neighbour' if half_even else 'away from zero'}; compute in double precision.\n\nSave "
        "/work/quantised.json: for every layer an object with `rows`, one object per row of the matrix with "
        "`scale`, `zero` "
        "(the zero point, 0 in a symmetric scheme) and `q` (list of integers); and with `max_error`, the largest "
        "absolute "
        "difference between a weight and its restored value (q - zero) · scale in that layer. A scale of the whole "
        "matrix is "
        "repeated in each of its rows. I require the integers to be the same as mine, scales and errors to within "
        "1e-9.",
        files=(TaskFile(path="/work/model.json", text=json.dumps(layers, indent=1) + "\n"),),
        solution=(program(good),),
        right=(
            Variant(
                name="indented_output", commands=(program(good.replace('json", "w"))', 'json", "w"), indent=2)')),)
            ),
        ),
        weak=(
            Variant(name="halves_or_steps_otherwise", commands=(program(near),)),
            Variant(name="cut_off_instead_of_rounded", commands=(program(cut),)),
            Variant(name="other_granularity", commands=(program(per_other),)),
        ),
        verifier=filled(
            """
import json

EXPECTED = __EXPECTED__


def layers(box):
    found = json.loads(box.text("/work/quantised.json"))
    assert list(sorted(found)) == list(sorted(EXPECTED))
    return found


def test_integers(box):
    found = layers(box)
    for layer, (rows, _) in EXPECTED.items():
        mine = [row["q"] for row in found[layer]["rows"]]
        assert mine == [q for _, _, q in rows], layer
    assert all(type(v) is int for layer in found.values() for row in layer["rows"] for v in row["q"])


def test_scales_zero_points_and_error(box):
    found = layers(box)
    assert found
    for layer, (rows, error) in EXPECTED.items():
        assert abs(found[layer]["max_error"] - error) <= 1e-9, layer
        for mine, (scale, zero, _) in zip(found[layer]["rows"], rows, strict=True):
            assert abs(mine["scale"] - scale) <= 1e-9 and mine["zero"] == zero, layer
""",
            expected=expected,
        ),
    )


def _quantised(matrix: list[list[float]], kind: int, low: int, top: int, half_even: bool) -> list[object]:
    def nearest(value: float) -> int:
        down = math.floor(value)
        rest = value - down
        if rest == 0.5:
            return (down if down % 2 == 0 else down + 1) if half_even else (down + 1 if value > 0 else down)
        return down + (rest > 0.5)

    rows: list[list[object]] = []
    worst = 0.0
    largest = max(max(-min(row), max(row)) for row in matrix)
    for row in matrix:
        scale, zero = max(-min(row), max(row)) / top, 0
        if kind == 1:
            scale = largest / top
        elif kind == 2:
            scale = (max(row) - min(row)) / 255
            zero = nearest(-128 - min(row) / scale)
        q = [min(top, max(low, nearest(w / scale + zero))) for w in row]
        worst = max(worst, max(abs((a - zero) * scale - w) for a, w in zip(q, row, strict=True)))
        rows.append([scale, zero, q])
    return [rows, worst]
