"""A repository as numbers, from its tar and metadata alone and without any network: what the learned score looks at.

No feature knows an owner, a name or a place on this machine, and no word of a text is one: only how many there are of
what, and how good it is. The parts are in dockerfile_facts.py, manifest_facts.py and file_quality.py; what is learned
from them is not here.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Literal

from pipeline.checkout import Tree
from pipeline.scoring.dockerfile_facts import dockerfile_facts
from pipeline.scoring.file_quality import FileQuality, judge
from pipeline.scoring.manifest_facts import MAX_READ, manifest_facts, text_of
from pipeline.scoring.signals import BUILD_FILES, CI, EXTENSIONS, LOCK_FILES, signals_of
from pipeline.types import LANGUAGES, Checkout, Repository

VERSION = "features@2"
"""Changes when any feature changes its meaning or value; models of another version are refused."""

_Part = Literal["sources", "build", "scripts", "tests"]
_MAX_FILES: Mapping[_Part, int] = {"sources": 40, "build": 12, "scripts": 10, "tests": 10}
"""Files of each part whose quality is judged: those near the root, larger ones first."""
_MAX_JUDGED = 200_000
"""Larger files are generated or data, and a beginning alone would look cut."""

_ASIDE = re.compile(r"(^|/)(vendor|third_?party|node_modules|external|deps)/", re.IGNORECASE)
_MARKS: Mapping[str, re.Pattern[str]] = {
    # Feature -> what a path of the tree looks like that has it.
    "configure": re.compile(r"configure"),
    "configure_ac": re.compile(r"configure\.(ac|in)"),
    "makefile": re.compile(r"(GNUm|[Mm])akefile"),
    "cmake": re.compile(r"CMakeLists\.txt"),
    "meson": re.compile(r"meson\.build"),
    "go_mod": re.compile(r"go\.mod"),
    "package_json": re.compile(r"package\.json"),
    "pyproject": re.compile(r"pyproject\.toml"),
    "setup_py": re.compile(r"setup\.py"),
    "requirements": re.compile(r"requirements[\w.-]*\.txt"),
    "composer_json": re.compile(r"composer\.json"),
    "pom": re.compile(r"pom\.xml"),
    "gradle": re.compile(r"build\.gradle(\.kts)?"),
    "gradle_wrapper": re.compile(r"gradlew"),
    "ant": re.compile(r"build\.xml"),
    "debian": re.compile(r"debian/rules"),
    "compose": re.compile(r"(docker-)?compose\.ya?ml"),
    "submodules": re.compile(r"\.gitmodules"),
    "bazel": re.compile(r"WORKSPACE|MODULE\.bazel"),
    "tox": re.compile(r"tox\.ini|noxfile\.py"),
    "ci": CI,
}
_LFS = b"version https://git-lfs"
_YEAR = re.compile(r"\b(?:199\d|20[0-2]\d)\b")
_DATED = re.compile(
    r"(^|/)(readme|change(s|log)|news|history|licen[cs]e|copying|releases?)[^/]*$|^debian/changelog$", re.I
)
_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*<([\w./+-]+)>", re.M)
_MAIN = re.compile(
    rb"\bint\s+main\s*\(|^package main\b|\bpublic static void main\b|__name__\s*==\s*['\"]__main__", re.M
)
_WINDOWS = re.compile(rb"#\s*include\s*<(?:windows|winsock2|tchar|conio)\.h>", re.I)
_BINARY = (".png", ".jpg", ".gif", ".pdf", ".zip", ".jar", ".so", ".dll", ".exe", ".bin", ".woff", ".ttf")
_OF_THE_SYSTEM = (b"sys/", b"netinet/", b"arpa/", b"bits/")


def metadata_features(repository: Repository, checkout: Checkout) -> dict[str, float]:
    """What is known without opening the tree."""
    found = {f"language_{language}": float(repository.language == language) for language in LANGUAGES}
    found["log_files"] = math.log1p(checkout.n_files)
    found["log_bytes"] = math.log1p(checkout.n_bytes)
    found["log_mean_bytes"] = math.log1p(checkout.n_bytes / max(1, checkout.n_files))
    found["has_licence"] = float(checkout.license is not None)
    found["warnings"] = float(len(checkout.warnings))
    return found


def features_of(repository: Repository, checkout: Checkout, tree_path: Path) -> dict[str, float]:
    """All features, every one finite. Raises OSError or tarfile.TarError when `tree_path` is no stored tree."""
    tree = Tree(tree_path)
    parts = _parts(tree, repository)
    found = metadata_features(repository, checkout)
    found |= _of_paths(tree, repository, parts)
    found |= _of_texts(tree)
    found |= _of_sources(tree, parts["sources"])
    found |= _of_quality(tree, parts)
    found |= {name: _tamed(value) for name, value in manifest_facts(tree).items()}
    found |= {name: _tamed(value) for name, value in dockerfile_facts(tree).items()}
    return {name: round(value, 6) for name, value in found.items()}


def _tamed(value: float) -> float:
    """Counts above 1 as their logarithm: the step from 0 to 1 says more than that from 50 to 51."""
    return math.log1p(value) if value > 1.0 else value


def _parts(tree: Tree, repository: Repository) -> dict[_Part, list[str]]:
    """The files of each part, those near the root first, larger ones before smaller ones: names do not choose."""
    found: dict[_Part, list[str]] = {part: [] for part in _MAX_FILES}
    for name in sorted(tree.files, key=lambda path: (path.count("/"), -tree.files[path], path)):
        if _ASIDE.search(name):
            continue
        for signal in signals_of(name, repository.language):
            if signal in ("sources", "build", "scripts", "tests"):
                found[signal].append(name)
    return found


def _of_paths(tree: Tree, repository: Repository, parts: Mapping[_Part, list[str]]) -> dict[str, float]:
    names = list(tree.files)
    bases = Counter(name.rpartition("/")[2].lower() for name in names)
    depths = [name.count("/") for name in names] or [0]
    endings = EXTENSIONS[repository.language]
    own = sum(name.lower().endswith(endings) for name in names)
    manifests = [name for name in names if name.rpartition("/")[2].lower() in BUILD_FILES]
    found = {f"has_{mark}": float(any(pattern.fullmatch(name) for name in names)) for mark, pattern in _MARKS.items()}
    found |= {f"n_{part}": math.log1p(len(files)) for part, files in parts.items()}
    found |= {
        "language_share": own / len(names) if names else 0.0,
        "root_build_file": float(any("/" not in name for name in manifests)),
        "build_file_depth": float(min((name.count("/") for name in manifests), default=5)),
        "build_files": math.log1p(len(manifests)),
        "lock_files": float(sum(bases[name] > 0 for name in LOCK_FILES)),
        "raw_autotools": found["has_configure_ac"] * (1.0 - found["has_configure"]),
        "vendored": float(any(_ASIDE.search(name) for name in names)),
        "vendored_share": sum(_ASIDE.search(name) is not None for name in names) / len(names) if names else 0.0,
        "max_depth": float(max(depths)),
        "mean_depth": fmean(depths),
        "binary_share": sum(name.lower().endswith(_BINARY) for name in names) / max(1, len(names)),
        "root_files": math.log1p(sum("/" not in name for name in names)),
    }
    return found


def _of_texts(tree: Tree) -> dict[str, float]:
    """What documents and CI files say about builds, and from when they are."""
    readme = min((name for name in tree.files if re.fullmatch(r"readme[^/]*", name, re.I)), default=None)
    said = text_of(tree, readme)
    ci = [text_of(tree, name) for name in tree.files if CI.match(name)][:10]
    dated = [name for name in tree.files if name.count("/") <= 1 and _DATED.search(name)][:12]
    years = [int(year) for name in dated for year in _YEAR.findall(text_of(tree, name))]
    pointers = (name for name, size in tree.files.items() if 100 <= size <= 200)
    lfs = sum(tree.read(name, max_bytes=40).startswith(_LFS) for name in list(pointers)[:500])
    return {
        "readme": float(readme is not None),
        "readme_length": math.log1p(len(said)),
        "readme_docker": float("docker" in said.lower()),
        "readme_commands": math.log1p(len(re.findall(r"^(?:[ \t]*\$ |```|~~~| {4}\S)", said, re.M))),
        "ci_docker": float(any("docker" in text.lower() for text in ci)),
        "newest_year": float(max((year for year in years if year <= 2026), default=2010) - 2000),
        "lfs_pointers": math.log1p(lfs),
    }


def _of_sources(tree: Tree, names: list[str]) -> dict[str, float]:
    """What the sources need from the machine: headers of others, a system, a compiler beside their own."""
    own = {name.rpartition("/")[2] for name in tree.files}
    foreign: set[bytes] = set()
    windows = programs = cgo = 0
    for name in names[:200]:
        text = tree.read(name, max_bytes=MAX_READ)
        windows += _WINDOWS.search(text) is not None
        programs += _MAIN.search(text) is not None
        cgo += b'\nimport "C"' in text
        foreign.update(path for path in _INCLUDE.findall(text) if path.decode().rpartition("/")[2] not in own)
    of_libraries = [path for path in foreign if b"/" in path and not path.startswith(_OF_THE_SYSTEM)]
    return {
        "foreign_headers": math.log1p(len(foreign)),
        "library_headers": math.log1p(len(of_libraries)),
        "windows_sources": math.log1p(windows),
        "programs": math.log1p(programs),
        "cgo": float(cgo > 0),
    }


def _of_quality(tree: Tree, parts: Mapping[_Part, list[str]]) -> dict[str, float]:
    """The quality of files, part by part: its mean, and for build files the worst."""
    found: dict[str, float] = {}
    for part, names in parts.items():
        judged = list(_judged(tree, names[: _MAX_FILES[part] * 2], _MAX_FILES[part]))
        # Without a file of a part there is nothing good about it.
        found[f"quality_{part}"] = fmean([one.quality for one in judged] or [0.0])
        if part in ("sources", "build"):
            found[f"completeness_{part}"] = fmean([one.completeness for one in judged] or [0.0])
            found[f"executability_{part}"] = fmean([one.executability for one in judged] or [0.0])
            found[f"unparsed_{part}"] = fmean([float(one.flaws["unparsed"] > 0) for one in judged] or [0.0])
            found[f"unresolved_{part}"] = fmean([one.flaws["unresolved"] for one in judged] or [0.0])
        if part == "build":
            found["worst_build"] = min((one.quality for one in judged), default=0.0)
    return found


def _judged(tree: Tree, names: list[str], most: int) -> Iterator[FileQuality]:
    for name in [name for name in names if 0 < tree.files[name] <= _MAX_JUDGED][:most]:
        text = tree.read(name, max_bytes=_MAX_JUDGED).decode("utf-8", "replace")
        yield judge(name, text)
