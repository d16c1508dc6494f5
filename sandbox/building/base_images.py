"""The images everything starts from: one slim Debian base, and one small toolchain layer per language above it.

The base comes from the configured registry or, where none is reachable, from Debian packages. Images of repositories
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
from docker.errors import APIError, ImageNotFound
from pydantic import Field, field_validator

from sandbox.building.builds import DOCKERFILE, chunks_of, run_build, tar_of
from sandbox.building.debootstrap import debootstrap
from sandbox.building.dockerfile_text import with_arguments
from sandbox.errors import SandboxUnavailable
from sandbox.locks import exclusive
from sandbox.streams import CONNECTION_ERRORS, engine_call
from sandbox.types import BuildLimits, Frozen

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
    """True when it was made from Debian packages because the configured image could not be pulled."""


class RegistryUnreachable(SandboxUnavailable):
    """No image registry answers; what is in the engine can still be used."""


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
        self._registry_down: str | None = None

    @property
    def config(self) -> BaseImageConfig:
        """What this was made with."""
        return self._config

    def base(self) -> BaseImage:
        """The slim base. Raises SandboxUnavailable with its remedy."""
        recipe = _recipe("base")
        bundle = self._bundle()
        tag = f"touchstone/base:{self._recipe_hash(recipe, bundle)}"
        if tag in self._known:
            return self._known[tag]
        with self._only_one(tag):
            if known := self._present(tag):
                return known
            root, substituted = self._root()
            files = {"certificates/": b""} | ({"certificates/touchstone.crt": bundle} if bundle else {})
            return self._build(tag, recipe, files, base=root, substituted=substituted)

    def toolchain(self, language: str) -> BaseImage:
        """The base with the tools of one language (or `fetch`); ValueError for one we have no recipe for.

        Raises SandboxUnavailable with its remedy.
        """
        recipe = _recipe(language)
        base = self.base()
        return self.derived(language, recipe, {}, base)

    def derived(self, name: str, recipe: str, files: dict[str, bytes], base: BaseImage) -> BaseImage:
        """Build `recipe` (`ARG BASE`, `FROM ${BASE}`) once over `base`. Raises SandboxUnavailable."""
        content = json.dumps([recipe, base.tag, {k: hashlib.sha256(v).hexdigest() for k, v in sorted(files.items())}])
        tag = f"touchstone/{name}:{_short_hash(content)}"
        if tag in self._known:
            return self._known[tag]
        with self._only_one(tag):
            if known := self._present(tag):
                return known
            return self._build(tag, recipe, files, base=base.tag, substituted=base.substituted)

    def pull(self, reference: str) -> str | None:
        """Image id of a reference that is present or can be pulled, None when there is no such image.

        Raises RegistryUnreachable, which is remembered for the life of this object, or SandboxUnavailable.
        """
        if (digest := self._image_id(reference)) is not None:
            return digest
        if self._registry_down is not None:
            raise RegistryUnreachable(self._registry_down)
        try:
            self._pull(reference)
        except _NoSuchImage:
            return None
        except RegistryUnreachable as error:
            self._registry_down = str(error)
            raise
        return self._image_id(reference)

    def _bundle(self) -> bytes | None:
        if self._config.ca_bundle is None:
            return None
        try:
            return self._config.ca_bundle.read_bytes()
        except OSError as error:
            raise SandboxUnavailable(f"the CA bundle cannot be read ({error}); mend or remove ca_bundle") from error

    def _recipe_hash(self, recipe: str, bundle: bytes | None) -> str:
        config = self._config
        digest = hashlib.sha256(bundle).hexdigest() if bundle else None
        return _short_hash(json.dumps([recipe, config.base_image, config.suite, config.debian_mirror, digest]))

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
        if tag not in self._known:
            with engine_call(f"looking for {tag}"):
                try:
                    found = self._client.api.inspect_image(tag)
                except ImageNotFound:
                    return None
            substituted = (found["Config"].get("Labels") or {}).get(SUBSTITUTED) == "1"
            self._known[tag] = BaseImage(tag=tag, digest=found["Id"], substituted=substituted)
        return self._known[tag]

    def _image_id(self, reference: str) -> str | None:
        with engine_call(f"looking for {reference}"):
            try:
                return str(self._client.api.inspect_image(reference)["Id"])
            except ImageNotFound:
                return None

    def _build(self, tag: str, recipe: str, files: dict[str, bytes], *, base: str, substituted: bool) -> BaseImage:
        logger.info("building %s", tag)
        arguments = self._config.build_args()
        text = with_arguments(recipe, arguments)
        outcome = run_build(
            self._client,
            chunks_of(tar_of({DOCKERFILE: text.encode()} | files)),
            tag=tag,
            build_args=arguments | {"BASE": base},
            limits=BuildLimits(timeout_s=1800),
            labels={SUBSTITUTED: "1" if substituted else "0"},
        )
        if outcome.image_id is None:
            raise SandboxUnavailable(f"{tag} could not be built: {outcome.error}; {outcome.last_step[-500:]}")
        logger.info("built %s in %.1f s", tag, outcome.seconds)
        self._known[tag] = BaseImage(tag=tag, digest=outcome.image_id, substituted=substituted)
        return self._known[tag]

    def _root(self) -> tuple[str, bool]:
        """What the base is built from, and whether it stands in for the configured image."""
        try:
            if self.pull(self._config.base_image) is not None:
                return self._config.base_image, False
            why = f"the registry has no image {self._config.base_image}"
        except RegistryUnreachable as error:
            why = str(error)
        tag = f"touchstone/debootstrap:{_short_hash(json.dumps([self._config.suite, self._config.debian_mirror]))}"
        if self._image_id(tag) is None:
            logger.warning("%s: making the base from Debian packages instead", why)
            debootstrap(self._client, tag, self._config.suite, self._config.debian_mirror, self._data)
        return tag, True

    def _pull(self, reference: str) -> None:
        name, tag = docker.utils.parse_repository_tag(reference)
        api = self._client.api
        credentials = docker.auth.get_config_header(api, docker.auth.resolve_repository_name(name)[0])
        try:
            response = api.post(
                f"{api.base_url}/v{api.api_version}/images/create",
                params={"fromImage": name, "tag": tag or "latest"},
                headers={"X-Registry-Auth": credentials} if credentials else {},
                stream=True,
                timeout=(api.timeout, self._config.pull_timeout_s),
            )
            api._raise_for_status(response)
            for line in response.iter_lines():
                if line and "error" in (message := json.loads(line)):
                    raise _pull_error(reference, str(message["error"]))
        except APIError as error:
            raise _pull_error(reference, str(error.explanation or error)) from error
        except CONNECTION_ERRORS as error:
            limit = self._config.pull_timeout_s
            raise RegistryUnreachable(f"pulling {reference}: no progress for {limit} s ({error})") from error


class _NoSuchImage(Exception):
    """The registry answered that it has no such image."""


def _pull_error(reference: str, text: str) -> Exception:
    """Registries answer "denied" for a repository that does not exist, to tell nobody which ones do."""
    if any(sign in text.lower() for sign in ("manifest unknown", "not found", "access denied", "invalid reference")):
        return _NoSuchImage(text)
    return RegistryUnreachable(f"pulling {reference}: {text}")


def _recipe(name: str) -> str:
    path = RECIPES / f"{name}.Dockerfile"
    if not name.isidentifier() or not path.is_file():
        known = sorted(one.name.removesuffix(".Dockerfile") for one in RECIPES.glob("*.Dockerfile"))
        raise ValueError(f"there is no toolchain {name!r}; there are {', '.join(known)}")
    return path.read_text()


def _short_hash(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]
