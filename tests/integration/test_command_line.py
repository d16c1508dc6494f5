"""The command line in a process of its own, where something is missing that it needs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from tests.integration.projects import FRUIT, Project, word_tools

pytestmark = pytest.mark.docker


def last_line(answer: subprocess.CompletedProcess[str]) -> str:
    assert answer.returncode == 1 and "Traceback" not in answer.stdout + answer.stderr
    return (answer.stdout + answer.stderr).splitlines()[-1]


def test_a_run_without_its_engine_says_so_in_words_of_ours(make_project: Callable[[str], Project]) -> None:
    project = make_project("no-engine")
    project.add("fruit", word_tools("fruit", FRUIT))
    (project.data / "engine.json").write_text("{")
    reason = last_line(project.touchstone("run", check=False))
    assert reason.startswith(f"The run failed: image_builds: {project.data}/engine.json cannot be read")
    assert reason.endswith("run infra/bootstrap.sh")


def test_builds_on_an_engine_that_is_not_ours_are_refused_until_that_is_accepted(
    make_project: Callable[[str], Project],
) -> None:
    project = make_project("foreign")
    project.add("fruit", word_tools("fruit", FRUIT))
    record = project.data / "engine.json"
    record.write_text(json.dumps({"socket": json.loads(record.read_text())["socket"], "owned": False}))
    reason = last_line(project.touchstone("run", check=False))
    assert reason.startswith("The run failed: image_builds: this Docker engine is not ours")
    assert 'egress = "open" in [builds]' in reason
