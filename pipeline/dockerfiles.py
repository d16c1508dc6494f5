"""Repository -> the Dockerfiles worth trying, best first: its own, then the template of its language.

In every image the tree lies at `/workspace/<name>` as a developer cloned it, the project is installed or built beside
it (under /usr/local, in a virtual environment …), and bash, git, coreutils and python3 are there. Nothing is built
here, and no settings of package indexes are written here: both are the sandbox package's. The shell of a template lies
in `templates/`; `@words@` in it are filled in here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipeline import own_dockerfile
from pipeline.checkout import Tree
from pipeline.types import Language, Repository
from sandbox.types import ImageSpec

Strategy = Literal["own_dockerfile", "template"]

TEMPLATES = Path(__file__).with_name("templates")

_MAX_TEXT = 2**20
"""Bytes read of a file that decides something."""
_MAX_SOURCES = 400
"""Source files that are searched for the libraries they need."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """`template` is taken for a tree of one of the `languages` that has one of the `files` (any tree when empty)."""

    languages: tuple[Language, ...]
    files: tuple[str, ...]
    template: str
    packages: tuple[str, ...] = ()
    """Debian packages that the template needs and the toolchain may lack."""
    scripts: tuple[str, ...] = ()
    """Files of `templates/` that the template runs from /tmp."""


# The first rule that fits counts.
_RULES = (
    _Rule(("python",), (), "python"),
    _Rule(("javascript", "html"), (), "npm", scripts=("link.js",)),
    _Rule(("php",), (), "php", packages=("phpab",), scripts=("install.php",)),
    _Rule(("java",), (), "java"),
    _Rule(("go",), ("debian/control",), "go-debian"),
    _Rule(("go",), ("go.mod",), "go-modules"),
    _Rule(("c", "cpp"), ("CMakeLists.txt",), "cmake", packages=("cmake",)),
    _Rule(("c", "cpp"), ("configure", "configure.ac", "configure.in", "autogen.sh"), "autotools"),
    _Rule(("c", "cpp"), ("meson.build",), "meson", packages=("meson", "ninja-build")),
    _Rule(("c", "cpp"), ("Makefile", "makefile", "GNUmakefile"), "make"),
    _Rule(("go", "c", "cpp"), (), "plain"),
)

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
_EXTRAS = ("cli", "test", "tests")
_HEAD = """\
FROM @toolchain@
@install@COPY . @workdir@
WORKDIR @workdir@
@clean@"""
# The tree may be older or newer than the package lists of the toolchain, and a package may be gone altogether.
_INSTALL = """\
RUN export DEBIAN_FRONTEND=noninteractive packages='@packages@'; \\
    install() { apt-get install -y -qq --no-install-recommends "$@" > /dev/null; }; \\
    install $packages || { apt-get update -qq && install $packages; } \\
 || for package in $packages; do install "$package" || echo "not installed: $package"; done
"""
_PYTHON = "{ command -v python3 > /dev/null || apt-get install -y -qq python3 > /dev/null; }"


def candidates(repository: Repository, tree: Path, toolchain: Callable[[str], str]) -> list[tuple[Strategy, ImageSpec]]:
    """What to try for `repository`, in this order, until one builds.

    `tree` is the normalised tar of its files (named by its hash), `toolchain` gives the tag of the image that has the
    tools of a language. Raises OSError or tarfile.TarError when `tree` is no stored tree.
    """
    files = Tree(tree)
    workdir = f"/workspace/{repository.name}"
    ignore = _ignore(files)
    clean = _clean(repository, ignore)
    found: list[tuple[Strategy, str, dict[str, str]]] = []
    if (own := own_dockerfile.find(files)) is not None:
        found.append(("own_dockerfile", own_dockerfile.extend(files, own, workdir, clean), {}))
    found.append(("template", *_template(repository, files, clean, toolchain(repository.language))))
    return [
        (
            strategy,
            ImageSpec(
                name=repository.name,
                dockerfile=dockerfile,
                context=tree,
                context_sha256=tree.stem,
                context_files=ignore | scripts,
                workdir=workdir,
            ),
        )
        for strategy, dockerfile, scripts in found
    ]


def _ignore(tree: Tree) -> dict[str, str]:
    """What makes a .dockerignore harmless: agents see the whole tree, documents and the .dockerignore as well."""
    if ".dockerignore" not in tree.files:
        return {}
    return {".dockerignore": "", ".touchstone/dockerignore": _text(tree, ".dockerignore")}


def _clean(repository: Repository, ignore: dict[str, str]) -> str:
    """Shell, run in the tree, that takes out our files and, of Debian packages, what is not upstream's."""
    ours = [".touchstone", ".touchstone.Dockerfile"]
    if repository.full_name.startswith("debian/"):
        ours += ["debian", ".pc"]
    restore = "mv -f .touchstone/dockerignore .dockerignore && " if ignore else ""
    return f"{restore}rm -rf {' '.join(ours)}"


def _template(repository: Repository, tree: Tree, clean: str, toolchain: str) -> tuple[str, dict[str, str]]:
    """The Dockerfile and the scripts that it runs."""
    rule = _rule(repository.language, tree)
    control = _text(tree, "debian/control")
    packages = sorted({*rule.packages, *_build_depends(control), *_libraries(repository.language, tree)})
    scripts = {f".touchstone/{name}": (TEMPLATES / name).read_text(encoding="utf-8") for name in rule.scripts}
    steps = [*(f"mv {path} /tmp/" for path in scripts), clean, _PYTHON]
    words = {
        "install": _INSTALL.replace("@packages@", " ".join(packages)) if packages else "",
        "clean": f"RUN {' && '.join(steps)}\n",
        "toolchain": toolchain,
        "workdir": f"/workspace/{repository.name}",
        "name": repository.name,
        "extras": _extras(tree),
        "import_path": _import_path(control, _text(tree, "go.mod")) or repository.name,
    }
    text = _HEAD + (TEMPLATES / f"{rule.template}.Dockerfile").read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text, scripts


def _rule(language: Language, tree: Tree) -> _Rule:
    return next(
        rule
        for rule in _RULES
        if language in rule.languages and (not rule.files or any(name in tree.files for name in rule.files))
    )


def _text(tree: Tree, name: str) -> str:
    """The text of a file, empty when there is none."""
    if name not in tree.files:
        return ""
    return tree.read(name, max_bytes=_MAX_TEXT).decode("utf-8", "replace").replace("\r\n", "\n")


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
        text = _text(tree, name)
        needed |= {package for pattern, package in rules if pattern.search(text)}
    return needed


def _import_path(control: str, go_mod: str) -> str:
    """The import path of a Go tree as its packaging or else its go.mod names it."""
    found = re.search(r"^XS-Go-Import-Path:\s*([\w.~/-]+)", control, re.MULTILINE)
    found = found or re.search(r"^module\s+\"?([\w.~/-]+)", go_mod, re.MULTILINE)
    return found[1] if found else ""


def _extras(tree: Tree) -> str:
    """The optional dependencies that make the documented programs and the tests work, as pip writes them."""
    try:
        project = tomllib.loads(_text(tree, "pyproject.toml")).get("project", {})
    except tomllib.TOMLDecodeError:
        return ""  # pip will say what is wrong with it, on the row of the build.
    chosen = [name for name in _EXTRAS if name in project.get("optional-dependencies", {})]
    return f"[{','.join(chosen)}]" if chosen else ""
