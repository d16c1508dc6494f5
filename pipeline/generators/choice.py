"""Which generators make the tasks of a repository."""

from __future__ import annotations

from pipeline.generators.documented import Documented, DocumentedConfig
from pipeline.generators.domain_tasks import Build, Domains, DomainsConfig
from pipeline.generators.file_tasks import Files, FilesConfig
from pipeline.generators.protocol import Generator
from pipeline.generators.task_folders import TaskFolders
from pipeline.types import TASKS, Repository


def generators_for(
    repository: Repository,
    build: Build,
    *,
    documented: DocumentedConfig,
    files: FilesConfig,
    domains: DomainsConfig,
    written: Generator | None = None,
) -> tuple[Generator, ...]:
    """The packs for the material of a domain, the folder itself for a task.

    For all others what is documented, then `written`, the generator that asks a model, where there is one, then files.
    """
    if repository.domain is not None:
        return (Domains(build, domains),)
    if repository.source == TASKS:
        return (TaskFolders(),)
    asked = (written,) if written is not None else ()
    return (Documented(documented), *asked, Files(files))
