"""What exists on the simulated hub: a function of the seed and of the number of repositories, and of changes since.

Six small columns are kept for each repository (a million of them take 30 MB); names, owners, texts and commits are
computed when they are asked for. Ids are 1, 2 … in the order of creation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

LANGUAGES = ("Python", "JavaScript", "Java", "Go", "C++", "PHP", "C", "HTML")
_SHARES = (0.27, 0.23, 0.14, 0.10, 0.09, 0.06, 0.06, 0.05)

KINDS = (
    "usual",
    "archived",
    "fork",
    "mirror",
    "empty",
    "renamed",
    "removed",
    "blocked_451",
    "blocked_403",
    "submodule",
    "lfs",
    "export_ignore",
)
"""`removed` and `blocked_*` are still found by search: its index lags behind."""
_KIND_SHARES = (0.835, 0.06, 0.02, 0.005, 0.03, 0.01, 0.005, 0.002, 0.003, 0.01, 0.01, 0.01)

_FIRST = datetime(2012, 1, 1, tzinfo=UTC)
_LAST = datetime(2026, 10, 1, tzinfo=UTC)
_WORDS = ("parser", "shell", "router", "cache", "engine", "notes", "client", "tool", "board", "queue")
_LICENCES = ("MIT", "Apache-2.0", "GPL-3.0", "BSD-3-Clause", None)

Column = npt.NDArray[np.int64]


def epoch(moment: datetime) -> int:
    return int(moment.timestamp())


def stamp(seconds: int) -> str:
    """Time as the API writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class World:
    """All repositories. Change it only through its methods."""

    count: int
    seed: int = 1
    crowd: int = 0
    """So many neighbours were created in one and the same second, in one language."""
    kinds: Mapping[int, str] = field(default_factory=dict)
    """Id -> kind where a test wants a certain one."""
    contents: dict[int, Mapping[str, bytes]] = field(default_factory=dict)
    """Id -> its files by path, one folder deep at most, where a test wants certain ones."""
    now: int = epoch(datetime(2026, 11, 1, tzinfo=UTC))
    """The hub's own clock, in seconds since 1970; it stands still unless it is moved."""
    address: str = ""
    """Where it is served."""
    submodule_host: str = "127.0.0.1"
    """Whose address submodules have."""

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        # Ever more repositories are created from year to year.
        age = rng.random(self.count) ** 0.5
        self.created: Column = np.sort((epoch(_FIRST) + age * (epoch(_LAST) - epoch(_FIRST))).astype(np.int64))
        self.language = rng.choice(len(LANGUAGES), self.count, p=_SHARES).astype(np.int8)
        self.kind = rng.choice(len(KINDS), self.count, p=_KIND_SHARES).astype(np.int8)
        self.size: Column = np.minimum(rng.lognormal(5.5, 2.0, self.count).astype(np.int64) + 1, 5_000_000)
        self.stars: Column = np.minimum(rng.pareto(1.2, self.count) * 5, 400_000).astype(np.int64)
        lasted = rng.random(self.count) ** 3 * (epoch(_LAST) - self.created)
        self.pushed: Column = self.created + lasted.astype(np.int64)
        self.version = np.zeros(self.count, np.int16)
        self.new_names: dict[int, str] = {}
        if self.crowd:
            start = self.count // 3
            self.created[start : start + self.crowd] = self.created[start]
            self.pushed[start : start + self.crowd] = np.maximum(
                self.pushed[start : start + self.crowd], self.created[start]
            )
            self.language[start : start + self.crowd] = 0
        for repository_id, kind in self.kinds.items():
            self.kind[repository_id - 1] = KINDS.index(kind)
        self.size[self.kind == KINDS.index("empty")] = 0

    def digest(self, repository_id: int) -> bytes:
        return hashlib.blake2b(f"{self.seed}/{repository_id}".encode(), digest_size=16).digest()

    def kind_of(self, repository_id: int) -> str:
        return KINDS[self.kind[repository_id - 1]]

    def language_of(self, repository_id: int) -> str:
        return LANGUAGES[self.language[repository_id - 1]]

    def first_name(self, repository_id: int) -> str:
        """The full name that it was created with."""
        digest = self.digest(repository_id)
        owner = int.from_bytes(digest[:4], "big") % max(self.count // 6, 1)
        return f"owner{owner}/{_WORDS[digest[4] % len(_WORDS)]}-{repository_id}"

    def full_name(self, repository_id: int) -> str:
        """The full name that it has now."""
        if repository_id in self.new_names:
            return self.new_names[repository_id]
        name = self.first_name(repository_id)
        return f"{name}-renamed" if self.kind_of(repository_id) == "renamed" else name

    def searched_name(self, repository_id: int) -> str:
        """The full name that search knows: it still has the old one of what was renamed a moment ago."""
        return self.new_names.get(repository_id) or self.first_name(repository_id)

    def licence(self, repository_id: int) -> str | None:
        return _LICENCES[self.digest(repository_id)[5] % len(_LICENCES)]

    def id_of(self, full_name: str) -> int | None:
        """The repository that answers to a name, the old one of a renamed repository included."""
        tail = full_name.rsplit("/", 1)[-1].removesuffix("-renamed").rsplit("-", 1)[-1]
        if not tail.isdigit() or not 1 <= int(tail) <= self.count:
            return None
        names = (self.first_name(int(tail)), self.full_name(int(tail)))
        return int(tail) if full_name.lower() in [name.lower() for name in names] else None

    def exists(self, repository_id: int) -> bool:
        return 1 <= repository_id <= self.count and self.kind_of(repository_id) != "removed"

    # Changes -------------------------------------------------------------------------------------------------------

    def pass_time(self, seconds: int) -> None:
        self.now += seconds

    def push(self, repository_id: int) -> None:
        """A new commit, now."""
        self.version[repository_id - 1] += 1
        self.pushed[repository_id - 1] = self.now
        if self.kind_of(repository_id) == "empty":
            self.become(repository_id, "usual")
            self.size[repository_id - 1] = 1

    def become(self, repository_id: int, kind: str) -> None:
        self.kind[repository_id - 1] = KINDS.index(kind)

    def rename(self, repository_id: int, name: str) -> None:
        """Give it another name under the same owner; the number at the end stays, so that it can be found."""
        owner = self.first_name(repository_id).split("/")[0]
        self.new_names[repository_id] = f"{owner}/{name}-{repository_id}"

    def add(self, language: str) -> int:
        """A new repository, created and pushed now. Returns its id."""
        values = (self.now, LANGUAGES.index(language), 0, 10, 5, self.now, 0)
        names = ("created", "language", "kind", "size", "stars", "pushed", "version")
        for name, value in zip(names, values, strict=True):
            column = getattr(self, name)
            setattr(self, name, np.append(column, np.array([value], column.dtype)))
        self.count += 1
        return self.count

    def truth(self, *, with_forks: bool = False) -> dict[int, tuple[str, int]]:
        """Id -> (full name as search says it, time of the last push) of all that search can find."""
        fork = KINDS.index("fork")
        chosen = range(1, self.count + 1)
        return {
            i: (self.searched_name(i), int(self.pushed[i - 1]))
            for i in chosen
            if with_forks or self.kind[i - 1] != fork
        }
