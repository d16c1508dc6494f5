"""Losses and their gradients beside those of trl's trainers and of torchrl, which were written without ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor
from torch.distributions import Categorical
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import ClipPPOLoss, IQLLoss
from torchrl.objectives.utils import _clip_value_loss
from torchrl.objectives.value.functional import generalized_advantage_estimate
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from tests.unit.tiny_model import tiny_model
from training.backbone import load
from training.losses import (
    clipped_policy,
    clipped_value,
    dpo,
    expectile,
    gae,
    group_advantages,
    k3,
    leave_one_out,
    per_turn,
    sequence_policy,
    token_logprobs,
)

PROMPTS = ["say one", "say two"]
REWARDS = [0.1, 0.1, 0.7, 1.0, 0.3, 0.3, 0.3, 0.3]
"""Of the answers of one batch: of different ones, and of equal ones."""
SETTING = {
    "bf16": False,
    "use_cpu": True,
    "report_to": "none",
    "disable_tqdm": True,
    "save_strategy": "no",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def tokenizer(base: Path) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_file=str(base / "tokenizer.json"), eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )


def gradients(model: torch.nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """The loss and its gradients, which the model then no longer has."""
    model.zero_grad()
    loss.backward()
    found = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    model.zero_grad()
    return found | {"loss": loss.detach()}


def same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert any(one.abs().max() > 1e-4 for name, one in expected.items() if name != "loss")
    for name, one in expected.items():
        torch.testing.assert_close(
            found[name], one, atol=1e-6, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


def read(model: torch.nn.Module, ids: Tensor, attention: Tensor) -> Tensor:
    return token_logprobs(model(input_ids=ids, attention_mask=attention).logits, ids)


def test_dpo_is_that_of_trl_from_tokens_to_gradients(base: Path, tmp_path: Path) -> None:
    model, reference = load(base), load(base)
    chance = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for one in reference.parameters():
            one.add_(0.02 * torch.randn(one.shape, generator=chance))
    pairs = [
        {"prompt": "a prompt", "chosen": " a good answer of some length", "rejected": " a bad one"},
        {"prompt": "another", "chosen": " yes", "rejected": " no, this is not what was asked for"},
    ]
    trainer = DPOTrainer(
        model=model,
        ref_model=reference,
        args=DPOConfig(output_dir=str(tmp_path), beta=0.3, per_device_train_batch_size=2, max_length=None, **SETTING),
        train_dataset=Dataset.from_list(pairs),
        processing_class=tokenizer(base),
    )
    batch = next(iter(trainer.get_train_dataloader()))
    expected = gradients(model, trainer.compute_loss(model, dict(batch)))
    turns = batch["completion_mask"].long() - 1
    assert (batch["attention_mask"] == 0).any(), "nothing is padded"

    def answers(one: torch.nn.Module) -> tuple[Tensor, Tensor]:
        sums = per_turn(read(one, batch["input_ids"], batch["attention_mask"]), turns, 1, "sum")[:, 0]
        return sums[:2], sums[2:]

    same(gradients(model, dpo(*answers(model), *answers(reference), 0.3).mean()), expected)


def group_trainer(kind: str, base: Path, folder: Path, **more: object) -> GRPOTrainer | RLOOTrainer:
    trainers = {"grpo": (GRPOTrainer, GRPOConfig), "rloo": (RLOOTrainer, RLOOConfig)}
    trainer, config = trainers[kind]
    return trainer(
        model=load(base),
        reward_funcs=lambda completions, **_: REWARDS[: len(completions)],
        args=config(
            output_dir=str(folder),
            num_generations=4,
            per_device_train_batch_size=8,
            max_completion_length=3,
            **SETTING,
            **more,
        ),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=tokenizer(base),
    )


ADVANTAGES: dict[str, tuple[str, dict[str, object], Callable[[Tensor, Tensor], Tensor]]] = {
    "scaled": ("grpo", {}, lambda returns, groups: group_advantages(returns, groups, scale=True)),
    "centred": (
        "grpo",
        {"scale_rewards": "none"},
        lambda returns, groups: group_advantages(returns, groups, scale=False),
    ),
    "left out": ("rloo", {"beta": 0.0}, leave_one_out),
}


@pytest.mark.parametrize("name", ADVANTAGES)
def test_advantages_of_groups_are_those_of_trl(base: Path, tmp_path: Path, name: str) -> None:
    kind, more, ours = ADVANTAGES[name]
    trainer = group_trainer(kind, base, tmp_path, **more)
    made = trainer._generate_and_score_completions([{"prompt": prompt} for prompt in PROMPTS for _ in range(4)])
    found = ours(torch.tensor(REWARDS), torch.arange(8) // 4)
    assert found[:4].abs().min() > 0.1
    torch.testing.assert_close(found, made["advantages"], atol=1e-6, rtol=1e-4)


def answered(model: PreTrainedModel) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor]:
    """A batch as trl has it, and whole rows, their attention and their turns as we have them."""
    chance = torch.Generator().manual_seed(1)
    prompts, answers = torch.randint(0, 200, (4, 3), generator=chance), torch.randint(0, 200, (4, 9), generator=chance)
    lengths = torch.tensor([9, 4, 1, 7])
    there = (torch.arange(9) < lengths[:, None]).long()
    ids, attention = torch.cat([prompts, answers], dim=1), torch.cat([torch.ones_like(prompts), there], dim=1)
    turns = torch.cat([torch.full_like(prompts, -1), there - 1], dim=1)
    with torch.no_grad():
        now = read(model, ids, attention)
    old = (now + 0.3 * torch.randn(now.shape, generator=chance)).masked_fill(turns < 0, 0.0)
    batch = {
        "prompt_ids": prompts,
        "prompt_mask": torch.ones_like(prompts),
        "completion_ids": answers,
        "completion_mask": there,
        "advantages": torch.tensor([1.0, -2.0, 0.5, -0.7]),
        "old_per_token_logps": old[:, 3:],
        "old_logps": old.sum(dim=1),
        "ref_per_token_logps": (old + 0.2)[:, 3:],
    }
    return batch, ids, attention, turns


def test_grpo_is_that_of_trl_from_tokens_to_gradients(base: Path, tmp_path: Path) -> None:
    trainer = group_trainer(
        "grpo",
        base,
        tmp_path,
        epsilon=0.1,
        epsilon_high=0.25,
        beta=0.05,
        loss_type="bnpo",
        use_bias_correction_kl=False,
        importance_sampling_level="token",
    )
    model = trainer.model
    batch, ids, attention, turns = answered(model)
    trainer.current_gradient_accumulation_steps = 1
    expected = gradients(model, trainer._compute_loss(model, batch))
    old = torch.nn.functional.pad(batch["old_per_token_logps"], (3, 0))
    now, total = read(model, ids, attention), int((turns >= 0).sum())
    wide = batch["advantages"][:, None].expand(ids.shape)
    loss, seen = clipped_policy(now, old, wide, turns, 0.1, 0.25, total)
    same(gradients(model, loss + 0.05 * k3(now, old + 0.2, turns).sum() / total), expected)
    share = trainer._metrics["eval"]["clip_ratio/region_mean"][-1]
    assert 0.05 < share < 0.95
    assert seen.share == pytest.approx(share)


def test_rloo_is_that_of_trl_from_tokens_to_gradients(base: Path, tmp_path: Path) -> None:
    trainer = group_trainer("rloo", base, tmp_path, epsilon=0.3, epsilon_high=0.6, beta=0.0)
    model = trainer.model
    batch, ids, attention, turns = answered(model)
    trainer.current_gradient_accumulation_steps = 1
    expected = gradients(model, trainer._compute_loss(model, batch))
    sums = per_turn(read(model, ids, attention), turns, 1, "sum")[:, 0]
    same(gradients(model, sequence_policy(sums, batch["old_logps"], batch["advantages"], 0.3, 0.6).mean()), expected)


@pytest.mark.parametrize("lam", [0.0, 0.95, 1.0])
def test_gae_is_that_of_torchrl(lam: float) -> None:
    chance = torch.Generator().manual_seed(2)
    rewards, values = torch.randn(2, 6, 9, generator=chance, dtype=torch.float64)
    lengths = torch.tensor([9, 1, 4, 8, 2, 9])
    advantages, returns = gae(rewards, values, lengths, 0.97, lam)
    # As tensors: torchrl makes 32 bits of plain numbers.
    factors = torch.tensor([0.97, lam], dtype=torch.float64)
    for row, length in enumerate(lengths.tolist()):
        own, reward = values[row, :length, None], rewards[row, :length, None]
        done = torch.zeros(length, 1, dtype=torch.bool)
        done[-1] = True
        following = torch.cat([own[1:], own.new_ones(1, 1)])
        due = generalized_advantage_estimate(*factors, own, following, reward, done)
        found = advantages[row, :length, None], returns[row, :length, None]
        torch.testing.assert_close(found, due, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.95])
def test_expectile_is_that_of_torchrl(tau: float) -> None:
    difference = torch.linspace(-2, 2, 41, dtype=torch.float64)
    ours, theirs = difference.clone().requires_grad_(), difference.clone().requires_grad_()
    found, expected = expectile(ours, tau), IQLLoss.loss_value_diff(theirs, tau)
    torch.testing.assert_close(found, expected, check_dtype=False, atol=1e-6, rtol=1e-6)
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=1e-6)


def test_clip_with_two_bounds_is_that_of_torchrl() -> None:
    torch.manual_seed(3)
    states, actions, advantages = torch.randn(64, 5), torch.randint(0, 7, (64,)), torch.randn(64)
    layer = torch.nn.Linear(5, 7)
    now = torch.log_softmax(layer(states), dim=-1)[torch.arange(64), actions]
    old = now.detach() + 0.4 * torch.randn(64)
    actor = ProbabilisticActor(
        TensorDictModule(layer, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
    )
    theirs = ClipPPOLoss(actor, clip_epsilon=(0.3, 0.1), entropy_bonus=False)
    given = {
        "observation": states,
        "action": actions,
        "action_log_prob": old,
        "advantage": advantages[:, None],
    }
    expected = theirs(TensorDict(given, [64]))
    loss, seen = clipped_policy(now[None], old[None], advantages[None], torch.zeros(1, 64).long(), 0.3, 0.1, 64)
    torch.testing.assert_close(loss, expected["loss_objective"])
    ours = torch.autograd.grad(loss, list(layer.parameters()))
    due = [dict(theirs.named_parameters())[f"actor_network_params.module.0.module.{one}"] for one in ("weight", "bias")]
    torch.testing.assert_close(ours, torch.autograd.grad(expected["loss_objective"], due))
    assert 0.1 < seen.share < 0.9


def test_clipped_value_is_that_of_torchrl() -> None:
    old, values, returns = torch.randn(3, 50, generator=torch.Generator().manual_seed(4))
    found = clipped_value(values, old, returns, torch.ones(50, dtype=torch.bool), 0.3)
    expected, share = _clip_value_loss(old, values, torch.tensor(0.3), returns, (values - returns) ** 2, "l2")
    assert 0.1 < float(share) < 0.9
    torch.testing.assert_close(found, expected.mean() / 2)
