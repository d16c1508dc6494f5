"""The task of a task folder: the folder already holds instruction, solution and tests.

How it is read is in pipeline/task_formats, its image in pipeline/dockerfiles.py; whether it is admitted is decided
like that of any other task: a folder that others published proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline import task_formats
from pipeline.checkout import Tree
from pipeline.errors import ItemRejected
from pipeline.generators.protocol import Candidate, GeneratorInput, Start, refusal
from pipeline.types import TaskInstance


class TaskFolders:
    """The generator of imported tasks: one folder gives one task."""

    name = "task_folders"

    def instances(self, given: GeneratorInput, start: Start) -> Iterator[Candidate]:
        """See Generator."""
        del start
        repository = given.repository
        try:
            task = task_formats.read(Tree(given.tree))
        except ItemRejected as rejection:
            yield refusal(repository.full_name, 1, "", rejection.failure_class, rejection.reason)
            return
        instance = TaskInstance(
            repository_id=repository.repository_id,
            image_digest=given.image_digest,
            instruction=task.instruction,
            solution=task.solution,
            verifier=task.verifier,
            generator=self.name,
            domain=task.domain,
            language=task.language,
            family=task.family,
            seed=task.seed,
            difficulty=task.difficulty,
            state_scope=task.state_scope,
            limits=task.limits,
            context_ids=task.context_ids,
            provenance=task.provenance | {"folder": repository.full_name},
        )
        yield Candidate(document=task.provenance["document"], line=1, excerpt=task.instruction[:300], instance=instance)
