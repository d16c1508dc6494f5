"""Families about algorithms that learn something exact: word statistics, merges of a tokenizer, centres of groups."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Sequence

from pipeline.generators.domains.model_training.predicting import DOMAIN, placed, program
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_BAYES = """
import json, math, re
from collections import Counter as Tally
docs = [json.loads(line) for line in open("/work/train.jsonl")]
new = [json.loads(line) for line in open("/work/new.jsonl")]
words = lambda text: re.findall("[a-z]+", text.lower())
labels = sorted({d["shelf"] for d in docs})
vocabulary = {w for d in docs for w in words(d["text"])}
per = {c: [words(d["text"]) for d in docs if d["shelf"] == c] for c in labels}
def multinomial(c, text):
    counts = Tally(w for doc in per[c] for w in doc)
    total = sum(counts.values()) + @ALPHA@ * len(vocabulary)
    return sum(math.log((counts[w] + @ALPHA@) / total) for w in words(text) if @KNOWN@)
def bernoulli(c, text):
    seen, n = Tally(w for doc in per[c] for w in set(doc)), len(per[c])
    here = set(words(text))
    share = {w: (seen[w] + @ALPHA@) / (n + 2 * @ALPHA@) for w in vocabulary}
    return sum(math.log(share[w] if w in here else 1 - share[w]) for w in sorted(vocabulary))
with open("/work/judged.jsonl", "w") as out:
    for d in new:
        joint = {c: @PRIOR@ + @KIND@(c, d["text"]) for c in labels}
        best = max(labels, key=lambda c: joint[c])
        rounded = {c: round(v, 5) for c, v in joint.items()}
        out.write(json.dumps({"id": d["id"], "shelf": best, "log_joint": rounded}) + "\\n")
"""


def shelf_of_passages(seed: int, context: Context) -> Draft:
    """Naive Bayes by a stated smoothing."""
    rng = chance(DOMAIN, "shelf_of_passages", seed)
    shelves = {name: _passages(context.text(f"fortunes/{name}")) for name in ("literature", "riddles", "fortunes")}
    kind, even = ("multinomial", "bernoulli")[seed % 2], seed in (1, 2)
    alpha = rng.choice((0.5, 0.1, 2.0)) if seed % 4 != 0 else 1.0
    train: list[tuple[str, str]] = []
    new: list[tuple[str, str]] = []
    for name, share in (("literature", 40), ("riddles", 30), ("fortunes", 45)):
        drawn = rng.sample(shelves[name], share + 8)
        train += [(text, name) for text in drawn[:share]]
        new += [(text, name) for text in drawn[share:]]
    rng.shuffle(train)
    rng.shuffle(new)
    ids = [f"p{n:02d}" for n in rng.sample(range(100), len(new))]
    expected = {name: _joint(train, text, kind, alpha, even) for name, (text, _) in zip(ids, new, strict=True)}
    prior = "math.log(1 / len(labels))" if even else "math.log(len(per[c]) / len(docs))"
    known = "w in vocabulary"
    good = placed(_BAYES, alpha=str(alpha), kind=kind, prior=prior, known=known)
    model = (
        "Multinomial: in a shelf, the probability of a word is (its occurrences there + a) / (occurrences of all "
        "words there "
        "+ a·V), V being the number of distinct training words. Every occurrence in a passage counts; words that no "
        "training "
        "passage has are ignored"
        if kind == "multinomial"
        else "Bernoulli: in a shelf, the probability of a word being present is (passages there that have it + a) / "
        "(passages "
        "there + 2a). Every distinct training word contributes, by that probability when the passage has it and by "
        "one minus "
        "it otherwise; words that no training passage has are ignored"
    )
    wrong_prior = "math.log(len(per[c]) / len(docs))" if even else "0.0"
    return Draft(
        family="shelf_of_passages",
        seed=seed,
        difficulty="hard",
        instruction="Sort short passages with naive Bayes, reproducibly. /work/train.jsonl has one object per line "
        "with text "
        "and shelf, /work/new.jsonl has id and text. Words are the maximal runs of the letters a-z after lower-casing; "
        f"everything else separates.\n\n{model}. The smoothing a is {alpha}. The prior of a shelf is "
        f"{'the same for all shelves' if even else 'its share of the training passages'}.\n\n"
        "For every new passage write one line to /work/judged.jsonl, in the order of new.jsonl: an object with id, "
        "shelf (the "
        "one with the largest joint probability) and log_joint, which maps each shelf to the natural logarithm of "
        "prior times "
        "likelihood, rounded to 5 decimals. I compare the values to within 0.0001.",
        files=(
            TaskFile(path="/work/train.jsonl", text=_lines([{"text": t, "shelf": s} for t, s in train])),
            TaskFile(
                path="/work/new.jsonl",
                text=_lines([{"id": i, "text": t} for i, (t, _) in zip(ids, new, strict=True)]),
            ),
        ),
        solution=(program(good),),
        right=(
            Variant(
                name="words_by_split",
                commands=(
                    program(
                        good.replace(
                            're.findall("[a-z]+", text.lower())', 're.sub("[^a-z]", " ", text.lower()).split()'
                        )
                    ),
                ),
            ),
        ),
        weak=(
            Variant(
                name="other_prior",
                commands=(program(placed(_BAYES, alpha=str(alpha), kind=kind, prior=wrong_prior, known=known)),),
            ),
            Variant(
                name="other_event_model",
                commands=(
                    program(
                        placed(
                            _BAYES,
                            alpha=str(alpha),
                            kind={"multinomial": "bernoulli", "bernoulli": "multinomial"}[kind],
                            prior=prior,
                            known=known,
                        )
                    ),
                ),
            ),
            Variant(
                name="tokens_by_whitespace",
                commands=(program(good.replace('re.findall("[a-z]+", text.lower())', "text.lower().split()")),),
            ),
        ),
        verifier=filled(
            """
