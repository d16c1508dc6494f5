"""Which Debian packages a tree asks for, as far as its files say so, and what names in logs mean in Debian.

The knowledge lies in debian_packages.toml. Nothing is installed here; names that a release does not have are passed
over where a Dockerfile installs them.
"""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from pipeline.checkout import Tree
from pipeline.recipes import text_of
from pipeline.types import Language

Kind = Literal["headers", "pkg_config", "cmake", "libraries", "commands", "modules", "shared_objects", "java"]

_KNOWLEDGE = Path(__file__).with_name("debian_packages.toml")
_MAX_SOURCES = 1500
"""Source files that are searched for the libraries they need."""
_SUFFIXES = {
    "go": (".go",),
    "java": (".java",),
    "c": (".c", ".h"),
    "cpp": (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".ipp"),
}
_ASIDE = re.compile(
    r"(^|/)(tests?|testing|examples?|samples?|docs?|bench(marks?)?|third_?party|vendor|win(dows|32)?)(/|$)"
)
# Build-Depends that make packages, manuals or nothing that a project's own build needs; toolchains have the compilers.
_PACKAGING = re.compile(
    r"debhelper|debhelper-compat|dh-.*|default-jdk.*|openjdk-.*|maven-.*|libmaven-.*|.*-debian-helper|ant|gradle|groovy"
    r"|golang-any|golang-go|golang-[0-9.]+-go|pkg-php-tools|pkg-kde-tools|lintian|python3?-all.*|php-all-dev"
    r"|pandoc|scdoc|help2man|doxygen.*|asciidoc.*|xmlto|docbook.*|texlive.*|groff|po4a|graphviz|txt2man|ronn|.*-doc"
)
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_IMPORT = re.compile(r"^\s*import\s+(?:static\s+)?([\w.]+)", re.MULTILINE)
_BUILD_FILES = (
    (r"configure\.(ac|in)$", r"PKG_CHECK_MODULES\s*\(\s*\[?\w+\]?\s*,\s*\[?([^\])]+)", "pkg_config"),
    (
        r"(CMakeLists\.txt|\.cmake)$",
        r"(?i)pkg_(?:check|search)_module[s]?\s*\(\s*\w+((?:\s+[\w.>=+-]+)+)",
        "pkg_config",
    ),
    (r"(CMakeLists\.txt|\.cmake)$", r"(?i)find_package\s*\(\s*(\w[\w+-]*)", "cmake"),
    (r"(CMakeLists\.txt|\.cmake)$", r"(?i)fetchcontent_declare\s*\(\s*(\w[\w+-]*)", "cmake"),
    (r"meson\.build$", r"dependency\s*\(\s*'([^']+)'", "pkg_config"),
    (r"[Mm]akefile[^/]*$|\.mk$", r"pkg-config\s+(?:--[\w-]+\s+)*([\w.+ -]+)", "pkg_config"),
    (r"^\.gitmodules$", r"url\s*=\s*\S*/([\w.+-]+?)(?:\.git)?\s*$", "cmake"),
)
_AUTOTOOLS = (
    (r"\bAX_", "autoconf-archive"),
    (r"GETTEXT|IT_PROG_INTLTOOL", "gettext autopoint intltool"),
    (r"AC_PROG_YACC|bison", "bison"),
    (r"PROG_LEX|flex", "flex"),
    (r"GTK_DOC", "gtk-doc-tools"),
    (r"GOBJECT_INTROSPECTION", "libgirepository1.0-dev"),
    (r"AM_PATH_PYTHON", "python3-dev"),
)
_SYSTEM_WORDS = frozenset({"REQUIRED", "QUIET", "IMPORTED_TARGET", "NO_CMAKE_PATH", "GLOBAL", "STATIC"})


def prerequisites(language: Language, tree: Tree) -> set[str]:
    """Names of Debian packages, some of which may not exist in this release."""
    found = set(_build_depends(text_of(tree, "debian/control")))
    if language in ("c", "cpp"):
        found |= _of_includes(language, tree) | _of_build_files(tree)
    elif language == "java":
        found |= _of_java_imports(tree)
    elif language == "php":
        found |= _of_composer(tree)
    elif language == "python":
        found |= _of_requirements(tree)
    return found


