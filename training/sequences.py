"""What policies learn from: tokens with the turns of the policy in them, and batches of them.

A conversation that only grows is one sequence with a turn for each answer; a question that stands alone is a sequence
with one turn. Not here: what a turn was worth (the methods).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from training.tokens import ChatTokenizer, Memo

NO_TURN = -1
"""In Batch.turns: a token that is given."""


@dataclass(frozen=True)
class TokenSequence:
    """Ids, and where the turns are, from `start` (the first token that the policy wrote) to before `stop`."""

    ids: array[int]
    turns: tuple[tuple[int, int], ...]

    @property
    def n_written(self) -> int:
        """Tokens in turns."""
        return sum(stop - start for start, stop in self.turns)


@dataclass(frozen=True)
class Batch:
    """Sequences side by side, filled up on the right."""

    ids: Tensor
    """[B, T] int64; 0 where there is nothing."""
    mask: Tensor
    """[B, T] int64: 1 for a token."""
    turns: Tensor
    """[B, T] int64: number of the turn of a token, NO_TURN where it is given."""
    states: Tensor
    """[B, N] int64: place of the last token before each turn, whose hidden state stands for all before the turn; 0 for
    turns that are not there."""
    lengths: Tensor
    """[B] int64: turns."""

    @property
    def n_turns(self) -> int:
        """N."""
        return int(self.states.shape[1])


def batch_of(sequences: Sequence[TokenSequence]) -> Batch:
    """One batch. Raises ValueError for none."""
    longest = max(len(one.ids) for one in sequences)
    most = max(1, *(len(one.turns) for one in sequences))
    shape = (len(sequences), longest)
    ids = torch.zeros(shape, dtype=torch.int64)
    mask = torch.zeros(shape, dtype=torch.int64)
    turns = torch.full(shape, NO_TURN, dtype=torch.int64)
    states = torch.zeros((len(sequences), most), dtype=torch.int64)
    for row, one in enumerate(sequences):
        ids[row, : len(one.ids)] = torch.tensor(one.ids, dtype=torch.int64)
        mask[row, : len(one.ids)] = 1
        for number, (start, stop) in enumerate(one.turns):
            turns[row, start:stop] = number
            states[row, number] = start - 1
    lengths = torch.tensor([len(one.turns) for one in sequences])
    return Batch(ids, mask, turns, states, lengths)


def of_chat(messages: Sequence[dict[str, str]], tokenizer: ChatTokenizer, memo: Memo | None = None) -> TokenSequence:
    """A chat in which every turn of the assistant is learned. Raises RowRefused as ChatTokenizer.encode does."""
    targets = frozenset(number for number, one in enumerate(messages) if one["role"] == "assistant")
    ids: array[int] = array("i")
    turns = []
    for run in tokenizer.encode(messages, targets, {} if memo is None else memo).runs:
        if run.target:
            turns.append((len(ids), len(ids) + len(run.ids)))
        ids.extend(run.ids)
    if turns:  # what the template writes behind the last turn is never asked for
        del ids[turns[-1][1] :]
    return TokenSequence(ids, tuple(turns))


def of_calls(calls: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Iterator[tuple[TokenSequence, tuple[int, ...]]]:
    """Sequences of (prompt, answer) pairs with the numbers of the calls in each.

    Calls are in one sequence as long as each prompt begins with all that was there before: then the tokens are exactly
    those that the policy read and wrote, and each is computed once.
    """
    ids: array[int] = array("i")
    turns: list[tuple[int, int]] = []
    numbers: list[int] = []
    for number, (prompt, answer) in enumerate(calls):
        given = array("i", prompt)
        if turns and given[: len(ids)] != ids:
            yield TokenSequence(ids, tuple(turns)), tuple(numbers)
            turns, numbers = [], []
        ids = given
        turns.append((len(ids), len(ids) + len(answer)))
        ids.extend(answer)
        numbers.append(number)
    if turns:
        yield TokenSequence(ids, tuple(turns)), tuple(numbers)
