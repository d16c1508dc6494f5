"""Source packages of Debian, PyPI and npm, from a list that pins every version and every archive by its SHA-256.

The registries' own clients download inside a container of the `fetch` toolchain, so any machine with an engine will do.
Only archives are fetched: no code of a package runs. Their hashes are checked on this side before anything is opened.
Building packages is not done here, nor is choosing them: the list is pipeline/sources/corpus.json.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline import archive_tree
from pipeline.checkout import CheckoutConfig, collect, store
from pipeline.errors import ConfigurationError, InfrastructureFailure, ItemRejected
from pipeline.types import Checkout, Language, Repository
from sandbox.errors import SandboxError
from sandbox.protocol import Backend, Sandbox
from sandbox.types import Limits

logger = logging.getLogger(__name__)

Ecosystem = Literal["debian", "npm", "pypi"]

_FOLDER = "/tmp/fetch"

_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_ENVIRONMENT = f"export NODE_EXTRA_CA_CERTS={_CERTIFICATES} SSL_CERT_FILE={_CERTIFICATES}"
"""Node and Python bring their own lists of authorities; the image's bundle has those of a company's proxy as well."""

_DOWNLOAD: Mapping[Ecosystem, str] = {
    # As root: the folder belongs to root, and apt's own user could not write there.
    "debian": "apt-get source -qq --download-only -o APT::Sandbox::User=root -o Acquire::Retries=2 {name}={version}",
    "npm": "npm pack --ignore-scripts --loglevel=error --no-update-notifier --logs-max=0"
    " --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 {name}@{version}",
    "pypi": "unearth --no-binary --download . {name}=={version}",
}

_UPDATE = "apt-get update -qq -o APT::Update::Error-Mode=any"
"""Without the mode, lists that could not be read anew are a warning and a package seems to be gone."""

_GONE: Mapping[Ecosystem, re.Pattern[str]] = {
    "debian": re.compile(r"Unable to find a source package|Can not find version|\b404\b"),
    "npm": re.compile(r"\bE404\b|\bETARGET\b|\bnotarget\b"),
    "pypi": re.compile(r"No matches are found"),
}

_UNREACHED = re.compile(r"Failed to collect links(?!.*\b404\b)")
"""unearth finds no match either when the index did not answer; only its warning tells the two apart."""

_UNPACK_DEBIAN = (
    "dpkg-source --no-check -x {dsc} tree && rm -rf tree/.pc"  # .pc holds second copies of the patched files
    " && tar --create --file tree.tar --directory tree ."
)

_HALF = 200


class RegistryConfig(BaseModel):
    """Which packages, and how long a download may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    packages: Path = Path(__file__).with_name("corpus.json")
    """JSON list of pinned packages; the one that is shipped has three for each language."""
    timeout_s: float = Field(default=180.0, gt=0)
    """Seconds for the download of one package, and again for its unpacking."""


class Package(BaseModel):
    """One pinned source package."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ecosystem: Ecosystem
    name: str = Field(pattern=r"^(@[a-z0-9][a-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9.+_-]*$")
    version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+~:_-]*$")
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
        try:
            archive = self._archive(package)
        except SandboxError as error:
            raise InfrastructureFailure(f"{repository.locator} was not fetched: {error}") from error
        with archive_tree.members(archive, self._checkout, strip_root=package.ecosystem != "debian") as members:
            return store(repository, collect(members, self._checkout), destination)

    def _archive(self, package: Package) -> bytes:
        """A tar archive of the tree whose origin was checked. One container, gone when this returns."""
        limits = Limits(network="bridge", memory_mb=1024, cpus=2.0, lifetime_s=int(4 * self._config.timeout_s) + 60)
        sandbox = self._backend.start(self._fetch_image(), limits)
        try:
            self._download(sandbox, package)
            delivered = {name: self._delivered(sandbox, package, name) for name in package.files}
            if package.ecosystem != "debian":
                return delivered[package.main_file]
            command = _UNPACK_DEBIAN.format(dsc=shlex.quote(package.main_file))
            result = sandbox.execute(f"cd {_FOLDER} && {command}", timeout_s=self._config.timeout_s)
            if result.exit_code != 0:
                raise ItemRejected("unreadable", f"the source package does not unpack: {_said(result.output)}")
            return _get(sandbox, "tree.tar", archive_tree.archive_bytes(self._checkout))
        finally:
            sandbox.close()

    def _download(self, sandbox: Sandbox, package: Package) -> None:
        """Raises ItemRejected (gone) and InfrastructureFailure."""
        name, version = shlex.quote(package.name), shlex.quote(package.version)
        download = _DOWNLOAD[package.ecosystem].format(name=name, version=version)
        command = f"{_ENVIRONMENT} && mkdir -p {_FOLDER} && cd {_FOLDER} && {download}"
        result = sandbox.execute(command, timeout_s=self._config.timeout_s)
        if package.ecosystem == "debian" and result.exit_code != 0:
            # The package lists are as old as the image; the archive may have moved on since.
            logger.info("%s %s: reading the package lists anew", package.name, package.version)
            result = sandbox.execute(f"{_UPDATE} && {command}", timeout_s=self._config.timeout_s)
        if result.exit_code == 0:
            return
        label = f"{package.ecosystem} {package.name} {package.version}"
        if result.timed_out:
            raise InfrastructureFailure(f"{label}: not downloaded within {self._config.timeout_s:.0f} s")
        if _GONE[package.ecosystem].search(result.output) and not _UNREACHED.search(result.output):
            raise ItemRejected("gone", f"{label} is not offered any more; pin a newer version: {_said(result.output)}")
        raise InfrastructureFailure(f"{label}: not downloaded: {_said(result.output)}")

    def _delivered(self, sandbox: Sandbox, package: Package, name: str) -> bytes:
        """One archive, its hash checked here and not in the container. Raises ItemRejected (hash_mismatch)."""
        data = _get(sandbox, name, archive_tree.archive_bytes(self._checkout))
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 != package.files[name]:
            raise ItemRejected("hash_mismatch", f"{name} has SHA-256 {sha256}, pinned is {package.files[name]}")
        return data


def _get(sandbox: Sandbox, name: str, max_bytes: int) -> bytes:
    """Raises ItemRejected: too_large, or hash_mismatch when the registry delivered no file of that name."""
    try:
        data = sandbox.get(f"{_FOLDER}/{name}", max_bytes=max_bytes)
    except ValueError as error:
        raise ItemRejected("too_large", f"{name} has more than {max_bytes:,} bytes") from error
    if data is None:
        raise ItemRejected("hash_mismatch", f"the registry delivered no file {name}")
    return data


def _said(output: str) -> str:
    """What a client said, short: npm begins with the reason, others end with it."""
    text = " ".join(output.split())
    return text if len(text) <= 2 * _HALF else f"{text[:_HALF]} … {text[-_HALF:]}"
