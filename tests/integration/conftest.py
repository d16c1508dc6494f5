"""Fixtures of the tests that start real containers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.engines import bootstrap
from tests.integration.projects import Project


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[[str], Project]:
    """Projects below the test's own folder, by name."""
    return lambda name: Project(tmp_path / name)


@pytest.fixture
def folder(data_folder: Path) -> Iterator[Callable[[], Path]]:
    """Makes data folders beside the one in use, where an engine can live. At the end their engines are stopped."""
    if os.geteuid() != 0:
        pytest.skip("only root can start an engine")
    data_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data_folder, prefix="bootstrap-") as parent:
        made: list[Path] = []

        def make() -> Path:
            made.append(Path(parent) / str(len(made)))
            return made[-1]

        yield make
        for data in made:
            bootstrap(data, "down")
