"""The values that cross the border of the sandbox package. Frozen, and unknown fields are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    """A value object: immutable, and a misspelled field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(Frozen):
    """What one sandbox may use."""

    memory_mb: int = Field(default=2048, gt=0)
    """Memory and memory+swap, MiB."""
    cpus: float = Field(default=1.0, gt=0)
    """CPU share, cores."""
    pids: int = Field(default=512, gt=0)
    """Processes and threads."""
    lifetime_s: int = Field(default=3600, gt=0)
    """Seconds until the sandbox ends itself, whatever happens to its driver."""
    network: Literal["none", "bridge"] = "none"
    """`bridge` is for fetching pinned, hashed archives only; agents and verifiers always get `none`."""


class ExecResult(Frozen):
    """What one command did. A failure or a timeout of the command is a result, never an exception."""

    exit_code: int | None
    """None when the command was stopped at its time limit."""
    output: str
    """Standard output and error in the order written, decoded with replacement, cut to head + tail, escape sequences
    included."""
    output_bytes: int
    """Bytes the command really wrote."""
    truncated: bool
    """True when `output` is not all of it."""
    timed_out: bool
    seconds: float
    shell_restarted: bool = False
    """The shell did not outlive this command (it ended, was replaced or did not answer), so the next one has a new one;
    or it had ended since the command before, so this one had."""
    oom_killed: bool = False
    """The kernel killed a process of the sandbox for memory while the command ran."""


class FileChange(Frozen):
    """One path that differs between a sandbox and its image."""

    path: str
    """Absolute path in the sandbox, non-UTF-8 bytes replaced."""
    kind: Literal["added", "modified", "deleted"]
    type: Literal["file", "directory", "symlink", "other"]
    sha256: str | None = None
    """Of the content of a regular file, or of the target of a symlink; None for others and for deletions."""
    size: int = 0
    """Bytes; 0 unless a regular file."""
    mode: int = 0
    """Permission bits, e.g. 0o755."""


class Conditions(Frozen):
    """Under which a verifier judges: an honest verdict is the same under all of them."""

    order: Literal["usual", "reversed", "shuffled"] = "usual"
    """Of its tests; those that start programs come last in any case."""
    seed: int = 0
    """Which of the shuffled orders."""
    clock_offset_s: int = 0
    """How far its own clock is off, seconds. Programs under test have the true one."""


USUAL = Conditions()


class FrozenState(Frozen):
    """The file system of a finished sandbox. No process survives in it; it can be restored any number of times."""

    reference: str
    """Name under which the backend finds it again, also after a restart of the driver."""
    image_digest: str
    """Image the sandbox had started from."""


class BuildLimits(Frozen):
    """What one image build may use."""

    timeout_s: int = Field(default=600, gt=0)
    memory_mb: int = Field(default=4096, gt=0)
    """Memory and memory+swap of the steps, MiB."""
    cpus: float = Field(default=2.0, gt=0)
    pids: int = Field(default=2048, gt=0)
    """Processes and threads of the steps."""
    disk_mb: int = Field(default=10_000, gt=0)
    """Space that must be free where the engine keeps its layers before a build starts, MiB."""


class ImageSpec(Frozen):
    """What to build."""

    name: str
    """Short name used in tags and logs: lower case, digits, '-', '.'."""
    dockerfile: str
    """Text of the Dockerfile."""
    context: Path | None = None
    """Uncompressed tar archive that is the build context; None for an empty context."""
    context_sha256: str = ""
    """Content hash of the context, part of the cache key."""
    context_files: dict[str, str] = Field(default_factory=dict)
    """Further small files (path -> text) placed over the context."""
    workdir: str | None = None
    """Working directory that the image must end with; None leaves the Dockerfile's."""


FailureClass = Literal[
    "base_missing",
    "base_unsupported",
    "build_failed",
    "build_timeout",
    "compile_failed",
    "context_invalid",
    "dead_download",
    "disk",
    "dockerfile_invalid",
    "host_not_allowed",
    "infrastructure",
    "memory",
    "missing_dependency",
    "missing_file",
    "needs_buildkit",
    "secrets_needed",
    "unreachable_host",
    "version_drift",
]
"""Why a build failed; the rules are in building/build_failures.py.

`infrastructure` and `disk` are this machine's or the network's, `host_not_allowed` is our own policy, `needs_buildkit`
the engine's: none of them says anything about a repository. The others do.
"""


class ImageBuild(Frozen):
    """The outcome of building an ImageSpec."""

    status: Literal["built", "failed"]
    digest: str | None = None
    """Image id `sha256:…`; None unless built."""
    cached: bool = False
    """True when an image with the same content hash was there already and nothing was built."""
    base_substituted: bool = False
    """True when its base stands in for the one that was asked for."""
    platform: str = ""
    """Platform of the image, e.g. `linux/amd64`; empty unless built."""
    builder: Literal["", "classic", "buildkit"] = ""
    """What ran the Dockerfile; empty when nothing was run."""
    size_bytes: int = 0
    seconds: float = 0.0
    failure_class: FailureClass | None = None
    reason: str = ""
    """One line for people."""
    hosts: tuple[str, ...] = ()
    """Hosts that the build asked for and did not get, refused ones included."""
    log_tail: str = ""
    """Last 4,000 characters of the build log."""


class TestOutcome(Frozen):
    """What became of one test of a verifier."""

    __test__ = False

    test_id: str
    """`file.py::test_name`."""
    outcome: Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]
    message: str = ""
    """First 500 characters of the reason, empty when passed."""


class Judgement(Frozen):
    """What the verifier runtime saw. All fields are from our own interpreter, none from a file in the sandbox."""

    tests: tuple[TestOutcome, ...]
    exit_code: int
    """pytest's own exit code, for the log only; never the verdict."""
    seconds: float
    log_tail: str = ""
