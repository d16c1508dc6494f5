"""Windows of tokens side by side in rows of one length, so that hardly any of a batch is padding.

Best-fit decreasing (Johnson 1974), as trl's `bfd`: the longest window first, each into the fullest pack that has room.
No window sees another: its positions begin at 0 again, from which transformers tells windows apart when it is given
positions and neither a mask nor a cache; the padding at the end of a pack is a window of its own that is not learned.
The first token of a window is not learned either: what comes before it in the pack is another window's.

Packs lie in memory-mapped files, so memory does not grow with their number. Not here: the order of a training run.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigurationError
from training.token_files import TokenRow, read_rows
from training.tokens import IGNORED

Ints = NDArray[np.int32]

_FIELDS = ("input_ids", "labels", "position_ids")
_PACKED = "packs.json"


@dataclass(frozen=True)
class Packing:
    """What became of the windows of a split."""

    windows: int
    packs: int
    capacity: int
    """Tokens of a pack."""
    n_tokens: int
    """Of all windows."""
    n_target_tokens: int
    """… that carry loss."""

    @property
    def padding_share(self) -> float:
        """Part of the room of all packs that no window takes."""
        return 1.0 - self.n_tokens / (self.packs * self.capacity) if self.packs else 0.0


class Packs(Sequence[dict[str, Ints]]):
    """The packs of a folder, each as arrays of shape (capacity,): input_ids, labels, position_ids."""

    def __init__(self, folder: Path) -> None:
        """Raises ConfigurationError when the folder has none."""
        try:
            self.packing = Packing(**json.loads((folder / _PACKED).read_text(encoding="ascii")))
        except (OSError, ValueError, TypeError) as error:
            raise ConfigurationError(f"{folder} holds no packs that can be read ({error}); remove it") from error
        self._arrays = {name: _mapped(folder / f"{name}.bin", self.packing, "r") for name in _FIELDS}

    def __len__(self) -> int:
        return self.packing.packs

    def __getitem__(self, place: int) -> dict[str, Ints]:  # type: ignore[override]  # a pack at a time
        if not 0 <= place < len(self):
            raise IndexError(place)
        return {name: np.array(values[place]) for name, values in self._arrays.items()}


def pack(rows: Iterable[TokenRow], lengths: Sequence[int], capacity: int, folder: Path) -> Packs:
    """Write the windows into packs of `capacity` tokens below `folder`, which holds none yet. Padding has the id 0.

    `lengths` are those of `rows`, in the same order: where a window goes is decided before the first is read. Raises
    ConfigurationError when one is longer than a pack.
    """
    places, packs = best_fit(lengths, capacity)
    folder.mkdir(parents=True, exist_ok=True)
    empty = Packing(windows=len(lengths), packs=packs, capacity=capacity, n_tokens=sum(lengths), n_target_tokens=0)
    arrays = {name: _mapped(folder / f"{name}.bin", empty, "w+") for name in _FIELDS}
    arrays["labels"][:] = IGNORED
    ends = [0] * packs
    targets = 0
    for row, (number, start) in zip(rows, places, strict=True):
        stop = start + row.n_tokens
        labels = np.frombuffer(row.labels, np.int32).copy()
        labels[:1] = IGNORED
        arrays["input_ids"][number, start:stop] = np.frombuffer(row.input_ids, np.int32)
        arrays["labels"][number, start:stop] = labels
        arrays["position_ids"][number, start:stop] = np.arange(row.n_tokens)
        ends[number] = max(ends[number], stop)
        targets += int((labels != IGNORED).sum())
    for number, end in enumerate(ends):
        arrays["position_ids"][number, end:] = np.arange(capacity - end)
    for values in arrays.values():
        if isinstance(values, np.memmap):
            values.flush()
    packing = asdict(empty) | {"n_target_tokens": targets}
    (folder / _PACKED).write_text(json.dumps(packing) + "\n", encoding="ascii")
    return Packs(folder)


def pack_split(tokens: Path, split: str, capacity: int, folder: Path, only: Container[str] | None = None) -> Packs:
    """The packs of a split of a token export, or of some of its trajectories; those that are there are taken."""

    def chosen() -> Iterator[TokenRow]:
        return (row for row in read_rows(tokens, split) if only is None or row.trajectory_id in only)

    if (folder / _PACKED).is_file():
        return Packs(folder)
    return pack(chosen(), [row.n_tokens for row in chosen()], capacity, folder)


def best_fit(lengths: Sequence[int], capacity: int) -> tuple[list[tuple[int, int]], int]:
    """(pack, place of its first token) of each window, and the number of packs.

    Raises ConfigurationError when a window is longer than a pack.
    """
    if longest := next((length for length in lengths if length > capacity), 0):
        raise ConfigurationError(f"a window of {longest} tokens does not fit into a pack of {capacity}")
    places: list[tuple[int, int]] = [(0, 0)] * len(lengths)
    room: list[tuple[int, int]] = []
    """(free tokens, pack), least room first."""
    packs = 0
    for window in sorted(range(len(lengths)), key=lambda one: (-lengths[one], one)):
        at = bisect_left(room, (lengths[window], -1))
        free, number = room.pop(at) if at < len(room) else (capacity, packs)
        packs = max(packs, number + 1)
        places[window] = (number, capacity - free)
        if free > lengths[window]:
            insort(room, (free - lengths[window], number))
    return places, packs


def windows_of(pack_of: dict[str, Ints]) -> Iterator[slice]:
    """Where the windows of a pack lie, the padding among them, told by their positions."""
    starts = [*np.flatnonzero(pack_of["position_ids"] == 0).tolist(), len(pack_of["position_ids"])]
    yield from (slice(start, stop) for start, stop in pairwise(starts))


def _mapped(file: Path, packing: Packing, mode: str) -> Ints:
    shape = (packing.packs, packing.capacity)
    if not packing.packs:  # an empty file cannot be mapped
        file.touch()
        return np.zeros(shape, np.int32)
    return np.memmap(file, np.int32, mode, shape=shape)  # type: ignore[call-overload,no-any-return]  # a mode by name
