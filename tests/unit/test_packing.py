"""Windows side by side: none is lost, cut or seen by another, and hardly any room is padding."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigurationError
from tests.unit.tiny_model import tiny_model
from training.backbone import load
from training.packing import Packs, best_fit, pack, windows_of
from training.token_files import TokenRow
from training.tokens import IGNORED


def row(ids: list[int], learned: int = 1) -> TokenRow:
    """A window whose last `learned` tokens carry loss."""
    labels = [IGNORED] * (len(ids) - learned) + ids[len(ids) - learned :]
    found = (array("i", ids), array("i", labels))
    return TokenRow("t", "train", 0, 1, len(ids), learned, "small@0", *found)


def packed(folder: Path, rows: list[TokenRow], capacity: int) -> Packs:
    return pack(rows, [one.n_tokens for one in rows], capacity, folder)


@given(st.lists(st.integers(1, 40), max_size=60))
def test_every_window_has_its_own_place_within_a_pack(lengths: list[int]) -> None:
    places, packs = best_fit(lengths, 40)
    taken = [(number, at) for (number, start), n in zip(places, lengths, strict=True) for at in range(start, start + n)]
    assert len(set(taken)) == len(taken) == sum(lengths)
    assert all(at < 40 for _, at in taken)
    assert {number for number, _ in places} == set(range(packs))


def test_windows_go_where_the_least_room_is_left() -> None:
    assert best_fit([5, 6, 4, 3, 2], 10) == ([(1, 0), (0, 0), (0, 6), (1, 5), (1, 8)], 2)


def test_a_window_longer_than_a_pack_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="a window of 11 tokens does not fit into a pack of 10"):
        best_fit([3, 11], 10)


def test_packs_hold_ids_labels_and_positions_that_begin_again(tmp_path: Path) -> None:
    packs = packed(tmp_path / "packs", [row([7, 8]), row([1, 2, 3], learned=2)], 6)
    (only,) = [packs[0]]
    assert only["input_ids"].tolist() == [1, 2, 3, 7, 8, 0]
    assert only["labels"].tolist() == [IGNORED, 2, 3, IGNORED, 8, IGNORED]
    assert only["position_ids"].tolist() == [0, 1, 2, 0, 1, 0]
    assert [(part.start, part.stop) for part in windows_of(only)] == [(0, 3), (3, 5), (5, 6)]
    assert (packs.packing.windows, packs.packing.packs, packs.packing.n_target_tokens) == (2, 1, 3)
    assert packs.packing.padding_share == pytest.approx(1 / 6)


def test_the_first_token_of_a_window_is_not_learned_from_the_window_before_it(tmp_path: Path) -> None:
    packs = packed(tmp_path / "packs", [row([1, 2, 3], learned=3), row([4, 5, 6], learned=3)], 6)
    assert packs[0]["labels"].tolist() == [IGNORED, 2, 3, IGNORED, 5, 6]


def test_packs_that_are_there_are_read_again(tmp_path: Path) -> None:
    packed(tmp_path / "packs", [row([1, 2, 3])], 4)
    again = Packs(tmp_path / "packs")
    assert len(again) == 1
    assert again[0]["input_ids"].tolist() == [1, 2, 3, 0]
    with pytest.raises(IndexError):
        again[1]


def test_a_split_without_windows_has_no_packs(tmp_path: Path) -> None:
    assert len(packed(tmp_path / "packs", [], 8)) == 0


def test_a_folder_without_packs_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no packs"):
        Packs(tmp_path)


def test_usual_lengths_leave_less_than_five_per_cent_of_padding(tmp_path: Path) -> None:
    lengths = np.random.default_rng(0).lognormal(5.0, 0.6, 400).astype(int).clip(16, 1024)
    packs = packed(tmp_path / "packs", [row(list(range(1, n + 1))) for n in lengths.tolist()], 1024)
    assert packs.packing.padding_share < 0.05


def test_windows_of_a_pack_are_computed_as_if_each_were_alone(tmp_path: Path) -> None:
    model = load(tiny_model(tmp_path / "model")).train()
    windows = [[5, 6, 7, 8, 9, 10], [11, 12, 13], [14, 15, 16, 17]]
    packs = packed(tmp_path / "packs", [row(ids) for ids in windows], 16)
    taken = {name: torch.from_numpy(values[None]).long() for name, values in packs[0].items()}
    with torch.no_grad():
        together = model(input_ids=taken["input_ids"], position_ids=taken["position_ids"], use_cache=False).logits[0]
        for part, ids in zip(windows_of(packs[0]), sorted(windows, key=len, reverse=True), strict=False):
            alone = model(input_ids=torch.tensor([ids])).logits[0]
            torch.testing.assert_close(together[part], alone, rtol=1e-5, atol=1e-6)
