"""What a domain pack writes: a task before it has an image, and how packs are found.

A pack is one module of domains/, found by the name of its domain. It makes texts only, from a seed and from the
context of the domain; domain_tasks.py gives them images, pipeline/instances.py proves them.
"""

from __future__ import annotations

import hashlib
import importlib
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from pipeline.checkout import Tree
from pipeline.generators.writer import literal
from pipeline.types import Domain, Record, TaskLanguage, Variant
from sandbox.types import Limits

WORKDIR = "/work"
_PLACE = re.compile(r"\b__([A-Z][A-Z0-9_]*)__\b")
_MAX_CONTEXT = 64 << 20


class TaskFile(Record):
    """A text that lies in the image when the task begins."""

    path: str = Field(pattern=r"^/.+$")
    """Absolute."""
    text: str
    mode: int = 0o644


class Draft(Record):
    """One task of a pack: everything but its image."""

    family: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    seed: int = Field(ge=0)
    difficulty: Literal["easy", "medium", "hard"]
    language: TaskLanguage = "shell"
    instruction: str
    workdir: str = WORKDIR
    """Where the agent's shell, the solution and the tests start."""
    files: tuple[TaskFile, ...] = ()
    setup: tuple[str, ...] = ()
    """Commands (bash -euo pipefail, root, in `workdir`) that make the rest of the beginning; run once, in the build."""
    solution: tuple[str, ...] = Field(min_length=1)
    right: tuple[Variant, ...] = ()
    """Other right solutions: at least one wherever the task can be done in another way."""
    weak: tuple[Variant, ...] = Field(min_length=1)
    """Tempting wrong ones: half of the work, the usual mistake, the right shape with the wrong content."""
    verifier: str
    """Text of the one pytest file."""
    verifier_timeout_s: int = 60
    state_scope: Literal["full", "live"] = "full"
    limits: Limits = Limits()
    contexts: tuple[str, ...] = ()
    """Names of the contexts that the task was made from."""

    @field_validator("verifier")
    @classmethod
    def _filled(cls, text: str) -> str:
        if left := _PLACE.findall(text):
            raise ValueError(f"the verifier has places without a value: {', '.join(left)}")
        return text


class Context:
    """Files of the domain that tasks are made from, as they lie below `context/` in its tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def read(self, path: str) -> bytes:
        """A file below `context/`. Raises KeyError when there is none."""
        return self._tree.read(f"context/{path}", max_bytes=_MAX_CONTEXT)

    def text(self, path: str) -> str:
        """The same as UTF-8. Raises KeyError, UnicodeDecodeError."""
        return self.read(path).decode()


Make = Callable[[int, Context], Draft]
"""Seed and context -> the task. Equal arguments give equal drafts."""


@dataclass(frozen=True)
class Pack:
    """The task families of one domain."""

    domain: Domain
    families: Mapping[str, Make]
    """Families by name: each one has an end state and a check of its own."""


def pack_of(domain: Domain) -> Pack:
    """The pack of a domain. Raises ModuleNotFoundError when there is none."""
    found: Pack = importlib.import_module(f"pipeline.generators.domains.{domain}").PACK
    return found


def pack_sha256(domain: Domain) -> str:
    """Names the code of a pack: its tasks are made anew when it changes. Raises ModuleNotFoundError."""
    module = importlib.import_module(f"pipeline.generators.domains.{domain}")
    path = Path(str(module.__file__))
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def chance(domain: str, family: str, seed: int) -> random.Random:
    """The random numbers of one task: the same ones in every process."""
    return random.Random(f"{domain}/{family}/{seed}")


def filled(template: str, **values: object) -> str:
    """A verifier text: `__NAME__` becomes the value as a readable Python literal. Raises KeyError for one without."""
    return _PLACE.sub(lambda place: literal(values[place[1].lower()]), template.strip()) + "\n"
