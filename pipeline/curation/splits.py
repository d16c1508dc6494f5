"""Which split a row belongs to: no repository and no family of tasks is in both training and test rows.

A repository is held out or not by a hash of its name, and so is a family of tasks within its domain. Rows of which
neither is held out are `train`, rows of which both are `test`. A row of which only one is held out would carry either
the repository or the family from one to the other: it is `validation`, which nothing is trained on. What is held out
never changes while data grow, since a hash knows nothing of other rows.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import Field

from pipeline.types import Record

Split = Literal["train", "validation", "test"]

_DIGITS = 13


class SplitConfig(Record):
    """How much is held out. With other values, or another salt, rows change their splits."""

    repositories: float = Field(default=0.1, ge=0, lt=1)
    """Share of the repositories."""
    families: float = Field(default=0.1, ge=0, lt=1)
    """Share of the families of tasks in a domain."""
    salt: str = "touchstone"


def split_of(full_name: str, domain: str, family: str, config: SplitConfig) -> Split:
    """The split of rows of one repository and one family; the case of the repository's name says nothing."""
    repository = repository_held_out(full_name, config)
    of_family = family_held_out(domain, family, config)
    if repository and of_family:
        return "test"
    return "validation" if repository or of_family else "train"


def repository_held_out(full_name: str, config: SplitConfig) -> bool:
    """The case of the name says nothing."""
    return _held_out(f"repository {full_name.lower()}", config.repositories, config.salt)


def family_held_out(domain: str, family: str, config: SplitConfig) -> bool:
    """A family is one of its domain."""
    return _held_out(f"family {domain}/{family}", config.families, config.salt)


def _held_out(name: str, share: float, salt: str) -> bool:
    digits = hashlib.sha256(f"{salt} {name}".encode()).hexdigest()[:_DIGITS]
    return bool(int(digits, 16) < share * 16**_DIGITS)
