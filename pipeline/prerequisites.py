"""Which Debian packages a tree asks for, as far as its files say so. Nothing is installed here."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.checkout import Tree
from pipeline.recipes import text_of
from pipeline.types import Language

_MAX_SOURCES = 400
"""Source files that are searched for the libraries they need."""

# What a source text that matches needs, where no packaging says so: (languages, pattern, Debian package).
_LIBRARIES: tuple[tuple[tuple[Language, ...], str, str], ...] = (
    (
        ("java",),
        r"import (static )?javax\.annotation\.(Nonnull|Nullable|CheckForNull|Parameters|meta)",
        "libjsr305-java",
    ),
    (("java",), r"import (static )?com\.google\.common\.", "libguava-java"),
    (("java",), r"import (static )?com\.google\.gson\.", "libgoogle-gson-java"),
    (("java",), r"import (static )?org\.slf4j\.", "libslf4j-java"),
    (("java",), r"import (static )?org\.apache\.commons\.lang3\.", "libcommons-lang3-java"),
    (("java",), r"import (static )?org\.apache\.commons\.io\.", "libcommons-io-java"),
    (("java",), r"import (static )?com\.fasterxml\.jackson\.", "libjackson2-databind-java"),
    (("c", "cpp"), r'#\s*include\s*[<"]zlib\.h', "zlib1g-dev"),
    (("c", "cpp"), r'#\s*include\s*[<"]bzlib\.h', "libbz2-dev"),
    (("c", "cpp"), r'#\s*include\s*[<"]lzma\.h', "liblzma-dev"),
    (("c", "cpp"), r'#\s*include\s*[<"](openssl/|crypto\.h)', "libssl-dev"),
    (("c", "cpp"), r'#\s*include\s*[<"]curl/', "libcurl4-openssl-dev"),
    (("c", "cpp"), r'#\s*include\s*[<"](n?curses|ncurses/\w+)\.h', "libncurses-dev"),
    (("c", "cpp"), r'#\s*include\s*[<"]readline/', "libreadline-dev"),
    (("c", "cpp"), r'#\s*include\s*[<"]sqlite3\.h', "libsqlite3-dev"),
    (("c", "cpp"), r'#\s*include\s*[<"]png\.h', "libpng-dev"),
    (("c", "cpp"), r'#\s*include\s*[<"]libxml/', "libxml2-dev"),
    (("c", "cpp"), r'#\s*include\s*[<"]pcre2\.h', "libpcre2-dev"),
    (("go",), r'(?m)^import "C"$', "gcc"),
    (("go",), r'(?m)^import "C"$', "libc6-dev"),
    (("cpp",), r'#\s*include\s*[<"]boost/', "libboost-all-dev"),
    (("cpp",), r'#\s*include\s*[<"]gtest/', "libgtest-dev"),
)
_SUFFIXES = {"go": (".go",), "java": (".java",), "c": (".c", ".h"), "cpp": (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp")}

# Build-Depends that make packages, manuals or nothing that a project's own build needs; toolchains have the compilers.
_PACKAGING = re.compile(
    r"debhelper|debhelper-compat|dh-.*|default-jdk.*|openjdk-.*|maven-.*|libmaven-.*|.*-debian-helper|ant|gradle|groovy"
    r"|golang-any|golang-go|golang-[0-9.]+-go|pkg-php-tools|pkg-kde-tools|lintian|python3?-all.*|php-all-dev"
    r"|pandoc|scdoc|help2man|doxygen.*|asciidoc.*|xmlto|docbook.*|texlive.*|groff|po4a|graphviz|txt2man|ronn|.*-doc"
)
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")


def prerequisites(language: Language, tree: Tree) -> set[str]:
    """Names of Debian packages, some of which may not exist in this release."""
    return {*_build_depends(text_of(tree, "debian/control")), *_libraries(language, tree)}


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


def _libraries(language: Language, tree: Tree) -> set[str]:
    rules = [(re.compile(pattern), package) for languages, pattern, package in _LIBRARIES if language in languages]
    needed: set[str] = set()
    sources = [name for name in tree.files if name.endswith(_SUFFIXES.get(language, ())) and "test" not in name.lower()]
    for name in sources[:_MAX_SOURCES]:
        text = text_of(tree, name)
        needed |= {package for pattern, package in rules if pattern.search(text)}
    return needed
