"""From a conversation to the ids a model sees, with the tokens it shall learn marked.

Only what the chat template writes can be a control token: contents are read by a tokenizer that knows none, so an
observation that spells `<|im_end|>` stays text. An assistant's text is read by itself, from where the model begins to
write, and it is learned with the control token that ends its turn; the head of the turn is given, not learned. A space
that the model writes before its text is learned where the tokenizer takes it for no text, as SentencePiece does.

Every conversation is proved before it leaves: its ids are those of its whole text read at once, and what is learned
spells the assistant's texts exactly. What cannot be proved is refused with a reason.

Not here: which messages make a conversation of bounded length (training/long_rows.py).
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.exports.account import RowRefused
from pipeline.token_counts import load_tokenizer, read_tokenizer, without_control_tokens
from training.chat_template import Message, Shape, read_template

IGNORED = -100
"""Label of a token that is given, as the losses of PyTorch know it."""
LONGEST_TEXT = 2 * 1024 * 1024
"""Characters of one message, and of those read together: while a text is read, a character takes up to 350 bytes."""
_CHARACTERS_A_TOKEN = 8
"""Of a text that is cut, no more than this is looked at for each token that may remain."""
TEMPLATE = "template"
"""Role of what belongs to no message: a system prompt the template adds, what follows the last turn."""
FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""What decides the ids."""

Memo = MutableMapping[str, "array[int]"]
"""Texts of one row that were read already."""


@dataclass(frozen=True)
class Run:
    """Tokens that belong together: of one message, given or learned."""

    role: str
    message: int
    """Place of the message; -1 for the template's own."""
    target: bool
    ids: array[int]


@dataclass(frozen=True)
class Encoded:
    """A conversation in tokens."""

    runs: tuple[Run, ...]
    rewritten: int
    """Messages whose text the tokenizer normalises (composed accents …); never one that is learned."""
    spelled: int
    """Messages that spell a control token."""

    @property
    def n_tokens(self) -> int:
        return sum(len(run.ids) for run in self.runs)

    @property
    def n_target_tokens(self) -> int:
        return sum(len(run.ids) for run in self.runs if run.target)

    def input_ids(self) -> array[int]:
        ids = array("i")
        for run in self.runs:
            ids.extend(run.ids)
        return ids

    def labels(self) -> array[int]:
        labels = array("i")
        for run in self.runs:
            labels.extend(run.ids if run.target else array("i", [IGNORED]) * len(run.ids))
        return labels


@dataclass(frozen=True)
class _Span:
    """A run before it is read: texts, and control tokens of the template as their ids."""

    role: str
    message: int
    target: bool
    parts: tuple[str | int, ...]


