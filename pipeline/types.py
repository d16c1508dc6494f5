"""The nouns of the pipeline: frozen, unknown fields refused.

An id is the hash of what it names, so a rerun finds its own rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from sandbox.types import FileChange, Limits, TestOutcome

Language = Literal["go", "cpp", "c", "html", "java", "javascript", "php", "python"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

TaskLanguage = Literal[Language, "shell", "text"]
"""What a task is written in: the language of its repository, the shell where it is about tools of the system, or plain
text where it is a game."""

Domain = Literal[
    "data_processing",
    "multimodal",
    "sql",
    "security",
    "qemu",
    "model_training",
    "environment_interaction",
    "web_service",
]
DOMAINS: tuple[Domain, ...] = get_args(Domain)

Difficulty = Literal["easy", "medium", "hard"]

CONTEXT = "context"
"""Name of the source whose repositories are the material of one domain each."""

TASKS = "tasks"
"""Name of the source whose repositories are task folders of other programs."""

INFRASTRUCTURE = "infrastructure"
"""The failure class of everything that is our fault or the network's: retried on request, never a label."""


def content_id(prefix: str, *parts: object) -> str:
    """`prefix-` + 16 hex digits of the SHA-256 of the parts as canonical JSON."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"{prefix}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


class Record(BaseModel):
    """Base of all rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Repository(Record):
    """A repository at one commit or version, as a source lists it."""

    source: str
    """Name of the source plug-in: `registry`, `local` …"""
    full_name: str
    """`owner/name`, or `ecosystem/name` for packages, e.g. `debian/gron`."""
    commit: str
    """Commit, version, or content hash of a plain directory."""
    language: Language
    locator: str
    """What the source needs to fetch it again, never a secret; for `local` a path relative to the configuration."""
    archive_sha256: str | None = None
    """Expected hash of the archive where the source pins one."""

    @property
    def repository_id(self) -> str:
        return content_id("repo", self.source, self.full_name, self.commit)

    @property
    def domain(self) -> Domain | None:
        """The domain whose material this is; None for a repository of the world."""
        tail = self.full_name.removeprefix(f"{CONTEXT}/")
        return next((domain for domain in DOMAINS if domain == tail), None) if self.source == CONTEXT else None

    @property
    def stream(self) -> str:
        """The stream of the crawl day that it belongs to: its domain, else its language."""
        return self.domain or self.language

    @property
    def name(self) -> str:
        """Last part of the full name, safe as a directory and image name."""
        tail = self.full_name.rsplit("/", 1)[-1].lower()
        return (
            "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "-" for c in tail).strip("-.") or "repository"
        )


class Submodule(Record):
    """Another repository at a commit that a repository names; one of the same host is part of its tree."""

    path: str
    url: str
    """Where it is fetched from; as the repository writes it where that is no address of the same host."""
    commit: str


class Checkout(Record):
    """What was found when a repository was fetched."""

    repository_id: str
    tree_sha256: str
    """Hash of the normalised tar of the tree; the tar is `data/sources/<tree_sha256>.tar`."""
    n_files: int
    n_bytes: int
    license: str | None
    """SPDX id, or None when no licence text was recognised."""
    license_path: str | None
    license_sha256: str | None
    warnings: tuple[str, ...] = ()
    submodules: tuple[Submodule, ...] = ()
    """Those that could not be had too; a warning says so."""


class Score(Record):
    """How likely a repository is to give a working image."""

    repository_id: str
    scorer: str
    """`name@version` of the scorer."""
    score: float = Field(ge=0.0, le=1.0)
    kept: bool
    features: dict[str, float]
    explanation: dict[str, float] = Field(default_factory=dict)
    """What moved the score most, and how far; empty for a scorer whose features are its explanation."""
    explored: bool = False
    """Kept in spite of its score, chosen at random."""
    propensity: float = Field(default=1.0, ge=0.0, le=1.0)
    """How likely it was that it is kept, given its score."""


class VerifierFile(Record):
    path: str
    """Name below the folder of the tests, e.g. `test_state.py`."""
    content: str


class Verifier(Record):
    """The files and the command that judge a final state."""

    kind: Literal["pytest", "environment"] = "pytest"
    """`environment`: a game, whose own score is the verdict; it has neither files nor a command."""
    files: tuple[VerifierFile, ...]
    command: str = "pytest"
    timeout_s: int = 120
    passing_tests: tuple[str, ...] = ()
    """Test ids that passed on the oracle's state at admission; a verdict `passed` needs exactly this set."""

    @property
    def texts(self) -> dict[str, str]:
        """Contents of the files by their names."""
        return {file.path: file.content for file in self.files}

    @property
    def sha256(self) -> str:
        text = json.dumps(
            [[f.path, f.content] for f in self.files] + [self.command, list(self.passing_tests)], ensure_ascii=False
        )
        return hashlib.sha256(text.encode()).hexdigest()


class ImageCheck(Record):
    """Whether an image that was built can be used."""

    smoke_ok: bool
    """It starts, keeps a shell, and the project's own program or import runs in it."""
    smoke_command: str
    """What was run last to find out."""
    smoke_log: str = ""
    """Last 2,000 characters of what it wrote."""
    tests_ok: bool | None = None
    """The project's own tests pass with the network off; None when it has none that can be run."""
    tests_command: str | None = None
    tests_log: str = ""
    """Last 2,000 characters of what they wrote."""
    seconds: float = 0.0


