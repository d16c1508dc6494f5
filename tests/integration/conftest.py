"""Fixtures of the tests that start real containers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.projects import Project


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[[str], Project]:
    """Projects below the test's own folder, by name."""
    return lambda name: Project(tmp_path / name)
