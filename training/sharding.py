"""Whether a training fits the GPUs it is meant for, found out without weights and without GPUs.

    python -m training.sharding CONFIG …

The model of a configuration (training/setups.py) is built by transformers on the device `meta`, its adapter by peft,
and FSDP2 wraps it as accelerate does: each decoder layer by itself, then what is left, over a process group of the
right size that speaks to nobody. Parameters, gradients and optimizer states are then read from the shards of rank 0,
which has the largest. Activations and the loss are an estimate; what a CUDA process takes by itself is a flat share.

Not here: the training itself (training/methods/sft.py). No step of it is run, so nothing is said about time.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from pipeline.errors import ConfigurationError
from pipeline.types import Record
from training.backbone import DTYPES, with_lora
from training.methods.sft import SftConfig
from training.setups import Machines, read_setup

RESERVED = 0.1
"""Share of a GPU's memory for CUDA itself, buffers of NCCL, and holes between blocks."""
_MASTER = 4
"""Bytes of a number of what is learned: in every precision its weights, gradients and the two states of AdamW have
32 bits."""
_SHARDS = "fsdp, more GPUs, or lora"
_SHORTER = "fewer max_tokens, or a smaller micro_batch"
_REMEDIES = {
    "parameter": _SHARDS,
    "gradient": _SHARDS,
    "optimizer": _SHARDS,
    "gathered": "lora",
    "activation": f"gradient_checkpointing, {_SHORTER}",
    "layer": _SHORTER,
    "loss": f"loss_tokens, which has the loss computed in parts, {_SHORTER}",
}
"""What makes each figure smaller."""

log = logging.getLogger(__name__)


class ShardingPlan(Record):
    """Memory of the GPU that holds most. All but the first three are bytes."""

    world_size: int
    parameters: int
    trainable: int
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    gathered_bytes: int
    """Of the layers that are whole at one time: what belongs to no layer, this layer and the next one; and of their
    gradients before they are divided."""
    activation_bytes: int
    """Estimate: the inputs of all layers, without gradient checkpointing the inside of all."""
    layer_bytes: int
    """Estimate: the inside of a layer that is computed again. It and the loss are never held together."""
    loss_bytes: int
    """Estimate: logits and their gradients, in the precision and in 32 bits."""

    @property
    def total_bytes(self) -> int:
        lasting = self.parameter_bytes + self.gradient_bytes + self.optimizer_bytes
        return lasting + self.gathered_bytes + self.activation_bytes + max(self.layer_bytes, self.loss_bytes)


def plan(model: Path | Mapping[str, object], sft: SftConfig, machines: Machines) -> ShardingPlan:
    """What one of the GPUs has to hold. `model` is a folder with config.json, or its fields.

    Raises ConfigurationError for a model or targets that are not known. Not to be called where a process group is.
    """
    config = _config(model)
    inside = _inside(config, sft)
    inputs = _bytes(sft, config.num_hidden_layers * config.hidden_size)
    world = machines.gpus if sft.fsdp else 1
    built = _built(config, sft)
    with _silent_group(world) as mesh:
        _shard(built, sft.precision, mesh)
        sizes = [(name, one.numel(), one.requires_grad, _local_bytes(one)) for name, one in built.named_parameters()]
    learned = sum(size for _, _, learns, size in sizes if learns)
    return ShardingPlan(
        world_size=world,
        parameters=sum(count for _, count, _, _ in sizes),
        trainable=sum(count for _, count, learns, _ in sizes if learns),
        parameter_bytes=sum(size for *_, size in sizes),
        gradient_bytes=learned,
        optimizer_bytes=2 * learned,
        gathered_bytes=_gathered(built, sft.precision) if world > 1 else 0,
        activation_bytes=inputs if sft.gradient_checkpointing else config.num_hidden_layers * inside,
        layer_bytes=inside if sft.gradient_checkpointing else 0,
        loss_bytes=_loss(config, sft),
    )


def check(made: ShardingPlan, machines: Machines) -> None:
    """Raises ConfigurationError when the plan does not fit one GPU, with its figures and what would help."""
    room = int(machines.memory_gb * 2**30 * (1 - RESERVED))
    if made.total_bytes <= room:
        return
    parts = {name: getattr(made, f"{name}_bytes") for name in _REMEDIES}
    largest = max(parts, key=lambda name: int(parts[name]))
    told = ", ".join(f"{name} {size / 2**30:.1f}" for name, size in parts.items())
    raise ConfigurationError(
        f"it needs {made.total_bytes / 2**30:.1f} GiB on each GPU, and of {machines.memory_gb} GiB {room / 2**30:.1f} "
        f"can be used ({told}); what helps most: {_REMEDIES[largest]}"
    )


