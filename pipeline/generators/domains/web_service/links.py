"""Saved pages of a manual: what their links lead to, in a report. Nothing is served here."""

from __future__ import annotations

import hashlib
import html.parser
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

from pipeline.generators.domains.web_service.commands import put_in, written
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_STEMS = (
    *("advanced", "arguments", "commands", "complex", "documentation", "exceptions", "options", "parameters"),
    *("prompts", "quickstart", "setuptools", "testing", "unicode-support", "upgrading", "utils", "why", "wincmd"),
)
_ID = re.compile(r' id="([^"#]+)"')
_PROGRAM = r"""
import collections, csv, html, json, pathlib, re
from urllib.parse import unquote, urlsplit

folder = pathlib.Path("@FOLDER@")
pages = {path.name: path.read_text() for path in folder.glob("*.html")}
found = {name: re.findall(r'<a\b[^>]*?\shref="([^"]*)"', text) for name, text in pages.items()}
links = {name: list(map(html.unescape, all)) for name, all in found.items()}
ids = {name: set(map(html.unescape, re.findall(r'\sid="([^"]*)"', text))) for name, text in pages.items()}

def inner(page):
    for link in links[page]:
        parts = urlsplit(link)
        if not parts.scheme and not parts.netloc:
            yield unquote(parts.path) or page, unquote(parts.fragment)

@REPORT@
"""
_CHECK = """
import csv
import hashlib
import io
import json

PAGES = __PAGES__
EXPECTED = __EXPECTED__


def test_the_saved_pages_are_untouched(box):
    folder = __FOLDER__
    assert {name: hashlib.sha256(box.read(f"{folder}/{name}")).hexdigest() for name in PAGES} == PAGES

"""


class _Page(html.parser.HTMLParser):
    """Links and ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("href") is not None:
            self.links.append(given["href"] or "")
        if given.get("id"):
            self.ids.add(given["id"] or "")


@dataclass(frozen=True)
class _Report:
    """What has to be found, in words, by a program, and as it is expected."""

    difficulty: Literal["medium", "hard"]
    wish: str
    program: str
    other: str
    expected: object
    tests: str
    weak: dict[str, tuple[str, str]]


def _inner(name: str, page: _Page) -> list[tuple[str, str]]:
    found = []
    for link in page.links:
        parts = urlsplit(link)
        if not parts.scheme and not parts.netloc:
            found.append((unquote(parts.path) or name, unquote(parts.fragment)))
    return found


def _missing(pages: Mapping[str, _Page], rng: random.Random) -> _Report:
    counts = Counter((n, target) for n, page in pages.items() for target, _ in _inner(n, page) if target not in pages)
    program = r"""
found = collections.Counter((page, target) for page in pages for target, _ in inner(page) if target not in pages)
rows = [{"page": page, "target": target, "count": n} for (page, target), n in sorted(found.items())]
pathlib.Path("/work/missing.json").write_text(json.dumps(rows))
"""
    return _Report(
        difficulty="medium",
        wish="Report every link that leads to a file which is not there as /work/missing.json: an array of objects "
        "with `page` (file name of the linking page), `target` (the path in the link, percent-decoded, without query "
        "and fragment) and `count` (how many links of that page lead there), sorted by page, "
        "then target, both by code point.",
        program=program,
        other=program.replace("json.dumps(rows)", "json.dumps(rows, indent=2, sort_keys=True)"),
        expected=[{"page": page, "target": target, "count": n} for (page, target), n in sorted(counts.items())],
        tests="""
def test_every_missing_target_is_counted(box):
    rows = json.loads(box.text("/work/missing.json"))
    told = {(row["page"], row["target"]): row["count"] for row in rows}
    assert told == {(row["page"], row["target"]): row["count"] for row in EXPECTED}


def test_the_rows_are_sorted(box):
    rows = json.loads(box.text("/work/missing.json"))
    assert rows == EXPECTED and all(type(row["count"]) is int for row in rows)
""",
        weak={
            "not_counted": ('"count": n}', '"count": 1}'),
            "fragments_kept": ("unquote(parts.path) or page, unquote(parts.fragment)", "link, ''"),
            "by_number": ("sorted(found.items())", "found.most_common()"),
        },
    )


def _fragments(pages: Mapping[str, _Page], rng: random.Random) -> _Report:
    rows = sorted(
        {
            (n, target, fragment)
            for n, page in pages.items()
            for target, fragment in _inner(n, page)
            if fragment and target in pages and fragment not in pages[target].ids
        }
    )
    program = r"""
