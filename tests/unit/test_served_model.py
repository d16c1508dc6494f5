"""[model] may name a version of a trained model in place of the file of its adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from assets.resources import Workshop
from assets.settings import Settings
from pipeline.errors import ConfigurationError
from pipeline.llm.choice import ServerConfig
from pipeline.llm.local_server import LocalModelConfig
from pipeline.llm.weights import find_adapter, find_weights
from tests.unit.test_models import told
from tests.unit.tiny_gguf import tiny_gguf
from tests.unit.tiny_models import tiny_adapter, tiny_model
from training.gguf_adapter import write_gguf_adapter
from training.models import Kind, publish_model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of weights of the architecture llama, and tiny.gguf beside it."""
    folder = tiny_model(tmp_path_factory.mktemp("models") / "base", "llama")
    tiny_gguf(folder, folder.with_name("tiny.gguf"))
    return folder


@pytest.fixture
def shop(base: Path, tmp_path: Path) -> Workshop:
    for name in ("tiny.gguf", "other.gguf"):
        (tmp_path / name).write_bytes(base.with_name("tiny.gguf").read_bytes())
    return Workshop(Settings(), tmp_path, tmp_path / "data")


def publish(shop: Workshop, learned: Path, kind: Kind = "adapter", run: str = "run-1") -> None:
    publish_model(shop.data, "sft", learned, kind, [], [], told(run))


def test_the_adapter_of_a_version_becomes_a_file_for_the_weights_and_names_the_model(
    base: Path, shop: Workshop, tmp_path: Path
) -> None:
    adapter = tiny_adapter(tmp_path / "adapter", base)
    publish(shop, adapter)
    weights = find_weights("tiny.gguf", tmp_path)
    model = shop.model_of(LocalModelConfig(local="tiny.gguf", adapter="sft@v0001"))
    made = shop.data / "serve" / "adapters" / weights.name / "sft@v0001.gguf"
    assert model.name == f"{weights.name}+{find_adapter(str(made), tmp_path).name}"
    write_gguf_adapter(base, adapter, tmp_path / "by_hand.gguf")
    assert made.read_bytes() == (tmp_path / "by_hand.gguf").read_bytes()


def test_the_file_of_a_version_is_made_once_and_the_newest_version_is_found_at_each_start(
    base: Path, shop: Workshop, tmp_path: Path
) -> None:
    publish(shop, tiny_adapter(tmp_path / "first", base))
    first = shop.model_of(LocalModelConfig(local="tiny.gguf", adapter="sft@latest"))
    (made,) = shop.data.glob("serve/adapters/*/sft@v0001.gguf")
    written = made.stat().st_mtime_ns
    publish(shop, tiny_adapter(tmp_path / "second", base, seed=2), run="run-2")
    again = Workshop(shop.settings, shop.folder, shop.data)
    second = again.model_of(LocalModelConfig(local="tiny.gguf", adapter="sft@latest"))
    assert "+sft@v0001@" in first.name and "+sft@v0002@" in second.name
    assert again.model_of(LocalModelConfig(local="tiny.gguf", adapter="sft@v0001")).name == first.name
    assert made.stat().st_mtime_ns == written


def test_what_no_adapter_can_be_had_from_is_a_mistake_in_the_settings(
    base: Path, shop: Workshop, tmp_path: Path
) -> None:
    publish(shop, base, "weights")
    with pytest.raises(ConfigurationError, match="sft@v0001 has weights and no adapter; serve it with infra"):
        shop.model_of(LocalModelConfig(local="tiny.gguf", adapter="sft@v0001"))
    with pytest.raises(ConfigurationError, match="there is no model 'sft@v0007'"):
        shop.model_of(LocalModelConfig(local="tiny.gguf", adapter="sft@v0007"))
    with pytest.raises(ConfigurationError, match=r"\[model\] adapter: .*a@b\.gguf cannot be read"):
        shop.model_of(LocalModelConfig(local="tiny.gguf", adapter="a@b.gguf"))


def test_a_server_keeps_its_settings_and_its_key(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ServerConfig(base_url="http://127.0.0.1:1/v1", model="x", weights="sha256:1")
    assert shop.model_of(config).details == {"weights": "sha256:1"}
    monkeypatch.setenv("TOUCHSTONE_MODEL_KEY", "not a key")
    with pytest.raises(ConfigurationError, match="the key of the model holds spaces"):
        shop.model_of(config.model_copy(update={"model": "y"}))
