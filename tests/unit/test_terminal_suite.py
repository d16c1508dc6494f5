"""The terminal as an environment: which admitted tasks are in which split. Sandboxes are not started here."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from pipeline.curation.splits import SplitConfig, family_held_out, repository_held_out, split_of
from pipeline.rows import instance_row
from pipeline.schemas import Row
from pipeline.tables import Store
from pipeline.types import TaskInstance
from sandbox.protocol import Backend
from training.environments.terminal import TerminalSuite

SPLITS = SplitConfig(repositories=0.5, families=0.5)
NAMES = [f"owner/project-{number}" for number in range(6)]
FAMILIES = [f"family_{number}" for number in range(4)]


@pytest.fixture
def suite(tmp_path: Path, task: TaskInstance) -> TerminalSuite:
    store = Store(tmp_path)
    repositories: list[Row] = [{"repository_id": name, "full_name": name, "item_key": name} for name in NAMES]
    made = [
        task.model_copy(update={"repository_id": name, "family": family, "instruction": f"Do {family} in {name}."})
        for name in NAMES
        for family in FAMILIES
    ]
    rows = [instance_row(one) | {"admitted": True, "item_key": one.instance_id} for one in made]
    refused = task.model_copy(update={"repository_id": NAMES[0], "instruction": "Refused."})
    rows.append(instance_row(refused) | {"admitted": False, "item_key": refused.instance_id})
    store.append("repositories", repositories, app_id="repositories", sequence=1)
    store.append("instances", cast(list[Row], rows), app_id="instances", sequence=1)
    return TerminalSuite(store, cast(Backend, None), SPLITS, command_timeout_s=1.0)


def test_each_admitted_task_is_in_one_split_by_what_is_held_out(suite: TerminalSuite) -> None:
    found = suite.instances()
    assert len(found) == len(NAMES) * len(FAMILIES)
    assert {split for _, split in found} == {"train", "seen", "unseen"}
    for instance, split in found:
        family = family_held_out(instance.domain, instance.family, SPLITS)
        repository = repository_held_out(instance.repository_id, SPLITS)
        assert split == ("unseen" if family else "seen" if repository else "train")
        published = split_of(instance.repository_id, instance.domain, instance.family, SPLITS)
        assert (split == "train") == (published == "train")


def test_one_split_alone_can_be_asked_for_and_the_order_is_that_of_ids(suite: TerminalSuite) -> None:
    unseen = suite.instances(["unseen"])
    assert unseen == [one for one in suite.instances() if one[1] == "unseen"] and unseen
    ids = [instance.instance_id for instance, _ in suite.instances()]
    assert ids == sorted(ids)
