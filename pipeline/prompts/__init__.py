"""The prompts, one Markdown file each, and how values get into them.

`{{name}}` in a file is a place for a value. Values are never searched for places, so text of repositories cannot pull
other values in. What is asked of whom is decided by the callers; no model is called here.
"""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import PipelineError

_FOLDER = Path(__file__).parent
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_BACKTICKS = re.compile(r"`{3,}")


class PromptIncomplete(PipelineError):
    """The values given to a prompt are not those it has places for."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The text of one prompt file."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """Names this wording in the provenance of what a model answers to it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def render(self, **values: str) -> str:
        """The text with every value in its place. Raises PromptIncomplete for one missing or one too many."""
        places = set(_PLACE.findall(self.text))
        if wrong := sorted(places ^ set(values)):
            raise PromptIncomplete(f"prompt {self.name}: {', '.join(wrong)} has no value or no place")
        return _PLACE.sub(lambda place: values[place[1]], self.text)


@functools.cache
def prompt(name: str) -> Prompt:
    """The prompt in the file `name.md` of this folder. Raises FileNotFoundError when there is none."""
    return Prompt(name, (_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip())


def fenced(text: str, language: str = "") -> str:
    """`text` as a fenced block of Markdown that no fence in the text itself can end."""
    fence = "`" * max([3, *(len(run) + 1 for run in _BACKTICKS.findall(text))])
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
