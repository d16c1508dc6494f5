"""Failures of the pipeline, by what may be concluded from them (never one exception for two of these)."""

from __future__ import annotations

import traceback
from pathlib import Path


class PipelineError(Exception):
    """Base of everything this package raises on purpose."""


class ConfigurationError(PipelineError):
    """A mistake in the configuration. The only error that stops a run; its text names the setting and the remedy."""


class ItemRejected(PipelineError):
    """The item itself is at fault (too large, not readable …): a row with this reason, never tried again by itself."""

    def __init__(self, failure_class: str, reason: str) -> None:
        super().__init__(f"{failure_class}: {reason}")
        self.failure_class = failure_class
        self.reason = reason

    def __reduce__(self) -> tuple[type[ItemRejected], tuple[str, str]]:
        return type(self), (self.failure_class, self.reason)


class InfrastructureFailure(PipelineError):
    """The network, a registry or a disk failed: no label, no reward; `--retry infrastructure` tries again."""


class FailedElsewhere(PipelineError):
    """Work in another process ended with an error that has no name here; its traceback is a note of this one."""

    def __init__(self, text: str, place: str) -> None:
        super().__init__(text, place)
        self.text = text
        """Class and text of that error."""
        self.place = place
        """Where it was raised."""

    def __str__(self) -> str:
        return self.text


def place_of(error: BaseException) -> str:
    """Where an error that was caught had been raised."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "no known place"
    frame = frames[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
