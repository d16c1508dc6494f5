"""Downloads with the registries' own clients, inside a container of the `fetch` toolchain.

Any machine with an engine will do. Only archives are fetched: no code of a package runs. Their hashes are checked on
this side, before anything is opened. What is downloaded and what becomes of it is the business of the sources.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from pipeline.errors import InfrastructureFailure, ItemRejected
from sandbox.errors import SandboxError
from sandbox.protocol import Backend, Sandbox
from sandbox.types import Limits

logger = logging.getLogger(__name__)

Ecosystem = Literal["debian", "npm", "pypi"]

FOLDER = "/tmp/fetch"
"""Where a container keeps what it downloads."""

NAME_PATTERN = r"^(@[a-z0-9][a-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9.+_-]*$"
VERSION_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9.+~:_-]*$"
FILE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9.+~_%-]*$"
SHA256_PATTERN = r"^[0-9a-f]{64}$"

# As root: the folder belongs to root, and apt's own user could not write there.
APT_OPTIONS = "-qq -o APT::Sandbox::User=root -o Acquire::Retries=2"
NPM_PACK = (
    "npm pack --ignore-scripts --loglevel=error --no-update-notifier --logs-max=0"
    " --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 {name}@{version}"
)

_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_ENVIRONMENT = f"export NODE_EXTRA_CA_CERTS={_CERTIFICATES} SSL_CERT_FILE={_CERTIFICATES}"
"""Node and Python bring their own lists of authorities; the image's bundle has those of a company's proxy as well."""

_UPDATE = "apt-get update -qq -o APT::Update::Error-Mode=any"
"""Without the mode, lists that could not be read anew are a warning and a package seems to be gone."""

_GONE: Mapping[Ecosystem, re.Pattern[str]] = {
    "debian": re.compile(
        r"Unable to find a source package|Can not find version|Unable to locate package|"
        r"Version '\S+' for '\S+' was not found|\b404\b"
    ),
    "npm": re.compile(r"\bE404\b|\bETARGET\b|\bnotarget\b"),
    "pypi": re.compile(r"No matches are found"),
}

_UNREACHED = re.compile(r"Failed to collect links(?!.*\b404\b)")
"""unearth finds no match either when the index did not answer; only its warning tells the two apart."""

_HALF = 200


@contextmanager
def fetch_container(backend: Backend, image: Callable[[], str], label: str, timeout_s: float) -> Iterator[Sandbox]:
    """One container with a network, gone at the end; `timeout_s` is what one of its few steps may take.

    `image` gives the digest of the `fetch` toolchain. Faults of the container become InfrastructureFailure.
    """
    limits = Limits(network="bridge", memory_mb=1024, cpus=2.0, lifetime_s=int(4 * timeout_s) + 60)
    try:
        sandbox = backend.start(image(), limits)
        try:
            yield sandbox
        finally:
            sandbox.close()
    except SandboxError as error:
        raise InfrastructureFailure(f"{label} was not fetched: {error}") from error


def download(sandbox: Sandbox, ecosystem: Ecosystem, label: str, command: str, timeout_s: float) -> None:
    """Run a client's command in FOLDER. Raises ItemRejected (gone) and InfrastructureFailure."""
    line = f"{_ENVIRONMENT} && mkdir -p {FOLDER} && cd {FOLDER} && {command}"
    result = sandbox.execute(line, timeout_s=timeout_s)
    if ecosystem == "debian" and result.exit_code != 0:
        # The package lists are as old as the image; the archive may have moved on since.
        logger.info("%s: reading the package lists anew", label)
        result = sandbox.execute(f"{_UPDATE} && {line}", timeout_s=timeout_s)
    if result.exit_code == 0:
        return
    if result.timed_out:
        raise InfrastructureFailure(f"{label}: not downloaded within {timeout_s:.0f} s")
    if _GONE[ecosystem].search(result.output) and not _UNREACHED.search(result.output):
        raise ItemRejected("gone", f"{label} is not offered any more; pin a newer version: {said(result.output)}")
    raise InfrastructureFailure(f"{label}: not downloaded: {said(result.output)}")


def delivered(sandbox: Sandbox, name: str, sha256: str, max_bytes: int) -> bytes:
    """A downloaded archive, its hash checked here and not in the container.

    Raises ItemRejected: hash_mismatch, too_large.
    """
    data = content(sandbox, name, max_bytes)
    if (found := hashlib.sha256(data).hexdigest()) != sha256:
        raise ItemRejected("hash_mismatch", f"{name} has SHA-256 {found}, pinned is {sha256}")
    return data


def content(sandbox: Sandbox, name: str, max_bytes: int) -> bytes:
    """A file of FOLDER. Raises ItemRejected: too_large, or hash_mismatch when the registry delivered no such file."""
    try:
        data = sandbox.get(f"{FOLDER}/{name}", max_bytes=max_bytes)
    except ValueError as error:
        raise ItemRejected("too_large", f"{name} has more than {max_bytes:,} bytes") from error
    if data is None:
        raise ItemRejected("hash_mismatch", f"the registry delivered no file {name}")
    return data


def said(output: str) -> str:
    """What a client said, short: npm begins with the reason, others end with it."""
    text = " ".join(output.split())
    return text if len(text) <= 2 * _HALF else f"{text[:_HALF]} … {text[-_HALF:]}"
