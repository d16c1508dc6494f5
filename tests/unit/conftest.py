"""Where unit tests keep their files: in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
LEAST_FREE = 4 * 2**30
"""Bytes; containers often have 64 MB there."""
KEPT = 3
"""Folders of so many earlier runs stay, with the files of the tests that failed."""


@pytest.fixture(scope="session")
def tmp_path_factory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> pytest.TempPathFactory:
    """Folders in memory, where the machine has such a place; --basetemp does not move them.

    Tables and journals wait for the disk after every write, thousands of times in all.
    """
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < LEAST_FREE:
        return tmp_path_factory
    factory = pytest.TempPathFactory(None, KEPT, "failed", request.config.trace.get("tmpdir"), _ispytest=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
        factory.getbasetemp()
    return factory


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A folder on the disk, for tests that look at file systems."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