def packages_for(kind: Kind, name: str) -> set[str]:
    """The packages that hold what is called `name`: known ones, else those that the usual names suggest."""
    known = _knowledge()[kind]
    if kind in ("headers", "shared_objects", "java"):
        matching = [key for key in known if name.startswith(key)]
        return set(known[max(matching, key=len)].split()) if matching else set()
    for key in (name, name.lower(), name.lower().replace("_", "-")):
        if key in known:
            return set(known[key].split())
    if kind == "pkg_config":
        plain = re.sub(r"[-.]?\d+(\.\d+)*$", "", name.lower()).replace("_", "-")
        bare = plain.removeprefix("lib")
        return {f"lib{bare}-dev", f"{plain}-dev", f"lib{name.lower().removeprefix('lib')}-dev"}
    if kind in ("cmake", "libraries"):
        bare = name.lower().replace("_", "-").removeprefix("lib")
        return {f"lib{bare}-dev", f"{bare}-dev"}
    return set()


def go_packages(tree: Tree) -> list[str]:
    """Debian's names for the libraries of Go that a tree asks for, likelier ones first for each of them."""
    paths: dict[str, None] = {}
    for line in re.findall(
        r"^\s*(?:require\s+)?([\w.-]+\.[a-z]+/[\w.~/-]+)\s+v\d\S*", text_of(tree, "go.mod"), re.MULTILINE
    ):
        paths[line] = None
    if not paths:
        for name in [one for one in tree.files if one.endswith(".go") and "vendor/" not in one][:_MAX_SOURCES]:
            for path in re.findall(r'"((?:[\w-]+\.)+[a-z]+/[\w.~/-]+)"', text_of(tree, name)):
                paths["/".join(path.split("/")[: 2 if path.startswith("gopkg.in/") else 3])] = None
    return list(dict.fromkeys(name for path in paths for name in _go_names(path)))


def _go_names(path: str) -> Iterator[str]:
    """github.com/Owner/thing/v2 -> golang-github-owner-thing-dev …, as Debian's Go team names its packages."""
    path = re.sub(r"/v\d+$", "", path).lower().replace("_", "-")
    host, _, rest = path.partition("/")
    words = rest.split("/")
    site = host.rpartition(".")[0].removeprefix("www.").replace(".", "-")
    if host == "gopkg.in":
        version = re.search(r"\.v(\d+)$", rest)
        name = re.sub(r"\.v\d+$", "", rest).replace("/", "-")
        yield f"golang-gopkg-{name}.v{version[1] if version else 1}-dev"
        yield f"golang-{name}-dev"
        return
    if host == "golang.org":
        yield f"golang-golang-x-{words[-1]}-dev"
        return
    yield f"golang-{site}-{'-'.join(words)}-dev"
    if host != "github.com":
        # Of go.example.org and golang.example.org the middle counts, with or without what stands before it.
        middle = "-".join(part for part in host.split(".")[:-1] if part not in ("go", "golang"))
        yield f"golang-{middle}-{words[0]}-dev"
        yield f"golang-{host.rpartition('.')[0]}-{words[0]}-dev"
    if len(words) > 2:
        yield f"golang-{site}-{'-'.join(words[:2])}-dev"
    last = words[min(1, len(words) - 1)]
    # A name that says itself that it is Go's is often written without that.
    short = re.sub(r"^go-|[-.]go$", "", last)
    if short != last:
        yield f"golang-{site}-{words[0]}-{short}-dev"
    yield f"golang-{last}-dev"


@functools.cache
def _knowledge() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(_KNOWLEDGE.read_text(encoding="utf-8"))


def _build_depends(control: str) -> Iterator[str]:
    """Package names of the Build-Depends of a debian/control; of alternatives the first, none that only tests need."""
    source = "\n".join(line for line in control.split("\n\n")[0].splitlines() if not line.startswith("#"))
    for field in re.findall(
        r"^Build-Depends(?:-Arch|-Indep)?:(.*(?:\n[ \t].*)*)", source, re.MULTILINE | re.IGNORECASE
    ):
        for entry in field.replace("\n", " ").split(","):
            if "<!nocheck>" in entry or "<!nodoc>" in entry:
                continue
            name = _PACKAGE.match(entry.strip())
            if name is not None and not _PACKAGING.fullmatch(name[0]):
                yield name[0]


def _sources(language: Language, tree: Tree) -> list[str]:
    return [one for one in tree.files if one.endswith(_SUFFIXES[language]) and not _ASIDE.search(one.lower())][
        :_MAX_SOURCES
    ]


