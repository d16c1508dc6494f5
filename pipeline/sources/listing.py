"""Repositories named in a file of clone addresses, one to a line: `ADDRESS [LANGUAGE] [COMMIT]`.

Or in the files of a folder, into which anybody may put another one: a mistake there costs that file alone. Whoever
serves the repositories: nothing is asked but git itself. Searching for repositories is not done here.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from pipeline.checkout import CheckoutConfig, printable, store
from pipeline.clones import CloneConfig, Cloner
from pipeline.errors import ConfigurationError, InfrastructureFailure, ItemRejected
from pipeline.types import LANGUAGES, Checkout, Language, Record, Repository, content_id

logger = logging.getLogger(__name__)

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFUSED = "refused"
_AT_A_TIME = 8
SETTLED_S = 5.0
"""Seconds without a change after which a file of a folder is taken to be written to its end."""


class ListingConfig(BaseModel):
    """Which file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path | None = None
    """Relative to the configuration file; a folder for all its *.txt files; no repositories when left out."""
    language: Language = "python"
    """Of lines that name none."""
    clone: CloneConfig = CloneConfig()


class Line(Record):
    """One repository of the file."""

    url: str
    language: Language
    commit: str | None
    """None for that of the default branch on the day of the listing."""


class ListingSource:
    """The repositories of a file, in its order; of a folder file by file, each repository once."""

    def __init__(self, config: ListingConfig, checkout: CheckoutConfig, base: Path, folder: Path) -> None:
        """`base` is where the configuration file lies, `folder` is for clones while they are read.

        Raises ConfigurationError for a file that cannot be read, and for a line that is none; not in a folder, where
        the other files count.
        """
        self._checkout = checkout
        self._cloner = Cloner(folder, config.clone, checkout)
        self._lines = _all_lines(base / config.file, config.language) if config.file is not None else ()

    @property
    def name(self) -> str:
        return "listing"

    def repositories(self, since: datetime | None) -> Iterator[Repository]:
        """All of them: what changed has a new commit. One that cannot be read is listed as well."""
        with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="listing") as pool:
            commits = list(pool.map(self._commit, self._lines))
        for line, commit in zip(self._lines, commits, strict=True):
            split = urlsplit(line.url)
            path = split.path.strip("/").removesuffix(".git")
            yield Repository(
                source=self.name,
                full_name=f"{split.hostname}/{path}",
                commit=commit,
                language=line.language,
                locator=line.url,
            )

    def fetch(self, repository: Repository, destination: Path) -> Checkout:
        """As in `Source`; rejects with `gone`, `blocked`, `changed`, `empty_repository`, `too_large` and the classes of
        `checkout.collect`.
        """
        if all(line.url != repository.locator for line in self._lines):
            raise ItemRejected("gone", f"{printable(repository.locator)} is not listed any more")
        if repository.commit.startswith(_REFUSED):
            self._cloner.head(repository.locator)
            raise ItemRejected("changed", "it could not be read when it was listed, and can be now; it is listed anew")
        cloned = self._cloner.clone(repository.locator, repository.commit, repository.repository_id)
        checkout = store(repository, cloned.tree, destination)
        return checkout.model_copy(update={"submodules": cloned.submodules})

    def _commit(self, line: Line) -> str:
        if line.commit is not None:
            return line.commit
        try:
            return self._cloner.head(line.url)
        except (ItemRejected, InfrastructureFailure) as error:
            logger.warning("listing source: %s will be refused: %s", line.url, error)
            return content_id(_REFUSED, line.url)


class Listings(Record):
    """What the files of a listing are at one moment."""

    hashes: dict[str, str]
    """Name of each file that names a repository -> sha256 of its bytes."""
    faults: dict[str, str]
    """Name of each file that cannot be used -> why, with the remedy."""


def look(path: Path, language: Language) -> Listings:
    """What a listing file, or each file of a folder, holds now; one that may still be written to is left for later.

    Raises ConfigurationError for a folder that cannot be read.
    """
    hashes, faults = {}, {}
    for file in listing_files(path):
        try:
            if time.time() - file.stat().st_mtime < SETTLED_S:
                continue
            if read_lines(file, language):
                hashes[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
        except FileNotFoundError:
            faults[file.name] = f"sources.listing.file: {file.name} is not there; put it there, or take the setting out"
        except (ConfigurationError, OSError) as error:
            faults[file.name] = str(error)
    return Listings(hashes=hashes, faults=faults)


def listing_files(path: Path) -> list[Path]:
    """The *.txt files of a folder in the order of their names, or the one file. Raises ConfigurationError."""
    if not path.is_dir():
        return [path]
    try:
        return sorted(one for one in path.iterdir() if one.suffix == ".txt" and not one.name.startswith("."))
    except OSError as error:
        raise ConfigurationError(f"sources.listing.file: the folder {path.name} cannot be read: {error}") from error


def _all_lines(path: Path, language: Language) -> tuple[Line, ...]:
    """Where several files of a folder name one repository, the first of them decides."""
    if not path.is_dir():
        return read_lines(path, language)
    lines: dict[str, Line] = {}
    for file in listing_files(path):
        try:
            for line in read_lines(file, language):
                lines.setdefault(line.url, line)
        except ConfigurationError as error:
            logger.warning("listing source: a file is left out: %s", error)
    return tuple(lines.values())


def read_lines(path: Path, language: Language) -> tuple[Line, ...]:
    """The lines that are neither empty nor comments. Raises ConfigurationError that names the line at fault."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"sources.listing.file: {path.name} cannot be read as text: {error}") from error
    lines: dict[str, Line] = {}
    for number, words in enumerate((line.split("#")[0].split() for line in text.splitlines()), 1):
        if not words:
            continue
        line = _line(words, language, f"{path.name}, line {number}")
        if line.url in lines:
            raise ConfigurationError(f"{path.name}, line {number}: {line.url} is listed twice; remove one")
        lines[line.url] = line
    return tuple(lines.values())


def _line(words: list[str], language: Language, place: str) -> Line:
    split = urlsplit(words[0])
    if split.scheme not in ("https", "http") or not split.hostname or not split.path.strip("/"):
        raise ConfigurationError(f"{place}: {words[0]!r} is no address of a clone; give https://host/owner/name.git")
    if split.username or split.password:
        raise ConfigurationError(f"{place}: the address holds credentials, which would stand on rows; remove them")
    commit: str | None = None
    for word in words[1:]:
        if word in LANGUAGES:
            language = word
        elif _COMMIT.fullmatch(word) and commit is None:
            commit = word
        else:
            raise ConfigurationError(f"{place}: {word!r} is neither a commit nor one of {', '.join(LANGUAGES)}")
    return Line(url=words[0], language=language, commit=commit)
