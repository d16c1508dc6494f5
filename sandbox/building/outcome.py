"""What one run of a builder said. How it is run is in builds.py and buildkit.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LABEL = "touchstone"
DOCKERFILE = ".touchstone.Dockerfile"
LOG_BYTES = 16_000

Builder = Literal["classic", "buildkit"]


@dataclass(frozen=True)
class BuildOutcome:
    """What the builder said."""

    image_id: str | None
    """`sha256:…`, None when it failed."""
    error: str
    """The engine's message, empty when built. A step that failed reads the same whoever built."""
    log: str
    last_step: str
    """The part of the log that belongs to the last step, of BuildKit to the step that failed."""
    timed_out: bool
    seconds: float
    out_of_space: bool = False
    """Ended by us because it filled the disk."""
    builder: Builder = "classic"
