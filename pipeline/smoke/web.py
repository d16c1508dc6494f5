"""What to try in an image of a JavaScript or HTML project: its package in Node.js, its scripts, its pages.

A script for browsers runs in Node.js with stand-ins for what a browser has; a page is served and asked for, with the
scripts and style sheets that it names.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator

from pipeline.smoke.subject import Candidate, Subject, exited_well, plain, programs, ran

_MOST_PACKAGES = 4
_MOST_PROGRAMS = 4
_MOST_SCRIPTS = 8
_MOST_PAGES = 20
_OTHERS = re.compile(
    r"(?:tests?|__tests__|spec|specs|e2e|examples?|demos?|docs?|fixtures?|node_modules|vendor|benchmarks?|coverage|debian"
    r"|\.github|scripts?|tools?|third_party)|.*\.(?:test|spec|config|conf)\.[cm]?js|\..*|(?:[gG]ulp|[gG]runt)file\..*|karma.*"
)
_PAGE_FOLDERS = ("", "dist/", "build/", "public/", "docs/", "src/", "site/", "app/", "www/", "out/", "_site/")


def node_candidates(subject: Subject) -> Iterator[Candidate]:
    """The programs of its packages, then the packages themselves. Raises SandboxUnavailable."""
    if not subject.ask("command -v node"):
        return
    for folder in _packages(subject):
        yield from _programs(subject, folder)
        yield from _started(subject, folder)
        place = shlex.quote(posixpath.join(subject.workdir, folder).rstrip("/"))
        yield Candidate(f"cd /tmp && node {subject.probe('package.js')} {place}", exited_well)


def script_candidates(subject: Subject) -> Iterator[Candidate]:
    """Scripts for browsers. Raises SandboxUnavailable."""
    if subject.ask("command -v node"):
        for script in _scripts(subject):
            yield Candidate(f"node {subject.probe('browser.js')} {shlex.quote(script)}", exited_well)


def page_candidates(subject: Subject) -> Iterator[Candidate]:
    """Pages, then style sheets. Raises SandboxUnavailable."""
    described = subject.json("package.json")
    if subject.repository.language == "javascript" and any(key in described for key in ("bin", "main", "exports")):
        return  # a package is more than the pages that lie in it
    # Pages that a build made are not in the tree that was cloned.
    built = subject.ask(r"find . -maxdepth 3 -name '*.html' ! -path '*/node_modules/*' ! -path '*/.*/*' | head -n 200")
    cloned = subject.named(r"(?:.*/)?[^/]+\.html?")
    pages = dict.fromkeys([*(name.removeprefix("./") for name in built.splitlines()), *cloned])
    ranked = sorted((name for name in pages if "node_modules/" not in name), key=_page_rank)
    sheets = [name for name in subject.named(r"(?:.*/)?[^/]+\.css") if "node_modules/" not in name]
    sheets.sort(key=lambda name: subject.likeness(posixpath.basename(name)))
    for names in (ranked[:_MOST_PAGES], sheets[:_MOST_PAGES]):
        if names:
            yield Candidate(f"python3 {subject.probe('pages.py')} {shlex.join(names)}", exited_well)


def _page_rank(name: str) -> tuple[int, int, str]:
    folder, file = posixpath.split(name)
    place = _PAGE_FOLDERS.index(f"{folder}/") if f"{folder}/" in _PAGE_FOLDERS else len(_PAGE_FOLDERS)
    if not folder:
        place = 0
    return (0 if file == "index.html" else 1, place, name)


def _packages(subject: Subject) -> list[str]:
    """Folders with a package.json, the root first; of a collection of packages the first few."""
    names = subject.named(r"(?:[\w.@-]+/){0,2}package\.json")
    folders = [name.rpartition("/")[0] for name in names]
    own = [folder for folder in folders if not any(map(_OTHERS.fullmatch, folder.split("/"))) or not folder]
    own.sort(key=lambda folder: (folder != "", subject.likeness(posixpath.basename(folder)), folder.count("/"), folder))
    return own[:_MOST_PACKAGES]


def _programs(subject: Subject, folder: str) -> Iterator[Candidate]:
    described = subject.json(posixpath.join(folder, "package.json"))
    listed = described.get("bin")
    files = {str(described.get("name")): listed} if isinstance(listed, str) else listed
    if not isinstance(files, dict):
        return
    for name in sorted(files, key=subject.likeness)[:_MOST_PROGRAMS]:
        file = posixpath.normpath(posixpath.join(folder, str(files[name])))
        head = subject.text(file)[:200].split("\n")[0]
        path = shlex.quote(posixpath.join(subject.workdir, file))
        by_itself = head.startswith("#!") and "node" not in head
        tried = programs(f"cd /tmp && {path}" if by_itself else f"cd /tmp && node {path}")
        # A program that has to be built and was not is a broken one, and needs to be shown to be that only once.
        yield from tried if subject.ask(f"test -f {path} && echo there") else tried[:1]


def _started(subject: Subject, folder: str) -> Iterator[Candidate]:
    """What `npm start` starts, when that is a file of its own."""
    scripts = subject.json(posixpath.join(folder, "package.json")).get("scripts")
    start = scripts.get("start") if isinstance(scripts, dict) else None
    found = re.match(r"(?:\w+=\S+ )*node ((?:--?[\w=-]+ )*)([\w./-]+)$", start or "")
    if found:
        place = shlex.quote(posixpath.join(subject.workdir, folder))
        yield Candidate(f"cd {place} && node {found[1]}{shlex.quote(found[2])}", ran)


def _scripts(subject: Subject) -> list[str]:
    """Files that a page would load: those that package.json names, then those that bear the project's name."""
    described = subject.json("package.json")
    entries = [described.get(key) for key in ("browser", "main", "unpkg", "jsdelivr", "module")]
    named = [posixpath.normpath(str(entry)) for entry in entries if isinstance(entry, str) and entry.endswith("js")]
    free = [
        name
        for name in subject.named(r"(?:(?:dist|build|src|lib|js|scripts|assets|assets/js|source)/)?[\w.-]+\.m?js")
        if not any(map(_OTHERS.fullmatch, name.split("/")))
    ]
    mine = plain(str(described.get("name") or subject.repository.name).rpartition("/")[2])
    free.sort(key=lambda name: (plain(posixpath.basename(name).partition(".")[0]) != mine, name.count("/")))
    return list(dict.fromkeys([*named, *free]))[:_MOST_SCRIPTS]
