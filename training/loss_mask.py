"""The audit of a loss mask: how much of what is learned, by role, and a sample that a person can read.

It ships with every export of tokens. Its figures are of all rows; what is proved of each row before it gets here
(training/tokens.py) is counted, and the readable sample is of the first rows and the first over-long one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.types import Record
from training.chat_template import Message
from training.long_rows import Window
from training.tokens import ChatTokenizer, Encoded

SAMPLED_ROWS = 3
SAMPLED_WINDOWS = 3
"""Of each of these."""
SHOWN = 300
"""Characters of a run in the sample."""


class Share(Record):
    """Tokens of one role."""

    all: int
    target: int


class Audit(Record):
    """What audit.json holds."""

    tokenizer_id: str
    tokenizer_files: Mapping[str, str]
    """File -> sha256."""
    chat_template_sha256: str
    max_tokens: int
    rows: int
    rows_split: int
    windows: int
    n_tokens: int
    n_target_tokens: int
    tokens: Mapping[str, Share]
    """By role; `template` is what belongs to no message."""
    turns: int
    """Turns of the assistant in the rows written."""
    turns_proved: int
    """Turns that are learned in exactly one window and whose tokens spell the text of the row exactly."""
    empty_turns: int
    """Turns without a text: only their end is learned."""
    rows_without_text: int
    """Rows all of whose turns are empty."""
    repeated_turns: int
    """Turns that are context in a window, beside the one that learns them."""
    cut_observations: int
    texts_trimmed: int
    """Messages of the rows given without the blanks at their ends, since the chat template trims them; never an
    assistant's."""
    texts_normalised: int
    """Messages whose text the tokenizer composes otherwise; never an assistant's that is learned. As often as they
    stand in a window, as are those of the next figure."""
    texts_spelling_control_tokens: int
    """Messages that spell one: they stay the letters they are, while a server would read a control token."""


@dataclass
class AuditCount:
    """Counts up while rows are written."""

    tokenizer: ChatTokenizer
    max_tokens: int
    _of: Counter[str] = field(default_factory=Counter)
    _all: Counter[str] = field(default_factory=Counter)
    _target: Counter[str] = field(default_factory=Counter)
    _sample: list[str] = field(default_factory=list)
    _split_shown: bool = False

    def row(
        self, trajectory_id: str, messages: Sequence[Message], made: Sequence[tuple[Window, Encoded]], trimmed: int
    ) -> None:
        """Take a row with all its windows, and how many of its messages are trimmed."""
        for number, (window, encoded) in enumerate(made):
            if self._shows(number, len(made)):
                self._sample.append(self._shown(f"{trajectory_id}, window {number + 1} of {len(made)}", encoded))
            self._window(window, encoded)
        self._split_shown = self._split_shown or len(made) > 1
        places = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        learned = [turn for window, _ in made for turn in window.turns]
        empty = sum(not messages[place]["content"] for place in places)
        self._of["rows"] += 1
        self._of["rows_split"] += len(made) > 1
        self._of["turns"] += len(places)
        self._of["turns_proved"] += len(places) if learned == places else 0
        self._of["texts_trimmed"] += trimmed
        self._of["empty_turns"] += empty
        self._of["rows_without_text"] += empty == len(places)

    def _window(self, window: Window, encoded: Encoded) -> None:
        for run in encoded.runs:
            self._all[run.role] += len(run.ids)
            self._target[run.role] += len(run.ids) if run.target else 0
        turns = sum(message["role"] == "assistant" for message in window.messages)
        self._of["windows"] += 1
        self._of["repeated_turns"] += turns - len(window.turns)
        self._of["cut_observations"] += window.cut
        self._of["texts_normalised"] += encoded.rewritten
        self._of["texts_spelling_control_tokens"] += encoded.spelled

    def audit(self) -> Audit:
        """The figures so far."""
        roles = {role: Share(all=self._all[role], target=self._target[role]) for role in sorted(self._all)}
        names = [name for name, kind in Audit.model_fields.items() if kind.annotation is int and name != "max_tokens"]
        counts = {name: self._of[name] for name in names if name not in ("n_tokens", "n_target_tokens")}
        return Audit(
            tokenizer_id=self.tokenizer.tokenizer_id,
            tokenizer_files=self.tokenizer.files,
            chat_template_sha256=self.tokenizer.template_sha256,
            max_tokens=self.max_tokens,
            tokens=roles,
            n_tokens=self._all.total(),
            n_target_tokens=self._target.total(),
            **counts,
        )

    def sample(self) -> str:
        """The readable sample: each run of tokens with its role and whether it is learned."""
        return "\n\n".join(self._sample) + "\n"

    def _shows(self, number: int, of: int) -> bool:
        first_split = of > 1 and not self._split_shown
        return number < SAMPLED_WINDOWS and (first_split or self._of["rows"] < SAMPLED_ROWS)

    def _shown(self, title: str, encoded: Encoded) -> str:
        lines = [f"== {title}: {encoded.n_tokens} tokens, {encoded.n_target_tokens} of them learned"]
        for run in encoded.runs:
            text = self.tokenizer.text_of(run.ids)
            if len(text) > SHOWN:
                half = SHOWN // 2
                text = f"{text[:half]} [{len(text) - 2 * half} characters] {text[-half:]}"
            word = "LEARNED" if run.target else "given"
            lines.append(f"{word:8}{run.role:10}{len(run.ids):7}  {_printable(text)}")
        return "\n".join(lines)


def _printable(text: str) -> str:
    """One line that shows each line end and can do nothing to a terminal."""
    return "".join(c if c.isprintable() else "⏎" if c == "\n" else f"\\u{{{ord(c):x}}}" for c in text)
