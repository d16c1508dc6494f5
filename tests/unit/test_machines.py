"""Which things of a workshop are taken anew on another machine, and which set-ups are refused."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from assets.machines import name_of, named
from assets.resources import MACHINE_VARIABLE, RetryResource, Workshop, open_on_node
from assets.settings import ImagesConfig, Settings
from pipeline.agents.bash import BashAgent
from pipeline.attempts import Attempt
from pipeline.cluster import ClusterConfig
from pipeline.errors import ConfigurationError
from pipeline.llm.choice import ServerConfig
from pipeline.llm.local_server import LocalModelConfig
from pipeline.llm.protocol import Sampling
from pipeline.travel import pack, unpack
from pipeline.types import TaskInstance
from sandbox.backends.pulling import PullingBackend
from sandbox.protocol import Backend

MODEL = ServerConfig(base_url="http://127.0.0.1:1/v1", model="m", weights="sha256:1")


class OneBackend(Workshop):
    """A workshop whose backend needs no engine."""

    @functools.cache  # noqa: B019
    def backend(self) -> Backend:
        return PullingBackend(None, None, print)  # type: ignore[arg-type]


def test_backend_and_model_are_those_of_the_other_machine(tmp_path: Path, task: TaskInstance) -> None:
    here, there = (OneBackend(Settings(model=MODEL), tmp_path, tmp_path / "data") for _ in range(2))
    model = here.model()
    assert model is not None
    attempt = Attempt(task, BashAgent(model, Sampling(seed=3)), 2)
    backend = here.backend()
    packed = pack((lambda: backend.states, attempt), functools.partial(name_of, here))
    states, arrived = unpack(packed, functools.partial(named, there))  # type: ignore[misc]
    assert states().__self__ is there.backend() is not backend
    assert arrived.agent._model is there.model() is not model
    assert arrived.trajectory_id == attempt.trajectory_id


def test_a_model_that_is_started_here_serves_no_other_machine(tmp_path: Path) -> None:
    shop = Workshop(Settings(), tmp_path, tmp_path / "data")
    model = object()
    shop.models[id(model)] = LocalModelConfig(local="smollm2")
    with pytest.raises(ConfigurationError, match="base_url"):
        pack([model], functools.partial(name_of, shop))


def test_a_cluster_without_a_registry_is_refused_with_the_setting(tmp_path: Path) -> None:
    shop = Workshop(Settings(cluster=ClusterConfig(address="auto")), tmp_path, tmp_path / "data")
    with pytest.raises(ConfigurationError, match=r"\[images\] registry"):
        RetryResource().options(shop)


def test_without_a_cluster_this_machine_works_alone(tmp_path: Path) -> None:
    images = ImagesConfig(registry="10.0.0.5:5000")
    shop = Workshop(Settings(images=images), tmp_path, tmp_path / "data")
    assert RetryResource().options(shop).machines is None


def test_a_node_has_a_folder_of_its_own_and_sees_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    monkeypatch.delenv(MACHINE_VARIABLE, raising=False)
    with pytest.raises(ConfigurationError, match=MACHINE_VARIABLE):
        open_on_node(Settings(), tmp_path, data)
    monkeypatch.setenv(MACHINE_VARIABLE, str(tmp_path / "machine"))
    with pytest.raises(ConfigurationError, match="share it under the same path"):
        open_on_node(Settings(), tmp_path, data)
    (data / "tables").mkdir(parents=True)
    shop = open_on_node(Settings(), tmp_path, data)
    assert (shop.machine, shop.trees, shop.store().root) == (tmp_path / "machine", data / "sources", data)
