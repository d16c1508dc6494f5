"""A model of this process that answers many attempts at a time: they ask as they would ask a server, and their
questions are worked on together when all of them have asked.

Attempts take a seat each (`seated`), in a thread of their own. Whoever asks or leaves last sets the others going, so
that a batch is always all attempts that are under way: what comes of a seed does not depend on the speed of threads.
The work on what a prompt has in common with what was read for the seat before is kept, which for a chat is all of it.
Where roles have weights of their own (training/roles.py), `acting` asks one of them; each role has its own batch.

Not here: training; the weights may change between two rounds of attempts, and `forget` says so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import transformers
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from pipeline.exports.account import RowRefused
from pipeline.llm.protocol import (
    ChatModel,
    Completion,
    ContextOverflow,
    Message,
    ModelUnavailable,
    PromptRefused,
    Sampling,
)
from pipeline.schemas import clean_text
from training.tokens import ChatTokenizer

_ROOM = 64
"""Places at least that a cache grows by."""


@dataclass
class _Question:
    """What a seat asks."""

    prompt: list[int]
    end: int
    sampling: Sampling
    role: str
    answer: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    cached: int = 0
    seconds: float = 0.0
    error: Exception | None = None

    @property
    def ended(self) -> bool:
        return bool(self.answer) and self.answer[-1] == self.end


@dataclass
class Counts:
    """Tokens that went through the model so far."""

    read: int = 0
    """Of prompts, without those that were kept."""
    written: int = 0


class BatchedModel:
    """A ChatModel for threads that are seated."""

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: ChatTokenizer,
        name: str,
        context: int,
        *,
        bf16: bool = False,
        use: Callable[[str], None] | None = None,
    ) -> None:
        """`context` is in tokens of prompt and answer together; with `bf16` the CPU computes in bfloat16.

        `use` makes the model act as a role before that role's questions are worked on.
        """
        self._model = model
        self._tokenizer = tokenizer
        self._name = name
        self._context = context
        self._bf16 = bf16
        self._turn = threading.Condition()
        self._seats: set[int] = set()
        self._asked: dict[int, _Question] = {}
        self._here = threading.local()
        self._use = use
        self._kept: dict[str, _Kept] = {}
        self.counts = Counts()

    @property
    def name(self) -> str:
        return self._name

    @property
    def details(self) -> Mapping[str, str]:
        """See ChatModel."""
        return {
            "template_sha256": self._tokenizer.template_sha256,
            "engine": f"transformers {transformers.__version__}, torch {torch.__version__}",
            "context": str(self._context),
        }

    def take(self, seats: Sequence[int]) -> None:
        """Seats that are taken from now on, before their threads begin: no batch is made without them."""
        with self._turn:
            assert not self._seats
            self._seats = set(seats)

    @contextmanager
    def seated(self, seat: int) -> Iterator[None]:
        """The attempt of this thread has that seat, one of those that were taken, and gives it up at the end."""
        self._here.seat = seat
        try:
            yield
        finally:
            with self._turn:
                self._seats.discard(seat)
                self._work_if_all_asked()

    def forget(self) -> None:
        """The weights are others now: nothing that was kept is of use."""
        self._kept = {}

    def acting(self, role: str) -> ChatModel:
        """The same model, asked as a role."""
        return _Acting(self, role)

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """See ChatModel. Log-probabilities are those of the model itself, before temperature; top-p is not offered.

        A seed gives the same answer to the same prompt.
        """
        return self.complete_as("", messages, sampling)

    def complete_as(self, role: str, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """The answer of a role; the empty one is the model as it is. See `complete`."""
        question = self._question(messages, sampling, role)
        with self._turn:
            self._asked[self._here.seat] = question
            self._work_if_all_asked()
            self._turn.wait_for(lambda: self._asked.get(self._here.seat) is not question)
        if question.error is not None:
            raise ModelUnavailable(f"model {self._name}: {question.error}") from question.error
        answer = tuple(question.answer)
        return Completion(
            text=clean_text(self._tokenizer.answer_of(answer)),
            finish_reason="stop" if question.ended else "length",
            model=self._name,
            prompt_tokens=len(question.prompt),
            completion_tokens=len(answer),
            cached_tokens=question.cached,
            seconds=question.seconds,
            prompt_token_ids=tuple(question.prompt) if sampling.token_details else None,
            completion_token_ids=answer if sampling.token_details else None,
            logprobs=tuple(question.logprobs) if sampling.token_details else None,
        )

    def _question(self, messages: Sequence[Message], sampling: Sampling, role: str) -> _Question:
        try:
            told = [{"role": one.role, "content": clean_text(one.content)} for one in messages]
            prompt, end = self._tokenizer.prompt(told)
        except RowRefused as error:
            raise PromptRefused(f"model {self._name}: {error}") from error
        if len(prompt) >= self._context:
            raise ContextOverflow(
                f"model {self._name}: {len(prompt)} tokens leave no room in a context of {self._context}"
            )
        return _Question(list(prompt), end, sampling, role)

    def _work_if_all_asked(self) -> None:
        """Answer everybody when nobody is missing; the lock is held."""
        if not self._asked or set(self._asked) != self._seats:
            return
        questions = dict(sorted(self._asked.items()))
        began, training = time.monotonic(), self._model.training
        self._model.eval()
        try:
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=self._bf16):
                for role in sorted({one.role for one in questions.values()}):
                    self._answer(role, {seat: one for seat, one in questions.items() if one.role == role})
        except (RuntimeError, ValueError) as error:  # told to all that wait, who raise it
            self._kept = {}
            for question in questions.values():
                question.error = error
        finally:
            self._model.train(training)
            for question in questions.values():
                question.seconds = (time.monotonic() - began) / len(questions)
            self._asked.clear()
            self._turn.notify_all()

    def _answer(self, role: str, questions: Mapping[int, _Question]) -> None:
        if self._use is not None and role:
            self._use(role)
        before = self._kept.pop(role, None)  # not to be used when something breaks
        here = before is not None and set(questions) <= set(before.seats)
        kept = before.only(list(questions)) if before is not None and here else _Kept(list(questions))
        asked = list(questions.values())
        fresh = kept.match([one.prompt for one in asked])
        for question, tokens in zip(asked, fresh, strict=True):
            question.cached = len(question.prompt) - len(tokens)
            self.counts.read += len(tokens)
        rooms = [min(one.sampling.max_tokens, self._context - len(one.prompt)) for one in asked]
        chances = [_chances(one, room) for one, room in zip(asked, rooms, strict=True)]
        for place in range(max(rooms)):
            logits = kept.read(self._model, fresh).float()
            if not torch.isfinite(logits).all():
                raise ValueError("its logits are no numbers; its weights are damaged")
            logprobs = torch.log_softmax(logits, dim=-1)
            fresh = [[] for _ in asked]
            for row, question in enumerate(asked):
                if question.ended or len(question.answer) >= rooms[row]:
                    continue
                token = _drawn(logprobs[row], question.sampling.temperature, chances[row][place])
                question.answer.append(token)
                question.logprobs.append(float(logprobs[row, token]))
                self.counts.written += 1
                if token != question.end and len(question.answer) < rooms[row]:
                    fresh[row] = [token]
            if not any(fresh):
                break
        self._kept[role] = kept


class _Acting:
    """A role of a model, as a ChatModel."""

    def __init__(self, model: BatchedModel, role: str) -> None:
        self._model = model
        self._role = role

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def details(self) -> Mapping[str, str]:
        """See ChatModel."""
        return {**self._model.details, "role": self._role}

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """See ChatModel."""
        return self._model.complete_as(self._role, messages, sampling)


class _Roomy(DynamicLayer):  # type: ignore[no-untyped-call]  # a class of transformers
    """Keys and values of one layer with room for more, so that a token more does not copy all that is there."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self._rooms: list[Tensor] = []
        self._length = 0

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """All keys and values [rows, heads, length, size], these at the end."""
        more = self._length + key_states.shape[-2]
        if not self._rooms or more > self._rooms[0].shape[-2]:
            self._rooms = [self._larger(place, given, more) for place, given in enumerate((key_states, value_states))]
        self.is_initialized = True
        for room, given in zip(self._rooms, (key_states, value_states), strict=True):
            room[:, :, self._length : more] = given
        self._length = more
        self.keys, self.values = (room[:, :, :more] for room in self._rooms)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows."""
        self._rooms = [room[indices] for room in self._rooms]
        self.keys, self.values = (room[:, :, : self._length] for room in self._rooms)

    def choose(self, places: Tensor) -> None:
        """Keep these places [rows, length] of each row, in this order."""
        chosen = places[:, None, :, None]
        for number, room in enumerate(self._rooms):
            rows, heads, _, size = room.shape
            kept = room.gather(2, chosen.expand(rows, heads, places.shape[1], size))
            self._rooms[number] = torch.cat([kept, kept.new_zeros((rows, heads, _ROOM, size))], dim=2)
        self._length = places.shape[1]
        self.keys, self.values = (room[:, :, : self._length] for room in self._rooms)

    def _larger(self, place: int, given: Tensor, least: int) -> Tensor:
        rows, heads, _, size = given.shape
        room = given.new_zeros((rows, heads, least + max(least // 2, _ROOM), size))
        if self._rooms:
            room[:, :, : self._length] = self._rooms[place][:, :, : self._length]
        return room


class _Kept:
    """What was read for each seat: rows of one cache, in which places that are of no use any more are masked."""

    def __init__(self, seats: list[int]) -> None:
        self.seats = seats
        self._cache = DynamicCache()
        self._cache.layer_class_to_replicate = _Roomy
        self._ids: list[list[int]] = [[] for _ in seats]
        self._places: list[list[int]] = [[] for _ in seats]
        """Of each token of `_ids`: its place in the cache."""
        self._mask = torch.zeros((len(seats), 0), dtype=torch.int64)
        """[rows, places]: 1 for a token of `_ids`."""

    def only(self, seats: list[int]) -> _Kept:
        """The rows of these seats."""
        rows = [self.seats.index(seat) for seat in seats]
        if len(rows) < len(self.seats):
            self._cache.batch_select_indices(torch.tensor(rows))
            self.seats = seats
            self._ids = [self._ids[row] for row in rows]
            self._places = [self._places[row] for row in rows]
        return self

    def match(self, prompts: Sequence[list[int]]) -> list[list[int]]:
        """What is still to be read of each prompt, its last token at least; what differs is forgotten."""
        fresh = []
        for row, prompt in enumerate(prompts):
            same = 0
            for known, given in zip(self._ids[row], prompt[:-1], strict=False):
                if known != given:
                    break
                same += 1
            del self._ids[row][same:], self._places[row][same:]
            fresh.append(prompt[same:])
        self._close_up()
        return fresh

    def _close_up(self) -> None:
        """Leave no places between tokens: what attention costs grows with all places."""
        length = max(map(len, self._ids))
        places = torch.zeros((len(self._ids), length), dtype=torch.int64)
        self._mask = torch.zeros_like(places)
        for row, known in enumerate(self._places):
            places[row, : len(known)] = torch.tensor(known, dtype=torch.int64)
            self._mask[row, : len(known)] = 1
            self._places[row] = list(range(len(known)))
        for layer in self._cache.layers:
            assert isinstance(layer, _Roomy)
            layer.choose(places)

    def read(self, model: torch.nn.Module, fresh: Sequence[list[int]]) -> Tensor:
        """Read these tokens; the logits [rows, vocabulary] behind the last token of each row that has one."""
        width = max(map(len, fresh))
        ids = torch.zeros((len(fresh), width), dtype=torch.int64)
        positions, mask = torch.zeros_like(ids), torch.zeros_like(ids)
        there = self._mask.shape[1]
        for row, tokens in enumerate(fresh):
            first = len(self._ids[row])
            ids[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
            positions[row, : len(tokens)] = torch.arange(first, first + len(tokens))
            self._ids[row] += tokens
            self._places[row] += range(there, there + len(tokens))
            mask[row, : len(tokens)] = 1
        self._mask = torch.cat([self._mask, mask], dim=1)
        last = torch.tensor([max(len(tokens) - 1, 0) for tokens in fresh])
        out = model(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=positions,
            cache=self._cache,
            use_cache=True,
            logits_to_keep=torch.unique(last),
        )
        at = torch.searchsorted(torch.unique(last), last)
        logits: Tensor = out.logits[torch.arange(len(fresh)), at]
        return logits


def _chances(question: _Question, room: int) -> Tensor:
    """Numbers in [0, 1) that decide the tokens of an answer, of this seed at this prompt."""
    generator = torch.Generator()
    if question.sampling.seed is None:
        generator.seed()
    else:
        generator.manual_seed(hash((question.sampling.seed, tuple(question.prompt))) % 2**63)
    return torch.rand(room, generator=generator, dtype=torch.float64)


def _drawn(logprobs: Tensor, temperature: float, chance: Tensor) -> int:
    """The token at `chance` of the cumulated probabilities; the likeliest one without temperature."""
    if temperature == 0:
        return int(logprobs.argmax())
    sums = torch.softmax(logprobs.double() / temperature, dim=-1).cumsum(dim=-1)
    return min(int(torch.searchsorted(sums, chance * sums[-1], right=True)), len(sums) - 1)
