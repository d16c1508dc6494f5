"""Source packages of Debian, PyPI and npm, from a list that pins every version and every archive by its SHA-256.

How the registries' own clients download is in pipeline/downloads.py. Building packages is not done here, nor is
choosing them: the list is pipeline/sources/corpus.json.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline import archive_tree
from pipeline.checkout import CheckoutConfig, collect, store
from pipeline.downloads import (
    APT_OPTIONS,
    FOLDER,
    NAME_PATTERN,
    NPM_PACK,
    VERSION_PATTERN,
    Ecosystem,
    content,
    delivered,
    download,
    fetch_container,
    said,
)
from pipeline.errors import ConfigurationError, ItemRejected
from pipeline.types import Checkout, Language, Repository
from sandbox.protocol import Backend

_DOWNLOAD: Mapping[Ecosystem, str] = {
    "debian": f"apt-get source --download-only {APT_OPTIONS} {{name}}={{version}}",
    "npm": NPM_PACK,
    "pypi": "unearth --no-binary --download . {name}=={version}",
}

_UNPACK_DEBIAN = (
    "dpkg-source --no-check -x {dsc} tree && rm -rf tree/.pc"  # .pc holds second copies of the patched files
    " && tar --create --file tree.tar --directory tree ."
)


class RegistryConfig(BaseModel):
    """Which packages, and how long a download may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    packages: Path = Path(__file__).with_name("corpus.json")
    """JSON list of pinned packages; the one that is shipped has three or more for each language."""
    timeout_s: float = Field(default=180.0, gt=0)
    """Seconds for the download of one package, and again for its unpacking."""


class Package(BaseModel):
    """One pinned source package."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ecosystem: Ecosystem
    name: str = Field(pattern=NAME_PATTERN)
    version: str = Field(pattern=VERSION_PATTERN)
    language: Language
    files: dict[str, str]
    """File name -> SHA-256 of each archive the registry delivers; for Debian the .dsc and all it names."""

    @model_validator(mode="after")
    def _check_files(self) -> Package:
        for name, sha256 in self.files.items():
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+~_-]*", name) or not re.fullmatch(r"[0-9a-f]{64}", sha256):
                raise ValueError(f"{name}: needs a plain file name and 64 lower-case hex digits")
        if self.ecosystem == "debian" and sum(name.endswith(".dsc") for name in self.files) != 1:
            raise ValueError("a Debian package has exactly one .dsc file")
        if self.ecosystem != "debian" and len(self.files) != 1:
            raise ValueError("a package of PyPI or npm has exactly one archive")
        return self

    @property
    def main_file(self) -> str:
        """The archive, or the .dsc that names the archives of a Debian package."""
        return next((name for name in self.files if name.endswith(".dsc")), next(iter(self.files)))

    @property
    def repository(self) -> Repository:
        kind = {"debian": "deb/debian"}.get(self.ecosystem, self.ecosystem)
        return Repository(
            source="registry",
            full_name=f"{self.ecosystem}/{self.name}",
            commit=self.version,
            language=self.language,
            locator=f"pkg:{kind}/{self.name}@{self.version}",
            archive_sha256=self.files[self.main_file],
        )


class _Packages(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    packages: tuple[Package, ...]


def read_packages(path: Path) -> tuple[Package, ...]:
    """The pinned list, checked. Raises ConfigurationError that names the package at fault."""
    try:
        packages = _Packages.model_validate_json(path.read_bytes()).packages
    except OSError as error:
        raise ConfigurationError(f"the list of packages {path.name} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"the list of packages {path.name} is wrong at {place}: {first['msg']}") from error
    seen: set[str] = set()
    for package in packages:
        repository_id = package.repository.repository_id
        if repository_id in seen:
            raise ConfigurationError(
                f"{package.ecosystem} {package.name} {package.version} stands twice in {path.name}; remove one"
            )
        seen.add(repository_id)
    return packages


class RegistrySource:
    """The pinned packages as repositories."""

    def __init__(
        self, config: RegistryConfig, checkout: CheckoutConfig, backend: Backend, fetch_image: Callable[[], str]
    ) -> None:
        """`fetch_image` gives the digest of the `fetch` toolchain image, built when first asked for.

        Raises ConfigurationError for a wrong list.
        """
        self._config = config
        self._checkout = checkout
        self._backend = backend
        self._fetch_image = fetch_image
        self._packages = {package.repository.repository_id: package for package in read_packages(config.packages)}

    @property
    def name(self) -> str:
        return "registry"

    def repositories(self, since: datetime | None) -> Iterator[Repository]:
        """The whole list: a pinned version does not change, so `since` leaves nothing out."""
        for package in self._packages.values():
            yield package.repository

    def fetch(self, repository: Repository, destination: Path) -> Checkout:
        """As in `Source`; rejects with `gone`, `hash_mismatch` and the classes of `checkout.collect`."""
        package = self._packages.get(repository.repository_id)
        if package is None:
            raise ItemRejected("gone", f"{repository.locator} is not in the list of packages any more")
        archive = self._archive(package)
        with archive_tree.members(archive, self._checkout, strip_root=package.ecosystem != "debian") as members:
            return store(repository, collect(members, self._checkout), destination)

    def _archive(self, package: Package) -> bytes:
        """A tar archive of the tree whose origin was checked. One container, gone when this returns."""
        label = f"{package.ecosystem} {package.name} {package.version}"
        timeout_s, most = self._config.timeout_s, archive_tree.archive_bytes(self._checkout)
        name, version = shlex.quote(package.name), shlex.quote(package.version)
        command = _DOWNLOAD[package.ecosystem].format(name=name, version=version)
        with fetch_container(self._backend, self._fetch_image, label, timeout_s) as sandbox:
            download(sandbox, package.ecosystem, label, command, timeout_s)
            archives = {file: delivered(sandbox, file, sha256, most) for file, sha256 in package.files.items()}
            if package.ecosystem != "debian":
                return archives[package.main_file]
            unpack = _UNPACK_DEBIAN.format(dsc=shlex.quote(package.main_file))
            result = sandbox.execute(f"cd {FOLDER} && {unpack}", timeout_s=timeout_s)
            if result.exit_code != 0:
                raise ItemRejected("unreadable", f"the source package does not unpack: {said(result.output)}")
            return content(sandbox, "tree.tar", most)
