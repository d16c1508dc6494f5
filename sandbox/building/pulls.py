"""Pulling images: what a registry has, what it says it has not, and registries that do not answer at all.

What is done without an image is not here; see base_images.py.
"""

from __future__ import annotations

import json
import logging
import re

import docker
from docker.errors import APIError, ImageNotFound

from sandbox.errors import SandboxUnavailable
from sandbox.streams import CONNECTION_ERRORS, engine_call

logger = logging.getLogger(__name__)

# Registries answer "denied" for a repository that does not exist, to tell nobody which ones do.
_NONE_SUCH = ("manifest unknown", "not found", "access denied", "invalid reference", "schema 1", "no matching manifest")

_REFERENCE = re.compile(r"[a-zA-Z0-9][\w.:-]*(?:/[a-z0-9][a-z0-9._-]*)*(?::[\w.-]{1,128})?(?:@sha256:[0-9a-f]{64})?\Z")
"""What can name an image at all: of anything else no registry has to be asked."""


class RegistryUnreachable(SandboxUnavailable):
    """An image registry does not answer; what is in the engine can still be used."""


class Puller:
    """Pulls each image once; a registry that did not answer is not asked again. Safe for several threads."""

    def __init__(self, client: docker.DockerClient, timeout_s: int) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._down: dict[str, str] = {}

    def pull(self, reference: str) -> str | None:
        """Image id of a reference that is present or can be pulled, None when its registry has no such image.

        Raises RegistryUnreachable, which is remembered for the life of this object, or SandboxUnavailable.
        """
        if (digest := self.image_id(reference)) is not None:
            return digest
        if not _REFERENCE.match(reference):
            return None
        host = str(docker.auth.resolve_repository_name(docker.utils.parse_repository_tag(reference)[0])[0])
        if host in self._down:
            raise RegistryUnreachable(self._down[host])
        try:
            self._pull(reference)
        except _NoSuchImage as error:
            logger.info("%s: %s", reference, error)
            return None
        except RegistryUnreachable as error:
            self._down[host] = str(error)
            raise
        return self.image_id(reference)

    def image_id(self, reference: str) -> str | None:
        """Image id of a reference that the engine has. Raises SandboxUnavailable."""
        with engine_call(f"looking for {reference}"):
            try:
                return str(self._client.api.inspect_image(reference)["Id"])
            except ImageNotFound:
                return None
            except APIError as error:
                # A Dockerfile can name anything.
                if "invalid reference" in str(error.explanation):
                    return None
                raise

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
                timeout=(api.timeout, self._timeout_s),
            )
            api._raise_for_status(response)
            for line in response.iter_lines():
                if line and "error" in (message := json.loads(line)):
                    raise _pull_error(reference, str(message["error"]))
        except APIError as error:
            raise _pull_error(reference, str(error.explanation or error)) from error
        except CONNECTION_ERRORS as error:
            raise RegistryUnreachable(f"pulling {reference}: no progress for {self._timeout_s} s ({error})") from error


class _NoSuchImage(Exception):
    """The registry answered that it has no such image."""


def _pull_error(reference: str, text: str) -> Exception:
    if any(sign in text.lower() for sign in _NONE_SUCH):
        return _NoSuchImage(text)
    return RegistryUnreachable(f"pulling {reference}: {text}")
