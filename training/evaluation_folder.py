"""The folder of one evaluation, `data/evaluations/NAME`: tables of its own, and evaluation.json, which says what it is.

Its attempts are in none of the tables that are published and trained on. One folder is of one policy over one set of
instances: what does not agree with its evaluation.json is refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from pipeline.disk import sync
from pipeline.errors import ConfigurationError
from pipeline.rollout import RolloutConfig
from pipeline.tables import Store
from pipeline.types import Record
from training.evaluation_leaks import HeldOut
from training.evaluation_tasks import EvaluatedTask, Selection, tasks_of

FOLDER = "evaluations"
"""Below the data folder."""
_FILE = "evaluation.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class EvaluatedPolicy(Record):
    """Who was evaluated: all that decides what it does, but for chance."""

    agent: str
    model: str
    """As its server names it."""
    trained_model: str | None
    """NAME@VERSION of a model that was trained here; None for any other."""
    details: dict[str, str]
    """Hashes of the prompts, and what the model says of itself: weights, adapter, serving program."""
    temperature: float
    top_p: float
    max_tokens: int
    """Of one answer."""
    budgets: RolloutConfig


class Evaluation(Record):
    """evaluation.json."""

    format: int = 1
    name: str
    created_at: str
    """ISO time, UTC."""
    policy: EvaluatedPolicy
    selection: Selection
    instances: tuple[str, ...]
    """Ids of what is evaluated, fixed when it began."""
    held_out: HeldOut | None
    """None for a model of which nobody knows here what it was trained on."""
    runs: int
    """Attempts at each instance."""
    seed: int
    """From which those of all attempts are made; another name has another one."""
    code_commits: tuple[str, ...]
    """Commits of this code that attempts were made with, in the order of their first use."""


class EvaluationFolder:
    """Where one evaluation is kept."""

    def __init__(self, data: Path, name: str) -> None:
        """Nothing is made yet. Raises ConfigurationError for a name that cannot be one of a folder."""
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"evaluation {name!r}: a name has lower-case letters, digits, '.', '_' and '-', and begins with a "
                "letter or a digit"
            )
        self.name = name
        self.path = data / FOLDER / name
        self.store = Store(self.path)

    @property
    def begun(self) -> bool:
        return (self.path / _FILE).is_file()

    def read(self) -> Evaluation:
        """Raises ConfigurationError where there is none, and for one that cannot be read."""
        path = self.path / _FILE
        if not self.begun:
            present = sorted(each.parent.name for each in self.path.parent.glob(f"*/{_FILE}"))
            known = f"there are {', '.join(present)}" if present else "`touchstone evaluate` makes one"
            raise ConfigurationError(f"there is no evaluation {self.name!r}; {known}")
        try:
            return Evaluation.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValidationError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} cannot be read ({error}); put it back as it was") from error

    def write(self, evaluation: Evaluation) -> None:
        """Put evaluation.json on disk, whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        part = self.path / f".{_FILE}-{os.getpid()}"
        part.write_text(json.dumps(evaluation.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
        sync(part)
        part.replace(self.path / _FILE)
        sync(self.path)

    def tasks(self, evaluation: Evaluation) -> list[EvaluatedTask]:
        """What is evaluated, as it was when it began. Raises ConfigurationError where its tables are not whole."""
        try:
            return tasks_of(self.store, evaluation.instances)
        except KeyError as error:
            raise ConfigurationError(
                f"evaluation {self.name!r} began over instances that its tables lack ({error}); remove {self.path}"
            ) from error


def refuse_another(known: Evaluation, policy: EvaluatedPolicy, selection: Selection) -> None:
    """Raises ConfigurationError for a policy or a selection that is not the one of an evaluation that has begun."""
    for what, old, new in (
        ("policy", known.policy.model_dump(mode="json"), policy.model_dump(mode="json")),
        ("selection", known.selection.model_dump(mode="json"), selection.model_dump(mode="json")),
    ):
        if differing := "; ".join(differences(old, new)):
            raise ConfigurationError(
                f"evaluation {known.name!r} is of another {what} ({differing}); give this one another --name"
            )


def differences(old: Mapping[str, object], new: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """What is not the same in two records, by the path of the field."""
    for name in sorted({*old, *new}):
        one, other = old.get(name), new.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from differences(one, other, f"{prefix}{name}.")
        elif one != other:
            yield f"{prefix}{name}: {one} and {other}"
