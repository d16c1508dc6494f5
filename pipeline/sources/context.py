"""The material of the domains as repositories: the recipe of an image, and external context for its tasks.

One repository per domain that has a folder of recipes. Its tree is that folder, our licence, and below `context/` the
files of the pinned archives that the recipe's `contexts.json` declares (pipeline/contexts.py). An archive is downloaded
once and kept, so a later run needs no network.
"""

from __future__ import annotations

import hashlib
import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

from pipeline import archive_tree
from pipeline.archive_cache import ArchiveCache
from pipeline.checkout import CheckoutConfig, Collected, Member, collect, store
from pipeline.contexts import (
    FOLDER,
    LICENCE_FILE,
    MANIFEST,
    ContextFile,
    DeclaredContext,
    DescribedContext,
    glob_folder,
    manifest,
    read_declared,
)
from pipeline.curation import licences
from pipeline.directory_tree import member_on_disk, walk
from pipeline.downloads import APT_OPTIONS, NPM_PACK, delivered, download, fetch_container
from pipeline.errors import ConfigurationError, ItemRejected
from pipeline.types import CONTEXT, DOMAINS, Checkout, Repository
from sandbox.protocol import Backend

logger = logging.getLogger(__name__)

_TIMEOUT_S = 300.0
"""For the download of one archive."""


class ContextSource:
    """The domains as repositories."""

    def __init__(
        self,
        recipes: Path,
        licence: Path,
        checkout: CheckoutConfig,
        archives: ArchiveCache,
        backend: Backend,
        fetch_image: Callable[[], str],
    ) -> None:
        """`recipes` holds a folder with a Dockerfile for each domain, `licence` is the text that they are under.

        `fetch_image` gives the digest of the `fetch` toolchain image, built when an archive has to be downloaded.
        """
        self._recipes = recipes
        self._licence = licence
        self._checkout = checkout
        self._archives = archives
        self._backend = backend
        self._fetch_image = fetch_image

    @property
    def name(self) -> str:
        return CONTEXT

    def repositories(self, since: datetime | None) -> Iterator[Repository]:
        """The domains that have a recipe; another recipe, or another pin in it, is another commit."""
        for domain in DOMAINS:
            if (self._recipes / domain / "Dockerfile").is_file():
                self._declared(domain)
                yield Repository(
                    source=self.name,
                    full_name=f"{CONTEXT}/{domain}",
                    commit=self._recipe(domain).sha256,
                    language="python",
                    locator=domain,
                )

    def fetch(self, repository: Repository, destination: Path) -> Checkout:
        """As in `Source`; rejects with `gone`, `changed`, `hash_mismatch`, `member_missing`, `license_differs` and the
        classes of `checkout.collect`.
        """
        domain = next((domain for domain in DOMAINS if domain == repository.locator), None)
        if domain is None or not (self._recipes / domain / "Dockerfile").is_file():
            raise ItemRejected("gone", f"{repository.locator} has no recipe any more")
        recipe = self._recipe(domain)
        if recipe.sha256 != repository.commit:
            raise ItemRejected("changed", f"{domain} changed since it was listed")
        members = dict(recipe.members)
        described = []
        for declared in self._declared(domain):
            one, files = self._collected(declared)
            described.append(one)
            members |= {file.name: file for file in files}
        if described:
            members[MANIFEST] = _in_memory(MANIFEST, manifest(tuple(described)))
        return store(repository, collect(members.values(), self._checkout), destination)

    def _declared(self, domain: str) -> tuple[DeclaredContext, ...]:
        """Raises ConfigurationError."""
        folder = self._recipes / domain
        if (folder / FOLDER).exists():
            raise ConfigurationError(
                f"{domain} has a folder {FOLDER}, where collected context goes; declare its files in {MANIFEST}, or "
                "name the folder otherwise"
            )
        return read_declared(folder / MANIFEST)

    def _recipe(self, domain: str) -> Collected:
        """The recipe with the licence: cheap, since the pins stand for what they name."""
        licence = member_on_disk(self._licence.parent, self._licence.name, self._licence.stat())
        renamed = Member("LICENSE", "file", licence.size, read=licence.read)
        return collect((*walk(self._recipes / domain), renamed), self._checkout)

    def _collected(self, declared: DeclaredContext) -> tuple[DescribedContext, list[Member]]:
        archive = self._archives.archive(declared.sha256, lambda: self._downloaded(declared))
        with _opened(archive, declared, self._checkout) as members:
            files = _chosen(members, declared)
            # What lies beside the chosen files is never read.
            contents = {target: member.read() for target, member in files.items()}
        found = tuple(
            ContextFile(
                path=target, member=files[target].name, sha256=hashlib.sha256(data).hexdigest(), n_bytes=len(data)
            )
            for target, data in contents.items()
        )
        folder = f"{FOLDER}/{declared.name}"
        licence = contents.get(LICENCE_FILE) if declared.license_member is not None else None
        if licence is not None:
            _require_licence(declared, licence)
        one = DescribedContext(
            **declared.model_dump(exclude={"members", "license_member"}),
            n_bytes=len(archive),
            license_path=f"{folder}/{LICENCE_FILE}" if licence is not None else None,
            license_sha256=hashlib.sha256(licence).hexdigest() if licence is not None else None,
            files=found,
        )
        return one, [_in_memory(f"{folder}/{target}", data) for target, data in contents.items()]

    def _downloaded(self, declared: DeclaredContext) -> bytes:
        """Raises ItemRejected (gone, hash_mismatch, too_large) and InfrastructureFailure."""
        logger.info("fetching %s", declared.label)
        with fetch_container(self._backend, self._fetch_image, declared.label, _TIMEOUT_S) as sandbox:
            download(sandbox, declared.ecosystem, declared.label, _command(declared), _TIMEOUT_S)
            most = archive_tree.archive_bytes(self._checkout)
            return delivered(sandbox, declared.file, declared.sha256, most)


