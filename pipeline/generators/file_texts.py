"""What can be asked of the files of any repository, with a text as the result: counts, parts, changed copies.

A family takes a text file, or two, and says what is wanted, one way to it, others, and tempting wrong ones. Families
with another result are in file_states.py; which files and families are taken is in file_tasks.py.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from pipeline.generators.drafts import filled
from pipeline.types import Variant

_TEXT_IS = """
from pathlib import Path

RESULT = Path(__RESULT__)


def test___TEST__():
    assert RESULT.read_text(encoding="utf-8").splitlines() == __LINES__


def test_the_source_is_as_it_was():
    assert len(Path(__SOURCE__).read_bytes()) == __SIZE__
"""
MOST_LINES = 24
"""Lines that an expected text may have, where they are chosen from a file."""
MOST_JOINED = 50
"""Lines of a file that is repeated as a whole in the verifier."""


@dataclass(frozen=True)
class Material:
    """One file of a repository, and what is around it."""

    workdir: str
    name: str
    """Relative to the working directory; of letters, digits and ./_- alone, so that no shell needs quotes for it."""
    text: str
    """Printable ASCII, ends with a newline."""
    neighbours: Mapping[str, bytes]
    """Content of each file in the same folder, itself included, by name without the folder; empty when there are other
    things than some small files."""
    chance: random.Random

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def folder(self) -> str:
        """Empty for the top."""
        return self.name.rpartition("/")[0]

    def path(self, name: str) -> str:
        """Absolute."""
        return f"{self.workdir}/{name}"


@dataclass(frozen=True)
class FileTask:
    """A task without its repository."""

    instruction: str
    solution: tuple[str, ...]
    right: tuple[Variant, ...]
    weak: tuple[Variant, ...]
    verifier: str


Family = Callable[[Material], FileTask | None]
"""None when nothing of the kind can be asked of this file."""


def variant(name: str, *commands: str) -> Variant:
    return Variant(name=name, commands=commands)


def _text_task(
    given: Material,
    instruction: str,
    result: str,
    lines: list[str],
    solution: str,
    right: tuple[Variant, ...],
    weak: tuple[Variant, ...],
) -> FileTask:
    """A task whose whole result is one text."""
    test = re.sub(r"\W+", "_", PurePosixPath(result).stem).strip("_")
    verifier = _TEXT_IS.replace("__TEST__", f"the_{test}_are_right")
    values = {"result": given.path(result), "source": given.path(given.name), "size": len(given.text), "lines": lines}
    return FileTask(instruction, (solution,), right, weak, filled(verifier, **values))


def line_count(given: Material) -> FileTask | None:
    """How many lines."""
    source, result = given.name, "line-count.txt"
    asked = given.chance.choice(
        (
            f"How many lines does the file `{given.name}` have? Write the number, and nothing else, to `{result}`.",
            f"Count the lines of `{given.name}` and put the number alone into a new file `{result}`.",
            f"`{result}` is to hold one number: how many lines there are in `{given.name}`.",
        )
    )
    return _text_task(
        given,
        asked,
        result,
        [str(len(given.lines))],
        f"wc -l < {source} > {result}",
        (variant("counted_by_awk", f"awk 'END {{ print NR }}' {source} > {result}"),),
        (
            variant("characters", f"wc -c < {source} > {result}"),
            variant("one_too_many", f"echo {len(given.lines) + 1} > {result}"),
        ),
    )


def word_count(given: Material) -> FileTask | None:
    """How many words."""
    words = len(given.text.split())
    if words in (len(given.lines), len(given.text)):
        return None
    source, result = given.name, "word-count.txt"
    asked = given.chance.choice(
        (
            f"Write the number of words in `{given.name}` (what blanks and line ends separate), and only it, to "
            f"`{result}`.",
            f"How many words, separated by blanks or line ends, are in `{given.name}`? Only the number goes to "
            f"`{result}`.",
        )
    )
    return _text_task(
        given,
        asked,
        result,
        [str(words)],
        f"wc -w < {source} > {result}",
        (variant("counted_by_awk", f"awk '{{ n += NF }} END {{ print n }}' {source} > {result}"),),
        (
            variant("lines", f"wc -l < {source} > {result}"),
            variant("characters", f"wc -c < {source} > {result}"),
        ),
    )


def _some_lines(given: Material, *, first: bool) -> FileTask | None:
    number = given.chance.randint(3, 15)
    if len(given.lines) < number + 2 or given.lines[:number] == given.lines[-number:]:
        return None
    source, which = given.name, "first" if first else "last"
    result, program = f"{which}-lines.txt", "head" if first else "tail"
    kept = given.lines[:number] if first else given.lines[-number:]
    other = f"sed -n '1,{number}p'" if first else f"sed -n '{len(given.lines) - number + 1},$p'"
    asked = given.chance.choice(
        (
            f"Save the {which} {number} lines of `{given.name}` as `{result}`.",
            f"I need the {which} {number} lines of `{given.name}`, unchanged, in a file of their own named `{result}`.",
        )
    )
    return _text_task(
        given,
        asked,
        result,
        kept,
        f"{program} -n {number} {source} > {result}",
        (variant("by_numbers", f"{other} {source} > {result}"),),
        (
            variant("one_more", f"{program} -n {number + 1} {source} > {result}"),
            variant("other_end", f"{'tail' if first else 'head'} -n {number} {source} > {result}"),
        ),
    )


def first_lines(given: Material) -> FileTask | None:
    """The beginning of a file."""
    return _some_lines(given, first=True)


def last_lines(given: Material) -> FileTask | None:
    """The end of a file."""
    return _some_lines(given, first=False)


def _words(given: Material, least: int, most: int) -> list[str]:
    """Words that stand in so many lines, whatever they stand beside."""
    words = set(re.findall(r"[A-Za-z]{5,12}", given.text))
    counts = Counter({word: sum(word in line for line in given.lines) for word in words})
    return sorted(word for word, count in counts.items() if least <= count <= most)


def matching_lines(given: Material) -> FileTask | None:
    """Lines that hold a text."""
    words = _words(given, 2, min(MOST_LINES, len(given.lines) - 1))
    if not words:
        return None
    word, source = given.chance.choice(words), given.name
    kept = [line for line in given.lines if word in line]
    result = f"lines-with-{word.lower()}.txt"
    asked = given.chance.choice(
        (
            f"Find all lines of `{given.name}` that contain `{word}`, exactly so: upper and lower case matter. Save "
            f"them, in their order, as `{result}`.",
            f"`{result}` should list every line of `{given.name}` in which `{word}` occurs, spelled just like that, in "
            "the order of the file and without line numbers.",
        )
    )
    return _text_task(
        given,
        asked,
        result,
        kept,
        f"grep -F {word} {source} > {result}",
        (variant("by_awk", f"awk 'index($0, \"{word}\")' {source} > {result}"),),
        (
            variant("with_numbers", f"grep -n -F {word} {source} > {result}"),
            variant("the_others", f"grep -v -F {word} {source} > {result}"),
            variant("first_one_only", f"grep -m 1 -F {word} {source} > {result}"),
        ),
    )


def replaced_word(given: Material) -> FileTask | None:
    """A changed copy."""
    words = [word for word in _words(given, 1, MOST_LINES) if given.text.count(word) > 1]
    if not words or len(given.lines) > MOST_JOINED:
        return None
    word, source = given.chance.choice(words), given.name
    new = given.chance.choice([one for one in ("WALRUS", "PELICAN", "BADGER", "HERON") if one not in given.text])
    result = f"{PurePosixPath(given.name).stem}-with-{new.lower()}.txt"
    asked = given.chance.choice(
        (
            f"Make a copy of `{given.name}` under the name `{result}` in which every `{word}` is `{new}`, also where "
            f"it is a part of a longer word. `{given.name}` itself must stay as it is.",
            f"Replace `{word}` by `{new}` everywhere in the text of `{given.name}` and save what comes out as "
            f"`{result}`, without changing the original.",
        )
    )
    return _text_task(
        given,
        asked,
        result,
        given.text.replace(word, new).splitlines(),
        f"sed 's/{word}/{new}/g' {source} > {result}",
        (variant("copied_first", f"cp {source} {result}", f"sed -i 's/{word}/{new}/g' {result}"),),
        (
            variant("plain_copy", f"cp {source} {result}"),
            variant("first_place_only", f"sed '0,/{word}/s//{new}/' {source} > {result}"),
        ),
    )


def joined_files(given: Material) -> FileTask | None:
    """Two files, one after the other."""
    texts = {
        name: content.decode("ascii")
        for name, content in given.neighbours.items()
        if content.isascii()
        and content.endswith(b"\n")
        and b"\r" not in content
        and content.count(b"\n") <= MOST_JOINED
    }
    others = sorted(name for name in texts if texts[name] != given.text)
    if not others or len(given.lines) > MOST_JOINED:
        return None
    other = f"{given.folder}/{given.chance.choice(others)}".lstrip("/")
    result, second = "joined.txt", texts[PurePosixPath(other).name]
    one, two = given.name, other
    asked = given.chance.choice(
        (
            f"Put `{given.name}` and `{other}` together in `{result}`: first all of the one, then all of the other, "
            "nothing between them.",
            f"Create `{result}` from the full text of `{given.name}` followed directly by the full text of `{other}`.",
        )
    )
    return _text_task(
        given,
        asked,
        result,
        [*given.lines, *second.splitlines()],
        f"cat {one} {two} > {result}",
        (variant("appended", f"cp {one} {result}", f"cat {two} >> {result}"),),
        (
            variant("other_way_round", f"cat {two} {one} > {result}"),
            variant("one_only", f"cp {one} {result}"),
        ),
    )


FAMILIES: tuple[Family, ...] = (
    line_count,
    word_count,
    first_lines,
    last_lines,
    matching_lines,
    replaced_word,
    joined_files,
)
