"""A model of this process as a ChatModel: base weights, with or without an adapter, asked the way a server is.

For tiny models in tests, for machines with a GPU and no server, and for methods that act while they train. One question
is worked on at a time and no work is kept from one to the next, so that a seed repeats its text; where many ask at once
a server is faster (infra/serve.sh).

The prompt is made as training makes it (training/tokens.py): nothing in a message can become a control token. Servers
read such a message otherwise, and every other one alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from pipeline.exports.account import RowRefused
from pipeline.llm.protocol import Completion, ContextOverflow, Message, ModelUnavailable, PromptRefused, Sampling
from pipeline.schemas import clean_text
from training.backbone import load
from training.tokens import ChatTokenizer
from training.weight_files import weights_sha256


@dataclass(frozen=True)
class _Answer:
    """Tokens that were drawn, the one that ends the turn included, and how likely each was."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    ended: bool
    """Whether the model ended its turn."""


class TransformersModel:
    """A ChatModel over a causal language model that is loaded already."""

    def __init__(
        self, model: torch.nn.Module, tokenizer: ChatTokenizer, name: str, context: int, facts: Mapping[str, str]
    ) -> None:
        """`context` is in tokens of prompt and answer together; `facts` tell these weights from others.

        The weights may change between answers; `facts` then have to be of a model of another name.
        """
        self._model = model
        self._tokenizer = tokenizer
        self._name = name
        self._context = context
        self._facts = dict(facts)
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._name

    @property
    def details(self) -> Mapping[str, str]:
        """See ChatModel."""
        return {
            **self._facts,
            "template_sha256": self._tokenizer.template_sha256,
            "engine": f"transformers {transformers.__version__}, torch {torch.__version__}",
            "context": str(self._context),
        }

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """See ChatModel. An answer that fills the context is cut there; `answer_schema` is passed over.

        Log-probabilities are those of the model itself, before temperature and top-p, as servers give them.
        """
        with self._lock:
            began = time.monotonic()
            prompt, end = self._prompt(messages)
            answer = self._generate(prompt, end, sampling)
            seconds = time.monotonic() - began
        return Completion(
            text=clean_text(self._tokenizer.answer_of(answer.ids)),
            finish_reason="stop" if answer.ended else "length",
            model=self._name,
            prompt_tokens=len(prompt),
            completion_tokens=len(answer.ids),
            cached_tokens=0,
            seconds=seconds,
            prompt_token_ids=prompt if sampling.token_details else None,
            completion_token_ids=answer.ids if sampling.token_details else None,
            logprobs=answer.logprobs if sampling.token_details else None,
        )

    def _prompt(self, messages: Sequence[Message]) -> tuple[tuple[int, ...], int]:
        try:
            prompt, end = self._tokenizer.prompt(
                [{"role": one.role, "content": clean_text(one.content)} for one in messages]
            )
        except RowRefused as error:
            raise PromptRefused(f"model {self._name}: {error}") from error
        if len(prompt) >= self._context:
            raise ContextOverflow(
                f"model {self._name}: {len(prompt)} tokens leave no room in a context of {self._context}"
            )
        return tuple(prompt), end

    def _generate(self, prompt: Sequence[int], end: int, sampling: Sampling) -> _Answer:
        training = self._model.training
        # Not in inference mode: what a model keeps of its first call must be of use to training.
        self._model.eval()
        try:
            with torch.no_grad():
                return self._tokens(prompt, end, sampling)
        except torch.OutOfMemoryError as error:
            raise ModelUnavailable(f"model {self._name}: {error}") from error
        finally:
            self._model.train(training)

    def _tokens(self, prompt: Sequence[int], end: int, sampling: Sampling) -> _Answer:
        device = next(self._model.parameters()).device
        generator = torch.Generator()
        if sampling.seed is None:
            generator.seed()
        else:
            generator.manual_seed(sampling.seed)
        ids: list[int] = []
        logprobs: list[float] = []
        fresh, past = list(prompt), None
        for _ in range(min(sampling.max_tokens, self._context - len(prompt))):
            given = torch.tensor([fresh], device=device)
            out = self._model(input_ids=given, cache=past, use_cache=True, logits_to_keep=1)
            past = out.cache
            logits = out.logits[0, -1].float().cpu()
            if not torch.isfinite(logits).all():
                raise ModelUnavailable(f"model {self._name}: its logits are no numbers; its weights are damaged")
            fresh = [draw(logits, sampling, generator)]
            ids += fresh
            logprobs.append(torch.log_softmax(logits, dim=-1)[fresh[0]].item())
            if fresh[0] == end:
                return _Answer(tuple(ids), tuple(logprobs), ended=True)
        return _Answer(tuple(ids), tuple(logprobs), ended=False)


def draw(logits: torch.Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """The next token from the logits [vocabulary] of one place, on the CPU."""
    if sampling.temperature == 0:
        return int(logits.argmax())
    likely, tokens = torch.softmax(logits.double() / sampling.temperature, dim=-1).sort(descending=True)
    if sampling.top_p < 1:
        # The likeliest tokens that together reach top_p, the one that reaches it included.
        likely = torch.where(likely.cumsum(dim=-1) - likely < sampling.top_p, likely, 0.0)
    return int(tokens[torch.multinomial(likely, 1, generator=generator)])


def open_model(
    name: str, base: Path, adapter: Path | None = None, tokenizer: Path | None = None, device: str = "cpu"
) -> TransformersModel:
    """The model in folders that transformers and peft wrote; `tokenizer` where its files are not beside the weights.

    Computes in 32 bits on the CPU and in bfloat16 elsewhere. Raises ConfigurationError.
    """
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    reader = ChatTokenizer(tokenizer or base)
    loaded = load(base, dtype, adapter).eval().to(device)
    facts = {"weights": base.name, "weights_sha256": weights_sha256(base), "dtype": str(dtype).removeprefix("torch.")}
    if adapter is not None:
        facts |= {"adapter": adapter.name, "adapter_sha256": weights_sha256(adapter)}
    context = transformers.AutoConfig.from_pretrained(base, local_files_only=True).max_position_embeddings
    return TransformersModel(loaded, reader, name, int(context), facts)
