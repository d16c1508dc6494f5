"""Families about evaluation by stated rules, where every number has one right value."""

from __future__ import annotations

import json

from pipeline.generators.domains.model_training.predicting import DOMAIN, placed, program, table
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_ABSENT = {"csv": "an empty cell", "jsonl": "null", "tsv": "a dash"}
_REPORT = """
import json
pairs = []
@READ@
labels = sorted({truth for truth, _ in pairs})
report = {"classes": {}, "confusion": {a: {b: 0 for b in [*labels, "none"]} for a in labels}}
for truth, said in pairs:
    report["confusion"][truth][said or "none"] += 1
for c in labels:
    tp = sum(t == c and s == c for t, s in pairs)
    claimed, real = sum(s == c for _, s in pairs), sum(t == c for t, _ in pairs)
    p, r = tp / claimed if claimed else 0.0, tp / real
    f = 2 * p * r / (p + r) if p + r else 0.0
    report["classes"][c] = {"precision": round(p, 4), "recall": round(r, 4), "f1": round(f, 4), "support": real}
report["accuracy"] = round(sum(t == s for t, s in pairs) / len(pairs), 4)
def f1(c):
    return 2 * sum(t == c == s for t, s in pairs) / sum((t == c) + (s == c) for t, s in pairs)
report["macro_f1"] = round(sum(map(f1, labels)) / len(labels), 4)
json.dump(report, open("/work/report.json", "w"), indent=1)
"""
_READERS = {
    "csv": """import csv
for row in csv.DictReader(open("/work/answers.csv")):
    pairs.append((row["gold"], row["guess"]))""",
    "jsonl": """for line in open("/work/answers.jsonl"):
    row = json.loads(line)
    pairs.append((row["gold"], row["guess"]))""",
    "tsv": """for line in list(open("/work/answers.tsv"))[1:]:
    _, g, s = line.split()
    pairs.append((g, "" if s == "-" else s))""",
}