rows = {(page, to, mark) for page in pages for to, mark in inner(page) if mark and to in pages and mark not in ids[to]}
with open("/work/anchors.csv", "w", newline="") as file:
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["page", "target", "fragment"])
    out.writerows(sorted(rows))
"""
    return _Report(
        difficulty="medium",
        wish="Some links jump to a place that no longer exists: their target file is in the folder (links within the "
        "same page count too) but has no element with the id that the fragment names (percent-decoded; empty fragments "
        "are fine). List them in /work/anchors.csv with the header page,target,fragment (file names; for links within "
        "a page the target is the page itself), each combination once, sorted by these three columns by code point.",
        program=program,
        other=program.replace(r'lineterminator="\n"', "quoting=csv.QUOTE_ALL"),
        expected=[list(row) for row in rows],
        tests="""
def test_every_dead_anchor_is_listed_once(box):
    head, *rows = csv.reader(io.StringIO(box.text("/work/anchors.csv")))
    assert head == ["page", "target", "fragment"] and rows == EXPECTED


def test_no_living_anchor_is_listed(box):
    rows = list(csv.DictReader(io.StringIO(box.text("/work/anchors.csv"))))
    dead = {tuple(row) for row in EXPECTED}
    assert rows and {(row["page"], row["target"], row["fragment"]) for row in rows} <= dead
""",
        weak={
            "other_pages_only": ("unquote(parts.path) or page", "unquote(parts.path)"),
            "own_page_only": ("to in pages and", "to == page and"),
        },
    )


def _clicks(pages: Mapping[str, _Page], rng: random.Random) -> _Report:
    depth, reached = {"index.html": 0}, ["index.html"]
    for name in reached:
        for target, _ in _inner(name, pages[name]):
            if target in pages and target not in depth:
                depth[target] = depth[name] + 1
                reached.append(target)
    rows = sorted(depth.items(), key=lambda row: (row[1], row[0]))
    program = r"""
depth, queue = {"index.html": 0}, ["index.html"]
for page in queue:
    for to, _ in inner(page):
        if to in pages and to not in depth:
            depth[to] = depth[page] + 1
            queue.append(to)
lines = [f"{depth[page]}\t{page}\n" for page in sorted(depth, key=lambda page: (depth[page], page))]
lines += [f"never\t{page}\n" for page in sorted(set(pages) - set(depth))]
pathlib.Path("/work/clicks.tsv").write_text("".join(lines))
"""
    return _Report(
        difficulty="hard",
        wish="I want to know how deep the pages lie. Write /work/clicks.tsv with one line per page of the folder: the "
        "fewest clicks that lead from index.html to it through links between pages of the folder, a TAB, its file "
        "name. index.html itself has 0. Sort by clicks, then by name (code point); pages that cannot be reached come "
        "last, by name, with the word never in place of the number. No header.",
        program=program,
        other=program.replace("for page in queue:", "while queue:\n    page = queue.pop(0)"),
        expected=[f"{n}\t{name}" for name, n in rows] + [f"never\t{name}" for name in sorted(set(pages) - set(depth))],
        tests="""
def test_each_page_has_its_fewest_clicks(box):
    lines = box.text("/work/clicks.tsv").splitlines()
    told = {line.partition("\\t")[2]: line.partition("\\t")[0] for line in lines}
    assert told == {line.partition("\\t")[2]: line.partition("\\t")[0] for line in EXPECTED}


def test_lines_are_in_order(box):
    assert box.text("/work/clicks.tsv").splitlines() == EXPECTED
""",
        weak={
            "depth_first": ("for page in queue:", "for page in iter(lambda: queue.pop() if queue else None, None):"),
            "unreachable_left_out": ('lines += [f"never', 'lines and [f"never'),
            "by_name": ("key=lambda page: (depth[page], page)", "key=str"),
        },
    )


def _hosts(pages: Mapping[str, _Page], rng: random.Random) -> _Report:
    parts = [(n, urlsplit(link)) for n, page in pages.items() for link in page.links]
    outside = [(n, p.netloc.lower()) for n, p in parts if p.scheme in ("http", "https")]
    counts = Counter(host for _, host in outside)
    where = {host: sorted({n for n, other in outside if other == host}) for host in counts}
    ranked = sorted(counts, key=lambda host: (-counts[host], host))
    program = r"""