class ChatTokenizer:
    """The tokenizer and the chat template of one folder."""

    def __init__(self, folder: Path) -> None:
        """Raises ConfigurationError when the folder has no tokenizer.json or no chat template that can be read."""
        file = folder / "tokenizer.json"
        content = read_tokenizer(file)
        self.template = read_template(folder)
        self.files = {name: _sha256(folder / name) for name in FILES if (folder / name).is_file()}
        self.template_sha256 = hashlib.sha256(self.template.source.encode()).hexdigest()
        self._whole = load_tokenizer(content.decode("utf-8", "replace"), file)
        self._texts = without_control_tokens(content, file)
        added = self._whole.get_added_tokens_decoder()
        self._control = {token.content: number for number, token in added.items()}
        self._numbers = frozenset(self._control.values())
        if not self._control:
            raise ConfigurationError(f"tokenizer: {file} has no control tokens, so turns cannot be told from texts")
        longest_first = sorted(self._control, key=len, reverse=True)
        self._split = re.compile(f"({'|'.join(map(re.escape, longest_first))})")
        self.tokenizer_id = f"{folder.resolve().name}@{self._digest()[:12]}"

    def _digest(self) -> str:
        return hashlib.sha256(f"{self.files['tokenizer.json']} {self.template_sha256}".encode()).hexdigest()

    def length(self, messages: Sequence[Message], memo: Memo) -> int:
        """Tokens of the conversation. Raises RowRefused as `encode` does, save for what only its proofs find."""
        shape = self.template.around(tuple(message["role"] for message in messages))
        spans = self._spans(messages, shape, frozenset())
        return sum(len(run.ids) for run in self._read(spans, memo))

    def costs(self, messages: Sequence[Message], memo: Memo) -> dict[int, int]:
        """Tokens by message, its head and end included; -1 is the template's own part."""
        costs = dict.fromkeys(range(-1, len(messages)), 0)
        shape = self.template.around(tuple(message["role"] for message in messages))
        for run in self._read(self._spans(messages, shape, frozenset()), memo):
            costs[run.message] += len(run.ids)
        return costs

    def encode(self, messages: Sequence[Message], targets: frozenset[int], memo: Memo) -> Encoded:
        """The conversation with the turns at `targets` to be learned.

        Raises RowRefused (`template_refuses`, `template_rewrites`, `no_end_of_turn`, `tokenizer_rewrites`,
        `misaligned`, `forged_control`, `text_too_long`).
        """
        shape, whole = self.template.pieces(messages)
        runs = self._read(self._spans(messages, shape, targets), memo)
        spelled = sum(1 for message in messages if self._split.search(message["content"]))
        self._prove_whole(runs, messages, shape, whole, spelled > 0)
        self._prove_targets(runs, messages)
        return Encoded(tuple(runs), self._rewritten(messages), spelled)

    def prompt(self, messages: Sequence[Message]) -> tuple[array[int], int]:
        """The ids up to where the model begins to write its turn, and the control token that ends that turn.

        Raises RowRefused as `encode` does, save for what only its proofs find.
        """
        turn = len(messages)
        asked = [*messages, {"role": "assistant", "content": ""}]
        shape = self.template.around(tuple(message["role"] for message in asked))
        ids = array("i")
        for run in self._read(self._spans(asked, shape, frozenset({turn})), {}):
            if run.target:
                return ids, run.ids[0]
            ids.extend(run.ids)
        raise AssertionError("an answer has at least the token that ends it")

    def cut_middle(self, text: str, tokens: int, note: str) -> str | None:
        """`text` with `note` in place of its middle, at most `tokens` tokens long; None when nothing would remain.

        A {} in the note becomes the number of characters left out.
        """
        half = min(_CHARACTERS_A_TOKEN * max(tokens, 0), len(text) // 2)
        heads = [end for _, end in self._texts.encode(text[:half], add_special_tokens=False).offsets]
        tails = [start for start, _ in self._texts.encode(text[len(text) - half :], add_special_tokens=False).offsets]
        kept = tokens - self._count(note.format(len(text)))
        while kept > 1:
            head = heads[min((kept + 1) // 2, len(heads)) - 1]
            tail = len(text) - half + tails[max(len(tails) - kept // 2, 0)]
            shorter = text[:head] + note.format(tail - head) + text[tail:]
            excess = self._count(shorter) - tokens
            if excess <= 0:
                return shorter
            kept -= excess
        return None

    def _count(self, text: str) -> int:
        return len(self._texts.encode_batch_fast([text], add_special_tokens=False)[0])

    def count(self, text: str, memo: Memo) -> int:
        """Tokens of one text by itself."""
        self._fill([text], memo)
        return len(memo[text])

    def text_of(self, ids: Sequence[int]) -> str:
        """What the ids spell, control tokens included."""
        return str(self._whole.decode(list(ids), skip_special_tokens=False))

    def answer_of(self, ids: Sequence[int]) -> str:
        """What the ids of an answer spell, without control tokens."""
        return str(self._whole.decode(list(ids), skip_special_tokens=True))

    def _spans(self, messages: Sequence[Message], shape: Shape, targets: frozenset[int]) -> Iterator[_Span]:
        """The conversation cut where one message ends and the next begins, and where the model begins to write."""
        opening: list[str | int] = self._parts(shape.pieces[0])
        heads = [place for place, part in enumerate(opening) if isinstance(part, int)]
        start = heads[-1] if heads else 0
        yield _Span(TEMPLATE, -1, False, tuple(opening[:start]))
        opening = opening[start:]
        for place, message in enumerate(messages):
            role, content = message["role"], message["content"]
            closing = self._parts(shape.pieces[place + 1])
            end = next((at for at, part in enumerate(closing) if isinstance(part, int)), None)
            if role == "assistant":
                if end != 0:
                    raise RowRefused("no_end_of_turn", "the chat template ends a turn of the assistant with no token")
                yield _Span(role, place, False, _joined(_without(opening, shape.lead)))
                yield _Span(role, place, place in targets, (shape.lead + content, closing[0]))
            elif end is None:  # one turn with the next message, and one text where it is read
                opening = [*opening, content, *closing]
                continue
            else:
                yield _Span(role, place, False, _joined([*opening, content, *closing[: end + 1]]))
            opening = closing[end + 1 :]
        yield _Span(TEMPLATE, -1, False, _joined(opening))

    def _parts(self, text: str) -> list[str | int]:
        """Text of the template: between its control tokens, and these as ids."""
        return [self._control.get(part, part) for part in self._split.split(text) if part]

    def _read(self, spans: Iterator[_Span], memo: Memo) -> list[Run]:
        listed = list(spans)
        self._fill([part for span in listed for part in span.parts if isinstance(part, str)], memo)
        runs = []
        for span in listed:
            ids = array("i")
            for part in span.parts:
                ids.extend(memo[part] if isinstance(part, str) else (part,))
            if ids:
                runs.append(Run(span.role, span.message, span.target, ids))
        return runs

    def _fill(self, texts: Sequence[str], memo: Memo) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in memo]
        if (longest := max(map(len, new), default=0)) > LONGEST_TEXT:
            raise RowRefused("text_too_long", f"a message has {longest} characters; {LONGEST_TEXT} are read")
        while new:
            sizes = accumulate(len(text) for text in new)
            together = max(1, sum(size <= LONGEST_TEXT for size in sizes))
            batch, new = new[:together], new[together:]
            for text, read in zip(batch, self._texts.encode_batch_fast(batch, add_special_tokens=False), strict=True):
                ids = read.ids
                if not self._numbers.isdisjoint(ids):  # a vocabulary that has control tokens among its words
                    raise RowRefused("forged_control", "a text becomes a control token in spite of everything")
                memo[text] = array("i", ids)

    def _prove_whole(
        self, runs: Sequence[Run], messages: Sequence[Message], shape: Shape, whole: str, spelled: bool
    ) -> None:
        """The ids are those of the text read at once, or, where a turn begins, read from there on."""
        if spelled:
            return  # read at once it would forge turns: the very thing that must not happen
        ids = array("i")
        for run in runs:
            ids.extend(run.ids)
        if ids == self._ids([whole]) or ids == self._ids(_from_turns(messages, shape)):
            return
        raise RowRefused("misaligned", "the tokens of its parts are not those of the whole text")

    def _ids(self, texts: list[str]) -> array[int]:
        ids = array("i")
        for read in self._whole.encode_batch_fast(texts, add_special_tokens=False):
            ids.extend(read.ids)
        return ids

    def _prove_targets(self, runs: Sequence[Run], messages: Sequence[Message]) -> None:
        learned = [run for run in runs if run.target]
        texts = self._whole.decode_batch([list(run.ids[:-1]) for run in learned], skip_special_tokens=False)
        for run, text in zip(learned, texts, strict=True):
            if text != messages[run.message]["content"]:
                raise RowRefused(
                    "tokenizer_rewrites", f"the tokens of message {run.message} spell another text than the assistant's"
                )

    def _rewritten(self, messages: Sequence[Message]) -> int:
        normaliser = self._texts.normalizer
        if normaliser is None:
            return 0
        return sum(
            1
            for message in messages
            if not message["content"].isascii() and normaliser.normalize_str(message["content"]) != message["content"]
        )


def _joined(parts: Sequence[str | int]) -> tuple[str | int, ...]:
    """Neighbouring texts as one: they are read together."""
    joined: list[str | int] = []
    for part in parts:
        last = joined[-1] if joined else 0
        if isinstance(part, str) and isinstance(last, str):
            joined[-1] = last + part
        else:
            joined.append(part)
    return tuple(joined)


def _without(parts: Sequence[str | int], lead: str) -> list[str | int]:
    """The head of a turn without the spaces that the model writes itself."""
    if not lead or not parts or isinstance(parts[-1], int):
        return list(parts)
    rest = parts[-1].removesuffix(lead)
    return [*parts[:-1], rest] if rest else list(parts[:-1])


def _from_turns(messages: Sequence[Message], shape: Shape) -> list[str]:
    """The whole text, cut where the assistant begins to write."""
    texts = [""]
    for piece, message in zip(shape.pieces, messages, strict=False):
        if message["role"] == "assistant":
            texts[-1] += piece.removesuffix(shape.lead)
            texts.append(shape.lead)
        else:
            texts[-1] += piece
        texts[-1] += message["content"]
    texts[-1] += shape.pieces[-1]
    return texts


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
