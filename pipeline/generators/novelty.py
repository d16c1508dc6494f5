"""Tells whether a task is unlike those already made of the same repository, so that no time goes into near copies."""

from __future__ import annotations

from pipeline.curation.dedup import THRESHOLD, Signature, TaskText, closest_of, signature
from pipeline.types import TaskInstance


class Novelty:
    """Remembers the tasks of one repository."""

    def __init__(self) -> None:
        self._known: dict[str, Signature] = {}

    def take(self, instance: TaskInstance) -> bool:
        """Whether the task is new; a new one is remembered."""
        code = "\n".join(f.content for f in instance.verifier.files)
        made = signature(TaskText(instance_id=instance.instance_id, instruction=instance.instruction, verifier=code))
        closest = closest_of(made, self._known)
        if closest is not None and closest[1] >= THRESHOLD:
            return False
        self._known[instance.instance_id] = made
        return True
