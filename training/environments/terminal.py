"""The terminal as one of the environments: admitted tasks in their images, with the splits and the verdict of the rest.

`train` has neither the repository nor the family of a task held out, `seen` is a held-out repository with a family of
train, `unseen` a held-out family.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from pipeline.curation.splits import SplitConfig, family_held_out, repository_held_out
from pipeline.environment import Environment
from pipeline.interfaces import Sandboxes
from pipeline.rows import instance_of
from pipeline.schemas import to_rows
from pipeline.tables import Store
from pipeline.types import Interface, TaskInstance, Trajectory, VerificationResult
from pipeline.verification import verify
from sandbox.protocol import Backend
from training.environments.game import SPLITS, Split

NAME = "terminal"


class TerminalSuite:
    """Admitted tasks of the working tables."""

    def __init__(self, store: Store, backend: Backend, splits: SplitConfig, *, command_timeout_s: float) -> None:
        self._store = store
        self._splits = splits
        self._backend = backend
        self._sandboxes = Sandboxes(backend, command_timeout_s)
        self._command_timeout_s = command_timeout_s

    @property
    def name(self) -> str:
        return NAME

    def instances(self, splits: Sequence[Split] = SPLITS) -> list[tuple[TaskInstance, Split]]:
        """All admitted tasks in these splits, sorted by id. Raises TableDamaged."""
        names = to_rows(self._store.current("repositories", ["repository_id", "full_name"]))
        full_names = {row["repository_id"]: str(row["full_name"]) for row in names}
        found = []
        for row in to_rows(self._store.current("instances")):
            if row["admitted"]:
                split = self._split(full_names[row["repository_id"]], str(row["domain"]), str(row["family"]))
                if split in splits:
                    found.append((instance_of(row), split))
        return sorted(found, key=lambda one: one[0].instance_id)

    def opened(self, instance: TaskInstance, interface: Interface) -> AbstractContextManager[Environment]:
        """See Environments."""
        return self._sandboxes.opened(instance, interface)

    def judged(self, instance: TaskInstance, trajectory: Trajectory) -> VerificationResult:
        """The verdict on an attempt. Raises SandboxUnavailable and ImageMissing."""
        return verify(instance, trajectory, self._backend, command_timeout_s=self._command_timeout_s)

    def _split(self, full_name: str, domain: str, family: str) -> Split:
        if family_held_out(domain, family, self._splits):
            return "unseen"
        return "seen" if repository_held_out(full_name, self._splits) else "train"
