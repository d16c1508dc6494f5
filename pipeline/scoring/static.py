"""How likely a repository is to give an image that works, before anything is built.

`StaticScorer` is a baseline made of judgement, not of data: no weight in it was fitted. A learned model implements the
same `Scorer`; its training is not here, and neither is building.

Each file that says something about one of six signals gets a quality in [0, 1]. The repository's score is
`sum over signals of weight * quality of the best file of that signal`, with weights that add up to 1. The best file
counts and not the mean, because one good build file is what a build needs, however many poor ones lie beside it.

The material of a domain and task folders are not judged: they were written to give an image, and have the score 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from pipeline.checkout import Tree
from pipeline.scoring.protocol import ScoreConfig
from pipeline.scoring.signals import BUILD_FILES, DOCKERFILE, LOCK_FILES, Signal, signals_of
from pipeline.types import TASKS, Checkout, Language, Repository, Score

WEIGHTS: dict[Signal, float] = {
    "build": 0.35,  # a file that says how the project is built or installed, or pins what it needs
    "sources": 0.25,  # code in the repository's language
    "documentation": 0.20,  # documents with commands in them: tasks are made from these
    "tests": 0.10,
    "automation": 0.05,  # Dockerfiles and CI: somebody's machine has built this
    "scripts": 0.05,
}

_COMMANDS = re.compile(
    r"^[ \t]*(```|~~~)[ \t]*(sh|bash|shell|console|zsh)\b|^[ \t]*\$ \S|^\.\. code-block:: *(bash|console|sh|shell)",
    re.MULTILINE,
)
_FENCE = re.compile(r"^[ \t]*(```|~~~)|::[ \t]*$|^(\t| {4})\S", re.MULTILINE)

_MAX_READ = 65_536
_MAX_PER_SIGNAL = 400
"""Files read for one signal; more of them cannot change what the best one says by much."""


class StaticScorer:
    """Scores what the files say, see the head of this module."""

    def __init__(self, config: ScoreConfig) -> None:
        self._config = config

    @property
    def name(self) -> str:
        return "static@2"

    def score(self, repository: Repository, checkout: Checkout, tree: Path) -> Score:
        """As in `Scorer`. `features` holds the best quality and the number of files of each signal, and the mean.

        For the material of a domain and for task folders it says that it is `curated`, and nothing of signals.
        """
        size = {"n_files": float(checkout.n_files), "n_bytes": float(checkout.n_bytes)}
        if repository.domain is not None or repository.source == TASKS:
            return self._config.scored(repository, self.name, 1.0, {"curated": 1.0, **size})
        qualities: dict[Signal, list[float]] = {signal: [] for signal in get_args(Signal)}
        for signal, quality in _file_qualities(Tree(tree), repository.language):
            qualities[signal].append(quality)
        best = {signal: max(values, default=0.0) for signal, values in qualities.items()}
        score = min(1.0, sum(WEIGHTS[signal] * quality for signal, quality in best.items()))
        judged = [quality for values in qualities.values() for quality in values]
        features = {f"best_{signal}": round(quality, 4) for signal, quality in best.items()}
        features |= {f"n_{signal}": float(len(values)) for signal, values in qualities.items()}
        features["mean_quality"] = round(sum(judged) / len(judged), 4) if judged else 0.0
        return self._config.scored(repository, self.name, score, features | size)


def _file_qualities(tree: Tree, language: Language) -> Iterator[tuple[Signal, float]]:
    read: dict[Signal, int] = dict.fromkeys(get_args(Signal), 0)
    for name in sorted(tree.files, key=lambda path: (path.count("/"), path)):  # what is near the top says most
        for signal in signals_of(name, language):
            if read[signal] < _MAX_PER_SIGNAL:
                read[signal] += 1
                text = tree.read(name, max_bytes=_MAX_READ).decode("utf-8", "replace")
                yield signal, _quality(signal, name, text, tree)


def _quality(signal: Signal, name: str, text: str, tree: Tree) -> float:
    lines = len(text.splitlines())
    if not text.strip():
        return 0.0
    match signal:
        case "build":
            return _build_quality(name, text)
        case "automation":
            return dockerfile_quality(name, text, tree) if DOCKERFILE.search(name) else 0.7
        case "documentation":
            return _document_quality(text)
        case "scripts":
            return (0.5 if text.startswith("#!") else 0.3) + (0.4 if "\r\n" not in text and lines > 2 else 0.0)
        case "tests" | "sources":
            return min(1.0, lines / 50)  # one real file of code is enough to speak of a project


def _build_quality(name: str, text: str) -> float:
    """Half for being there where builds start, half for content that builds something."""
    base = name.rpartition("/")[2].lower()
    near = {0: 1.0, 1: 0.7}.get(name.count("/"), 0.4)
    if base in LOCK_FILES:
        return 0.8 * near
    if base.endswith(".json") and not _is_json(text):
        return 0.1
    return near * (1.0 if BUILD_FILES[base].search(text) else 0.3)


def _document_quality(text: str) -> float:
    commands = len(_COMMANDS.findall(text))
    if commands:
        return min(1.0, 0.6 + 0.05 * commands)
    return 0.35 if _FENCE.search(text) else 0.1


def dockerfile_quality(name: str, text: str, tree: Tree) -> float:
    """1.0 less what is known to make builds fail or drift; 0.0 without a base image."""
    text = re.sub(r"\\\r?\n", " ", text)
    bases = re.findall(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", text, re.MULTILINE | re.IGNORECASE)
    if not bases:
        return 0.0
    faults = [
        any("/" in base and "." in base.partition("/")[0] for base in bases),  # some private registry
        any(base.endswith(":latest") or not re.search("[:@]|^scratch$|\\$", base) for base in bases),
        bool(re.search(r"(curl|wget)[^|\n]*\|\s*(ba)?sh", text)),
        bool(re.search(r"--mount=type=(secret|ssh)", text)),
        bool(re.search(r"^\s*ARG\s+\w+\s*$", text, re.MULTILINE | re.IGNORECASE)),  # no default
        bool(re.search(r"\bgit clone\b", text)),
        not _copied_paths_exist(name, text, tree),
    ]
    return max(0.1, 1.0 - 0.2 * sum(faults))


def _copied_paths_exist(name: str, text: str, tree: Tree) -> bool:
    """Whether what COPY and ADD take from the context is there, in the tree's or the Dockerfile's folder."""
    folder = name.rpartition("/")[0]
    for words in re.findall(r"^\s*(?:COPY|ADD)\s+(?!--from|\[|https?:)(.+)$", text, re.MULTILINE | re.IGNORECASE):
        sources = [word for word in words.split()[:-1] if not word.startswith("--")]
        for source in sources:
            path = source.removeprefix("./").strip("/")
            plain = path not in ("", ".") and not re.search(r"[*?\[$]", path)
            if plain and not (_exists(path, tree) or _exists(f"{folder}/{path}".lstrip("/"), tree)):
                return False
    return True


def _exists(path: str, tree: Tree) -> bool:
    return path in tree.files or any(name.startswith(f"{path}/") for name in tree.files)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except RecursionError:
        return False
    except ValueError:
        return len(text) >= _MAX_READ  # cut, so nothing is known
    return True