seen = [(page, urlsplit(link)) for page in pages for link in links[page]]
seen = [(page, parts.netloc.lower()) for page, parts in seen if parts.scheme in ("http", "https")]
counts = collections.Counter(host for _, host in seen)
order = sorted(counts, key=lambda host: (-counts[host], host))
rows = [{"host": h, "links": counts[h], "pages": sorted({p for p, other in seen if other == h})} for h in order]
pathlib.Path("/work/hosts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
"""
    return _Report(
        difficulty="medium",
        wish="We want to know which other hosts it depends on. Write /work/hosts.jsonl, one JSON object per line and "
        "host that an http or https link goes to: `host` (in lower case, with a port if there is one), `links` (number "
        "of links to it in all pages, repeated ones counted each time) and `pages` (sorted names of the pages with "
        "such a link). Most links first, equal numbers by host name.",
        program=program,
        other=program.replace('{"host": h, "links": counts[h], ', '{"links": counts[h], "host": h, '),
        expected=[{"host": h, "links": counts[h], "pages": where[h]} for h in ranked],
        tests="""
def test_hosts_are_counted(box):
    rows = [json.loads(line) for line in box.text("/work/hosts.jsonl").splitlines()]
    assert {row["host"]: row["links"] for row in rows} == {row["host"]: row["links"] for row in EXPECTED}


def test_hosts_are_ranked_and_placed(box):
    assert [json.loads(line) for line in box.text("/work/hosts.jsonl").splitlines()] == EXPECTED
""",
        weak={
            "distinct_links": ("for link in links[page]]", "for link in set(links[page])]"),
            "secure_only": ('("http", "https")', '("https",)'),
            "ties_as_found": ("(-counts[host], host)", "-counts[host]"),
        },
    )


def _texts(rng: random.Random, context: Context, seed: int) -> dict[str, str]:
    """Pages of the manual, some of them harmed: links taken out, ids lost."""
    names = ["index.html", *(f"{stem}.html" for stem in sorted(rng.sample(_STEMS, 9)))]
    texts = {name: context.text(f"click_manual/html/{name}") for name in names}
    if seed % 4 == 1:
        for name in names[1:]:
            for lost in rng.sample(_ID.findall(texts[name]), 2):
                texts[name] = texts[name].replace(f' id="{lost}"', "")
    if seed % 4 == 2:
        alone = rng.sample(names[1:], 2)
        for name in names:
            kept = rng.sample([other for other in names[1:] if other not in alone], 3)
            for page in set(names) - set(kept):
                texts[name] = re.sub(rf'href="{re.escape(page)}(#[^"]*)?"', 'href="#"', texts[name])
            for page in kept:
                texts[name] = texts[name].replace("</body>", f'<a href="{page}">Read on</a></body>')
    if seed % 4 == 3:
        for number, name in enumerate(rng.sample(names, 6)):
            for link in rng.sample(re.findall(r'href="(https?://[^"]+)"', texts[name]), 1):
                again = link.replace("https:", "http:") if number % 2 else link
                texts[name] = texts[name].replace("</body>", f'<a href="{again}">Once more</a></body>')
    return texts


def link_report(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "link_report", seed)
    folder = rng.choice(("/srv/manual", "/srv/saved", "/work/pages", "/data/mirror"))
    texts = _texts(rng, context, seed)
    report = (_missing, _fragments, _clicks, _hosts)[seed % 4]({n: _Page(t) for n, t in texts.items()}, rng)

    def running(program: str) -> tuple[str, ...]:
        whole = put_in(_PROGRAM, folder=folder, report=program)
        return (written("/work/report.py", whole), "python3 /work/report.py")

    whole = running(report.program)
    return Draft(
        family="link_report",
        seed=seed,
        difficulty=report.difficulty,
        language="html",
        instruction=f"{folder} holds pages of a manual that somebody saved from the web, not all of them. Look at the "
        f"links, that is the href of every <a> element, in all *.html files there. {report.wish} Links with a scheme "
        "(https:, mailto: ...) lead outside, all others are relative to the folder. Character references in attributes "
        "(&amp;) stand for their characters. Don't change the pages.",
        files=tuple(TaskFile(path=f"{folder}/{name}", text=text) for name, text in texts.items()),
        solution=whole,
        right=(Variant(name="other_form", commands=running(report.other)),),
        weak=(
            *(
                Variant(name=name, commands=(whole[0].replace(old, new), whole[1]))
                for name, (old, new) in report.weak.items()
            ),
            Variant(name="index_only", commands=(whole[0].replace('glob("*.html")', 'glob("index.html")'), whole[1])),
        ),
        verifier=filled(
            _CHECK + report.tests,
            pages={name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()},
            expected=report.expected,
            folder=folder,
        ),
        contexts=("click_manual",),
    )
