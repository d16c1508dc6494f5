"""The image of a task folder as the builder gets it. The tests and the solution are in no context that it sees."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pipeline import task_formats
from pipeline.checkout import CheckoutConfig, Member, Tree, collect, store
from pipeline.task_formats.terminal_bench import NOT_IN_CONTEXT
from pipeline.types import Repository
from sandbox.types import ImageSpec


def image_spec(repository: Repository, tree: Path) -> ImageSpec:
    """`tree` is the stored tar of the task folder; the context is stored beside it, by its hash as well.

    Raises ItemRejected for what is no task folder or no tree, InfrastructureFailure when the disk fails, OSError or
    tarfile.TarError when `tree` is no stored tree.
    """
    files = Tree(tree)
    task = task_formats.read(files)
    spec = ImageSpec(name=repository.name.replace("_", "-"), dockerfile=task.dockerfile)
    if task.context is None:
        return spec
    inside = collect(_members(files, tree, task.context), CheckoutConfig())
    sha256 = store(repository, inside, tree.parent).tree_sha256
    return spec.model_copy(update={"context": tree.with_name(f"{sha256}.tar"), "context_sha256": sha256})


def _members(files: Tree, tree: Path, folder: str) -> Iterator[Member]:
    """What lies in the folder of the context, and nothing that tells what is asked or how it is judged."""
    beginning = f"{folder}/" if folder else ""
    with tarfile.open(tree, "r:", encoding="utf-8", errors="surrogateescape") as archive:
        infos = list(archive)
    for info in infos:
        name = info.name.removeprefix(beginning)
        if not info.name.startswith(beginning) or (not folder and _is_kept_out(name, info.isdir())):
            continue
        if info.isdir():
            yield Member(name, "directory")
        elif info.issym():
            yield Member(name, "symlink", target=info.linkname)
        else:
            yield Member(
                name,
                "file",
                size=info.size,
                executable=bool(info.mode & 0o111),
                read=partial(files.read, info.name, max_bytes=info.size),
            )


def _is_kept_out(name: str, is_folder: bool) -> bool:
    path = f"{name}/" if is_folder else name
    return any(path.startswith(one) if one.endswith("/") else path == one for one in NOT_IN_CONTEXT)
