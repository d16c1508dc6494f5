"""The whole chain on a CPU: published rows train a tiny model, which is evaluated on instances that it has not seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.chosen import chosen_rows
from pipeline.schemas import to_rows
from pipeline.tables import Store
from tests.integration.projects import FRUIT, Project, ledger, word_tools
from tests.unit.tiny_model import tiny_model

pytestmark = pytest.mark.docker

SETTINGS = """
[splits]
repositories = 0
families = 0
[instances.files]
max_tasks = 4
[rollout.samples]
max_tokens = 32
"""
HOW = """
[sft]
base = "tiny"
max_tokens = 4096
epochs = 6
learning_rate = 0.01
gradient_accumulation = 1
precision = "fp32"
lora = { rank = 4, alpha = 8 }
"""


def instances(project: Project) -> set[str]:
    return {str(row["instance_id"]) for row in chosen_rows(Store(project.data))}


def said(project: Project, *arguments: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(project.touchstone(*arguments, "--json").stdout.splitlines()[-1])
    return found


def test_from_published_rows_to_a_report_about_the_model_that_they_trained(
    make_project: Callable[[str], Project], tmp_path: Path
) -> None:
    project = make_project("chain")
    project.settings = SETTINGS
    project.add("fruit", word_tools("fruit", FRUIT))
    project.touchstone("run", "--streams", "python", "--agents", "oracle")
    learned_from = instances(project)
    project.add("ledger", ledger("ledger"))
    project.touchstone("run", "--streams", "python", "--instances-only")
    unseen = instances(project) - learned_from
    assert len(learned_from) >= 4 and unseen

    tiny_model(project.folder / "tiny")
    (project.folder / "sft.toml").write_text(HOW)
    made = said(project, "train", str(project.folder / "sft.toml"))
    first, last = made["first_loss"], made["last_loss"]
    assert made["model"] == "sft@v0001" and made["snapshot"] == "terminal@v0001"
    assert isinstance(first, float) and isinstance(last, float) and last < first

    asked = tmp_path / "instances.txt"
    asked.write_text("\n".join([*sorted(learned_from)[:1], *sorted(unseen)[:2]]))
    who = ("--model", "sft@v0001", "--base", str(project.folder / "tiny"))
    report = said(
        project, "evaluate", *who, "--instances", str(asked), "--runs", "2", "--max-steps", "1", "--name", "chain"
    )
    (benchmark,) = report["benchmarks"]  # type: ignore[misc]  # one object of JSON
    assert (benchmark["instances"], benchmark["begun"], benchmark["judged"]) == (2, 4, 4)
    assert set(benchmark["pass_at_k"]) == {"1", "2"}
    shown = project.touchstone("evaluate", "--report", "chain").stdout
    assert "sft@v0001" in shown and "left out" in shown
    assert not {str(row["agent"]) for row in to_rows(Store(project.data).read("trajectories"))} - {"oracle"}
