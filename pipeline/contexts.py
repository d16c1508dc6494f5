"""External context of the domains: what it is, where it came from, under which licence, and how tasks refer to it.

A recipe declares it in `contexts.json`, pinned by version and SHA-256. The tree of a domain holds it below `context/`;
there, `contexts.json` describes what was collected. Collecting it is sources/context.py's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from pipeline.checkout import Tree
from pipeline.downloads import FILE_PATTERN, NAME_PATTERN, SHA256_PATTERN, VERSION_PATTERN, Ecosystem
from pipeline.errors import ConfigurationError
from pipeline.types import Domain, Record, content_id

MANIFEST = "contexts.json"
FOLDER = "context"
LICENCE_FILE = "LICENSE"
"""Name of the copy of its licence text in the folder of a context."""

PERMISSIVE = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC-BY-4.0",
        "CC0-1.0",
        "curl",
        "ISC",
        "MIT",
        "MIT-0",
        "PSF-2.0",
        "PostgreSQL",
        "public-domain",
        "Python-2.0",
        "Unlicense",
        "X11",
        "Zlib",
    }
)
"""Under these, what is made of a context may be passed on by anybody who names its origin."""

_MAX_MANIFEST = 4 << 20
_SUFFIXES: dict[Ecosystem, tuple[str, ...]] = {
    "pypi": (".whl", ".tar.gz"),
    "npm": (".tgz",),
    "debian": (".deb",),
}
_PLAIN = re.compile(r"(?!.*(^|/)\.{1,2}(/|$))[^/\0]+(/[^/\0]+)*")


class DeclaredContext(BaseModel):
    """One entry of a recipe's `contexts.json`: files of one archive of a registry."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    """Its folder below `context/`."""
    ecosystem: Ecosystem
    package: str = Field(pattern=NAME_PATTERN)
    """For `debian` a binary package."""
    version: str = Field(pattern=VERSION_PATTERN)
    file: str = Field(pattern=FILE_PATTERN)
    """Name under which the registry delivers the archive."""
    sha256: str = Field(pattern=SHA256_PATTERN)
    members: dict[str, str] = Field(min_length=1)
    """Path in the archive -> path below `context/<name>/`. Paths of tarballs begin below their one top folder.

    `folder/*` stands for the files in a folder, `folder/**` for all below it; then the target is a folder: empty, or
    with a `/` at its end.
    """
    license: str
    """SPDX id, or `public-domain`."""
    license_member: str | None = None
    """Path in the archive of the licence text, which is copied to `context/<name>/LICENSE`."""
    origin: str = Field(min_length=10, max_length=400)
    """Who made it, and where it is documented."""

    @field_validator("license")
    @classmethod
    def _permissive(cls, name: str) -> str:
        if name not in PERMISSIVE:
            raise ValueError(
                f"{name!r} is no licence under which material is taken up; choose other material, or write the SPDX "
                f"id of one of {', '.join(sorted(PERMISSIVE, key=str.lower))}"
            )
        return name

    @field_validator("members")
    @classmethod
    def _plain_members(cls, members: dict[str, str]) -> dict[str, str]:
        for source, target in members.items():
            folder = glob_folder(source)
            if not _PLAIN.fullmatch(source if folder is None else folder or "all") or "*" in (folder or ""):
                raise ValueError(f"{source!r} is no path in an archive; write it relative, without `.` and `..`")
            if folder is None and not _PLAIN.fullmatch(target):
                raise ValueError(f"{source!r} goes to {target!r}; name the file that it becomes")
            if folder is not None and target and not (target.endswith("/") and _PLAIN.fullmatch(target[:-1])):
                raise ValueError(f"{source!r} goes to {target!r}; name a folder with a / at its end, or an empty text")
        return members

    @model_validator(mode="after")
    def _file_of_its_ecosystem(self) -> DeclaredContext:
        if not self.file.endswith(_SUFFIXES[self.ecosystem]):
            raise ValueError(
                f"{self.file} is no archive of {self.ecosystem}; those end with {', '.join(_SUFFIXES[self.ecosystem])}"
            )
        return self

    @property
    def label(self) -> str:
        """For people."""
        return f"the context {self.name} ({self.ecosystem} {self.package} {self.version})"


class ContextFile(Record):
    """One file of a context."""

    path: str
    """Below the folder of the context."""
    member: str
    """Where it lay in the archive."""
    sha256: str
    n_bytes: int


class DescribedContext(Record):
    """What was collected, as the tree of a domain says it."""

    name: str
    ecosystem: Ecosystem
    package: str
    version: str
    file: str
    sha256: str
    """Of the archive."""
    n_bytes: int
    """Of the archive."""
    license: str
    license_path: str | None
    """Path of the licence text in the tree of the domain; None where the archive has none."""
    license_sha256: str | None
    origin: str
    files: tuple[ContextFile, ...]

    @property
    def path(self) -> str:
        """Its folder in the tree of the domain."""
        return f"{FOLDER}/{self.name}"

    def context_id(self, domain: Domain) -> str:
        """The same as long as the files are the same."""
        content = [[file.path, file.sha256] for file in self.files]
        return content_id("context", domain, self.name, self.sha256, content)


_DECLARED = TypeAdapter(tuple[DeclaredContext, ...])
_DESCRIBED = TypeAdapter(tuple[DescribedContext, ...])


def glob_folder(member: str) -> str | None:
    """The folder of a pattern `folder/*` or `folder/**`, empty for the top; None for a path that is none."""
    folder, _, last = member.rpartition("/")
    return folder if last in ("*", "**") else None


def read_declared(path: Path) -> tuple[DeclaredContext, ...]:
    """The contexts of a recipe; none where it declares none. Raises ConfigurationError: file, entry and remedy."""
    place = f"{path.parent.name}/{path.name}"
    try:
        declared = _DECLARED.validate_json(path.read_bytes())
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        entry = ".".join(str(part) for part in first["loc"])
        where = f"{place}, entry {entry}" if entry else place
        raise ConfigurationError(
            f"{where}: {first['msg']} (given: {str(first['input'])[:100]}); mend it there"
        ) from error
    names = [one.name for one in declared]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigurationError(f"{place} names {', '.join(twice)} twice; give every context a name of its own")
    return declared


def described(tree: Tree) -> tuple[DescribedContext, ...]:
    """The contexts in the tree of a domain; none where it has no manifest."""
    if MANIFEST not in tree.files:
        return ()
    return _DESCRIBED.validate_json(tree.read(MANIFEST, max_bytes=_MAX_MANIFEST))


def manifest(contexts: tuple[DescribedContext, ...]) -> bytes:
    """The manifest that `described` reads."""
    return _DESCRIBED.dump_json(contexts, indent=1) + b"\n"


def context_ids(tree: Tree, domain: Domain, names: Iterable[str]) -> tuple[str, ...]:
    """Ids of the named contexts of a domain. Raises KeyError for a name that its manifest does not have."""
    found = {one.name: one.context_id(domain) for one in described(tree)}
    return tuple(found[name] for name in names)
