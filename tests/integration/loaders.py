"""Loads an export with a trainer's own loader: `python loaders.py LOADER FOLDER`, in the environment of that trainer.

Prints one line of JSON: for each row the hash of the conversation that the trainer sees, and how many of its tokens are
trained on. The tokenizer gives each byte a token of its own, so nothing has to be downloaded. Nothing of ours is
imported.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import json
import sys
import types
from pathlib import Path
from typing import Any

UNLIMITED = 1 << 24
"""Tokens; the longest conversation has fewer."""


def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    made.chat_template = (
        "{% for one in messages %}{{ '<|im_start|>' + one['role'] + '\\n' }}{% if one['role'] == 'assistant' %}"
        "{% generation %}{{ one['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}"
        "{{ one['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    )
    return made


def hashed(messages: Any) -> str:
    told = [[one["role"], one["content"]] for one in messages]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def llamafactory(folder: Path) -> list[tuple[str, int]]:
    """Its converter, then its preprocessing for SFT with Qwen's template."""
    # It is imported for recordings of sounds only, and exists for few builds of torch.
    sounds = types.ModuleType("torchaudio")
    sounds.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
    sys.modules["torchaudio"] = sounds
    from llamafactory.data.loader import _get_merged_dataset, _get_preprocessed_dataset
    from llamafactory.data.template import get_template_and_fix_tokenizer
    from llamafactory.hparams import DataArguments, ModelArguments
    from transformers import Seq2SeqTrainingArguments

    names = list(json.loads((folder / "dataset_info.json").read_text()))
    data = DataArguments(
        dataset=",".join(names), dataset_dir=str(folder), template="qwen", cutoff_len=UNLIMITED, overwrite_cache=True
    )
    model = ModelArguments(model_name_or_path="none", cache_dir=str(folder.parent / "cache"))
    training = Seq2SeqTrainingArguments(output_dir=str(folder.parent / "out"), report_to=[], log_level="error")
    training.log_on_each_node = False
    rows = _get_merged_dataset(names, model, data, training, "sft")
    mine = tokenizer()
    template = get_template_and_fix_tokenizer(mine, data)
    done = _get_preprocessed_dataset(rows, data, training, "sft", template, mine)
    roles = {"observation": "tool"}
    seen = []
    for row in rows:
        told = [{**one, "role": roles.get(one["role"], one["role"])} for one in [*row["_prompt"], *row["_response"]]]
        system = [{"role": "system", "content": row["_system"]}] if row["_system"] else []
        seen.append(hashed([*system, *told]))
    # It drops rows here, too: then the lengths differ.
    return list(zip(seen, [sum(one != -100 for one in row["labels"]) for row in done], strict=True))


def verl_sft(folder: Path) -> list[tuple[str, int]]:
    """Its data set for conversations, which compares its tokens with those of the whole conversation."""
    from omegaconf import OmegaConf
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    settings = OmegaConf.create({"max_length": UNLIMITED, "truncation": "error", "pad_mode": "no_padding"})
    found = MultiTurnSFTDataset([str(folder / "train.parquet")], tokenizer(), settings)
    return [(hashed(found.messages[at]), int(found[at]["loss_mask"].sum())) for at in range(len(found))]


def verl_rl(folder: Path) -> list[tuple[str, int]]:
    """Its data set of prompts; no token is trained on, so the number is that of the characters to judge by."""
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset

    settings = {"max_prompt_length": UNLIMITED, "filter_overlong_prompts": True, "filter_overlong_prompts_workers": 1}
    settings |= {"cache_dir": str(folder.parent / "cache"), "truncation": "error"}
    found = RLHFDataset([str(folder / "train.parquet")], tokenizer(), OmegaConf.create(settings))
    rows = [found[at] for at in range(len(found))]
    assert [row["index"] for row in rows] == list(range(len(rows)))
    return [(hashed(row["raw_prompt"]), len(row["reward_model"]["ground_truth"])) for row in rows]


def skyrl(folder: Path) -> list[tuple[str, int]]:
    """What SkyRL asks of a Parquet file, in place of its own loader, which needs Python 3.12."""
    from datasets import load_dataset

    rows = list(load_dataset("parquet", data_files=str(folder / "train.parquet"), keep_in_memory=True)["train"])
    assert all(row.pop("env_class") == "touchstone" for row in rows)
    mine = tokenizer()
    assert all(mine.apply_chat_template(row["prompt"], add_generation_prompt=True) for row in rows)
    return [(hashed(row["prompt"]), len(row["reward_spec"]["ground_truth"])) for row in rows]


def trl(folder: Path) -> list[tuple[str, int]]:
    """SFTTrainer's own preparation, with the loss on the assistant only."""
    from datasets import load_dataset
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    sizes = {"vocab_size": 300, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=1))
    settings = SFTConfig(
        str(folder.parent / "out"), max_length=None, report_to=[], use_cpu=True, bf16=False, assistant_only_loss=True
    )
    rows = load_dataset(str(folder), split="train")
    done = SFTTrainer(model, settings, train_dataset=rows, processing_class=tokenizer()).train_dataset
    return [(hashed(row["messages"]), sum(one != -100 for one in row["labels"])) for row in done]


if __name__ == "__main__":
    loaders = {one.__name__: one for one in (llamafactory, verl_sft, verl_rl, skyrl, trl)}
    print("\n" + json.dumps(loaders[sys.argv[1]](Path(sys.argv[2]))))
