"""Why a build failed, by rules over what the engine and the failing step wrote. Nothing is built here."""

from __future__ import annotations

import re

from sandbox.building.builds import BuildOutcome
from sandbox.building.dockerfile_text import instructions
from sandbox.types import FailureClass

# What only BuildKit understands, as it stands in an instruction.
_BUILDKIT = re.compile(
    r"^\s*(?:(?:RUN|COPY|ADD)\s.*?<<-?[\"']?\w|RUN\s+--(?:mount|network|security)\b"
    r"|(?:COPY|ADD)\s+(?:--\S+\s+)*--(?:chmod|link|parents|exclude|checksum|keep-git-dir)\b"
    r"|FROM\s+--platform=\$\{?(?:BUILD|TARGET))",
    re.IGNORECASE | re.DOTALL,
)
# Variables that only BuildKit fills; with the classic builder they are empty.
_PLATFORM_VARIABLE = re.compile(r"\$\{?(?:TARGET|BUILD)(?:PLATFORM|OS|ARCH|VARIANT)\b")
_NEEDS_BUILDKIT = re.compile(r"requires BuildKit|unknown flag: (?:mount|link|network|security|chmod)", re.IGNORECASE)
_INVALID = re.compile(
    r"dockerfile parse error|unknown instruction|failed to parse|no build stage in current context"
    r"|requires (?:at least|exactly) \w+ argument|file with no instructions|the Dockerfile .* cannot be empty"
    r"|invalid from flag|unknown flag",
    re.IGNORECASE,
)
_CONTEXT = re.compile(r"error processing tar file|invalid tar header|unexpected EOF|archive/tar", re.IGNORECASE)
_BASE = re.compile(
    r"pull access denied|manifest for \S+ not found|manifest unknown|repository does not exist|no such image"
    r"|invalid reference format",
    re.IGNORECASE,
)
# The network, a package index or the machine failed: nothing about the repository may be concluded.
_INFRASTRUCTURE = re.compile(
    r"temporary failure (?:in name resolution|resolving)|could not resolve host|name or service not known|no such host"
    r"|EAI_AGAIN|ENOTFOUND|ETIMEDOUT|ECONNREFUSED|ECONNRESET|getaddrinfo|network is unreachable|connection timed out"
    r"|connection refused|connection reset by peer|i/o timeout|TLS handshake timeout|read timed out"
    r"|failed to establish a new connection|max retries exceeded|could not connect to|unable to connect to"
    r"|certificate (?:verify failed|signed by unknown authority)|SELF_SIGNED_CERT|unable to get local issuer"
    r"|too many requests|\b(?:502 bad gateway|503 service unavailable|504 gateway)|toomanyrequests"
    r"|no space left on device|cannot allocate memory|disk quota exceeded|error creating overlay mount",
    re.IGNORECASE,
)


def classify(dockerfile: str, outcome: BuildOutcome) -> FailureClass:
    """The class of a failed build."""
    if outcome.timed_out:
        return "build_timeout"
    error = outcome.error
    if _NEEDS_BUILDKIT.search(error):
        return "needs_buildkit"
    uses_buildkit = any(_BUILDKIT.match(instruction.text) for instruction in instructions(dockerfile))
    in_step = "returned a non-zero code" in error
    if uses_buildkit and not in_step:
        return "needs_buildkit"
    if in_step:
        if _INFRASTRUCTURE.search(outcome.last_step):
            return "infrastructure"
        return "needs_buildkit" if uses_buildkit or _PLATFORM_VARIABLE.search(dockerfile) else "build_failed"
    return _of_engine_error(error)


def _of_engine_error(error: str) -> FailureClass:
    """No command failed: the engine itself refused the Dockerfile, its base or the context."""
    if _INFRASTRUCTURE.search(error):
        return "infrastructure"
    if _BASE.search(error):
        return "base_missing"
    if _CONTEXT.search(error):
        return "context_invalid"
    if _INVALID.search(error):
        return "dockerfile_invalid"
    return "build_failed"