import json

JOINT = __JOINT__


def judged(box):
    return [json.loads(line) for line in box.text("/work/judged.jsonl").splitlines() if line.strip()]


def test_all_passages_in_order(box):
    assert [entry["id"] for entry in judged(box)] == list(JOINT)


def test_logarithms(box):
    entries = judged(box)
    assert entries
    for entry in entries:
        joint = JOINT[entry["id"]]
        assert entry["log_joint"].keys() == joint.keys()
        off = max(abs(entry["log_joint"][shelf] - value) for shelf, value in joint.items())
        assert off < 1e-4, (entry["id"], off)


def test_shelf_is_the_likeliest(box):
    chosen = {entry["id"]: entry["shelf"] for entry in judged(box)}
    assert chosen == {name: max(joint, key=joint.get) for name, joint in JOINT.items()}
""",
            joint=expected,
        ),
        contexts=("fortunes",),
    )


def _passages(text: str) -> list[str]:
    parts = [" ".join(part.split()) for part in text.split("\n%\n")]
    return sorted({part for part in parts if 40 <= len(part) <= 400 and part.isascii()})


def _lines(rows: Sequence[dict[str, str]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _joint(train: list[tuple[str, str]], text: str, kind: str, alpha: float, even: bool) -> dict[str, float]:
    split = re.compile(r"[^a-z]+")
    bags = [([w for w in split.split(t.lower()) if w], shelf) for t, shelf in train]
    vocabulary = sorted({w for bag, _ in bags for w in bag})
    here = Counter(w for w in split.split(text.lower()) if w)
    found: dict[str, float] = {}
    for shelf in sorted({s for _, s in bags}):
        own = [bag for bag, s in bags if s == shelf]
        total = -math.log(3) if even else math.log(len(own)) - math.log(len(bags))
        if kind == "multinomial":
            counts = Counter(w for bag in own for w in bag)
            size = sum(len(bag) for bag in own) + alpha * len(vocabulary)
            total += sum(n * math.log((counts[w] + alpha) / size) for w, n in here.items() if w in vocabulary)
        else:
            presence = Counter(w for bag in own for w in set(bag))
            for w in vocabulary:
                p = (presence[w] + alpha) / (len(own) + 2 * alpha)
                total += math.log(p if w in here else 1 - p)
        found[shelf] = round(total, 7)
    return found


_MERGES = """
from collections import Counter as Tally
END, COUNT = @END@, @COUNT@
def start(word):
    return @START@
corpus = Tally(open("/work/corpus.txt").read().split())
parts = {w: start(w) for w in corpus}
def merged(symbols, pair):
    out, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i:i + 2]) == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out
merges = []
while len(merges) < COUNT:
    pairs = Tally()
    for w, n in corpus.items():
        for p in zip(parts[w], parts[w][1:]):
            pairs[p] += @WEIGHT@
    best = min(pairs, key=lambda p: (-pairs[p], @TIE@))
    merges.append(best)
    parts = {w: merged(s, best) for w, s in parts.items()}
open("/work/merges.txt", "w").write("".join(f"{a} {b}\\n" for a, b in merges))
with open("/work/encoded.txt", "w") as out:
    for w in open("/work/unseen.txt").read().split():
        s = start(w)
        for m in merges:
            s = merged(s, m)
        out.write(" ".join(s) + "\\n")
