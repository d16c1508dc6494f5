"""Conversations longer than a model's window, as several that lose nothing the model shall learn.

Each window begins with the task (all that stands before the assistant's first turn) and goes on with the latest turns
that fit. Every turn of the assistant is learned in exactly one window; in the others it is context. The first window
is learned from its beginning; each further one keeps at least half of its room for what happened just before, so that
no turn is learned without the past it came from, and a row costs about twice its tokens at most.

The task and the assistant's turns are never cut. An observation is: when the one before a window's first learned turn
does not fit, it keeps its beginning and its end. A turn that does not fit beside the task refuses the row.

Not here: reading texts into tokens (training/tokens.py), or writing them (training/data.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pipeline.exports.account import RowRefused
from training.chat_template import Message
from training.tokens import ChatTokenizer, Encoded, Memo

MOST_TOKENS = 32 * 1024 * 1024
"""Of all windows of one row: a long task that is repeated beside thousands of turns has no end otherwise."""
NOTE = "\n[{} characters of this output are left out here]\n"
SMALLEST_CUT = 64
"""Tokens that must remain of an observation that is cut; with less room it is left out."""


@dataclass(frozen=True)
class Window:
    """A part of a row that is a conversation of its own."""

    messages: tuple[Message, ...]
    targets: frozenset[int]
    """Places in `messages` that are learned."""
    turns: tuple[int, ...]
    """The same turns as places in the row."""
    cut: int
    """Observations that lost their middle."""

    def encode(self, tokenizer: ChatTokenizer, memo: Memo) -> Encoded:
        """Its tokens. Raises RowRefused."""
        return tokenizer.encode(self.messages, self.targets, memo)


def windows(messages: Sequence[Message], tokenizer: ChatTokenizer, max_tokens: int, memo: Memo) -> list[Window]:
    """The row as windows of at most `max_tokens` tokens, in order: one when it fits as it is.

    Raises RowRefused: `no_answer` without a turn of the assistant, `no_task` with nothing before the first,
    `turn_too_long`, `too_many_windows`, and what the tokenizer raises.
    """
    turns = tuple(place for place, message in enumerate(messages) if message["role"] == "assistant")
    if not turns:
        raise RowRefused("no_answer", "there is no answer of the assistant in it")
    if turns[0] == 0:
        raise RowRefused("no_task", "it begins with an answer of the assistant")
    costs = tokenizer.costs(messages, memo)
    if sum(costs.values()) <= max_tokens:
        return [Window(tuple(messages), frozenset(turns), turns, 0)]
    return list(_Splitter(messages, turns, tokenizer, max_tokens, costs, memo).windows())


class _Splitter:
    """One over-long row. `turns` are the places of the assistant's messages; a turn lasts until the next one."""

    def __init__(
        self,
        messages: Sequence[Message],
        turns: tuple[int, ...],
        tokenizer: ChatTokenizer,
        max_tokens: int,
        costs: dict[int, int],
        memo: Memo,
    ) -> None:
        self._messages, self._turns, self._tokenizer = messages, turns, tokenizer
        self._max_tokens, self._costs, self._memo = max_tokens, costs, memo
        self._task = tuple(messages[: turns[0]])
        self._until = [0, *accumulate(costs[place] for place in range(len(messages)))]

    def windows(self) -> Iterator[Window]:
        """In order. Raises RowRefused."""
        first = total = 0
        while first < len(self._turns):
            window, length = self._fitting(first)
            total += length
            if total > MOST_TOKENS:
                raise RowRefused("too_many_windows", f"its windows have more than {MOST_TOKENS} tokens together")
            yield window
            first += len(window.turns)

    def _fitting(self, first: int) -> tuple[Window, int]:
        """The window whose first learned turn is `first`, and its tokens; a template may add some in between."""
        room = self._max_tokens - self._costs[-1] - self._cost(0, self._turns[0])
        while True:
            window = self._window(first, room)
            length = self._tokenizer.length(window.messages, self._memo)
            if length <= self._max_tokens:
                return window, length
            room -= length - self._max_tokens

    def _window(self, first: int, room: int) -> Window:
        start, stop = self._turns[first], self._learned(first, room)
        before, cut = self._context(first, room - self._cost(start, stop))
        messages = (*self._task, *before, *self._messages[start:stop])
        offset = len(self._task) + len(before) - start
        learned = tuple(turn for turn in self._turns if start <= turn < stop)
        return Window(messages, frozenset(turn + offset for turn in learned), learned, cut)

    def _learned(self, first: int, room: int) -> int:
        """Where the window ends that is learned from turn `first` on. Raises RowRefused when that is too long."""
        start = self._turns[first]
        if self._costs[start] > room:
            raise RowRefused(
                "turn_too_long",
                f"message {start} has {self._costs[start]} tokens; beside the task there are {max(room, 0)} of "
                f"{self._max_tokens}",
            )
        share, stop = room // 2 if first else room, start + 1
        for turn in self._turns[first + 1 :]:
            if self._cost(start, turn + 1) > share:
                break
            stop = turn + 1
        return stop

    def _context(self, first: int, room: int) -> tuple[tuple[Message, ...], int]:
        """The latest messages before turn `first` that fit, and how many of them were cut."""
        begin = first
        free = room
        while begin and (cost := self._cost(self._turns[begin - 1], self._turns[begin])) <= free:
            free -= cost
            begin -= 1
        if begin < first or not first:
            return tuple(self._messages[self._turns[begin] : self._turns[first]]), 0
        return self._cut_turn(self._turns[first - 1], self._turns[first], room)

    def _cut_turn(self, start: int, stop: int, room: int) -> tuple[tuple[Message, ...], int]:
        """Of a turn that does not fit: what came of it, the earliest part cut, after what the assistant did, if that
        leaves half of the room. Nothing between two messages is ever left out."""
        if self._costs[start] <= room // 2:
            observed, cut, begin = self._observed(start + 1, stop, room - self._costs[start])
            if observed and begin == start + 1:
                return (self._messages[start], *observed), cut
        observed, cut, _ = self._observed(start + 1, stop, room)
        return observed, cut

    def _observed(self, start: int, stop: int, room: int) -> tuple[tuple[Message, ...], int, int]:
        """The latest of these observations that fit, the earliest cut; how many are cut; the place of the first."""
        begin = stop
        while begin > start and self._costs[begin - 1] <= room:
            begin -= 1
            room -= self._costs[begin]
        whole = tuple(self._messages[begin:stop])
        if begin > start and (shorter := self._cut(begin - 1, room)):
            return (shorter, *whole), 1, begin - 1
        return whole, 0, begin

    def _cut(self, place: int, room: int) -> Message | None:
        message = self._messages[place]
        content = message["content"]
        tokens = room - (self._costs[place] - self._tokenizer.count(content, self._memo))
        if tokens < SMALLEST_CUT:
            return None
        shorter = self._tokenizer.cut_middle(content, tokens, NOTE)
        return None if shorter is None else {"role": message["role"], "content": shorter}

    def _cost(self, start: int, stop: int) -> int:
        """Tokens of the messages from `start` to before `stop`."""
        return self._until[stop] - self._until[start]
