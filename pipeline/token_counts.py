"""How many tokens a text has, by a tokenizer.json that someone gave; without one there is no count, never a guess.

The tokenizer is loaded at the first count. What a chat template adds is not counted here (training/tokens.py builds
the sequences a model sees), and control tokens written in a text count as the letters they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

INSTALL = "install the package `tokenizers`"


class TokenCounter:
    """Counts with one tokenizer, named by its folder and its hash."""

    def __init__(self, file: Path) -> None:
        """`file` is a tokenizer.json or the folder it is in. Raises ConfigurationError when it cannot be read."""
        self.file = file / "tokenizer.json" if file.is_dir() else file
        self._content = read_tokenizer(self.file)
        self.sha256 = hashlib.sha256(self._content).hexdigest()

    @property
    def tokenizer_id(self) -> str:
        """What stands on rows beside a count: other files under the same name are another tokenizer."""
        return f"{self.file.resolve().parent.name}@{self.sha256[:12]}"

    def count(self, text: str) -> int:
        """Tokens of one text. Raises ConfigurationError when the file is no tokenizer."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def count_messages(self, messages: Iterable[Mapping[str, str]]) -> int:
        """Tokens of the contents of all messages, without what a chat template puts around them."""
        contents = [message["content"] for message in messages]
        return sum(map(len, self._tokenizer.encode_batch_fast(contents, add_special_tokens=False)))

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return without_control_tokens(self._content, self.file)


def read_tokenizer(file: Path) -> bytes:
    """The content of a tokenizer.json. Raises ConfigurationError."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"tokenizer: {file} cannot be read ({error.strerror})") from error


def without_control_tokens(content: bytes, file: Path) -> Tokenizer:
    """The tokenizer of a tokenizer.json as it reads texts of others: nothing in them can become a control token.

    Raises ConfigurationError when `content`, read from `file`, is no tokenizer.
    """
    try:
        fields = json.loads(content)
        fields["added_tokens"] = []
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"tokenizer: {file} is no tokenizer.json ({error})") from error
    return load_tokenizer(json.dumps(fields), file)


def load_tokenizer(content: str, file: Path) -> Tokenizer:
    """The tokenizer in the text of a tokenizer.json, which neither cuts nor pads. Raises ConfigurationError."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ConfigurationError(f"tokenizer: {error}; {INSTALL}") from error
    try:
        tokenizer = Tokenizer.from_str(content)
    except Exception as error:  # all that the package raises, whatever it cannot read
        raise ConfigurationError(f"tokenizer: {file} is no tokenizer.json ({error})") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