"""


def tokenizer_merges(seed: int, context: Context) -> Draft:
    """Byte pair encoding, learned and applied."""
    rng = chance(DOMAIN, "tokenizer_merges", seed)
    words = [w for w in json.loads(context.text("words/words.json")) if re.fullmatch("[a-z]{4,11}", w)]
    ending = rng.choice(("ing", "er", "ly", "ed", "ness"))
    pool = rng.sample(words, 260) + rng.sample([w for w in words if w.endswith(ending)], 60)
    counts = {w: max(1, int(60 / (rank + 3))) for rank, w in enumerate(rng.sample(pool, len(pool)))}
    tokens = [w for w, n in counts.items() for _ in range(n)]
    rng.shuffle(tokens)
    corpus = "\n".join(" ".join(tokens[i : i + 12]) for i in range(0, len(tokens), 12)) + "\n"
    unseen = sorted(rng.sample([w for w in words if w not in counts], 40))
    place = ("end", "none", "front", "last")[seed % 4]
    count = rng.choice((70, 90, 110))
    start = {
        "end": 'list(word) + ["#"]',
        "none": "list(word)",
        "front": '["#" + word[0], *word[1:]]',
        "last": '[*word[:-1], word[-1] + "#"]',
    }[place]
    said = {
        "end": "followed by a symbol # of its own that marks the end",
        "none": "with nothing before or behind them",
        "front": "the first of which has a # before it (so the word `cab` starts as #c, a, b)",
        "last": "the last of which has a # behind it (so the word `cab` starts as c, a, b#)",
    }[place]
    smallest = seed % 2 == 0
    tie = "p" if smallest else "tuple(-ord(c) for c in p[0] + ' ' + p[1])"
    merges, encoded = _merges(counts, unseen, place, count, smallest)
    given = {"end": "1", "count": str(count), "start": start, "tie": tie}
    good = placed(_MERGES, weight="n", **given)
    return Draft(
        family="tokenizer_merges",
        seed=seed,
        difficulty="hard",
        instruction=f"I want the first {count} byte-pair-encoding merges of /work/corpus.txt, and the words of "
        "/work/unseen.txt cut up with them. Words are separated by white space. A word begins as its characters, "
        f"{said}.\n\nIn every round count all neighbouring pairs of symbols inside words, each word as often as it "
        "occurs in "
        "the corpus, and overlapping pairs each time (`aaa` has the pair a a twice). Merge the most frequent pair "
        "everywhere, from left to right within a word. When pairs are equally frequent take the one whose text "
        "`LEFT RIGHT` "
        f"(with one space between) comes {'first' if smallest else 'last'} in code point order.\n\n/work/merges.txt "
        "gets one merge per line as LEFT, a "
        "space, RIGHT, in the order learned. /work/encoded.txt gets, for each word of unseen.txt in that order, a line "
        "with its symbols after all merges were applied in the learned order, separated by single spaces.",
        files=(
            TaskFile(path="/work/corpus.txt", text=corpus),
            TaskFile(path="/work/unseen.txt", text="\n".join(unseen) + "\n"),
        ),
        solution=(program(good),),
        right=(
            Variant(
                name="in_two_sittings",
                commands=(
                    program(
                        good.replace("corpus = Tally(open", "corpus = Tally(w for w in open").replace(
                            ".read().split())\nparts", ".read().split() if w)\nparts"
                        )
                    ),
                ),
            ),
        ),
        weak=(
            Variant(name="each_word_once", commands=(program(placed(_MERGES, weight="1", **given)),)),
            Variant(
                name="ties_the_other_way",
                commands=(
                    program(
                        placed(
                            _MERGES,
                            weight="n",
                            **{**given, "tie": "tuple(-ord(c) for c in p[0] + ' ' + p[1])" if smallest else "p"},
                        )
                    ),
                ),
            ),
            Variant(name="one_merge_short", commands=(program(good.replace("< COUNT", "< COUNT - 1")),)),
        ),
        verifier=filled(
            """
MERGES = __MERGES__
ENCODED = __ENCODED__


def test_merges_in_the_order_learned(box):
    learned = box.text("/work/merges.txt").rstrip("\\n").split("\\n")
    first = next((i for i, (a, b) in enumerate(zip(learned, MERGES, strict=False)) if a != b), None)
    assert first is None, f"merge {first + 1}: {learned[first]!r}"
    assert len(learned) == len(MERGES)


def test_unseen_words_are_cut_up(box):
    cut = [line.split(" ") for line in box.text("/work/encoded.txt").splitlines()]
    assert cut == [line.split(" ") for line in ENCODED]
""",
            merges=merges,
            encoded=encoded,
        ),
        contexts=("words",),
    )


def _merges(
    counts: dict[str, int], unseen: list[str], place: str, count: int, smallest: bool
) -> tuple[list[str], list[str]]:
    """By rewriting of texts with separators: another way than the solution's."""

    def begin(word: str) -> str:
        body = " ".join(word)
        return {"end": f" {body} # ", "none": f" {body} ", "front": f" #{body} ", "last": f" {body}# "}[place]

    texts = {word: begin(word) for word in counts}
    learned: list[str] = []
    for _ in range(count):
        tally: dict[str, int] = {}
        for word, text in texts.items():
            symbols = text.split()
            for left, right in itertools.pairwise(symbols):
                tally[f"{left} {right}"] = tally.get(f"{left} {right}", 0) + counts[word]
        most = max(tally.values())
        tied = sorted(pair for pair, n in tally.items() if n == most)
        learned.append(tied[0] if smallest else tied[-1])
        texts = {word: _join(text, learned[-1]) for word, text in texts.items()}
    cut: list[str] = []
    for word in unseen:
        text = begin(word)
        for pair in learned:
            text = _join(text, pair)
        cut.append(text.strip())
    return learned, cut


def _join(text: str, pair: str) -> str:
    return re.sub(rf"(?<= ){re.escape(pair)}(?= )", pair.replace(" ", ""), text)
