"""What does each domain of tasks bring? All of them, then all but one, in turn; the general rows stay in every arm.

In TerminalTraj: 1000 rows of each of eight domains and 2000 general ones. At any size the rows of domains are four
times the general ones. What the paper lost without a domain stands beside what is lost here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field, JsonValue, field_validator, model_validator

from pipeline.types import DOMAINS
from training.studies.figures import ArmResult
from training.studies.material import Material, first, in_turn
from training.studies.study import Arm, Lesson, Study, StudyConfig

GENERAL = "general"
OF_DOMAINS_PER_GENERAL = 4
FULL, WITHOUT = "full", "without-"
PAPER: dict[str, dict[str, JsonValue]] = {
    "web_service": {"terminal-bench 1.0": -8.9, "terminal-bench 2.0": -7.4},
    "qemu": {"terminal-bench 1.0": -9.7, "terminal-bench 2.0": -8.7},
}
"""Points that TerminalTraj lost without a domain; of the others it gives no number."""


class DomainsConfig(StudyConfig):
    """Sizes."""

    rows_per_domain: int = Field(default=4, gt=0)
    domains: tuple[str, ...] = Field(default=DOMAINS, min_length=1)

    @field_validator("domains")
    @classmethod
    def _known(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted(set(domains) - set(DOMAINS)):
            raise ValueError(f"there is no domain {', '.join(unknown)}; there are {', '.join(DOMAINS)}")
        return tuple(dict.fromkeys(domains))

    @model_validator(mode="after")
    def _divisible(self) -> DomainsConfig:
        if self.rows_per_domain * len(self.domains) % OF_DOMAINS_PER_GENERAL:
            raise ValueError(f"rows_per_domain times the domains must be a multiple of {OF_DOMAINS_PER_GENERAL}")
        return self

    @property
    def general_rows(self) -> int:
        """A quarter of those of the domains."""
        return self.rows_per_domain * len(self.domains) // OF_DOMAINS_PER_GENERAL


class Domains(Study):
    """See above."""

    name: ClassVar[str] = "domains"
    about: ClassVar[str] = "all domains of tasks against all but one, for each of them"
    compared_to: ClassVar[str] = FULL

    def __init__(self, config: DomainsConfig) -> None:
        self._config = config

    @classmethod
    def of(cls, told: Mapping[str, object]) -> Domains:
        return cls(DomainsConfig.model_validate(told))

    @property
    def config(self) -> DomainsConfig:
        return self._config

    def arms(self, seed: int, material: Material) -> Sequence[Arm]:
        config, version = self._config, material.version(self._config.snapshot)
        rows = material.rows(version)
        sizes = {domain: config.rows_per_domain for domain in config.domains} | {GENERAL: config.general_rows}
        parts = {
            domain: first(
                in_turn([row for row in rows if row.domain == domain], seed, lambda row: row.family),
                size,
                f"domains: rows of {domain}",
            )
            for domain, size in sizes.items()
        }

        def without(left_out: str | None) -> Lesson:
            return Lesson(version, tuple(row for domain, part in parts.items() if domain != left_out for row in part))

        return [Arm(FULL, without(None)), *(Arm(f"{WITHOUT}{name}", without(name)) for name in config.domains)]

    @classmethod
    def findings(cls, environments: Mapping[str, Mapping[str, ArmResult]]) -> dict[str, JsonValue]:
        """Points that are lost without each domain, beside those of the paper."""
        found: dict[str, JsonValue] = {}
        for environment, arms in environments.items():
            drops: dict[str, JsonValue] = {}
            for name, arm in arms.items():
                if name.startswith(WITHOUT) and (lost := arm.difference) is not None:
                    domain = name.removeprefix(WITHOUT)
                    told = [round(100 * value, 1) for value in (lost.difference, lost.low, lost.high)]
                    drops[domain] = {"points": told[0], "interval": [*told[1:]], "paper": PAPER.get(domain, {})}
            found[f"{environment}: without a domain"] = drops
        return found
