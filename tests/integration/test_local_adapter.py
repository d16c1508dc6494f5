"""Adapters in llama.cpp's engine: with one, and without it, the tokens are those that torch finds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import torch

from pipeline.errors import ConfigurationError
from pipeline.llm.choice import chosen_model
from pipeline.llm.local_server import LocalModel, LocalModelConfig
from pipeline.llm.protocol import Completion, Message, Sampling
from pipeline.llm.weights import find_adapter
from tests.unit.tiny_gguf import tiny_gguf
from tests.unit.tiny_models import tiny_adapter, tiny_model
from training.backbone import load
from training.gguf_adapter import write_gguf_adapter
from training.tokens import ChatTokenizer


def _missing() -> str:
    try:
        version("xllamacpp")
    except PackageNotFoundError as error:
        return f"{error.name} is not installed (infra/bootstrap.sh local)"
    return ""


pytestmark = pytest.mark.skipif(bool(_missing()), reason=_missing())

QUESTIONS = ("list us", "done?", "an assistant lists 00 users", "x")
GREEDY = Sampling(max_tokens=24, token_details=True)
CLOSE = 0.05
"""Two log-probabilities this far apart are the same: llama.cpp keeps keys and values in 16 bits."""


@contextmanager
def started(folder: Path, adapter: str | None) -> Iterator[LocalModel]:
    config = LocalModelConfig(local="tiny.gguf", adapter=adapter, context=512, threads=1)
    model = chosen_model(config, None, folder)
    assert isinstance(model, LocalModel)
    yield model
    model.close()


class Torch:
    """What torch says of the tokens of an answer."""

    def __init__(self, base: Path, adapter: Path | None) -> None:
        self._model = load(base, adapter=adapter).eval()
        self._tokenizer = ChatTokenizer(base)

    def gaps(self, question: str, answer: Completion) -> tuple[float, float]:
        """Largest difference to the answer's log-probabilities, and of a token to the likeliest one of its place."""
        prompt, _ = self._tokenizer.prompt([{"role": "user", "content": question}])
        assert answer.completion_token_ids and answer.logprobs and answer.prompt_tokens == len(prompt)
        written = torch.tensor(answer.completion_token_ids)
        with torch.no_grad():
            logits = self._model(input_ids=torch.tensor([[*prompt, *answer.completion_token_ids]])).logits[0]
        likely = torch.log_softmax(logits[len(prompt) - 1 : -1], dim=-1)
        found = likely.gather(1, written[:, None])[:, 0]
        return (
            float((found - torch.tensor(answer.logprobs)).abs().max()),
            float((likely.amax(dim=-1) - found).max()),
        )


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_the_tokens_are_those_that_torch_finds_with_the_adapter_and_without(kind: str, tmp_path: Path) -> None:
    base = tiny_model(tmp_path / "base", kind)
    adapter = tiny_adapter(tmp_path / "adapter", base)
    tiny_gguf(base, tmp_path / "tiny.gguf")
    write_gguf_adapter(base, adapter, tmp_path / "adapter.gguf")
    plain, adapted = Torch(base, None), Torch(base, adapter)
    for name, same, other in ((None, plain, adapted), ("adapter.gguf", adapted, plain)):
        with started(tmp_path, name) as model:
            for question in QUESTIONS:
                answer = model.complete([Message(role="user", content=question)], GREEDY)
                assert answer.completion_tokens == 24 == len(answer.completion_token_ids or ())
                assert max(same.gaps(question, answer)) < CLOSE
                assert min(other.gaps(question, answer)) > 1


def test_a_model_with_an_adapter_is_another_model(tmp_path: Path) -> None:
    base = tiny_model(tmp_path / "base")
    write_gguf_adapter(base, tiny_adapter(tmp_path / "adapter", base), tmp_path / "adapter.gguf")
    tiny_gguf(base, tmp_path / "tiny.gguf")
    with started(tmp_path, None) as plain, started(tmp_path, "adapter.gguf") as adapted:
        assert adapted.name == f"{plain.name}+{find_adapter('adapter.gguf', tmp_path).name}"
        sha256 = hashlib.sha256((tmp_path / "adapter.gguf").read_bytes()).hexdigest()
        assert adapted.details == {**plain.details, "adapter": "adapter.gguf", "adapter_sha256": sha256}


def test_an_adapter_of_another_model_is_a_mistake_in_the_settings(tmp_path: Path) -> None:
    tiny_gguf(tiny_model(tmp_path / "base"), tmp_path / "tiny.gguf")
    other = tiny_model(tmp_path / "other", "llama")
    write_gguf_adapter(other, tiny_adapter(tmp_path / "adapter", other), tmp_path / "adapter.gguf")
    with (
        started(tmp_path, "adapter.gguf") as model,
        pytest.raises(ConfigurationError, match=r"\[model\] local: .*tiny\.gguf with the adapter .*adapter\.gguf"),
    ):
        model.complete([Message(role="user", content="x")], GREEDY)
