"""The images everything starts from: one slim Debian base, small toolchain layers above it, and what a FROM names.

The base comes from the configured registry or, where none is reachable, from Debian packages. Where the image behind a
FROM cannot be had either, one of ours stands in for it; which one is decided in stand_ins.py. Images of repositories
are not here; see images.py.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import docker
from docker.errors import ImageNotFound, InvalidRepository
from pydantic import Field, field_validator

from sandbox.building.builds import DOCKERFILE, chunks_of, run_build, tar_of
from sandbox.building.debootstrap import debootstrap
from sandbox.building.dockerfile_text import with_arguments
from sandbox.building.pulls import Puller, RegistryUnreachable
from sandbox.building.stand_ins import Layer, StandIn, is_windows, stand_in, versioned
from sandbox.egress.egress import Egress
from sandbox.errors import SandboxUnavailable
from sandbox.locks import exclusive
from sandbox.streams import engine_call
from sandbox.types import BuildLimits, Frozen

__all__ = [
    "CERTIFICATES",
    "RECIPES",
    "SUBSTITUTED",
    "BaseImage",
    "BaseImageConfig",
    "BaseImages",
    "RegistryUnreachable",
]

logger = logging.getLogger(__name__)

RECIPES = Path(__file__).resolve().parents[2] / "infra" / "images"
SUBSTITUTED = "touchstone.substituted"
# Where the base image keeps the certificates it trusts, the configured bundle among them.
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# Programs that look for certificates elsewhere unless told.
CERTIFICATE_ARGS = (
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
)


class BaseImageConfig(Frozen):
    """Where base images come from, and what a build needs to reach its package indexes."""

    base_image: str = "debian:bookworm-slim"
    """Reference of the base in the engine's registry."""
    suite: str = "bookworm"
    """Debian release that debootstrap installs where the registry cannot be reached."""
    debian_mirror: str | None = None
    """Address of the Debian archive; None is debootstrap's own default."""
    ca_bundle: Path | None = None
    """PEM file with certificates that builds and base images trust besides Debian's."""
    build_env: dict[str, str] = Field(default_factory=dict)
    """Variables that every RUN of a build sees and no finished image keeps, e.g. PIP_INDEX_URL."""
    mirrors: dict[str, str] = Field(default_factory=dict)
    """Reference -> reference that is tried before it; a `*` in both stands for the same text, e.g.
    `"docker.example/*" = "mirror.example/hub/*"`."""
    pull_timeout_s: int = Field(default=30, gt=0)
    """Seconds without any progress after which a pull is given up."""

    @field_validator("build_env")
    @classmethod
    def _no_credentials(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if any(urlsplit(word).password or urlsplit(word).username for word in text.split()):
                raise ValueError(
                    f"{name} holds credentials in a URL; build arguments can be read from the history of every image "
                    "that is built. Use an index that needs none, e.g. a local proxy."
                )
        return value

    @field_validator("mirrors")
    @classmethod
    def _one_star(cls, value: dict[str, str]) -> dict[str, str]:
        for pattern, target in value.items():
            if (pattern.count("*"), target.count("*")) not in ((0, 0), (1, 0), (1, 1)):
                raise ValueError(f"{pattern!r} = {target!r}: at most one * in each, and none in the second alone")
        return value

    def build_args(self) -> dict[str, str]:
        """What the RUN lines of a build on our bases see: the configured variables and where the certificates are."""
        certificates = dict.fromkeys(CERTIFICATE_ARGS, CERTIFICATES) if self.ca_bundle else {}
        return certificates | self.build_env


class BaseImage(Frozen):
    """An image of ours that others start from."""

    tag: str
    digest: str
    """Image id `sha256:…`."""
    substituted: bool
    """True when it was made from Debian packages because the image that was asked for could not be pulled."""


class BaseImages:
    """Makes base and toolchain images, each once. Safe for several threads."""

    def __init__(self, client: docker.DockerClient, config: BaseImageConfig, data: Path) -> None:
        self._client = client
        self._config = config
        self._data = data
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._known: dict[str, BaseImage] = {}
        self._engine: str | None = None
        self._puller = Puller(client, config.pull_timeout_s)
        self._gone: dict[str, str] = {}

    @property
    def config(self) -> BaseImageConfig:
        """What this was made with."""
        return self._config

    def base(self, suite: str | None = None) -> BaseImage:
        """The slim base, of another Debian release than the configured one when `suite` names one.

        Raises SandboxUnavailable with its remedy.
        """
        suite = suite or self._config.suite
        recipe = _recipe("base")
        bundle = self._bundle()
        tag = f"touchstone/base:{self._recipe_hash(recipe, bundle, suite)}"
        if tag in self._known:
            return self._known[tag]
        with self._only_one(tag):
            if known := self._present(tag):
                return known
            root, substituted = self._root(suite)
            files = {"certificates/": b""} | ({"certificates/touchstone.crt": bundle} if bundle else {})
            return self._build(tag, recipe, files, {"BASE": root}, substituted=substituted)

    def toolchain(self, language: str, version: str | None = None) -> BaseImage:
        """The base with the tools of one language (or `fetch`); ValueError for one we have no recipe for.

        `version` begins like `3.12` or `18`; the nearest that can be had is taken. Raises SandboxUnavailable with its
        remedy.
        """
        # Web pages are built with the tools of JavaScript.
        name = "javascript" if language == "html" else language
        _recipe(name)
        suite, exact = versioned(name, version)
        return self._layered(StandIn(suite, (Layer(name, exact),)))

    def resolve(self, reference: str) -> BaseImage | None:
        """The image behind a FROM: from a mirror, the engine, its registry or, where none answers, a stand-in of ours.

        None when a registry says that there is none, or when it is Windows'. Raises RegistryUnreachable when no
        registry answers and nothing can stand in, and SandboxUnavailable.
        """
        if reference == self._config.base_image:
            return self.base()
        if is_windows(reference):
            return None
        # An image that was pulled by its digest has no tag.
        name, at, digest = reference.partition("@")
        asked = re.sub(r":[^/:]*$", "", name) + at + digest if at else name
        unreachable: RegistryUnreachable | None = None
        try:
            for one in (*self._mirrored(asked), asked):
                try:
                    if self._puller.pull(one) is not None:
                        return self._inspect(one)
                except RegistryUnreachable as error:
                    unreachable = error
            found = stand_in(reference)
        except InvalidRepository:
            return None
        if unreachable is None:
            return None
        if found is None:
            raise unreachable
        logger.info("%s: building a stand-in for %s", unreachable, reference)
        return self._layered(found).model_copy(update={"substituted": True})

    def derived(
        self, name: str, recipe: str, files: dict[str, bytes], base: BaseImage, version: str | None = None
    ) -> BaseImage:
        """Build `recipe` (`ARG BASE`, `FROM ${BASE}`) once over `base`. Raises SandboxUnavailable."""
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
        content = json.dumps([recipe, base.tag, hashes, version])
        tag = f"touchstone/{name}:{_short_hash(content)}"
        if tag in self._known:
            return self._known[tag]
        with self._only_one(tag):
            if known := self._present(tag):
                return known
            arguments = {"BASE": base.tag} | ({"VERSION": version} if version else {})
            return self._build(tag, recipe, files, arguments, substituted=base.substituted)

    def pull(self, reference: str) -> str | None:
        """Image id of a reference that is present or can be pulled, None when there is no such image.

        Raises RegistryUnreachable, which is remembered for the life of this object, or SandboxUnavailable.
        """
        return self._puller.pull(reference)

    def _layered(self, wanted: StandIn) -> BaseImage:
        """The layers of a stand-in over the base of its Debian release."""
        made = self._release(wanted.suite)
        for layer in wanted.layers:
            files = {path.name: path.read_bytes() for path in (RECIPES / layer.recipe).glob("*")}
            made = self.derived(layer.recipe, _recipe(layer.recipe), files, made, layer.version)
        return made

    def _release(self, suite: str | None) -> BaseImage:
        """The base of a Debian release; where that cannot be had, the configured one is the nearest."""
        if suite is not None and suite != self._config.suite and suite not in self._gone:
            try:
                return self.base(suite)
            except SandboxUnavailable as error:
                self._gone[suite] = str(error)
                logger.warning("Debian %s cannot be had, %s is taken: %s", suite, self._config.suite, error)
        return self.base()

    def _mirrored(self, reference: str) -> Iterator[str]:
        """What the configured mirrors call this reference; hub images match by their full name as well."""
        host, name = docker.auth.resolve_repository_name(reference)
        full = f"{host}/{name}" if "/" in name else f"{host}/library/{name}"
        for pattern, target in self._config.mirrors.items():
            expression = re.escape(pattern).replace(r"\*", "(.*)")
            if match := re.fullmatch(expression, reference) or re.fullmatch(expression, full):
                yield target.replace("*", match[1]) if "*" in target else target

    def _bundle(self) -> bytes | None:
        if self._config.ca_bundle is None:
            return None
        try:
            return self._config.ca_bundle.read_bytes()
        except OSError as error:
            raise SandboxUnavailable(f"the CA bundle cannot be read ({error}); mend or remove ca_bundle") from error

    def _recipe_hash(self, recipe: str, bundle: bytes | None, suite: str) -> str:
        digest = hashlib.sha256(bundle).hexdigest() if bundle else None
        return _short_hash(json.dumps([recipe, self._of_suite(suite), suite, self._config.debian_mirror, digest]))

    def _of_suite(self, suite: str) -> str:
        """Reference of the base of a Debian release."""
        config = self._config
        if suite == config.suite:
            return config.base_image
        return (
            config.base_image.replace(config.suite, suite) if config.suite in config.base_image else f"debian:{suite}"
        )

    @contextmanager
    def _only_one(self, tag: str) -> Iterator[None]:
        """One build at a time per tag and engine, also among processes; others wait and then find it present."""
        with self._guard:
            lock = self._locks.setdefault(tag, threading.Lock())
        with lock:
            if tag in self._known:
                yield
                return
            with exclusive(self._lock_file(tag), f"image {tag}"):
                yield

    def _lock_file(self, tag: str) -> Path:
        """Outside of the data folders, since several may share an engine."""
        if self._engine is None:
            with engine_call("asking the engine for its id"):
                self._engine = hashlib.sha256(str(self._client.api.info()["ID"]).encode()).hexdigest()[:12]
        folder = Path(tempfile.gettempdir()) / f"touchstone-{os.getuid()}"
        return folder / f"{self._engine}-{re.sub(r'[^a-z0-9]', '-', tag)}.lock"

    def _present(self, tag: str) -> BaseImage | None:
        if tag not in self._known and (found := self._inspect(tag)):
            self._known[tag] = found
        return self._known.get(tag)

    def _inspect(self, reference: str) -> BaseImage | None:
        with engine_call(f"looking for {reference}"):
            try:
                found = self._client.api.inspect_image(reference)
            except ImageNotFound:
                return None
        substituted = (found["Config"].get("Labels") or {}).get(SUBSTITUTED) == "1"
        return BaseImage(tag=reference, digest=found["Id"], substituted=substituted)

    def _build(
        self, tag: str, recipe: str, files: dict[str, bytes], words: dict[str, str], *, substituted: bool
    ) -> BaseImage:
        logger.info("building %s", tag)
        arguments = self._config.build_args()
        text = with_arguments(recipe, arguments)
        outcome = run_build(
            self._client,
            chunks_of(tar_of({DOCKERFILE: text.encode()} | files)),
            tag=tag,
            build_args=arguments | words,
            limits=BuildLimits(timeout_s=1800),
            labels={SUBSTITUTED: "1" if substituted else "0"},
            variables=Egress.of(self._data, self._client).trusted(),
        )
        if outcome.image_id is None:
            raise SandboxUnavailable(f"{tag} could not be built: {outcome.error}; {outcome.last_step[-500:]}")
        logger.info("built %s in %.1f s", tag, outcome.seconds)
        self._known[tag] = BaseImage(tag=tag, digest=outcome.image_id, substituted=substituted)
        return self._known[tag]

    def _root(self, suite: str) -> tuple[str, bool]:
        """What the base is built from, and whether it stands in for the configured image."""
        asked = self._of_suite(suite)
        for reference in (*self._mirrored(asked), asked):
            try:
                if self._puller.pull(reference) is not None:
                    return reference, False
                why = f"the registry has no image {reference}"
            except RegistryUnreachable as error:
                why = str(error)
        tag = f"touchstone/debootstrap:{_short_hash(json.dumps([suite, self._config.debian_mirror]))}"
        if self._puller.image_id(tag) is None:
            logger.warning("%s: making the base from Debian packages instead", why)
            debootstrap(self._client, tag, suite, self._config.debian_mirror, self._data)
        return tag, True


def _recipe(name: str) -> str:
    path = RECIPES / f"{name}.Dockerfile"
    if not name.isidentifier() or not path.is_file():
        known = sorted(one.name.removesuffix(".Dockerfile") for one in RECIPES.glob("*.Dockerfile"))
        raise ValueError(f"there is no toolchain {name!r}; there are {', '.join(known)}")
    return path.read_text()


def _short_hash(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]
