"""Serves the folder it runs in and asks for the pages or style sheets that it is given, until one is whole.

A page is whole when it has content and every script and style sheet of its own that it names is there too. What has to
be compiled first (TypeScript, JSX …) is no script of a page.
"""

from __future__ import annotations

import functools
import html.parser
import http.server
import posixpath
import re
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

SOURCES = (".ts", ".tsx", ".jsx", ".vue", ".svelte", ".scss", ".sass", ".less")
HEAD = ("html", "head", "body", "meta", "title", "link", "script", "style")
SILENT = ("script", "style", "title")


class Page(html.parser.HTMLParser):
    """What a page holds: the names of its scripts and style sheets, its elements and the text that shows."""

    def __init__(self) -> None:
        super().__init__()
        self.named: list[str] = []
        self.elements = 0
        self.text = ""
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script" and given.get("src"):
            self.named.append(str(given["src"]))
        elif tag == "link" and "stylesheet" in (given.get("rel") or "") and given.get("href"):
            self.named.append(str(given["href"]))
        self.elements += tag not in HEAD
        self._silent += tag in SILENT

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in SILENT

    def handle_data(self, data: str) -> None:
        if self._silent <= 0:
            self.text += data.strip()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def ask(port: int, path: str) -> bytes:
    """What the server answers; empty when it refuses."""
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/{urllib.parse.quote(path)}", timeout=10) as answer:
            body: bytes = answer.read()
            return body
    except (urllib.error.URLError, OSError):
        return b""


def is_own(name: str) -> bool:
    """A name that this server can be asked for: of no other host and no template."""
    return not re.match(r"[a-z]+:|//", name) and not re.search(r"[{}<>%]|\$\(", name)


def is_there(port: int, page: str, name: str) -> bool:
    """Whether a file that a page names is there, with the root of the server where the tree or the page is."""
    path = urllib.parse.urlsplit(name).path
    below = posixpath.normpath(posixpath.join(posixpath.dirname(page), path.lstrip("/")))
    places = [below, path.lstrip("/")] if path.startswith("/") else [below]
    return not path.endswith(SOURCES) and any(ask(port, place) for place in places if not place.startswith(".."))


def fault_of_sheet(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    if not re.search(r"[^{};]+\{[^{}]*:[^{}]*\}", text):
        return "there is no rule in it"
    return "" if text.count("{") == text.count("}") else "a rule has no end"


def fault_of_page(port: int, path: str, text: str) -> str:
    page = Page()
    page.feed(text)
    if not page.elements and not page.text:
        return "there is nothing in it"
    missing = [name for name in page.named if is_own(name) and not is_there(port, path, name)]
    return f"it names what is not there: {', '.join(missing[:5])}" if missing else ""


def works(port: int, path: str) -> bool:
    body = ask(port, path)
    text = body.decode("utf-8", "replace")
    if not text.strip():
        fault = "no answer, or an empty one"
    else:
        fault = fault_of_sheet(text) if path.endswith(".css") else fault_of_page(port, path, text)
    sys.stdout.write(f"{path}: {fault or f'{len(body)} bytes, nothing is missing'}\n")
    return not fault


def main(paths: list[str]) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory="."))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.exit(0 if any(works(server.server_port, path) for path in paths) else 1)


main(sys.argv[1:])
