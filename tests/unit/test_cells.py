"""A file of cells keeps each line once, and what a killed writer left is no line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from training.cells import Cell, CellLine, Cells


def cell(part: str) -> Cell:
    return Cell(arm="base", seed=0, environment="touchstone", part=part)


def line(part: str, setting: str = "setting-1", seconds: float = 1.0) -> CellLine:
    return CellLine(setting=setting, cell=cell(part), seconds=seconds, code_commit="abc", figures={"passed": 1})


def test_lines_come_back_in_order_and_what_is_missing_is_told(tmp_path: Path) -> None:
    cells = Cells(tmp_path / "new/cells.jsonl")
    plan = [cell("train"), cell("evaluate-00"), cell("evaluate-01")]
    assert cells.missing("setting-1", plan) == plan
    assert cells.add(line("evaluate-00")) and cells.add(line("train"))
    assert [one.cell.part for one in cells.lines()] == ["evaluate-00", "train"]
    assert cells.missing("setting-1", plan) == [cell("evaluate-01")]


def test_a_cell_of_another_setting_is_another_cell(tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    cells.add(line("train"))
    assert cells.missing("setting-2", [cell("train")]) == [cell("train")]
    assert cells.add(line("train", "setting-2"))


def test_a_cell_is_written_once(tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    cells.add(line("train"))
    before = cells.file.read_bytes()
    assert not cells.add(line("train", seconds=9.0))
    assert cells.file.read_bytes() == before


def test_of_two_lines_of_one_cell_the_first_counts(tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    cells.file.write_text(f"{line('train').model_dump_json()}\n{line('train', seconds=9.0).model_dump_json()}\n")
    assert [one.seconds for one in cells.lines()] == [1.0]


def test_a_line_that_was_cut_is_passed_over_and_replaced(tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    cells.add(line("train"))
    with cells.file.open("a") as file:
        file.write(line("evaluate-00").model_dump_json()[:40])
    assert cells.missing("setting-1", [cell("train"), cell("evaluate-00")]) == [cell("evaluate-00")]
    cells.add(line("evaluate-01"))
    assert [one.cell.part for one in cells.lines()] == ["train", "evaluate-01"]


def test_a_damaged_line_between_others_is_named(tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    cells.add(line("train"))
    cells.file.write_text("{}\n" + cells.file.read_text())
    with pytest.raises(ConfigurationError, match="line 1 is no cell"):
        cells.lines()
