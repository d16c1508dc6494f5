"""What admission is told and what it says. How it finds out is in the other files of this room."""

from __future__ import annotations

from pydantic import Field

from pipeline.types import Record

NONE_KNOWN = "none is known"
"""Evidence of a gate for variants that had none to try."""


class AdmissionConfig(Record):
    """How thoroughly a task is proven."""

    repeats: int = Field(default=2, ge=2)
    """Times that noop must fail and the oracle must pass, each in a fresh sandbox."""
    repeats_on_state: int = Field(default=20, ge=4)
    """Further times that the verifier must pass what the oracle left, each in a process of its own."""
    step_timeout_s: float = Field(default=120.0, gt=0)
    """For one command of a solution."""


class Gate(Record):
    """One gate and what it saw."""

    gate: str
    passed: bool
    evidence: str


class Admission(Record):
    """What the gates said about one instance."""

    admitted: bool
    gates: tuple[Gate, ...]
    passing_tests: tuple[str, ...] = ()
    flake_rate: float | None = None
    """Share of the judgements of what the oracle left in which not every test passed; None when it came not so far."""