def _config(model: Path | Mapping[str, object]) -> PreTrainedConfig:
    try:
        if isinstance(model, Path):
            found = AutoConfig.from_pretrained(model, local_files_only=True, trust_remote_code=False)
        else:
            told = dict(model)
            found = AutoConfig.for_model(str(told.pop("model_type", "")), **told)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigurationError(f"model: {error}") from error
    assert isinstance(found, PreTrainedConfig)
    return found


def _built(config: PreTrainedConfig, sft: SftConfig) -> torch.nn.Module:
    """The model on `meta`: what is learned in 32 bits, what is frozen in the precision."""
    dtype = torch.float32 if sft.lora is None else DTYPES[sft.precision]
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
        assert isinstance(model, PreTrainedModel)
        return model if sft.lora is None else with_lora(model, sft.lora)


@contextmanager
def _silent_group(world_size: int) -> Iterator[DeviceMesh]:
    """A process group of that size, of which this process is rank 0 and there are no others."""
    dist.init_process_group("fake", rank=0, world_size=world_size, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (world_size,))
    finally:
        dist.destroy_process_group()


def _shard(model: torch.nn.Module, precision: str, mesh: DeviceMesh) -> None:
    policy = MixedPrecisionPolicy(param_dtype=DTYPES[precision])
    for layer in _layers(model):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def _layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    names = getattr(model, "_no_split_modules", None) or ()
    # Wrapping makes a class of its own, which has the former one below it.
    return [one for one in model.modules() if any(kind.__name__ in names for kind in type(one).__mro__)]


def _local_bytes(parameter: torch.nn.Parameter) -> int:
    assert isinstance(parameter, DTensor)
    local = parameter.to_local()
    return local.numel() * local.element_size()


def _gathered(model: torch.nn.Module, precision: str) -> int:
    """Weights in the precision; gradients of what is learned in it, and once more in 32 bits to be added up."""
    weight, gradient = DTYPES[precision].itemsize, DTYPES[precision].itemsize + _MASTER
    layers = [list(layer.parameters()) for layer in _layers(model)]
    held = {id(one) for layer in layers for one in layer}
    rest = [one for one in model.parameters() if id(one) not in held]
    largest = max(layers, key=lambda layer: sum(one.numel() for one in layer), default=[])
    weights = sum(one.numel() for one in rest) + 2 * sum(one.numel() for one in largest)
    learned = sum(one.numel() for one in (*rest, *largest) if one.requires_grad)
    return weights * weight + learned * gradient


def _bytes(sft: SftConfig, numbers: int) -> int:
    """Of so many numbers for each token."""
    return sft.micro_batch * sft.max_tokens * numbers * DTYPES[sft.precision].itemsize


def _inside(config: PreTrainedConfig, sft: SftConfig) -> int:
    """One layer, for an attention that holds no matrix of all pairs (flash, or PyTorch's own on a GPU)."""
    width = config.hidden_size
    keys = config.num_key_value_heads * (getattr(config, "head_dim", None) or width // config.num_attention_heads)
    # The two norms in 32 bits and after, queries and keys before and after they are turned, values, the inputs of the
    # projections; of the MLP the gate before and after, the other half, the product, and two gradients.
    return _bytes(sft, 11 * width + 3 * keys + 6 * config.intermediate_size)


def _loss(config: PreTrainedConfig, sft: SftConfig) -> int:
    tokens = min(sft.micro_batch * sft.max_tokens, sft.loss_tokens or sft.micro_batch * sft.max_tokens)
    vocabulary: int = config.vocab_size
    return tokens * vocabulary * 2 * (DTYPES[sft.precision].itemsize + _MASTER)


def main(arguments: Sequence[str] | None = None) -> None:
    """Plan each configuration named on the command line, a line of JSON each; stop at one that does not fit."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(prog="python -m training.sharding", description="Does a training fit its GPUs?")
    parser.add_argument("configs", type=Path, nargs="+", help="TOML files with the tables model, sft and machines")
    for file in parser.parse_args(arguments).configs:
        try:
            setup = read_setup(file)
            made = plan(setup.model, setup.sft, setup.machines)
            log.info("%s", made.model_dump_json())
            check(made, setup.machines)
        except ConfigurationError as error:
            parser.exit(2, f"{file}: {error}\n")


if __name__ == "__main__":
    main()