class Variant(Record):
    """Another way to leave a task: a right one that the verifier has to accept, or a weak one that it has to refuse."""

    name: str
    """What it does, in snake_case, e.g. `header_only`."""
    commands: tuple[str, ...]
    """Run like a solution, in one shell that starts in the working directory of a fresh sandbox."""


class TaskInstance(Record):
    """One task in one image, or in a game."""

    repository_id: str
    image_digest: str | None
    """None for a game."""
    instruction: str
    solution: tuple[str, ...]
    """Commands of the reference solution, one step each, run in one shell that starts in the working directory."""
    verifier: Verifier
    generator: str
    domain: str = "general"
    language: TaskLanguage
    family: str
    """What kind of end state is judged, e.g. `printed_text`, `created_file`, `built_program`."""
    seed: int = 0
    difficulty: Difficulty
    state_scope: Literal["full", "live"] = "full"
    """What the verifier sees: the frozen file system (`full`), or a copy of it and the services that run (`live`)."""
    limits: Limits = Limits()
    context_ids: tuple[str, ...] = ()
    provenance: dict[str, str]
    """Where the task came from: document, line, heading, sha256 of the document …"""

    @property
    def image(self) -> str:
        """Digest of the image. Raises ValueError for a game, which has none."""
        if self.image_digest is None:
            raise ValueError(f"{self.instance_id} is a game and has no image")
        return self.image_digest

    @property
    def instance_id(self) -> str:
        return content_id(
            "task", self.repository_id, self.image_digest, self.instruction, list(self.solution), self.verifier.sha256
        )


Interface = Literal["shell", "terminal"]
"""How an agent acts: whole commands with exit codes, or keys and a screen."""


class ModelCall(Record):
    """One question to a model and its answer, as far as it can be told apart from others."""

    purpose: Literal["decision", "summary", "plan", "progress", "critique"] = "decision"
    """`summary`: what was done so far, written for a conversation that begins anew since the old one grew too long.
    `plan`: the next sub-goal, `progress`: what was done for it; in an agent with several policies a `decision` is the
    next action. `critique`: what went wrong in the try before this one."""
    model: str
    """As the server names it."""
    prompt_sha256: str
    """Of the messages that were sent, as canonical JSON."""
    answer: str
    finish_reason: str
    seconds: float
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None


class Action(Record):
    """What an agent decided."""

    thought: str = ""
    command: str | None = None
    """Next command, or None to hand in. For a terminal: the keys, as terminal_environment.py reads them."""
    told: str | None = None
    """Set when nothing is done in the environment and the agent reads this instead, e.g. that its answer was no
    answer; `command` is None then."""
    calls: tuple[ModelCall, ...] = ()
    """The questions to a model behind it."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """What the agent has to find again in `Step.extra`, e.g. the sub-goal that it works on."""


class Step(Record):
    """One decision and what came of it."""

    index: int
    observation: str
    """What the agent saw before deciding."""
    thought: str = ""
    action: str
    """The command, or the empty string when the agent handed in or its answer was no action (`extra.told`)."""
    exit_code: int | None = None
    seconds: float = 0.0
    tokens: int = 0
    """Written by the model for this step."""
    extra: dict[str, Any] = Field(default_factory=dict)


StopReason = Literal["submitted", "done", "max_steps", "max_seconds", "max_tokens", "max_cost", "max_context"]
"""Why an attempt ended: the agent handed in, the environment was over, or a budget was used up. All are judged."""


class Trajectory(Record):
    """All steps of one attempt of one agent at one instance."""

    instance_id: str
    agent: str
    model: str | None = None
    sampling: dict[str, Any] = Field(default_factory=dict)
    sample: int = 0
    """Which of the samples of this agent on this instance."""
    steps: tuple[Step, ...]
    interface: Interface = "shell"
    messages: tuple[dict[str, str], ...] = ()
    """The conversation with the model as it stood at the end, its last answer included; empty without a model, and for
    an agent whose prompts each stand alone."""
    details: dict[str, str] = Field(default_factory=dict)
    """What else tells the policy apart: hashes of prompts and weights, the serving program and its version."""
    changes: tuple[FileChange, ...] | None = None
    """What differs from the image at the end, by path, as far as a row keeps it; None where nobody looked."""
    stop_reason: StopReason
    state_reference: str
    """Name of the frozen final state."""
    backend: str | None = None
    """What the sandbox was, e.g. `overlay`; None on rows that are older than this field."""

    @property
    def trajectory_id(self) -> str:
        return trajectory_id(self.instance_id, self.agent, self.model, self.sampling, self.sample)


def trajectory_id(instance_id: str, agent: str, model: str | None, sampling: Mapping[str, Any], sample: int) -> str:
    """Known before the attempt is made, so that a resumed run recognises what it has."""
    return content_id("traj", instance_id, agent, model, dict(sampling), sample)


class VerificationResult(Record):
    """The verdict on one final state."""

    trajectory_id: str
    outcome: Literal["passed", "failed", "error"]
    tests: tuple[TestOutcome, ...]
    seconds: float
    integrity: tuple[str, ...] = ()
    """Flags that limit how far the verdict may be trusted; empty when there is nothing to say."""
    backend: str | None = None
    """What the verifier ran in; None on rows that are older than this field."""
    failure_class: str | None = None
    """Why there is no verdict (`outcome == "error"`): infrastructure, verifier_broken."""
    log_tail: str = ""
