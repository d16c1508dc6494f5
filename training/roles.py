"""One backbone for all policies of a method: a LoRA adapter for each role, or all weights, and heads that tell values.

With LoRA the backbone is frozen, each role has an adapter of its own, and the backbone without any is the reference.
Without, all roles share all weights, as in small models from scratch and in GLIDER's two levels, and the reference is a
copy.

A head is a small network on last hidden states: on that before a turn it tells V(state), on those of the turn
Q(state, action), both of whole turns and not of tokens. It does not change the backbone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel, get_peft_model
from torch import Tensor

from training.backbone import LoraConfig
from training.losses import per_turn
from training.sequences import Batch


class Read(NamedTuple):
    """What a backbone says of a batch."""

    logprobs: Tensor
    """[B, T] float32: of each token of a turn, given all before it; 0 elsewhere."""
    before: Tensor
    """[B, N, H]: hidden state before each turn, without gradient."""
    after: Tensor
    """[B, N, H]: mean of the hidden states at the tokens of each turn, without gradient. That of the last token alone
    says little in small models, which never have to go on from there."""


class Reader(Protocol):
    """Reads a batch as one policy."""

    def __call__(self, batch: Batch, *, bf16: bool = False) -> Read: ...


class Backbone:
    """A causal language model of transformers with the roles of a method."""

    def __init__(self, model: torch.nn.Module, roles: Sequence[str], lora: LoraConfig | None = None) -> None:
        """With `lora` new adapters are made, all with the same weights: that of the first role, from torch's seed."""
        self.roles = tuple(roles)
        self.lora = lora
        self.model: torch.nn.Module = model
        if lora is not None:
            self.model = _adapted(model, self.roles, lora)

    def read(self, batch: Batch, role: str, *, bf16: bool = False) -> Read:
        """Log-probabilities of the turns as the policy of a role gives them. Only they are turned into logits."""
        self.use(role)
        base = self.model.get_base_model() if isinstance(self.model, PeftModel) else self.model
        positions = (batch.mask.cumsum(dim=1) - 1).clamp(min=0)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            hidden: Tensor = base.model(  # type: ignore[operator]  # the decoder of a model of transformers
                input_ids=batch.ids, attention_mask=batch.mask, position_ids=positions, use_cache=False
            ).last_hidden_state
            learned = (batch.turns >= 0).nonzero(as_tuple=True)
            logits = base.lm_head(hidden[learned[0], learned[1] - 1])  # type: ignore[operator]  # likewise
        targets = batch.ids[learned]
        each = torch.log_softmax(logits.float(), dim=-1).gather(-1, targets[:, None])[:, 0]
        logprobs = torch.zeros(batch.ids.shape, dtype=torch.float32).index_put(learned, each)
        still = hidden.detach().float()
        rows = torch.arange(len(batch.ids))[:, None]
        return Read(logprobs, still[rows, batch.states], _means(still, batch))

    def use(self, role: str) -> None:
        """Act and learn as this role from now on. Raises KeyError for one that there is not."""
        if role not in self.roles and not (isinstance(self.model, PeftModel) and role in self.model.peft_config):
            raise KeyError(f"no role {role!r}; there are {', '.join(self.roles)}")
        if isinstance(self.model, PeftModel):
            self.model.set_adapter(role)

    def reference(self, role: str) -> Reader:
        """The policy of a role as it is now, to stay: with LoRA the backbone alone, which every role began as."""
        if not isinstance(self.model, PeftModel):
            still = copy.copy(self)
            still.model = copy.deepcopy(self.model).requires_grad_(False)
            return partial(_still, still, role)
        return partial(_unadapted, self, self.model, role)

    def still(self, role: str) -> Reader:
        """The policy of a role as it is now, its adapter included, to stay."""
        if not isinstance(self.model, PeftModel):
            return self.reference(role)
        name = f"{role}_{len(self.model.peft_config)}"
        assert self.lora is not None
        _add(self.model, name, role, self.lora)
        return partial(_still, self, name)

    def parameters(self, role: str) -> list[torch.nn.Parameter]:
        """What is trained of a role."""
        self.use(role)
        return [one for one in self.model.parameters() if one.requires_grad]

    @property
    def hidden_size(self) -> int:
        """H."""
        return int(self.model.config.hidden_size)  # type: ignore[union-attr, arg-type]  # settings of transformers


def _still(backbone: Backbone, role: str, batch: Batch, *, bf16: bool = False) -> Read:
    with torch.no_grad():
        return backbone.read(batch, role, bf16=bf16)


def _unadapted(backbone: Backbone, model: PeftModel, role: str, batch: Batch, *, bf16: bool = False) -> Read:
    with torch.no_grad(), model.disable_adapter():
        return backbone.read(batch, role, bf16=bf16)


def _means(hidden: Tensor, batch: Batch) -> Tensor:
    """[B, N, H] of [B, T, H]."""
    places = (batch.turns + 1)[..., None].expand_as(hidden)  # the first one takes what is in no turn
    sums = hidden.new_zeros(len(hidden), batch.n_turns + 1, hidden.shape[-1]).scatter_add(1, places, hidden)
    counts = per_turn(torch.ones_like(batch.turns, dtype=torch.float32), batch.turns, batch.n_turns, "sum")
    return sums[:, 1:] / counts.clamp(min=1)[..., None]


class ValueHead(torch.nn.Module):
    """Two layers from hidden states [..., H] to values [...]; the values are 0 before anything is learned."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(hidden_size, hidden_size)
        self.last = torch.nn.Linear(hidden_size, 1)
        torch.nn.init.zeros_(self.last.weight)
        torch.nn.init.zeros_(self.last.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Values in float32."""
        values: Tensor = self.last(torch.nn.functional.gelu(self.first(hidden)))[..., 0]
        return values


def _adapted(model: torch.nn.Module, roles: Sequence[str], lora: LoraConfig) -> PeftModel:
    adapted = get_peft_model(model, _told(lora), adapter_name=roles[0])
    assert isinstance(adapted, PeftModel)
    for role in roles[1:]:
        _add(adapted, role, roles[0], lora)
    return adapted


def _add(adapted: PeftModel, name: str, like: str, lora: LoraConfig) -> None:
    """An adapter with the weights of another one."""
    adapted.add_adapter(name, _told(lora))
    every = dict(adapted.named_parameters())
    with torch.no_grad():
        for place, one in every.items():
            if f".{like}." in place:
                every[place.replace(f".{like}.", f".{name}.")].copy_(one)


def _told(lora: LoraConfig) -> PeftLoraConfig:
    return PeftLoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.targets[0] if len(lora.targets) == 1 else list(lora.targets),
        task_type="CAUSAL_LM",
    )
