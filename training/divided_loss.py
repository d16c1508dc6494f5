"""The loss of a causal language model without the logits of all tokens at once.

    L = - (1 / n) * sum_i log softmax(W h_i)[token_{i+1}],   i over the tokens whose next one is learned

For a vocabulary of 150,000 words the logits of 32,768 tokens, their gradients and both in 32 bits take 60 GB. Here the
sum is made in parts of `tokens` hidden states h, and each part is computed again on the way back, so one part's logits
are there at a time. Loss and gradients are those of the whole up to rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from training.tokens import IGNORED


def divide_loss(model: PreTrainedModel, tokens: int) -> None:
    """Make the model, when it is given labels, return the loss alone: its `logits` are hidden states then.

    The output layer is used inside of the model's forward, where FSDP has its weights together.
    """
    head: torch.nn.Linear = model.get_output_embeddings()  # type: ignore[no-untyped-call]

    def loss(logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None = None, **_: object) -> Tensor:
        width = logits.shape[-1]
        hidden = logits.reshape(-1, width)
        following = functional.pad(labels, (0, 1), value=IGNORED)[..., 1:].reshape(-1)
        learned = following != IGNORED
        hidden, following = hidden[learned], following[learned]
        # Where nothing is learned there is one empty part: every GPU has gradients of the same weights.
        parts = zip(torch.split(hidden, tokens), torch.split(following, tokens), strict=True)
        losses = [checkpoint(_part, part, head.weight, words, use_reentrant=False) for part, words in parts]
        return torch.stack(losses).sum() / (following.numel() if num_items_in_batch is None else num_items_in_batch)

    head.forward = _unchanged  # type: ignore[method-assign]
    model.loss_function = loss


def _unchanged(input: Tensor) -> Tensor:
    return input


def _part(hidden: Tensor, weight: Tensor, words: Tensor) -> Tensor:
    return functional.cross_entropy(functional.linear(hidden, weight).float(), words, reduction="sum")
