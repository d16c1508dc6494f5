"""Values that many unit tests need."""

from __future__ import annotations

import pytest

from pipeline.types import TaskInstance, Verifier, VerifierFile


@pytest.fixture
def task() -> TaskInstance:
    """A small task; nothing of it is ever run."""
    return TaskInstance(
        repository_id="repo-1",
        image_digest="sha256:1",
        instruction="Write the number of lines of words.txt to count.txt.",
        solution=("cd data", "wc -l < words.txt > count.txt"),
        verifier=Verifier(
            files=(VerifierFile(path="test_state.py", content="def test_count(): assert True\n"),),
            passing_tests=("test_state.py::test_count",),
        ),
        generator="documented",
        language="python",
        family="printed_text",
        difficulty="easy",
        provenance={"document": "README.md"},
    )
