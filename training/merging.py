"""An adapter made part of its base weights: what servers load that take no adapters, and what others can go on from.

What was written is loaded again and must say what base and adapter said together, or nothing is left of it.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import torch
import transformers
from peft import PeftModel

from pipeline.errors import PipelineError
from pipeline.exports.folders import new_folder
from training.backbone import load
from training.tokens import ChatTokenizer

log = logging.getLogger(__name__)

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
)
"""What the tokenizers of causal models are read from, as far as a folder has it."""
_ASKED = [{"role": "user", "content": "List the files of this folder, the largest first."}]
_TOLERANCE = 1e-3
"""Largest difference of two logits that is due to the order of additions, in standard deviations of all logits of
their place. What rounding to fewer bits does is no part of it, and is told in the log."""


class MergeDamaged(PipelineError):
    """The merged weights say something else than base and adapter together, or were written as something else."""


def merge(base: Path, adapter: Path, folder: Path, tokenizer: Path | None = None) -> None:
    """Write base weights with the adapter in them, and the tokenizer, into a new folder; all or nothing.

    The weights keep their type and are added up in 32 bits, which takes memory. The tokenizer is that of the base where
    no other folder is named. Raises ConfigurationError for folders that hold something else and when `folder` is there
    and not empty, MergeDamaged.
    """
    source = tokenizer or base
    ids, _ = ChatTokenizer(source).prompt(_ASKED)
    given = torch.tensor([ids.tolist()])
    with new_folder(folder) as part:
        dtype = transformers.AutoConfig.from_pretrained(base, local_files_only=True).dtype or torch.float32
        model = load(base, adapter=adapter).eval()
        assert isinstance(model, PeftModel)
        expected = _logits(model, given)
        # Safe: weights that stop being numbers are an error and no file.
        merged = model.merge_and_unload(safe_merge=True)
        difference = _difference(_logits(merged, given), expected)
        if not difference <= _TOLERANCE:
            raise MergeDamaged(
                f"{adapter} merged into {base} says something else than the two: logits differ by {difference:.3g} "
                "standard deviations"
            )
        merged.to(dtype).save_pretrained(part)
        for name in TOKENIZER_FILES:
            if (source / name).is_file():
                shutil.copyfile(source / name, part / name)
        written = load(part).eval()
        _check_written(written, merged)
        difference = _difference(_logits(written, given), expected)
    log.info("%s: %s moved the logits by %.2g standard deviations at most", folder, dtype, difference)


def _check_written(written: torch.nn.Module, merged: torch.nn.Module) -> None:
    due = dict(merged.named_parameters())
    for name, value in written.named_parameters():
        if name not in due or not torch.equal(value, due.pop(name).float()):
            raise MergeDamaged(f"{name} was not written as it was merged")
    if due:
        raise MergeDamaged(f"{min(due)} was not written")


def _logits(model: torch.nn.Module, given: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=given).logits[0].float()
    return logits


def _difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest one of any place, in standard deviations of what was expected there."""
    return float(((found - expected).abs().amax(dim=-1) / expected.std(dim=-1)).max())
