"""Which repositories and packages the labels of the ScoreModel come from: the rule, and the list that it gives.

Names are drawn in the order of `sha256(seed/ecosystem/name)`, so nobody chose one, and nothing in the rule knows
whether a project can be built:

- PyPI and npm: the first names of catalogues (tab-separated: name, version, …), each asked for once in the version
  that stands there. One without a source archive of at most MAX_ARCHIVE bytes stays in the list as left out, and no
  other takes its place. Names of npm below @types hold no JavaScript and are not drawn. Of each 28 and 18 were drawn
  at first; the further ones came when 121 outcomes were known, and none of those changed what is drawn or learned.
- Debian: of the first MAX_PLACE source packages of the release that the `fetch` toolchain knows, those of at most
  MAX_SOURCE bytes whose archives the mirror in use really has (many answer 404), until there are PER_LANGUAGE of each
  language. What a package builds with says its language, and most bytes of its own sources have to be in it; between C
  and C++ these alone decide.
- GitHub: every clone below a folder of mirrors, in the language with most bytes (that of the experiment
  image_curation where it is listed there).

Packages that were pinned for the corpus or for image_curation are not drawn: rules were written while looking at them.
Building is not done here.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from pipeline.checkout import CheckoutConfig
from pipeline.downloads import FOLDER, NAME_PATTERN, NPM_PACK, VERSION_PATTERN, download, fetch_container
from pipeline.errors import InfrastructureFailure, ItemRejected
from pipeline.sources.local import LocalConfig, LocalPath, LocalSource
from pipeline.sources.registry import Package
from pipeline.types import Language
from sandbox.protocol import Backend, Sandbox

EXPERIMENT = Path(__file__).resolve().parents[2] / "training" / "experiments" / "score_model"
LIST = EXPERIMENT / "list.jsonl"
SEED = "score-model-1"
DRAWN: Mapping[str, int] = {"pypi": 60, "npm": 40}
PER_LANGUAGE = 8
MAX_PLACE = 1500
MAX_ARCHIVE = 3 * 2**20
MAX_SOURCE = 2 * 2**20
MAX_INDEX = 256 * 2**20
TIMEOUT_S = 120.0

_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "pypi": re.compile(NAME_PATTERN),
    "npm": re.compile(rf"(?!@types/){NAME_PATTERN}"),
}
_COMMANDS: Mapping[str, str] = {
    "pypi": "unearth --no-binary --download . {name}=={version} > /dev/null",
    "npm": NPM_PACK,
}
_LANGUAGE_OF: Mapping[str, Language] = {"pypi": "python", "npm": "javascript"}

# What Debian's packages are built with -> the language they are in. The first that fits counts.
_HELPERS: tuple[tuple[Language | None, re.Pattern[str]], ...] = (
    ("go", re.compile(r"\bdh-golang\b|\bgolang-(any|go)\b")),
    ("java", re.compile(r"\b(javahelper|maven-debian-helper|maven-repo-helper|gradle-debian-helper|default-jdk)\b")),
    ("php", re.compile(r"\b(pkg-php-tools|phpab|dh-php)\b")),
    ("javascript", re.compile(r"\b(dh-nodejs|dh-sequence-nodejs|pkg-js-tools|nodejs)\b")),
    ("python", re.compile(r"\b(dh-python|dh-sequence-python3|python3(-all)?(-dev)?|python3-setuptools)\b")),
    (
        None,
        re.compile(
            r"\b(ghc|haskell-devscripts\S*|gem2deb|ruby\S*|ocaml\S*|dh-ocaml|cargo|rustc|dh-cargo|r-base-dev|dh-r|"
            r"dh-elpa|emacs\S*|dh-octave|erlang\S*|rebar\S*|gnat\S*|mono-\S+|fpc|sbcl|guile\S*|valac|gfortran|"
            r"dh-lua|libmodule-build-perl|libextutils-\S+-perl|texlive\S*|fontforge|fontmake)(?=[ ,(:<|]|$)"
        ),
    ),
)
_SUFFIXES: Mapping[str, str] = {
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), "cpp"),
    ".go": "go",
    ".java": "java",
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), "javascript"),
    ".php": "php",
    ".py": "python",
    # Languages that are not ours, so that a package in one of them is no package of C.
    **{
        suffix: suffix for suffix in (".pl", ".pm", ".rb", ".rs", ".ml", ".hs", ".lua", ".el", ".r", ".f90", ".f", ".s")
    },
    **{suffix: suffix for suffix in (".ts", ".scala", ".kt", ".cs", ".vala", ".pas", ".adb", ".lisp", ".scm", ".tcl")},
}
# Of the two C's only one is looked for at first: the tree tells which it is.
_C_FAMILY: tuple[Language, ...] = ("c", "cpp")
DEBIAN_LANGUAGES: tuple[Language, ...] = (*_C_FAMILY, "go", "java", "javascript", "php", "python")


@dataclass(frozen=True)
class Listed:
    """One line of the list."""

    ecosystem: str
    name: str
    """Of a clone `owner/name`."""
    version: str
    """Of a clone its commit."""
    language: Language
    date: str | None = None
    """Of the last commit or of the upload, as far as it is known here: a year and a month, or more."""
    files: dict[str, str] = field(default_factory=dict)
    """Archive -> SHA-256, of packages."""
    left_out: str | None = None
    """Why it cannot be built, found before anything was."""

    @property
    def id(self) -> str:
        return f"{self.ecosystem}/{self.name}"

    @property
    def owner(self) -> str:
        """Who owns a repository; a package, whose author nobody told us, owns itself."""
        return self.name.partition("/")[0] if self.ecosystem == "github" else self.id

    @property
    def package(self) -> Package:
        return Package.model_validate(
            {name: getattr(self, name) for name in ("ecosystem", "name", "version", "language", "files")}
        )


def read_list(path: Path = LIST) -> list[Listed]:
    """The committed list."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Listed(**json.loads(line)) for line in lines]


