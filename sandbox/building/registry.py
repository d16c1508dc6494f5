"""Images in a registry, so that other machines need not build them: push by image id, pull by manifest digest or id.

One repository holds them all; the tag of an image is its id. Which images go there is not here, nor are base images
of others; see base_images.py.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound, NotFound

from sandbox.building.pulls import RegistryUnreachable
from sandbox.errors import ImageMissing, SandboxUnavailable
from sandbox.streams import CONNECTION_ERRORS, engine_call

logger = logging.getLogger(__name__)

REPOSITORY = "touchstone"
# Engines report no progress while they compress a layer or ask a registry again that does not answer.
SILENCE_S = 180
_IMAGE_ID = re.compile(r"sha256:([0-9a-f]{64})")
_REFERENCE = re.compile(r"[^\s@]+/[^\s@]+@sha256:[0-9a-f]{64}")
_ABSENT = ("manifest unknown", "not found", "name unknown", "name_unknown")


class Registry:
    """One registry as an engine sees it. Safe for several threads and processes."""

    def __init__(self, client: docker.DockerClient, address: str | None) -> None:
        """`address` is `host:port` or `host:port/path`; without one only full references can be pulled."""
        self._client = client
        self._address = address

    @property
    def address(self) -> str | None:
        """Where images are pushed, None when nowhere."""
        return self._address

    def push(self, image_id: str) -> str:
        """Push an image and return its reference by manifest digest; quick when the registry has it already.

        Raises RegistryUnreachable, ImageMissing when the engine has no such image, SandboxUnavailable when the registry
        refuses it, and ValueError without an address.
        """
        if self._address is None:
            raise ValueError("there is no registry to push to")
        repository, tag = f"{self._address}/{REPOSITORY}", _hex(image_id)
        self._give_tag(image_id, repository, tag)
        try:
            answer = self._stream(f"/images/{repository}/push", {"tag": tag}, f"pushing {image_id}", repository)
            found = [message["aux"]["Digest"] for message in answer if "Digest" in message.get("aux", {})]
        except _Absent as error:
            raise SandboxUnavailable(f"pushing {image_id}: {error}") from error
        finally:
            self._drop_tag(image_id, f"{repository}:{tag}")
        if not found:
            raise SandboxUnavailable(f"pushing {image_id}: the engine did not say under which digest it is there")
        logger.info("pushed %s to %s", image_id, self._address)
        return f"{repository}@{found[-1]}"

    def pull(self, image_id: str, reference: str | None = None) -> bool:
        """Have an image in the engine: by `reference` (from `push`), else by its tag; False when there is none.

        Raises RegistryUnreachable, SandboxUnavailable when the registry answers with another image than `image_id`, and
        ValueError for a reference that is none by digest.
        """
        tag = _hex(image_id)
        if reference is not None and not _REFERENCE.fullmatch(reference):
            raise ValueError(f"{reference!r} is no reference by digest")
        if self._id_of(image_id) is not None:
            return True
        name = reference or (f"{self._address}/{REPOSITORY}:{tag}" if self._address else None)
        if name is None:
            return False
        repository, _, wanted = name.partition("@") if "@" in name else name.rpartition(":")
        had = self._id_of(name)
        try:
            for _ in self._stream("/images/create", {"fromImage": repository, "tag": wanted}, f"pulling {name}", name):
                pass
        except _Absent:
            return False
        found = self._id_of(name)
        if found != image_id:
            if had is None:
                self._remove(name)
            raise SandboxUnavailable(f"pulling {name}: the registry answered with the image {found}, not {image_id}")
        logger.info("pulled %s", name)
        return True

    def _stream(self, path: str, parameters: dict[str, str], what: str, reference: str) -> Iterator[dict[str, Any]]:
        """What the engine says on the way. Raises RegistryUnreachable, SandboxUnavailable, ImageMissing or _Absent."""
        api = self._client.api
        host = docker.auth.resolve_repository_name(reference)[0]
        # An engine refuses a push without any credentials to read.
        credentials = docker.auth.get_config_header(api, host) or docker.auth.encode_header({})
        try:
            response = api.post(
                f"{api.base_url}/v{api.api_version}{path}",
                params=parameters,
                headers={"X-Registry-Auth": credentials},
                stream=True,
                timeout=(api.timeout, SILENCE_S),
            )
            with response:
                api._raise_for_status(response)
                for line in response.iter_lines(chunk_size=None):
                    message: dict[str, Any] = json.loads(line) if line else {}
                    if "error" in message:
                        raise _fault(what, str(message["error"]))
                    yield message
        except APIError as error:
            raise _fault(what, str(error.explanation or error)) from error
        except (*CONNECTION_ERRORS, ValueError) as error:
            raise SandboxUnavailable(f"{what}: the Docker engine does not answer ({error})") from error

    def _give_tag(self, image_id: str, repository: str, tag: str) -> None:
        with engine_call(f"naming {image_id}"):
            try:
                self._client.api.tag(image_id, repository, tag)
            except NotFound as error:
                raise ImageMissing(f"image {image_id} is not in the engine; build it again") from error

    def _drop_tag(self, image_id: str, name: str) -> None:
        """Take the name away again, unless the image has no other: without any it would be gone."""
        with engine_call(f"looking at {image_id}"):
            tags = self._client.api.inspect_image(image_id).get("RepoTags") or []
        if any(tag != name for tag in tags):
            self._remove(name)

    def _remove(self, name: str) -> None:
        with engine_call(f"removing the name {name}"):
            try:
                self._client.api.remove_image(name, noprune=True)
            except ImageNotFound:
                return

    def _id_of(self, name: str) -> str | None:
        with engine_call(f"looking for {name}"):
            try:
                return str(self._client.api.inspect_image(name)["Id"])
            except ImageNotFound:
                return None


class _Absent(Exception):
    """The registry answered that it has no such image."""


def _fault(what: str, text: str) -> Exception:
    lowered = text.lower()
    if any(sign in lowered for sign in _ABSENT):
        return _Absent(text)
    if any(
        sign in lowered for sign in ("denied", "unauthorized", "no basic auth", "no space left", "filesystem layer")
    ):
        return SandboxUnavailable(f"{what}: {text}")
    return RegistryUnreachable(f"{what}: {text}{_remedy(lowered)}")


def _remedy(text: str) -> str:
    """What helps where an engine of our own cannot reach a registry that is up."""
    if "host not allowed" in text or "http response to https client" in text:
        return "; our engine learns of its registry when it starts: infra/bootstrap.sh down, then run"
    if re.search(r"//(?:localhost|127\.[\d.]+)[:/].*refused", text):
        return "; our engine has a loopback device of its own: name another address of this machine"
    return ""


def _hex(image_id: str) -> str:
    """Raises ValueError for what is no image id."""
    if (match := _IMAGE_ID.fullmatch(image_id)) is None:
        raise ValueError(f"{image_id!r} is no image id")
    return match[1]
