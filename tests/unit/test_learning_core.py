"""Sequences, roles and steps: the same step however it is divided, each role its own adapter, all of it counted."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.unit.tiny_model import tiny_model
from training.backbone import LoraConfig, load
from training.loop import LearningConfig, Meter, Optimisation, grouped, scale
from training.losses import nll
from training.roles import Backbone, ValueHead
from training.sequences import Batch, TokenSequence, batch_of, of_calls, of_chat
from training.tokens import ChatTokenizer

EXACT = LearningConfig(bf16=False, learning_rate=1e-2, warmup_share=0.0)


def sequence(length: int, *turns: tuple[int, int]) -> TokenSequence:
    return TokenSequence(array("i", [(7 * number + length) % 200 for number in range(length)]), turns)


SEQUENCES = [sequence(9, (3, 6)), sequence(14, (2, 4), (8, 14)), sequence(5, (4, 5)), sequence(11, (1, 2), (5, 7))]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "tiny")


def test_a_chat_is_one_sequence_whose_turns_are_the_answers(base: Path) -> None:
    tokenizer = ChatTokenizer(base)
    roles = ("user", "assistant", "user", "assistant")
    chat = [{"role": role, "content": f"words {place}"} for place, role in enumerate(roles)]
    found = of_chat(chat, tokenizer)
    said = [tokenizer.answer_of(found.ids[start:stop]) for start, stop in found.turns]
    assert said == ["words 1", "words 3"]
    assert found.turns[-1][1] == len(found.ids) and found.n_written == sum(stop - start for start, stop in found.turns)


def test_calls_are_one_sequence_as_long_as_each_goes_on_from_the_last() -> None:
    calls = [([1, 2], [3]), ([1, 2, 3, 4], [5, 6]), ([9, 9], [1]), ([1, 2, 3, 4, 5, 6, 7], [8])]
    found = list(of_calls(calls))
    assert [list(one.ids) for one, _ in found] == [[1, 2, 3, 4, 5, 6], [9, 9, 1], [1, 2, 3, 4, 5, 6, 7, 8]]
    assert [one.turns for one, _ in found] == [((2, 3), (4, 6)), ((2, 3),), ((7, 8),)]
    assert [numbers for _, numbers in found] == [(0, 1), (2,), (3,)]


def test_a_batch_says_where_turns_are_and_where_their_states_stand() -> None:
    batch = batch_of(SEQUENCES[:2])
    assert batch.mask.sum(dim=1).tolist() == [9, 14] and batch.lengths.tolist() == [1, 2]
    assert batch.turns[0].tolist() == [-1, -1, -1, 0, 0, 0] + [-1] * 8
    assert batch.states.tolist() == [[2, 0], [1, 7]]


def test_what_is_read_is_what_transformers_says(base: Path) -> None:
    model = load(base).eval()
    read = Backbone(model, ["actor"]).read(batch_of(SEQUENCES), "actor")
    for row, one in enumerate(SEQUENCES):
        ids = torch.tensor([list(one.ids)])
        out = model(input_ids=ids, output_hidden_states=True)
        each = torch.log_softmax(out.logits[0], dim=-1)
        for start, stop in one.turns:
            wanted = torch.stack([each[place - 1, ids[0, place]] for place in range(start, stop)])
            assert torch.allclose(read.logprobs[row, start:stop], wanted, atol=1e-5)
        assert torch.allclose(read.before[row, 0], out.hidden_states[-1][0, one.turns[0][0] - 1], atol=1e-5)
        start, stop = one.turns[-1]
        assert torch.allclose(
            read.after[row, len(one.turns) - 1], out.hidden_states[-1][0, start:stop].mean(0), atol=1e-5
        )
    assert not read.before.requires_grad and read.logprobs.requires_grad
    assert not read.logprobs[batch_of(SEQUENCES).turns < 0].any()


def stepped(base: Path, batch_tokens: int) -> tuple[list[Tensor], float, Meter]:
    backbone, meter = Backbone(load(base), ["actor"]), Meter()
    total = sum(one.n_written for one in SEQUENCES)

    def loss_of(batch: Batch, numbers: Sequence[int]) -> Tensor:
        del numbers
        return nll(backbone.read(batch, "actor").logprobs, batch.turns, total)

    config = EXACT.model_copy(update={"batch_tokens": batch_tokens})
    optimisation = Optimisation(backbone.parameters("actor"), config, meter)
    loss = optimisation.step([[one] for one in SEQUENCES], loss_of, 0.0)
    return [one.detach().clone() for one in backbone.model.parameters()], loss, meter


def test_a_step_is_the_same_however_it_is_divided(base: Path) -> None:
    whole, loss, meter = stepped(base, 10_000)
    parts, other, _ = stepped(base, 1)
    assert loss == pytest.approx(other, abs=1e-5)
    assert all(torch.allclose(one, two, atol=2e-4) for one, two in zip(whole, parts, strict=True))
    before = list(load(base).parameters())
    assert any(not torch.allclose(one, two, atol=2e-3) for one, two in zip(whole, before, strict=True))
    assert meter.learned == meter.units == sum(len(one.ids) for one in SEQUENCES)


def test_groups_stay_together_and_batches_are_no_larger_than_told() -> None:
    groups = [[SEQUENCES[0], SEQUENCES[1]], [SEQUENCES[2]], [SEQUENCES[3], SEQUENCES[2]], [SEQUENCES[0]]]
    batches = grouped(groups, 30)
    assert sorted(number for batch in batches for number in batch) == [0, 1, 2, 3]
    for batch in batches:
        rows = [one for number in batch for one in groups[number]]
        assert len(batch) == 1 or len(rows) * max(len(one.ids) for one in rows) <= 30
    assert max(map(len, batches)) > 1


def test_the_learning_rate_rises_and_falls() -> None:
    shares = [scale(share / 100, 0.05) for share in range(101)]
    assert 0.0 < shares[0] < shares[3] < shares[5] == max(shares) and shares[-1] == pytest.approx(0.1)
    assert shares[5:] == sorted(shares[5:], reverse=True)


def test_each_role_has_an_adapter_of_its_own_and_the_reference_is_the_backbone_alone(base: Path) -> None:
    plain = Backbone(load(base), ["actor"]).read(batch_of(SEQUENCES), "actor").logprobs
    torch.manual_seed(0)
    backbone = Backbone(load(base), ["planner", "executor"], LoraConfig(rank=4, alpha=8))
    reference = backbone.reference("planner")
    optimisation = Optimisation(backbone.parameters("planner"), EXACT, Meter())
    total = sum(one.n_written for one in SEQUENCES)

    def loss_of(batch: Batch, numbers: Sequence[int]) -> Tensor:
        del numbers
        return nll(backbone.read(batch, "planner").logprobs, batch.turns, total)

    losses = [optimisation.step([[one] for one in SEQUENCES], loss_of, 0.0) for _ in range(6)]
    assert losses[-1] < losses[0]
    batch = batch_of(SEQUENCES)
    with torch.no_grad():
        planner = backbone.read(batch, "planner").logprobs
        executor = backbone.read(batch, "executor").logprobs
    assert torch.allclose(executor, plain, atol=1e-5)
    assert not torch.allclose(planner, plain, atol=1e-3)
    assert torch.allclose(reference(batch).logprobs, plain, atol=1e-5)
    with pytest.raises(KeyError, match="critic"):
        backbone.use("critic")


def test_without_adapters_the_reference_stays_as_it_was(base: Path) -> None:
    backbone = Backbone(load(base), ["actor"])
    batch = batch_of(SEQUENCES)
    reference = backbone.reference("actor")
    before = reference(batch).logprobs
    with torch.no_grad():
        for one in backbone.model.parameters():
            one.mul_(1.5)
    assert torch.equal(reference(batch).logprobs, before)
    assert not torch.allclose(backbone.read(batch, "actor").logprobs, before)


def test_a_head_says_nothing_at_first_and_learns_values() -> None:
    torch.manual_seed(0)
    head, hidden = ValueHead(8), torch.randn(20, 8)
    assert head(hidden).tolist() == [0.0] * 20
    wanted = hidden[:, 0]
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    for _ in range(300):
        loss = ((head(hidden) - wanted) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert loss.item() < 0.01


def test_a_loss_that_is_no_number_ends_the_training_and_says_so(base: Path) -> None:
    backbone = Backbone(load(base), ["actor"])
    optimisation = Optimisation(backbone.parameters("actor"), EXACT, Meter())
    with pytest.raises(ValueError, match="no number"):
        optimisation.step([[SEQUENCES[0]]], lambda batch, numbers: torch.tensor(float("nan")), 0.0)