def extend_list(found: Iterable[Listed], path: Path = LIST) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as sink:
        sink.writelines(json.dumps(asdict(one)) + "\n" for one in found)


def place(ecosystem: str, name: str, seed: str = SEED) -> str:
    """Where a name stands in the order of the draw."""
    return hashlib.sha256(f"{seed}/{ecosystem}/{name}".encode()).hexdigest()


def pinned_before() -> frozenset[str]:
    """Ids of the packages that rules were written with."""
    root = EXPERIMENT.parents[2]
    lists = (root / "pipeline/sources/corpus.json", root / "training/experiments/image_curation/packages.json")
    packages = [one for path in lists for one in json.loads(path.read_text())["packages"]]
    return frozenset(f"{one['ecosystem']}/{one['name']}" for one in packages)


def drawn(ecosystem: str, catalogue: Iterable[str], count: int) -> list[tuple[str, str, str]]:
    """(name, version, third column) of the first names of a catalogue, whose first line names its columns."""
    lines = (line.rstrip("\n").split("\t") for line in list(catalogue)[1:])
    known = pinned_before()
    allowed = [
        (parts[0], parts[1], parts[2])
        for parts in lines
        if len(parts) >= 3
        and _PATTERNS[ecosystem].fullmatch(parts[0])
        and re.fullmatch(VERSION_PATTERN, parts[1])
        and f"{ecosystem}/{parts[0]}" not in known
    ]
    return sorted(allowed, key=lambda one: place(ecosystem, one[0]))[:count]


def packages_of(
    ecosystem: str, catalogue: Path, listed: Container[str], backend: Backend, image: Callable[[], str]
) -> Iterator[Listed]:
    """The drawn packages of PyPI or npm that are not `listed` (ids), each downloaded once to know its archive."""
    with catalogue.open(encoding="utf-8") as lines:
        chosen = [one for one in drawn(ecosystem, lines, DRAWN[ecosystem]) if f"{ecosystem}/{one[0]}" not in listed]
    for name, version, third in chosen:
        one = Listed(ecosystem, name, version, _LANGUAGE_OF[ecosystem], third if ecosystem == "pypi" else None)
        with fetch_container(backend, image, one.id, TIMEOUT_S) as sandbox:
            yield _looked_at(one, sandbox)


def _looked_at(one: Listed, sandbox: Sandbox) -> Listed:
    command = _COMMANDS[one.ecosystem].format(name=shlex.quote(one.name), version=shlex.quote(one.version))
    about = asdict(one)
    try:
        download(sandbox, one.ecosystem, one.id, command, TIMEOUT_S)  # type: ignore[arg-type]
    except ItemRejected as error:
        return Listed(**about | {"left_out": error.failure_class})
    except InfrastructureFailure:
        return Listed(**about | {"left_out": "infrastructure"})
    sums = sandbox.execute(f"cd {FOLDER} && sha256sum -- *", timeout_s=TIMEOUT_S).output.split()
    size = int(sandbox.execute(f"cat {FOLDER}/* | wc -c", timeout_s=TIMEOUT_S).output)
    if len(sums) != 2:
        return Listed(**about | {"left_out": "no_archive"})
    if one.ecosystem == "npm":
        about["date"] = _npm_date(one, sandbox)
    return Listed(**about | {"files": {sums[1]: sums[0]}, "left_out": "too_large" if size > MAX_ARCHIVE else None})


def _npm_date(one: Listed, sandbox: Sandbox) -> str | None:
    command = f"npm view --json --loglevel=error --no-update-notifier {shlex.quote(one.name)} time"
    found = re.search(
        rf'"{re.escape(one.version)}": "(\d{{4}}-\d\d-\d\d)T', sandbox.execute(command, timeout_s=TIMEOUT_S).output
    )
    return found[1] if found else None


@dataclass(frozen=True)
class Source:
    """A stanza of Debian's index of source packages, as far as the draw looks at it."""

    name: str
    version: str
    built_with: str
    files: dict[str, str]
    size: int

    @property
    def helper(self) -> tuple[Language, ...]:
        """The languages it may be in by what it is built with; none of ours is an empty tuple."""
        for language, pattern in _HELPERS:
            if pattern.search(self.built_with):
                return (language,) if language else ()
        return _C_FAMILY


