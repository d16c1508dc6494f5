"""The contract of a generator and what it hands over. Admission, which proves a candidate, is pipeline/instances.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from pipeline.types import Record, Repository, TaskInstance, Variant
from sandbox.protocol import Sandbox

Start = Callable[[], Sandbox]
"""Starts a fresh sandbox from the image of the repository; whoever calls it closes it."""


class GeneratorInput(Record):
    """One repository with its working image."""

    repository: Repository
    tree: Path
    """Tar of the repository at the pinned version; documents are read from it, never from a sandbox."""
    image_digest: str


class Candidate(Record):
    """A task that a generator made, or the documented place that it could not make a task from."""

    document: str
    """Path inside the repository."""
    line: int
    excerpt: str
    """The beginning of the documented text, for people."""
    instance: TaskInstance | None = None
    right: tuple[Variant, ...] = ()
    """Other right solutions that the generator knows."""
    weak: tuple[Variant, ...] = ()
    """Solutions that look like one and are none; those that every task has are made by admission itself."""
    failure_class: str | None = None
    """Why there is no instance, e.g. `placeholder`, `needs_network`, `unknown_command`; None when there is one."""
    reason: str = ""


def refusal(document: str, line: int, excerpt: str, failure_class: str, reason: str) -> Candidate:
    """A documented place that gives no task."""
    return Candidate(document=document, line=line, excerpt=excerpt[:300], failure_class=failure_class, reason=reason)


class Generator(Protocol):
    """Makes task candidates."""

    @property
    def name(self) -> str:
        """Name stored on the instances."""

    def instances(self, given: GeneratorInput, start: Start) -> Iterator[Candidate]:
        """Candidates, best first; every documented place that was looked at is among them, rejected ones with a reason.

        Raises SandboxUnavailable and ImageMissing when the machinery fails.
        """