def class_report(seed: int, context: Context) -> Draft:
    """Confusion matrix and figures per class from given answers."""
    rng = chance(DOMAIN, "class_report", seed)
    form = ("csv", "jsonl", "tsv")[seed % 3]
    names = (
        ("cat", "dog", "owl"),
        ("low", "mid", "high", "peak"),
        ("de", "en", "fr"),
        ("bolt", "nut", "rivet", "screw"),
    )
    labels = names[seed % 4]
    pairs: list[tuple[str, str]] = []
    for _ in range(rng.randint(150, 260)):
        gold = rng.choice([*labels, labels[0]])
        chosen = rng.random()
        pairs.append((gold, gold if chosen < 0.6 else "" if chosen < 0.72 else rng.choice(labels)))
    confusion = {
        a: {b: sum(p == (a, "" if b == "none" else b) for p in pairs) for b in (*labels, "none")} for a in labels
    }
    if form == "jsonl":
        lines = [json.dumps({"item": i, "gold": g, "guess": s or None}) for i, (g, s) in enumerate(pairs)]
        text = "\n".join(lines) + "\n"
    else:
        shown = [(i, g, s or ("-" if form == "tsv" else "")) for i, (g, s) in enumerate(pairs)]
        text = table(("item", "gold", "guess"), shown, "," if form == "csv" else "\t")
    path = f"/work/answers.{form}"
    good = placed(_REPORT, read=_READERS[form])
    skipped = good.replace("labels = sorted", "pairs = [p for p in pairs if p[1]]\nlabels = sorted")
    weighted = good.replace("labels)) / len(labels), 4)", "labels)) / (len(labels) + 1), 4)")
    return Draft(
        family="class_report",
        seed=seed,
        difficulty="easy",
        instruction=f"{path} has what our classifier answered: per item the true class (gold) and the answer "
        "(guess), where "
        f"{_ABSENT[form]} means that it gave none. Write /work/report.json with four keys. `confusion`: for each true "
        "class, an object that counts the answers per class and, under the key none, those without an answer; zeros "
        "included. `classes`: for each class precision, recall, f1 and support. `accuracy`, and `macro_f1`, the "
        "plain mean "
        "of the unrounded f1 of the classes. An item without an answer counts as wrong; support is how often the "
        "class is "
        "true. Round fractions to 4 decimals.",
        files=(TaskFile(path=path, text=text),),
        solution=(program(good),),
        right=(Variant(name="compact_keys_sorted", commands=(program(good.replace("indent=1", "sort_keys=True")),)),),
        weak=(
            Variant(name="unanswered_left_out", commands=(program(skipped),)),
            Variant(name="macro_over_one_class_more", commands=(program(weighted),)),
            Variant(
                name="precision_and_recall_swapped",
                commands=(
                    program(
                        good.replace(
                            '"precision": round(p, 4), "recall": round(r', '"recall": round(p, 4), "precision": round(r'
                        )
                    ),
                ),
            ),
        ),
        verifier=filled(
            """
import json

CONFUSION = __CONFUSION__


def close(value, expected):
    return abs(value - expected) < 0.00006


def test_counts_match(box):
    assert json.loads(box.text("/work/report.json"))["confusion"] == CONFUSION


def test_figures_follow_from_the_counts(box):
    report = json.loads(box.text("/work/report.json"))
    assert set(report) == {"confusion", "classes", "accuracy", "macro_f1"}
    assert set(report["classes"]) == set(CONFUSION)
    harmonic = []
    for name, row in CONFUSION.items():
        said, real = sum(other[name] for other in CONFUSION.values()), sum(row.values())
        precision, recall = (row[name] / said if said else 0), row[name] / real
        harmonic.append(2 * row[name] / (said + real))
        mine = report["classes"][name]
        assert close(mine["precision"], precision) and close(mine["recall"], recall), name
        assert close(mine["f1"], harmonic[-1]) and mine["support"] == real, name
    total = sum(sum(row.values()) for row in CONFUSION.values())
    assert close(report["accuracy"], sum(row[name] for name, row in CONFUSION.items()) / total)
    assert close(report["macro_f1"], sum(harmonic) / len(harmonic))
""",
            confusion=confusion,
        ),
    )


_AIMS = (
    ("precision", 0.9, "precision is at least 0.9; of those cut-offs take the one with the highest recall"),
    ("recall", 0.85, "recall is at least 0.85; of those cut-offs take the one with the highest precision"),
    ("cost", 7, "total cost is lowest, a missed fraud costing 7 and a false alarm 1"),
    ("f2", 0, "F-beta with beta = 2 is highest, that is 5·TP / (5·TP + 4·FN + FP)"),
)
_CUT = """
import csv
rows = [(int(r["score"]), r["fraud"] == "yes") for r in csv.DictReader(open("/work/labelled.csv"))]
def figures(cut):
    tp = sum(f for s, f in rows if s >= cut)
    fp = sum(not f for s, f in rows if s >= cut)
    return tp, fp, sum(f for _, f in rows) - tp
def worth(cut):
    tp, fp, fn = figures(cut)
    p, r = tp / (tp + fp), tp / (tp + fn)
    return @WORTH@
cut = @PICK@({s for s, _ in rows}, key=lambda c: (worth(c), @TIE@c))
tp, fp, fn = figures(cut)
flagged = [r["id"] for r in csv.DictReader(open("/work/today.csv")) if int(r["score"]) @COMPARE@ cut]
open("/work/decision.txt", "w").write(f"cutoff={cut}\\ntp={tp}\\nfp={fp}\\nfn={fn}\\n")
open("/work/flagged.txt", "w").write("".join(i + "\\n" for i in flagged))
"""
_WORTHS = (
    "(p >= 0.9, r, p) if p >= 0.9 else (False, 0, 0)",
    "(r >= 0.85, p, r) if r >= 0.85 else (False, 0, 0)",
    "(-(7 * fn + fp),)",
    "(5 * tp / (5 * tp + 4 * fn + fp),)",
)
_USUAL = "(2 * tp / (2 * tp + fp + fn),)"


