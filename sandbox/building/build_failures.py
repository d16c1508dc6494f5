"""Why a build failed, by rules over what the engine and the failing step wrote. Nothing is built here.

Rules are tried from the most telling to the most general: what the machine or the network did, then what the author
wants and we cannot give, then what the repository lacks. Each is tested on the texts of real builds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from sandbox.building.dockerfile_text import instructions
from sandbox.building.outcome import BuildOutcome
from sandbox.types import FailureClass


class HostFailure(Protocol):
    """A host that a build asked for and did not get."""

    @property
    def host(self) -> str:
        """Its name."""

    @property
    def outcome(self) -> str:
        """`refused` by the allow-list, `unresolved`, `unreachable`, or `status` for an answer that is an error."""

    @property
    def reached_today(self) -> bool:
        """Whether any build of that day did get it."""


def _rule(failure_class: FailureClass, *patterns: str) -> tuple[FailureClass, re.Pattern[str]]:
    return failure_class, re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


_NO_NAME = (
    r"temporary failure (?:in name resolution|resolving)|could not resolve (?:host|proxy)|name or service not known"
    r"|no such host|\bEAI_AGAIN\b|\bENOTFOUND\b|getaddrinfo|no such name|unable to resolve host|UnknownHostException"
    r"|: Unknown host|host has no address"
)
_NO_ANSWER = (
    r"\b(?:ETIMEDOUT|ECONNREFUSED|ECONNRESET)\b|network is unreachable|connection timed out|connection refused"
    r"|host not reached|couldn't connect to server|Retrying \(Retry\(total=0"
    r"|connection reset by peer|i/o timeout|TLS handshake timeout|read timed out|failed to establish a new connection"
    r"|max retries exceeded|could not connect to|unable to connect to|Cannot initiate the connection"
    r"|(?:tunnel|proxy)\b.*\b(?:502|503|504)\b"
)
_NETWORK = re.compile(
    rf"{_NO_NAME}|{_NO_ANSWER}|(?:tunnel|proxy)\b.*\b(?:403|502|503|504)\b|Failed to fetch|Forbidden|host not allowed"
    r"|\(from versions: none\)",
    re.IGNORECASE,
)
_IN_STEP = re.compile(r"The command '.*' returned a non-zero code: (\d+)", re.DOTALL)

# Whoever failed, a step or the engine itself.
_ANYWHERE = (
    _rule("disk", r"no space left on device|\bENOSPC\b|disk quota exceeded"),
    _rule(
        "host_not_allowed",
        r"host not allowed|is not on the list of allowed hosts|CONNECT tunnel failed, response 403",
        r"Tunnel connection failed: 403|tunneling socket .* statusCode=403",
        r"Invalid response from proxy: HTTP/1\.[01] 403|Received HTTP code 403 from proxy after CONNECT",
        r"Proxy CONNECT aborted|Proxy response \(403\)",
    ),
    _rule(
        "infrastructure",
        _NO_NAME,
        _NO_ANSWER,
        r"certificate (?:verify failed|signed by unknown authority)|SELF_SIGNED_CERT|unable to get local issuer",
        r"too many requests|toomanyrequests|\b(?:502 bad gateway|503 service unavailable|504 gateway)",
        r"error creating overlay mount|failed to mount overlay",
    ),
)
# No command failed: the engine refused the Dockerfile, its base or the context.
_ENGINE = (
    _rule(
        "secrets_needed", r"secret \S+ not found|secret \S+: not found|no ssh (?:handler|agent)|unset ssh forward key"
    ),
    _rule(
        "needs_buildkit",
        r"requires BuildKit|unknown flag: |invalid chmod parameter|unexpected key '\w+' (?:in|for)",
        r"unsupported mount type|invalid field '.*' must be a key=value pair|unknown API capability",
    ),
    _rule(
        "dead_download",
        r"(?:ADD failed|failed to load cache key|^invalid response status|Failed to GET)\b.*\b(?:404|410)\b",
        r"invalid (?:response|not-modified.*) status (?:404|410)",
    ),
    _rule(
        "missing_file",
        r"(?:COPY|ADD) failed: (?:stat|lstat|file not found|no source files|forbidden path|.*no such file)",
        r"^\"?/\S*\"?:? not found|failed to (?:compute|calculate) (?:cache key|checksum).*not found",
        r"no source files were specified|failed to walk .*: no such file|: not found: not found",
        r"lstat \S+: no such file or directory|invalid from flag value",
    ),
    _rule(
        "base_missing",
        r"pull access denied|manifest for \S+ not found|manifest unknown|repository does not exist|no such image",
        r"invalid reference format|should not be blank|failed to parse stage name|insufficient_scope",
        r"no match for platform",
    ),
    _rule("context_invalid", r"error processing tar file|invalid tar header|unexpected EOF|archive/tar"),
    _rule(
        "dockerfile_invalid",
        r"dockerfile parse error|unknown instruction|failed to parse|no build stage in current context",
        r"requires (?:at least|exactly|either) \w+ argument|file with no instructions|Dockerfile .* cannot be empty",
        r"invalid from flag|no image was generated|circular dependency|Syntax error - |cannot be used",
        r"failed to process \"|unsupported modifier|dockerfile line greater|invalid (?:containerport|stopsignal)",
    ),
    _rule("missing_dependency", r"exec: \S+: (?:stat \S+: )?(?:no such file|executable file not found)"),
    _rule("base_unsupported", r"exec format error"),
)
_STEP = (
    _rule("base_unsupported", r"exec format error|cannot execute binary file"),
    _rule(
        "secrets_needed",
        r"could not read (?:Username|Password) for|Authentication failed for|Permission denied \(publickey",
        r"Host key verification failed|Failed to replace env in config: \$\{",
        r"npm (?:ERR!|error) code E(?:401|NEEDAUTH)|\b401 (?:Unauthorized|Client Error|Error)|HTTP(?: error)? 401",
        r"returned error: 401|/run/secrets/\S+: No such file|authentication required|incorrect or missing password",
    ),
    _rule(
        "memory",
        r"Killed signal terminated program|heap out of memory|OutOfMemoryError|^MemoryError|signal: killed",
        r"cannot allocate memory|virtual memory exhausted|std::bad_alloc|Killed$|\bENOMEM\b|out of memory",
    ),
    _rule(
        "dead_download",
        r"\b404:?\s+Not Found|ERROR 404|returned error: 404|HTTP error 404|npm (?:ERR!|error) code E404",
        r"\b410 Gone|repository '\S+' not found|ERROR: Repository not found|does not have a Release file",
        r"no longer has a Release file|Could not find remote branch",
        r"Remote branch \S+ not found|pathspec '\S+' did not match|reference is not a tree|unknown revision",
        r"status code 404|StatusCode: 404|statusCode=404|Response code 404",
    ),
    _rule(
        "version_drift",
        r"No matching distribution found|Could not find a version that satisfies|requires a different Python",
        r"Requires-Python|not supported between instances|is not a supported wheel|ResolutionImpossible",
        r"npm (?:ERR!|error) code (?:ETARGET|EBADENGINE|ENOTSUP|ERESOLVE)|The engine \"\w+\" is incompatible",
        r"No matching version found for|Unsupported URL Type \"workspace:|unsupported lockfile",
        r"lockfile.* not compatible",
        r"package (?:cmp|iter|maps|slices|log/slog|math/rand/v2|unique) is not in (?:GOROOT|std)",
        r"error:0308010C|requires go >?=|note: module requires Go|invalid go version|unknown directive: toolchain",
        r"invalid source release|release version \S+ not supported|(?:Source|Target) option \S+ is no longer supported",
        r"class file version|has been compiled by a more recent version|your php version \(.*\) does not satisfy",
        r"Compatibility with CMake < |CMake \S+ or higher is required|requires meson|Meson version is \S+ but",
        r"use_2to3 is invalid|No module named '(?:pkg_resources|distutils|imp|asyncore|six\.moves)'",
        r"cannot import name '\w+' from '(?:collections|setuptools\S*|jinja2|markupsafe|werkzeug\S*)'",
        r"module '(?:pkgutil|configparser|inspect|collections|ast)' has no attribute|externally-managed-environment",
        r"Version '\S+' for '\S+' was not found|rustc \S+ is not supported|requires rustc|edition20\d\d",
        r"DeployException|poetry\.lock was last generated|lockfile needs to be updated|OUTDATED_LOCKFILE",
        r"lock file version|SyntaxError: (?:Unexpected token|f-string)|is not compatible with (?:this|your) version",
    ),
    _rule(
        "missing_dependency",
        r"fatal error: \S+: No such file or directory|'\S+\.h' file not found",
        r"(?:command |: )not found$|executable file not found in|cannot find -l|error: linker .* not found",
        r"Unable to locate package|has no installation candidate|unable to select packages|Couldn't find any package",
        r"(?-i:Could NOT find)|Could not find a package configuration file|Package configuration file .* not",
        r"No package '\S+' found|was not found in the pkg-config|Dependency \S+ not found|Dependency lookup for",
        r"No module named|ModuleNotFoundError|Cannot find module|Can't resolve '|cannot find package",
        r"cannot find module providing package|no required module provides package|is not in (?:GOROOT|std)",
        r"error: package \S+ does not exist|cannot find symbol|Class \"\S+\" not found|requires ext-",
        r"Unknown CMake command",
        r"configure: error: .*(?:not found|missing|required|need|install|cannot|could not)",
        r"pg_config executable not found|mysql_config|find Python|xcode-select|Please install|you need to install",
        r"possibly undefined macro|Can't locate \S+ in @INC|Program .* not found|No CMAKE_\w+_COMPILER",
        r"is not installed",
    ),
    _rule(
        "missing_file",
        r"Could not open requirements file|Could not read package\.json|No rule to make target|not a git repository",
        r"does not appear to (?:be a Python project|contain CMakeLists)|go\.mod file not found",
        r"go: cannot find main module",
        r"No such file or directory|\bENOENT\b|can't open file|cannot stat|No such file$|FileNotFoundError",
        r"is not an existing|does not contain main module|can only install with an existing|No makefile found"
        r"|no Go files in|directory not found|MissingProjectException|no such file or directory",
        r"neither 'setup\.py' nor 'pyproject\.toml' found|No url found for submodule|can't find \S+ in",
    ),
    _rule(
        "compile_failed",
        r"\berror: |\berror\[E\d+\]|error TS\d+|: error |compilation (?:failed|error|terminated)|undefined reference",
        r"ld returned \d+|BUILD (?:FAILURE|FAILED)|^make(?:\[\d+\])?: \*\*\* .*Error \d|SyntaxError|IndentationError",
        r"^\S+\.go:\d+:\d+: |Build failed|Module build failed|ninja: build stopped",
    ),
)
# A step that only warned of something fails of another thing.
_WARNING = re.compile(
    r"^(?!.*Retry\(total=0).*?\b(?:warn(?:ing)?|deprecated|debconf: delaying)\b.*$", re.IGNORECASE | re.MULTILINE
)
_SECRET = re.compile(
    r"^\s*ARG\s+\w*(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_KEY|SSH_KEY|PRIVATE_KEY|AUTH)\w*\s*$", re.IGNORECASE
)
_SECRET_MOUNT = re.compile(r"^\s*RUN\s.*--mount=\S*type=(?:secret|ssh)\b", re.IGNORECASE | re.DOTALL)
_KILLED = 137


def classify(dockerfile: str, outcome: BuildOutcome, failures: Sequence[HostFailure] = ()) -> FailureClass:
    """The class of a failed build; `failures` are the hosts that it did not get, as far as that is known."""
    if outcome.timed_out:
        return "build_timeout"
    if outcome.out_of_space:
        return "disk"
    step = _IN_STEP.search(outcome.error)
    text = _without_warnings(outcome.last_step) if step else outcome.error
    if found := _of_hosts(text, failures):
        return found
    if (found := _first(_ANYWHERE, text)) == "infrastructure" and _dead(text):
        return "dead_download"
    if found:
        return found
    if not step:
        return _first(_ENGINE, outcome.error) or "build_failed"
    found = _first(_STEP, text)
    if found in (None, "memory", "missing_file", "compile_failed") and int(step[1]) == _KILLED:
        return "memory"
    if found not in ("memory", "secrets_needed") and _asks_for_secrets(dockerfile):
        return "secrets_needed"
    return found or "build_failed"


def _first(rules: Sequence[tuple[FailureClass, re.Pattern[str]]], text: str) -> FailureClass | None:
    return next((name for name, pattern in rules if pattern.search(text)), None)


def _without_warnings(text: str) -> str:
    return _WARNING.sub("", text)


def _of_hosts(text: str, failures: Sequence[HostFailure]) -> FailureClass | None:
    """What the proxy saw, where the step failed of it: programs ask for hosts that they can do without as well."""
    if not _NETWORK.search(text) and not any(failure.host in text for failure in failures):
        return None
    named = [failure for failure in failures if failure.host in text] or list(failures)
    if any(failure.outcome == "refused" for failure in named):
        return "host_not_allowed"
    lost = [failure for failure in named if failure.outcome in ("unresolved", "unreachable")]
    if lost:
        return "unreachable_host" if any(failure.reached_today for failure in lost) else "infrastructure"
    return None


def _dead(text: str) -> bool:
    """Whether a step that had trouble with the network was told in the end that what it asked for is gone."""
    last = [line for line in text.splitlines() if line.strip()][-3:]
    return not any(_NETWORK.search(line) for line in last) and any(" 404" in line for line in last)


def _asks_for_secrets(dockerfile: str) -> bool:
    return any(_SECRET.match(step.text) or _SECRET_MOUNT.match(step.text) for step in instructions(dockerfile))