def _command(declared: DeclaredContext) -> str:
    name, version = shlex.quote(declared.package), shlex.quote(declared.version)
    match declared.ecosystem:
        case "debian":
            return f"apt-get download {APT_OPTIONS} {name}={version}"
        case "npm":
            return NPM_PACK.format(name=name, version=version)
        case "pypi":
            return f"unearth {_file_options(declared.file)} --download . {name}=={version}"


def _file_options(file: str) -> str:
    """What makes `unearth` take this file of a version and no other."""
    if not file.endswith(".whl"):
        return "--no-binary"
    python, abi, platforms = file.removesuffix(".whl").rsplit("-", 3)[1:]
    if platforms == "any":
        return "--only-binary"
    version = python.split(".")[0][2:]
    words = ["--only-binary", "--implementation", python[:2], "--python-version", f"{version[0]}.{version[1:] or 0}"]
    words += ["--abis", abi.replace(".", ","), "--platforms", platforms.replace(".", ",")]
    return shlex.join(words)


def _opened(archive: bytes, declared: DeclaredContext, config: CheckoutConfig) -> AbstractContextManager[list[Member]]:
    if declared.file.endswith(".whl"):
        return archive_tree.zip_members(archive, config)
    if declared.ecosystem == "debian":
        return archive_tree.members(archive_tree.debian_data(archive), config, strip_root=False)
    return archive_tree.members(archive, config, strip_root=True)


def _chosen(members: Sequence[Member], declared: DeclaredContext) -> dict[str, Member]:
    """The files that were asked for, by their path below the folder of the context, sorted.

    Raises ItemRejected (member_missing), ConfigurationError for two files that would become one.
    """
    files = {member.name: member for member in members if member.kind == "file"}
    wanted = list(declared.members.items())
    if declared.license_member is not None:
        wanted.append((declared.license_member, LICENCE_FILE))
    chosen: dict[str, Member] = {}
    for source, target in wanted:
        found = _matching(source, target, files)
        if not found:
            there = ", ".join(sorted(files)[:20])
            raise ItemRejected("member_missing", f"{declared.label} has no file {source}; there are: {there}")
        for path, member in found.items():
            if chosen.setdefault(path, member) is not member:
                raise ConfigurationError(
                    f"{MANIFEST}, {declared.label}: {chosen[path].name} and {member.name} both become {path}; give "
                    "them different names"
                )
    return dict(sorted(chosen.items()))


def _matching(source: str, target: str, files: Mapping[str, Member]) -> dict[str, Member]:
    folder = glob_folder(source)
    if folder is None:
        return {target: files[source]} if source in files else {}
    start = f"{folder}/" if folder else ""
    deep = source.endswith("**")
    below = {name.removeprefix(start): member for name, member in files.items() if name.startswith(start)}
    return {f"{target}{name}": member for name, member in below.items() if deep or "/" not in name}


def _require_licence(declared: DeclaredContext, text: bytes) -> None:
    """Raises ItemRejected (license_differs) where the text is clearly that of another licence."""
    found = licences.identify({LICENCE_FILE: text}).license
    if found is not None and found != declared.license:
        raise ItemRejected("license_differs", f"{declared.label} says {declared.license}, its text is {found}")


def _in_memory(name: str, data: bytes) -> Member:
    return Member(name, "file", len(data), read=lambda: data)