def cut_off(seed: int, context: Context) -> Draft:
    """A threshold by a stated aim, then applied."""
    rng = chance(DOMAIN, "cut_off", seed)
    aim, bound, wording = _AIMS[seed % len(_AIMS)]
    rows = [(rng.random() < 0.3, 0) for _ in range(420)]
    rows = [(f, max(0, min(999, round(rng.gauss(640 if f else 330, 130))))) for f, _ in rows]
    today = [(f"tx{n}", max(0, min(999, round(rng.gauss(450, 180))))) for n in rng.sample(range(10**6, 10**7), 120)]
    best: tuple[tuple[float, ...], int, int, int, int] | None = None
    for cut in sorted({s for _, s in rows}):
        tp, fp = sum(f and s >= cut for f, s in rows), sum(not f and s >= cut for f, s in rows)
        fn = sum(f for f, _ in rows) - tp
        p, r = tp / (tp + fp), tp / (tp + fn)
        key: tuple[float, ...] = {
            "precision": (r,) if p >= bound else (-1.0,),
            "recall": (p,) if r >= bound else (-1.0,),
            "cost": (-(bound * fn + fp),),
            "f2": (5 * tp / (5 * tp + 4 * fn + fp),),
        }[aim]
        # A higher cut wins a tie.
        if best is None or key >= best[0]:
            best = (key, cut, tp, fp, fn)
    assert best is not None
    today[0] = (today[0][0], best[1])
    good = placed(_CUT, worth=_WORTHS[seed % 4], pick="max", tie="", compare=">=")
    return Draft(
        family="cut_off",
        seed=seed,
        difficulty="medium",
        instruction="Choose an alarm level for the fraud scores. In /work/labelled.csv (score,fraud) every past "
        "payment has "
        "an integer score and yes or no. A payment is flagged when its score is greater than or equal to the "
        "cut-off, and "
        f"only scores that occur in that file are candidates. Choose the candidate for which {wording}. If several are "
        "equally good, the highest cut-off wins.\n\nNote it in /work/decision.txt as four lines, cutoff=, tp=, fp= "
        "and fn= "
        "in this order, each followed directly by the integer (true positives, false positives, false negatives on the "
        "labelled payments). Then go through /work/today.csv (id,score) and put the ids that have to be flagged into "
        "/work/flagged.txt, one per line, in the order of today.csv.",
        files=(
            TaskFile(
                path="/work/labelled.csv", text=table(("score", "fraud"), [(s, "yes" if f else "no") for f, s in rows])
            ),
            TaskFile(path="/work/today.csv", text=table(("id", "score"), today)),
        ),
        solution=(program(good),),
        right=(
            Variant(
                name="without_csv_module",
                commands=(
                    program(
                        good.replace(
                            'csv.DictReader(open("/work/today.csv"))',
                            '(dict(zip(("id", "score"), r.split(","))) for r in open("today.csv") if r[0] == "t")',
                        )
                    ),
                ),
            ),
        ),
        weak=(
            Variant(
                name="another_aim",
                commands=(
                    program(
                        placed(_CUT, worth="(r,)" if aim == "recall" else _USUAL, pick="max", tie="", compare=">=")
                    ),
                ),
            ),
            Variant(name="strictly_above", commands=(program(good.replace(">= cut]", "> cut]")),)),
            Variant(
                name="middle_of_the_range",
                commands=(program(good.replace("cut = max(", "cut = 500 if True else max(")),),
            ),
        ),
        verifier=filled(
            """
DECISION = __DECISION__
FLAGGED = __FLAGGED__


def test_decision_and_its_counts(box):
    lines = box.text("/work/decision.txt").split("\\n")
    while lines and not lines[-1]:
        lines.pop()
    assert lines == DECISION


def test_todays_flags(box):
    assert box.text("/work/flagged.txt").split() == FLAGGED
""",
            decision=[f"cutoff={best[1]}", f"tp={best[2]}", f"fp={best[3]}", f"fn={best[4]}"],
            flagged=[name for name, score in today if score >= best[1]],
        ),
    )
