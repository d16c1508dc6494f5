"""Search in the sources of a manual, as a service: which pages or lines fit, and in which order."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode

from pipeline.generators.domains.web_service.commands import put_in, started, written
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_STEMS = ("advanced", "arguments", "commands", "complex", "documentation", "exceptions", "options", "parameters")
_PYTHON = r"""
import json, pathlib, re
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGES = {path.name.removesuffix(".rst.txt"): path.read_text() for path in pathlib.Path("@FOLDER@").glob("*.rst.txt")}
WORDS = {page: Counter(re.findall(r"[a-z0-9]+", text.lower())) for page, text in PAGES.items()}

def answer(wish):
    @CODE@

class Search(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        found = answer(parse_qs(url.query).get("q", [""])[0]) if url.path == "@PATH@" else None
        status = 404 if url.path != "@PATH@" else 400 if found is None else 200
        body = json.dumps(found if status == 200 else {"error": status}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

ThreadingHTTPServer(("127.0.0.1", @PORT@), Search).serve_forever()
"""
_NODE = r"""
const http = require('http'), fs = require('fs');
const pages = {}, words = {};
for (const file of fs.readdirSync('@FOLDER@')) {
  const page = file.replace('.rst.txt', ''), counts = new Map();
  pages[page] = fs.readFileSync('@FOLDER@/' + file, 'utf8');
  for (const word of pages[page].toLowerCase().match(/[a-z0-9]+/g)) counts.set(word, (counts.get(word) ?? 0) + 1);
  words[page] = counts;
}
const order = (a, b) => a < b ? -1 : a > b ? 1 : 0;
const answer = query => {
  @CODE@
};
http.createServer((request, response) => {
  const url = new URL(request.url, 'http://here');
  const found = url.pathname === '@PATH@' ? answer(url.searchParams.get('q') ?? '') : null;
  response.writeHead(url.pathname !== '@PATH@' ? 404 : found ? 200 : 400, {'Content-Type': 'application/json'});
  response.end(JSON.stringify(found ?? {error: 'no'}));
}).listen(@PORT@, '127.0.0.1');
"""
_VERIFIER = """
import json
from urllib.error import HTTPError
from urllib.request import urlopen

ROOT = __ROOT__
ANSWERS = __ANSWERS__
FAULTY = __FAULTY__


def status_of(address):
    try:
        return urlopen(ROOT + address, timeout=3).status
    except HTTPError as error:
        return error.code


def found(address):
    with urlopen(ROOT + address, timeout=3) as page:
        assert page.headers.get_content_type() == "application/json"
        return json.load(page)


def test_everything_that_fits_is_found():
    got = {address: found(address) for address in ANSWERS}
    assert {address: sorted(map(repr, rows)) for address, rows in got.items()} == {
        address: sorted(map(repr, rows)) for address, rows in ANSWERS.items()
    }


def test_the_best_comes_first():
    assert [found(address) for address in ANSWERS] == list(ANSWERS.values())


def test_what_is_no_search_is_refused():
    assert {address: status_of(address) for address in FAULTY} == FAULTY
"""


@dataclass(frozen=True)
class _Search:
    """One kind of search."""

    difficulty: Literal["easy", "medium", "hard"]
    path: str
    wish: str
    answer: Callable[[Mapping[str, str], str], list[list[object]]]
    queries: Callable[[random.Random, list[str]], list[str]]
    python: str
    node: str
    weak: dict[str, tuple[str, str]]


def _count(text: str, word: str) -> int:
    return len(re.findall(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text.lower()))


def _all_words(pages: Mapping[str, str], query: str) -> list[list[object]]:
    words = set(query.lower().split())
    hits = {page: [_count(text, word) for word in words] for page, text in pages.items()}
    return [
        [page, n] for page, n in sorted(((p, sum(h)) for p, h in hits.items() if all(h)), key=lambda r: (-r[1], r[0]))
    ]


def _lines(pages: Mapping[str, str], query: str) -> list[list[object]]:
    return [
        [page, number, line.strip()]
        for page in sorted(pages)
        for number, line in enumerate(pages[page].split("\n"), 1)
        if query in line
    ][:20]


def _beginnings(pages: Mapping[str, str], query: str) -> list[list[object]]:
    words = Counter(w for text in pages.values() for w in re.split(r"[^a-z0-9]+", text.lower()) if w)
    fitting = [[word, n] for word, n in words.items() if word.startswith(query.lower()) and word != query.lower()]
    return sorted(fitting, key=lambda row: (-int(str(row[1])), row[0]))[:5]


def _without(pages: Mapping[str, str], query: str) -> list[list[object]]:
    words = query.lower().split()
    scored = []
    for page, text in pages.items():
        if any(_count(text, word[1:]) for word in words if word[0] == "-"):
            continue
        kept = {word for word in words if word[0] != "-" and _count(text, word)}
        if kept:
            scored.append((-len(kept), -sum(_count(text, word) for word in kept), page))
    return [[page, -kinds, -hits] for kinds, hits, page in sorted(scored)]


_KINDS = (
    _Search(
        difficulty="medium",
        path="/search",
        wish="q holds one or several words (letters a-z and digits, separated by blanks, upper and lower case alike, "
        "repeated ones count once). The answer is an array of [page, hits] for each page in which all of them occur as "
        "whole words, hits being how often they occur in it together; most hits first, then by page.",
        answer=_all_words,
        queries=lambda rng, words: (
            [" ".join(rng.sample(words, n)) for n in (1, 1, 2, 2, 3)] + ["The VALUE", "zebra", "of of"]
        ),
        python="""words = set(query.lower().split())
    hits = {page: [counts[word] for word in words] for page, counts in WORDS.items()}
    rows = [[page, sum(found)] for page, found in hits.items() if words and all(found)]
    return sorted(rows, key=lambda row: (-row[1], row[0])) if words else None""",
        node="""const wish = [...new Set(query.toLowerCase().split(/\\s+/).filter(Boolean))];
  if (!wish.length) return null;
  const rows = Object.keys(pages).filter(page => wish.every(word => words[page].has(word)))
    .map(page => [page, wish.reduce((sum, word) => sum + words[page].get(word), 0)]);
  return rows.sort((a, b) => b[1] - a[1] || order(a[0], b[0]));""",
        weak={
            "any_word": ("all(found)", "any(found)"),
            "case_counts": ("query.lower()", "query"),
            "parts_of_words": ("counts[word] for", "PAGES[page].lower().count(word) for"),
        },
    ),
    _Search(
        difficulty="easy",
        path="/lines",
        wish="q is a piece of text, taken literally (case, blanks and signs matter). The answer is an array of [page, "
        "number, line] for each line that contains it: numbers begin with 1, the line comes without blanks at either "
        "end; by page, then number, at most the first 20.",
        answer=_lines,
        queries=lambda rng, words: [*rng.sample(words, 3), "click.", ".. ", "`", "e", "(?)", "zebra"],
        python="""rows = [[page, number, line.strip()] for page in sorted(PAGES)
            for number, line in enumerate(PAGES[page].split("\\n"), 1) if query in line]
    return rows[:20] if query else None""",
        node="""if (!query) return null;
  return Object.keys(pages).sort(order).flatMap(page => pages[page].split('\\n')
    .map((line, at) => [page, at + 1, line]).filter(row => row[2].includes(query))
    .map(([p, n, line]) => [p, n, line.trim()])).slice(0, 20);""",
        weak={
            "from_zero": ('split("\\n"), 1)', 'split("\\n"), 0)'),
            "pattern": ("if query in line]", "if re.search(re.sub(r'[(]', '.', query), line)]"),
            "no_limit": ("rows[:20]", "rows"),
        },
    ),
    _Search(
        difficulty="medium",
        path="/suggest",
        wish="q is the beginning of a word (case does not matter). A word is a longest run of the ASCII letters and "
        "digits, in lower case. The answer is an array of [word, count] with the up to 5 most frequent words of all "
        "pages together that begin with it and are longer than it; most frequent first, then by alphabet.",
        answer=_beginnings,
        queries=lambda rng, words: [
            *(word[: rng.randint(1, 3)] for word in rng.sample(words, 6)),
            "The",
            "PA",
            "zebra",
        ],
        python="""start = query.strip().lower()
    total = sum(WORDS.values(), Counter())
    rows = [[word, n] for word, n in total.items() if word.startswith(start) and word != start]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:5] if start else None""",
        node="""const start = query.trim().toLowerCase(), total = new Map();
  if (!start) return null;
  for (const page in words) for (const [word, n] of words[page]) total.set(word, (total.get(word) ?? 0) + n);
  const rows = [...total].filter(([word]) => word.startsWith(start) && word !== start);
  return rows.sort((a, b) => b[1] - a[1] || order(a[0], b[0])).slice(0, 5);""",
        weak={
            "pages_not_occurrences": (
                "sum(WORDS.values(), Counter())",
                "Counter(w for c in WORDS.values() for w in c)",
            ),
            "anywhere": ("word.startswith(start)", "start in word"),
            "the_word_itself": (" and word != start", ""),
        },
    ),
    _Search(
        difficulty="hard",
        path="/find",
        wish="q holds words (a-z and digits, case does not matter) separated by blanks; one with a - before it is a "
        "word that must not occur. The answer is an array of [page, words, hits] for each page that has at least one "
        "of the other words and none of the forbidden ones, as whole words: how many different ones of the words "
        "occur, and how often they occur together. More words first, then more hits, then by page. q without any word "
        "that may occur is a faulty request.",
        answer=_without,
        queries=lambda rng, words: (
            [
                " ".join([*rng.sample(words, n), *("-" + w for w in rng.sample(words, m))])
                for n, m in ((1, 1), (2, 1), (3, 1), (4, 0), (3, 2))
            ]
            + ["The zebra", "option -zebra"]
        ),
        python="""words = set(query.lower().split())
    banned = {word[1:] for word in words if word.startswith("-")}
    wanted = {word for word in words if not word.startswith("-")}
    rows = [[page, sum(word in counts for word in wanted), sum(counts[word] for word in wanted)]
            for page, counts in WORDS.items() if not banned & set(counts)]
    rows = [row for row in rows if row[1]]
    return sorted(rows, key=lambda row: (-row[1], -row[2], row[0])) if wanted else None""",
        node="""const all = [...new Set(query.toLowerCase().split(/\\s+/).filter(Boolean))];
  const banned = all.filter(w => w[0] === '-').map(w => w.slice(1)), wanted = all.filter(w => w[0] !== '-');
  if (!wanted.length) return null;
  return Object.keys(pages).filter(page => !banned.some(word => words[page].has(word)))
    .map(page => [page, wanted.filter(word => words[page].has(word)).map(word => words[page].get(word))])
    .filter(row => row[1].length).map(([page, hits]) => [page, hits.length, hits.reduce((a, b) => a + b)])
    .sort((a, b) => b[1] - a[1] || b[2] - a[2] || order(a[0], b[0]));""",
        weak={
            "hits_first": ("(-row[1], -row[2], row[0])", "(-row[2], -row[1], row[0])"),
            "nothing_forbidden": (" if not banned & set(counts)]", "]"),
            "all_words_needed": ("if row[1]]", "if row[1] == len(wanted)]"),
        },
    ),
)


def manual_search(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "manual_search", seed)
    kind, port = _KINDS[seed % 4], rng.randint(9100, 9900)
    folder = rng.choice(("/srv/manual", "/srv/sources", "/data/manual"))
    stems = sorted([*rng.sample(_STEMS, 6), "prompts", "quickstart", "testing", "utils"])
    pages = {stem: context.text(f"click_manual/sources/{stem}.rst.txt") for stem in stems}
    common = Counter(re.findall(r"[a-z]{4,}", " ".join(pages.values()).lower()))
    words = sorted(word for word, n in common.items() if 6 <= n <= 60)
    queries = kind.queries(rng, words)
    answers = {f"{kind.path}?{urlencode({'q': query})}": kind.answer(pages, query) for query in queries}
    faulty = {f"{kind.path}": 400, f"{kind.path}?q=": 400, "/": 404, f"{kind.path}s?q=click": 404}
    if seed % 4 == 3:
        faulty[f"{kind.path}?q=-click"] = 400
    values = {"folder": folder, "port": port, "path": kind.path}
    python = put_in(_PYTHON, **values, code=kind.python.replace("query", "wish"))

    def serving(text: str) -> tuple[str, ...]:
        return (written("/work/search.py", text), started("python3 /work/search.py", port))

    node = (written("/work/search.js", put_in(_NODE, **values, code=kind.node)), started("node /work/search.js", port))
    return Draft(
        family="manual_search",
        seed=seed,
        difficulty=kind.difficulty,
        language=("python", "javascript")[seed % 2],
        instruction=f"In {folder} lie the sources of a manual as UTF-8 text; a page is called like its file without "
        f"the ending .rst.txt. Readers want to search them over HTTP: make GET {kind.path}?q=... on 127.0.0.1:{port} "
        f"answer with JSON (application/json) and keep the service up. {kind.wish} A missing or empty q gets status "
        "400, any other path 404; a search that finds nothing is an empty array with status 200. Sorting by page or "
        "alphabet means by code point.",
        files=tuple(TaskFile(path=f"{folder}/{stem}.rst.txt", text=text) for stem, text in pages.items()),
        solution=serving(python),
        right=(Variant(name="in_node", commands=node),),
        weak=tuple(
            Variant(
                name=name, commands=serving(python.replace(old.replace("query", "wish"), new.replace("query", "wish")))
            )
            for name, (old, new) in kind.weak.items()
        ),
        verifier=filled(_VERIFIER, root=f"http://127.0.0.1:{port}", answers=answers, faulty=faulty),
        state_scope="live",
        contexts=("click_manual",),
    )
