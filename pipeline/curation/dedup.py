"""Near copies among tasks: MinHash over the words of instruction and verifier, with literals masked.

Masking makes two tasks that differ only in names, numbers, paths and expected values the same task. What is decided
depends only on the texts and on what was kept before, so a repository that comes later changes nothing for earlier
ones. Choosing among the tasks of one repository is not here (pipeline/instances.py).
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.curation.signatures import minhash
from pipeline.types import Record

if TYPE_CHECKING:
    from datasketch import MinHash

THRESHOLD = 0.5
"""Similarity from which a task is a near copy; the estimate from 256 permutations scatters by 0.03."""
PERMUTATIONS = 256
MASK = "LITERAL"
FENCED = re.compile(r"(`{3,}|~{3,})[^\n]*\n.*?\n\1", re.DOTALL)
INLINE = re.compile(r"``.+?``|`[^`\n]+`|“[^”\n]*”|\"[^\"\n]*\"|(?<!\w)'[^'\n]+'(?!\w)")
PATH = re.compile(r"(?<!\w)(?:~|\.{1,2})?/?[\w.-]+(?:/[\w.-]+)+/?|\b[\w-]+\.[a-z][a-z0-9]{1,5}\b")
# Names of tests and constants say which task it is, not what kind of check.
NAMES = re.compile(r"test_\w+|[A-Z][A-Z0-9_]+")
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}
PUNCTUATION = {",", ":", "(", ")", "."}
NUMBER = re.compile(r"\b\d[\d.,]*\b")


class TaskText(Record):
    """What is compared."""

    instance_id: str
    instruction: str
    verifier: str
    """Text of all Python files of the verifier."""
    group: str = ""
    """Tasks of one group are declared variants, which are not compared with each other; empty for none."""


class NearCopy(Record):
    """Why a task was dropped."""

    instance_id: str
    kept_id: str
    similarity: float


def masked_words(task: TaskText) -> list[str]:
    """Words of the instruction and tokens of the verifier, literals masked."""
    return masked_prose(task.instruction) + masked_code(task.verifier)


def masked_prose(text: str) -> list[str]:
    """Lower-case words; code, quotations, paths and numbers become one mask each."""
    for pattern in (FENCED, INLINE, PATH, NUMBER):
        text = pattern.sub(f" {MASK} ", text)
    found = (word if word == MASK else word.lower() for word in re.findall(r"\w+", text))
    return [word for masked, run in itertools.groupby(found, MASK.__eq__) for word in ([MASK] if masked else run)]


def masked_code(text: str) -> list[str]:
    """Python tokens, a whole literal of any size being one mask; the words of what is not Python."""
    try:
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return masked_prose(text)
    spans = list(_literal_spans(tree))
    words: list[str] = []
    for token in tokens:
        if token.type in LAYOUT or token.string in PUNCTUATION:
            continue
        # Columns of the tree count bytes.
        start = (token.start[0], len(token.line[: token.start[1]].encode()))
        masked = any(first <= start < last for first, last in spans) or NAMES.fullmatch(token.string)
        if not (masked and words and words[-1] == MASK):
            words.append(MASK if masked else token.string)
    return words


def _literal_spans(node: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where the outermost literals stand."""
    if isinstance(node, ast.expr) and _is_literal(node):
        yield (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)
        return
    for child in ast.iter_child_nodes(node):
        yield from _literal_spans(child)


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return True
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return False
    return True


def plain_code(text: str) -> list[str]:
    """All Python tokens, punctuation and names too, with strings and numbers masked; words of what is not Python."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, tokenize.TokenError):
        return masked_prose(text)
    literal = {tokenize.STRING, tokenize.NUMBER}
    return [MASK if token.type in literal else token.string for token in tokens if token.type not in LAYOUT]


@dataclass(frozen=True)
class Signature:
    """MinHashes of a task in two readings: what kind of task it is, and what a reader who masks less sees alike."""

    masked: MinHash
    plain: MinHash

    def similarity(self, other: Signature) -> float:
        """The larger of both estimates of the Jaccard similarity."""
        return max(float(self.masked.jaccard(other.masked)), float(self.plain.jaccard(other.plain)))


def signature(task: TaskText) -> Signature:
    """Signature of a task."""
    plain = masked_prose(task.instruction) + plain_code(task.verifier)
    return Signature(minhash(masked_words(task), PERMUTATIONS), minhash(plain, PERMUTATIONS))


def may_be_alike(one: str, other: str) -> bool:
    """Whether tasks of these two groups are compared."""
    return not one or one != other


def near_copies(new: Iterable[TaskText], kept: Iterable[TaskText] = ()) -> dict[str, NearCopy]:
    """Which of the new tasks are near copies of kept ones or of earlier new ones, by instance id.

    Tasks in `kept` are never dropped. The order of arrival of new ones does not matter.
    """
    fresh, standing = list(new), list(kept)
    groups = {text.instance_id: text.group for text in [*fresh, *standing]}
    return near_copies_of(
        {t.instance_id: signature(t) for t in fresh}, {t.instance_id: signature(t) for t in standing}, groups
    )


def near_copies_of(
    new: Mapping[str, Signature], kept: Mapping[str, Signature], groups: Mapping[str, str] | None = None
) -> dict[str, NearCopy]:
    """`near_copies` over signatures that are there already; those with the fewest likenesses are kept first."""
    of = groups or {}
    standing = {i: kept[i] for i in sorted(kept)}
    fresh = sorted(set(new) - set(standing))
    alike = dict.fromkeys(fresh, 0)
    for one, other in itertools.combinations(fresh, 2):
        if may_be_alike(of.get(one, ""), of.get(other, "")) and new[one].similarity(new[other]) >= THRESHOLD:
            alike[one] += 1
            alike[other] += 1
    found: dict[str, NearCopy] = {}
    for instance_id in sorted(fresh, key=lambda i: (alike[i], i)):
        others = {i: sign for i, sign in standing.items() if may_be_alike(of.get(instance_id, ""), of.get(i, ""))}
        closest = closest_of(new[instance_id], others)
        if closest is not None and closest[1] >= THRESHOLD:
            found[instance_id] = NearCopy(instance_id=instance_id, kept_id=closest[0], similarity=round(closest[1], 3))
        else:
            standing[instance_id] = new[instance_id]
    return found


def closest_of(one: Signature, others: Mapping[str, Signature]) -> tuple[str, float] | None:
    """(id, similarity) of the most similar, None when there are no others."""
    best: tuple[str, float] | None = None
    for other_id, other in others.items():
        similarity = one.similarity(other)
        if best is None or similarity > best[1]:
            best = (other_id, similarity)
    return best
