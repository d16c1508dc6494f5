"""Which attempts say the same as another one: copies that are equal once normalised, and near copies.

Attempts of all agents with one interface are compared: whoever trains on the reference solution does not want it again
from a model, but the same keys at a screen read differently. Of attempts that are alike the first by `Attempted.rank`
is kept, whatever came first. So a new attempt changes what was kept only where it ranks before a copy of itself; then
that one gives way, and what was out for being like that one alone may come back.

What is compared is in commands.py, signatures are made in signatures.py. Near copies among tasks: dedup.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

THRESHOLD = 0.8
"""Similarity of both the commands and the instruction from which an attempt is a near copy; the estimates from 128
permutations scatter by 0.035."""
PERMUTATIONS = 128
BAND = 3
"""Places of a signature that have to agree for a comparison; two attempts at the threshold fail to be compared with a
chance of three in a million."""
BANDS = PERMUTATIONS // BAND
SIGNATURE_TYPE = np.dtype("<u4")

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Attempted:
    """What is compared of one attempt."""

    trajectory_id: str
    commands_sha256: str
    instruction_sha256: str
    commands_signature: bytes
    instruction_signature: bytes
    by_model: bool
    has_thoughts: bool
    n_turns: int
    interface: str = "shell"

    @property
    def rank(self) -> tuple[int, int, str]:
        """The smallest is kept: a model that says why, a model, the reference solution; then the shorter one."""
        kind = 2 if not self.by_model else 0 if self.has_thoughts else 1
        return kind, self.n_turns, self.trajectory_id


@dataclass(frozen=True, slots=True)
class Copy:
    """Why an attempt is not kept."""

    kept_id: str
    similarity: float


def signature_bytes(hashvalues: NDArray[Any]) -> bytes:
    """A MinHash as a cell: 128 little-endian numbers of 32 bits."""
    return hashvalues.astype(SIGNATURE_TYPE).tobytes()


def similarity(one: bytes, other: bytes) -> float:
    """Estimated Jaccard similarity of two signatures."""
    return float(np.mean(np.frombuffer(one, SIGNATURE_TYPE) == np.frombuffer(other, SIGNATURE_TYPE)))


def exact_copies(attempts: Iterable[Attempted]) -> dict[str, Copy]:
    """Attempts whose normalised commands and instruction are those of a kept one, by trajectory id."""
    kept: dict[tuple[str, str], str] = {}
    found: dict[str, Copy] = {}
    for one in sorted(attempts, key=lambda one: one.rank):
        kept_id = kept.setdefault((one.commands_sha256, one.instruction_sha256), one.trajectory_id)
        if kept_id != one.trajectory_id:
            found[one.trajectory_id] = Copy(kept_id, 1.0)
    return found


def near_copies(attempts: Iterable[Attempted]) -> dict[str, Copy]:
    """Attempts that are as similar as THRESHOLD to a kept one, by trajectory id; the closest kept one is named.

    Memory is about 1.5 KB for each attempt. Only attempts that agree in a band are compared.
    """
    by_interface: dict[str, list[Attempted]] = {}
    for one in attempts:
        by_interface.setdefault(one.interface, []).append(one)
    found: dict[str, Copy] = {}
    for alike in by_interface.values():
        found |= _near_copies(sorted(alike, key=lambda one: one.rank))
    return found


def _near_copies(ranked: Sequence[Attempted]) -> dict[str, Copy]:
    if len(ranked) < 2:
        return {}
    commands = _matrix([one.commands_signature for one in ranked])
    instructions, of = _distinct([one.instruction_signature for one in ranked])
    buckets = _buckets(commands, instructions, of)
    kept: list[list[int]] = [[] for _ in range(int(buckets.max()) + 1)]
    found: dict[str, Copy] = {}
    for row, one in enumerate(ranked):
        shared = buckets[row][buckets[row] >= 0].tolist()
        others = sorted({other for bucket in shared for other in kept[bucket]})
        closest = _closest(row, others, commands, instructions, of) if others else None
        if closest is not None:
            found[one.trajectory_id] = Copy(ranked[closest[0]].trajectory_id, closest[1])
            continue
        for bucket in shared:
            kept[bucket].append(row)
    return found


def _matrix(signatures: Sequence[bytes]) -> NDArray[np.uint32]:
    return np.frombuffer(b"".join(signatures), SIGNATURE_TYPE).reshape(-1, PERMUTATIONS)


def _distinct(signatures: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Each signature once, and where each of the given ones is among them: many attempts have one instruction."""
    places: dict[bytes, int] = {}
    of = np.array([places.setdefault(one, len(places)) for one in signatures], dtype=np.int64)
    return _matrix(list(places)), of


def _buckets(
    commands: NDArray[np.uint32], instructions: NDArray[np.uint32], of: NDArray[np.int64]
) -> NDArray[np.int32]:
    """For each attempt and band the number of the bucket that it shares with others there, -1 for none."""
    buckets = np.full((len(commands), BANDS), -1, dtype=np.int32)
    first = 0
    for band in range(BANDS):
        places = slice(band * BAND, (band + 1) * BAND)
        keys = _mixed(commands[:, places]) * _FACTOR ^ _mixed(instructions[:, places])[of]
        _, bucket, counts = np.unique(keys, return_inverse=True, return_counts=True)
        numbers = np.where(counts > 1, np.cumsum(counts > 1) - 1 + first, -1)
        buckets[:, band] = numbers[bucket]
        first += int((counts > 1).sum())
    return buckets


def _mixed(part: NDArray[np.uint32]) -> NDArray[np.uint64]:
    mixed = np.zeros(len(part), dtype=np.uint64)
    for column in part.T:
        mixed = (mixed ^ column) * _FACTOR
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _closest(
    row: int,
    others: Sequence[int],
    commands: NDArray[np.uint32],
    instructions: NDArray[np.uint32],
    of: NDArray[np.int64],
) -> tuple[int, float] | None:
    """(number, similarity of the commands) of the nearest of the others that is a near copy; None for none."""
    near = np.mean(commands[others] == commands[row], axis=1)
    same_task = np.mean(instructions[of[others]] == instructions[of[row]], axis=1)
    near = np.where(same_task >= THRESHOLD, near, 0.0)
    best = int(near.argmax())
    return (others[best], round(float(near[best]), 3)) if near[best] >= THRESHOLD else None
