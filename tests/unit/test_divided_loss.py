"""The loss in parts is the loss, whatever the parts, and so are its gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.unit.tiny_model import tiny_model
from training.backbone import LoraConfig, load, with_lora
from training.divided_loss import divide_loss
from training.tokens import IGNORED


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def learned(base: Path, tokens: int | None, share: float, of: int | None = 37, lora: bool = False) -> dict[str, Tensor]:
    """The loss and all gradients of two rows of fifty tokens, of which a share is learned."""
    model: torch.nn.Module = load(base)
    if tokens is not None:
        divide_loss(model, tokens)  # type: ignore[arg-type]  # what `load` gave
    torch.manual_seed(0)
    if lora:
        model = with_lora(model, LoraConfig(rank=4))  # type: ignore[arg-type]
    ids = torch.randint(0, 200, (2, 50))
    labels = torch.where(torch.rand(2, 50) < share, ids, IGNORED)
    loss = model(input_ids=ids, labels=labels, **({} if of is None else {"num_items_in_batch": torch.tensor(of)})).loss
    loss.backward()
    return {"loss": loss.detach()} | {name: one.grad for name, one in model.named_parameters() if one.grad is not None}


@pytest.mark.parametrize("tokens", [1, 7, 1000])
@pytest.mark.parametrize(("of", "lora"), [(37, False), (None, False), (37, True)], ids=["sum", "mean", "adapter"])
def test_loss_and_gradients_are_those_of_the_whole(base: Path, tokens: int, of: int | None, lora: bool) -> None:
    whole, parts = learned(base, None, 0.5, of, lora), learned(base, tokens, 0.5, of, lora)
    assert whole.keys() == parts.keys()
    assert whole["loss"] > 1.0
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, msg=name)


def test_where_nothing_is_learned_all_gradients_are_zero(base: Path) -> None:
    made = learned(base, 7, 0.0)
    assert made.keys() == learned(base, 7, 1.0).keys()
    assert made["loss"] == 0.0
    assert all(not one.any() for one in made.values())
