"""Made-up rows of the published schema in the sizes that real ones have: a few turns mostly, hundreds sometimes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.schemas import TERMINAL

POOL = 4_000
"""Different texts of each kind; together larger than what a compressor looks back over."""
MEDIAN_TURNS, SPREAD, MOST_TURNS = 5, 1.0, 400
LANGUAGES = ("go", "cpp", "c", "html", "java", "javascript", "php", "python")
LICENSES = ("MIT", "Apache-2.0", "BSD-3-Clause", "ISC")
DOMAINS = ("general", "data_processing", "sql", "security", "web_service")
SYLLABLES = re.findall("..", "abarconedefilgeninlomanerosperquarestaterunviwo")


class Rows:
    """The same rows for the same seed, in tables of `part` rows."""

    def __init__(self, seed: int, part: int = 500) -> None:
        random = np.random.default_rng(seed)
        self._seed, self._part = seed, part
        words = ["".join(random.choice(SYLLABLES, random.integers(1, 5))) for _ in range(6_000)]
        self._observations = _texts(random, words, 1_450)
        self._thoughts = _texts(random, words, 260)
        self._actions = _texts(random, words, 90)

    def tables(self, count: int, changed: frozenset[int] = frozenset()) -> Iterator[pa.Table]:
        """`count` rows; those whose numbers are in `changed` have another instruction than otherwise."""
        for first in range(0, count, self._part):
            yield self._table(first, min(self._part, count - first), changed)

    def _table(self, first: int, rows: int, changed: frozenset[int]) -> pa.Table:
        random = np.random.default_rng([self._seed, first])
        turns = np.clip(random.lognormal(np.log(MEDIAN_TURNS), SPREAD, rows), 1, MOST_TURNS).astype(np.int32)
        offsets = np.concatenate([[0], np.cumsum(turns)]).astype(np.int32)
        steps = int(offsets[-1])
        picks = {name: random.integers(0, POOL, steps) for name in ("observation", "thought", "action")}
        observation, thought, action = (
            pool.take(pa.array(picks[name]))
            for name, pool in zip(picks, (self._observations, self._thoughts, self._actions), strict=True)
        )
        index = np.arange(steps) - np.repeat(offsets[:-1], turns)
        own: dict[str, pa.Array] = {
            "index": pa.array(index),
            "observation": observation,
            "thought": thought,
            "action": action,
            "exit_code": pa.array(random.integers(0, 3, steps)),
            "tokens": pa.array(random.integers(20, 300, steps)),
            "extra": pa.array(["{}"] * steps),
            "seconds": pa.array(random.random(steps)),
        }
        names = [f"trajectory {self._seed} {n}" for n in range(first, first + rows)]
        columns: dict[str, Any] = {
            "trajectory_id": names,
            "instance_id": [f"task {n // 4}" for n in range(first, first + rows)],
            "full_name": [f"owner{n // 40 % 900}/project{n // 40}" for n in range(first, first + rows)],
            "instruction": [f"{'Again: ' if n in changed else ''}do {n}" for n in range(first, first + rows)],
            "language": random.choice(LANGUAGES, rows),
            "license": random.choice(LICENSES, rows),
            "domain": random.choice(DOMAINS, rows),
            "agent": ["bash"] * rows,
            "outcome": ["passed"] * rows,
            "verified": [True] * rows,
            "n_turns": turns.astype(np.int64),
            "n_tokens": turns.astype(np.int64) * 150,
            "split": ["test" if n // 40 % 10 == 3 else "train" for n in range(first, first + rows)],
            "steps": _list(TERMINAL.arrow.field("steps").type, offsets, own, steps),
            "messages": _messages(offsets, observation, action),
        }
        return pa.table([_column(field, columns.get(field.name), rows) for field in TERMINAL.arrow], TERMINAL.arrow)


def _messages(offsets: npt.NDArray[np.int32], seen: pa.Array, answered: pa.Array) -> pa.Array:
    """What was seen and what was answered in turn."""
    steps = int(offsets[-1])
    order = np.arange(2 * steps).reshape(2, steps).T.reshape(-1)
    own: dict[str, pa.Array] = {
        "role": pa.array(["user", "assistant"] * steps),
        "content": pa.concat_arrays([seen, answered]).take(pa.array(order)),
    }
    return _list(TERMINAL.arrow.field("messages").type, 2 * offsets, own, 2 * steps)


def _texts(random: np.random.Generator, words: list[str], mean: int) -> pa.Array:
    """Lines of words, numbers and paths; lengths spread as those of terminal output are."""
    sizes = np.clip(random.lognormal(np.log(mean / 1.65), 1.0, POOL), 8, 60 * mean).astype(int)
    found = []
    for size in sizes:
        count = size // 7 + 1
        chosen = [words[at] for at in random.zipf(1.3, count) % len(words)]
        marks = random.choice([" ", " ", " ", "\n", "/", ": ", str(random.integers(1_000_000))], count)
        found.append("".join(part for pair in zip(chosen, marks, strict=True) for part in pair)[:size])
    return pa.array(found, pa.string())


def _list(kind: pa.ListType, offsets: npt.NDArray[np.int32], own: dict[str, pa.Array], size: int) -> pa.Array:
    fields = [kind.value_type.field(n) for n in range(kind.value_type.num_fields)]
    children = [own[one.name].cast(one.type) if one.name in own else pa.nulls(size, one.type) for one in fields]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(children, fields=fields), type=kind)


def _column(field: pa.Field, values: Any, rows: int) -> pa.Array:
    if values is None:
        return pa.nulls(rows, field.type)
    return values if isinstance(values, pa.Array) else pa.array(values, field.type)
