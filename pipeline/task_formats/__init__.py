"""Task folders of other programs, read: one file per format, what they have in common in folder.py.

Writing them is exports/'s business, fetching and listing them sources/task_folders.py's, and the tasks that become of
them generators/task_folders.py's. Nothing of a folder is ever run here.
"""

from __future__ import annotations

from pipeline.checkout import Tree
from pipeline.errors import ItemRejected
from pipeline.task_formats import harbor, terminal_bench
from pipeline.task_formats.folder import TaskFolder

__all__ = ["MARKS", "TaskFolder", "read"]

MARKS = (harbor.SETTINGS, terminal_bench.SETTINGS)
"""Files that make a folder a task folder."""


def read(tree: Tree) -> TaskFolder:
    """The task in a tree. Raises ItemRejected with what keeps it from being one of ours."""
    if harbor.SETTINGS in tree.files:
        return harbor.read(tree)
    if terminal_bench.SETTINGS in tree.files:
        return terminal_bench.read(tree)
    raise ItemRejected("no_task", f"there is neither {' nor '.join(MARKS)} in it")