def sources(index: str) -> Iterator[Source]:
    """The stanzas of an index. Names that the registry source would refuse are left out."""
    for stanza in index.split("\n\n"):
        fields = _fields(stanza)
        archives = [line.split() for line in fields.get("Checksums-Sha256", "").splitlines() if line.strip()]
        name, version = fields.get("Package", ""), fields.get("Version", "")
        if archives and re.fullmatch(NAME_PATTERN, name) and re.fullmatch(VERSION_PATTERN, version):
            built_with = " ".join(value for key, value in fields.items() if key.startswith("Build-Depends"))
            files = {file: sha256 for sha256, _, file in archives if not file.endswith(".asc")}
            yield Source(name, version, built_with, files, sum(int(size) for _, size, _ in archives))


def _fields(stanza: str) -> dict[str, str]:
    found: dict[str, str] = {}
    key = ""
    for line in stanza.splitlines():
        if line[:1] in (" ", "\t"):
            found[key] = f"{found.get(key, '')}\n{line.strip()}"
        else:
            key, _, value = line.partition(":")
            found[key] = value.strip()
    return found


def own_language(sizes: Iterable[tuple[str, int]]) -> str | None:
    """What most bytes of a tree's sources are written in, packaging aside; headers count for what they are beside."""
    total: Counter[str] = Counter()
    for name, size in sizes:
        suffix = _SUFFIXES.get(PurePosixPath(name).suffix.lower())
        if suffix is not None and not name.startswith("debian/"):
            total[suffix] += size
    if total["cpp"]:
        total["cpp"] += total.pop("c", 0)
    return max(total, key=lambda suffix: (total[suffix], suffix)) if total else None


def debian_packages(backend: Backend, image: Callable[[], str]) -> Iterator[Listed]:
    """Drawn source packages until each language has its number."""
    missing = Counter(dict.fromkeys(DEBIAN_LANGUAGES, PER_LANGUAGE))
    known = pinned_before()
    with fetch_container(backend, image, "the index of source packages", 900.0) as sandbox:
        where = "$(apt-get indextargets --format '$(FILENAME)' 'Created-By: Sources')"
        sandbox.execute(f"mkdir -p {FOLDER} && /usr/lib/apt/apt-helper cat-file {where} > {FOLDER}/index", timeout_s=90)
        index = (sandbox.get(f"{FOLDER}/index", max_bytes=MAX_INDEX) or b"").decode()
        for source in sorted(sources(index), key=lambda one: place("debian", one.name))[:MAX_PLACE]:
            if not +missing:
                return
            wanted = [language for language in source.helper if missing[language] > 0]
            if not wanted or source.size > MAX_SOURCE or f"debian/{source.name}" in known:
                continue
            language = _unpacked_language(source, sandbox)
            if language in wanted:
                missing[language] -= 1
                yield Listed("debian", source.name, source.version, language, None, source.files)


def _unpacked_language(source: Source, sandbox: Sandbox) -> str | None:
    """What the tree is written in; None where it does not come or does not unpack."""
    name, version = shlex.quote(source.name), shlex.quote(source.version)
    get = f"rm -rf {FOLDER} && mkdir {FOLDER} && cd {FOLDER} && apt-get source -qq -o APT::Sandbox::User=root"
    listing = "cd */ && find . -type f -printf '%s %P\\n'"
    result = sandbox.execute(f"({get} {name}={version} > /dev/null 2>&1 && {listing} > ../list)", timeout_s=TIMEOUT_S)
    found = sandbox.get(f"{FOLDER}/list", max_bytes=MAX_INDEX) if result.exit_code == 0 else None
    lines = (line.partition(" ") for line in (found or b"").decode("utf-8", "replace").splitlines())
    return own_language((path, int(size)) for size, _, path in lines)


def clones(mirrors: Path) -> Iterator[Listed]:
    """Every git clone below a folder, as OWNER+NAME or OWNER+NAME/repo."""
    curated = EXPERIMENT.parent / "image_curation" / "repositories.jsonl"
    known = {one["full_name"]: one["language"] for one in map(json.loads, curated.read_text().splitlines())}
    for folder in sorted(path for path in mirrors.iterdir() if "+" in path.name and path.is_dir()):
        name = folder.name.replace("+", "/", 1)
        entry = LocalPath(path=clone(mirrors, name).relative_to(mirrors), language=known.get(name))
        source = LocalSource(LocalConfig(paths=(entry,)), CheckoutConfig(), mirrors)
        repository = next(source.repositories(None))
        refused = repository.commit.startswith("refused-")
        yield Listed(
            "github",
            name,
            repository.commit,
            repository.language,
            _last_commit(clone(mirrors, name)),
            left_out="unreadable" if refused else None,
        )


def clone(mirrors: Path, name: str) -> Path:
    """Where the clone of `owner/name` lies."""
    folder = mirrors / name.replace("/", "+")
    return folder / "repo" if (folder / "repo").is_dir() else folder


def _last_commit(folder: Path) -> str:
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), "log", "-1", "--format=%cs", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
