"""A version of a model answers in this process on the weights that it was trained on, and on no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from pipeline.llm.protocol import Message, Sampling
from tests.unit.test_models import ROW, told
from tests.unit.tiny_models import tiny_adapter, tiny_model
from training.evaluation_policy import answering
from training.models import Kind, TrainedModel, publish_model
from training.policy import open_model
from training.tokens import FILES
from training.weight_files import weights_sha256


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def version(data: Path, base: Path, kind: Kind = "adapter") -> TrainedModel:
    learned = tiny_adapter(data / "learned", base)
    beside = [file for name in FILES if (file := base / name).is_file()]
    training = told().model_copy(update={"base_sha256": weights_sha256(base)})
    return publish_model(data, "sft", learned, kind, beside, [ROW], training)


def test_it_answers_as_its_adapter_on_its_base_and_says_what_it_is(tmp_path: Path, base: Path) -> None:
    model = version(tmp_path, base)
    found = answering(model, base)
    asked = [Message(role="user", content="list us")]
    same = open_model("same", base, model.learned)
    assert found.complete(asked, Sampling(max_tokens=20)).text == same.complete(asked, Sampling(max_tokens=20)).text
    assert (found.name, found.details["adapter_sha256"]) == ("sft@v0001", same.details["adapter_sha256"])


def test_other_weights_and_versions_without_an_adapter_are_refused(tmp_path: Path, base: Path) -> None:
    other = tiny_model(tmp_path / "other", seed=5)
    with pytest.raises(ConfigurationError, match="has other weights than those that sft@v0001 was trained on"):
        answering(version(tmp_path / "a", base), other)
    with pytest.raises(ConfigurationError, match="holds whole weights"):
        answering(version(tmp_path / "b", base, "weights"), base)