def _of_includes(language: Language, tree: Tree) -> set[str]:
    """A header that the tree has itself, by its path or its name, needs no package."""
    own = {name.rpartition("/")[2] for name in tree.files}
    included = {path for name in _sources(language, tree) for path in _INCLUDE.findall(text_of(tree, name))}
    foreign = [path for path in included if path.rpartition("/")[2] not in own]
    return {package for path in foreign for package in packages_for("headers", path)}


def _of_build_files(tree: Tree) -> set[str]:
    found: set[str] = set()
    for name in [one for one in tree.files if not _ASIDE.search(one.lower().rpartition("/")[0])]:
        for file, pattern, kind in _BUILD_FILES:
            if re.search(file, name):
                for said in re.findall(pattern, text_of(tree, name)):
                    for word in re.findall(r"[A-Za-z][\w.+-]*", said):
                        if word not in _SYSTEM_WORDS:
                            found |= packages_for("cmake" if kind == "cmake" else "pkg_config", word)
        if re.search(r"(^|/)configure\.(ac|in)$", name):
            text = text_of(tree, name)
            found |= {package for pattern, names in _AUTOTOOLS if re.search(pattern, text) for package in names.split()}
    names = {one.rpartition("/")[2] for one in tree.files}
    for file, packages in (
        ("CMakeLists.txt", "cmake"),
        ("meson.build", "meson ninja-build"),
        ("autogen.sh", "automake libtool"),
    ):
        found |= set(packages.split()) if file in names else set()
    if names & {"configure.ac", "configure.in"}:
        found |= {"autoconf", "automake", "libtool", "pkg-config"}
    if any(one.endswith((".y", ".yy", ".ypp")) for one in names):
        found.add("bison")
    if any(one.endswith((".l", ".ll", ".lpp")) for one in names):
        found.add("flex")
    if any(one.endswith((".cc", ".cpp", ".cxx")) for one in names):
        found.add("g++")
    return found


def _of_java_imports(tree: Tree) -> set[str]:
    imported = {one for name in _sources("java", tree) for one in _IMPORT.findall(text_of(tree, name))}
    return {package for name in imported for package in packages_for("java", name)}


def _of_composer(tree: Tree) -> set[str]:
    """Extensions and libraries of PHP as Debian calls them, and its test runner where there is a use for it."""
    try:
        composer = json.loads(text_of(tree, "composer.json") or "{}")
    except (ValueError, RecursionError):
        composer = {}
    wanted: dict[str, str] = {}
    for section in ("require", "require-dev"):
        part = composer.get(section) if isinstance(composer, dict) else None
        wanted |= part if isinstance(part, dict) else {}
    found = {"php-curl", "php-mbstring", "php-xml", "php-zip"}
    for name in wanted:
        vendor, _, rest = name.lower().partition("/")
        if name == "phpunit/phpunit":
            found.add("phpunit")
        elif name.startswith("ext-"):
            extension = {
                "pdo_mysql": "mysql",
                "mysqli": "mysql",
                "pdo_sqlite": "sqlite3",
                "pdo_pgsql": "pgsql",
                "dom": "xml",
                "simplexml": "xml",
            }
            word = name.removeprefix("ext-").lower()
            found.add(f"php-{extension.get(word, word)}")
        elif rest and "phpstan" not in name and "psalm" not in name and "cs-fixer" not in name:
            found |= {f"php-{vendor}-{rest}", f"php-{rest.removeprefix('php-')}"}
    if any(re.search(r"(^|/)phpunit\.xml", name) for name in tree.files):
        found.add("phpunit")
    return found


def _of_requirements(tree: Tree) -> set[str]:
    """What distributions that are compiled here need, wherever they are named."""
    known = _knowledge()["modules"]
    named: set[str] = set()
    for name in tree.files:
        base = name.rpartition("/")[2]
        if name.count("/") <= 1 and (
            base in ("setup.py", "setup.cfg", "pyproject.toml", "Pipfile", "environment.yml")
            or re.fullmatch(r"[\w.-]*require[\w.-]*\.(txt|in)", base)
        ):
            named |= set(re.findall(r"[a-z][a-z0-9_-]*", text_of(tree, name).lower().replace("_", "-")))
        elif base.endswith(".py") and name.count("/") <= 3:
            named |= set(
                re.findall(r"^\s*(?:import|from)\s+(tkinter|turtle|gi|pyaudio)\b", text_of(tree, name), re.MULTILINE)
            )
    return {package for name, packages in known.items() if name in named for package in packages.split()}
