"""Many attempts are answered at a time, and each as if it were alone."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from pipeline.llm.protocol import Completion, ContextOverflow, Message, ModelUnavailable, Sampling
from tests.unit.tiny_model import tiny_model
from training.backbone import LoraConfig, load
from training.batched_policy import BatchedModel
from training.policy import open_model
from training.roles import Backbone
from training.sequences import TokenSequence, batch_of
from training.tokens import ChatTokenizer

GREEDY = Sampling(max_tokens=7, token_details=True)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "tiny")


def batched(base: Path, context: int = 4096) -> BatchedModel:
    return BatchedModel(load(base).eval(), ChatTokenizer(base), "tiny", context)


def talk(text: str) -> list[Message]:
    return [Message(role="user", content=text)]


def together(model: BatchedModel, talks: Sequence[list[Message]], sampling: Sequence[Sampling], turns: int = 1):  # type: ignore[no-untyped-def]  # lists of completions, by seat
    """Conversations side by side: what was answered becomes part of each, and something is asked behind it."""
    model.take(range(len(talks)))

    def hold(seat: int) -> list[Completion]:
        said = list(talks[seat])
        found = []
        with model.seated(seat):
            for turn in range(turns + seat % 2):  # not all of them end at the same time
                found.append(model.complete(said, sampling[seat]))
                said += [Message(role="assistant", content=found[-1].text), *talk(f"and {turn}?")]
        return found

    with ThreadPoolExecutor(len(talks)) as threads:
        return list(threads.map(hold, range(len(talks))))


def test_answers_are_those_of_the_model_alone(base: Path) -> None:
    alone = open_model("tiny", base)
    talks = [talk("hello"), talk("a much longer question than the others, word after word"), talk("x"), talk("yz")]
    found = together(batched(base), talks, [GREEDY] * 4, turns=3)
    for said, answers in zip(talks, found, strict=True):
        asked = list(said)
        for turn, answer in enumerate(answers):
            wanted = alone.complete(asked, GREEDY)
            assert answer.completion_token_ids == wanted.completion_token_ids
            assert answer.prompt_token_ids == wanted.prompt_token_ids
            assert answer.logprobs == pytest.approx(wanted.logprobs, abs=1e-4)
            asked += [Message(role="assistant", content=answer.text), *talk(f"and {turn}?")]


def test_what_was_read_before_is_not_read_again(base: Path) -> None:
    model = batched(base)
    found = together(model, [talk("hello there"), talk("good day")], [GREEDY] * 2, turns=2)
    for answers in found:
        assert answers[0].cached_tokens == 0
        cached, prompt = answers[1].cached_tokens, answers[1].prompt_tokens
        # Of the answer at least what its text spells as the model did; all of the question before it.
        assert answers[0].prompt_tokens <= cached < prompt
    assert model.counts.read < sum(one.prompt_tokens for answers in found for one in answers)
    assert model.counts.written == sum(one.completion_tokens for answers in found for one in answers)


def test_a_seed_gives_the_same_answer_whoever_asks_beside(base: Path) -> None:
    warm = [Sampling(max_tokens=7, temperature=1.0, seed=seed, token_details=True) for seed in range(4)]
    four = together(batched(base), [talk("hello")] * 4, warm)
    (one,) = together(batched(base), [talk("hello")], warm[2:3])
    assert four[2][0].completion_token_ids == one[0].completion_token_ids
    assert len({answers[0].completion_token_ids for answers in four}) > 1


def test_other_weights_answer_otherwise_when_told(base: Path) -> None:
    network = load(base).eval()
    model = BatchedModel(network, ChatTokenizer(base), "tiny", 4096)
    before = together(model, [talk("hello")], [GREEDY])[0][0]
    with torch.no_grad():
        for one in network.parameters():
            one.add_(torch.randn(one.shape, generator=torch.Generator().manual_seed(1)) * 0.5)
    model.forget()
    after = together(model, [talk("hello")], [GREEDY])[0][0]
    assert before.logprobs != after.logprobs and after.cached_tokens == 0


def test_damaged_weights_are_a_fault_that_all_are_told(base: Path) -> None:
    network = load(base).eval()
    with torch.no_grad():
        next(network.parameters()).fill_(float("nan"))
    model = BatchedModel(network, ChatTokenizer(base), "tiny", 4096)
    with pytest.raises(ModelUnavailable, match="weights are damaged"):
        together(model, [talk("hello"), talk("you")], [GREEDY] * 2)


def test_a_prompt_that_is_too_long_is_refused_and_the_others_go_on(base: Path) -> None:
    model = batched(base, context=100)
    model.take(range(2))

    def ask(seat: int) -> Completion | ContextOverflow:
        with model.seated(seat):
            try:
                return model.complete(talk("long " * 90 if seat else "hello"), GREEDY)
            except ContextOverflow as error:
                return error

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(ask, range(2))
    assert isinstance(first, Completion) and isinstance(second, ContextOverflow)


def test_roles_answer_with_their_own_adapters_in_one_batch(base: Path) -> None:
    torch.manual_seed(0)
    backbone = Backbone(load(base), ["planner", "executor"], LoraConfig(rank=4, alpha=8))
    kept = backbone.still("executor")
    with torch.no_grad():
        for one in backbone.parameters("executor"):
            one.add_(torch.randn(one.shape, generator=torch.Generator().manual_seed(1)))
    model = BatchedModel(backbone.model, ChatTokenizer(base), "tiny", 4096, use=backbone.use)
    model.take(range(4))

    def ask(seat: int) -> Completion:
        with model.seated(seat):
            return model.acting("executor" if seat % 2 else "planner").complete(talk("hello"), GREEDY)

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(ask, range(4)))
    plain = open_model("tiny", base).complete(talk("hello"), GREEDY)
    assert found[0].logprobs == found[2].logprobs == pytest.approx(plain.logprobs, abs=1e-4)
    assert found[1].logprobs == found[3].logprobs != found[0].logprobs
    # What was kept of a role is as it was, whatever it learned since.
    asked = TokenSequence(array("i", found[0].prompt_token_ids + found[0].completion_token_ids), ((20, 23),))
    batch = batch_of([asked])
    changed = backbone.read(batch, "executor").logprobs
    assert not torch.allclose(kept(batch).logprobs, changed, atol=1e-3)
    assert torch.allclose(kept(batch).logprobs, backbone.read(batch, "planner").logprobs, atol=1e-5)
