"""What an experiment has done so far: a line for each cell in a file that is committed, so that later runs go on.

A cell is one arm with one seed in one environment, or a part of it that is small enough to be lost. Lines are appended
when they are known and never changed; which of them belong together says their setting. Not here: what is done in a
cell, and what comes of the lines (training/studies).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field, JsonValue, ValidationError

from pipeline.disk import sync
from pipeline.errors import ConfigurationError
from pipeline.types import Record
from sandbox.locks import exclusive


class Cell(Record):
    """What is to be done."""

    arm: str
    seed: int
    environment: str
    part: str
    """`train`, `evaluate-00` and so on."""

    @property
    def name(self) -> str:
        return f"{self.arm}/{self.seed}/{self.environment}/{self.part}"


class CellLine(Record):
    """What was done."""

    setting: str
    """Hash of all that decides what comes of the cells of one plan: configuration, rows, weights."""
    cell: Cell
    seconds: float = Field(ge=0.0)
    code_commit: str | None
    """None where the code is in no repository."""
    model: dict[str, str] = Field(default_factory=dict)
    """What tells the model apart that learned or answered."""
    figures: dict[str, JsonValue]

    @property
    def id(self) -> str:
        return f"{self.setting}/{self.cell.name}"


class Cells:
    """The lines of a file; of two with one id the first one counts."""

    def __init__(self, file: Path) -> None:
        """Nothing is made yet."""
        self.file = file

    def lines(self) -> list[CellLine]:
        """In their order; a last line that was cut by an end of the machine is passed over.

        Raises ConfigurationError for another line that cannot be read.
        """
        if not self.file.exists():
            return []
        found: dict[str, CellLine] = {}
        for number, text in enumerate(self._whole().decode("utf-8").splitlines(), 1):
            try:
                line = CellLine.model_validate_json(text)
            except ValidationError as error:
                raise ConfigurationError(f"{self.file}, line {number} is no cell ({error}); put it back") from error
            found.setdefault(line.id, line)
        return list(found.values())

    def of(self, setting: str) -> dict[str, CellLine]:
        """Those of one setting, by the names of their cells."""
        return {line.cell.name: line for line in self.lines() if line.setting == setting}

    def missing(self, setting: str, plan: Iterable[Cell]) -> list[Cell]:
        """Those of a plan that have no line yet, in its order."""
        known = self.of(setting)
        return [cell for cell in plan if cell.name not in known]

    def add(self, line: CellLine) -> bool:
        """Append a line, which is on disk when this returns; False where the cell has one already."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(self.file, str(self.file)):
            if line.cell.name in self.of(line.setting):
                return False
            whole = len(self._whole())
            with self.file.open("ab") as opened:
                opened.truncate(whole)
                opened.write(line.model_dump_json().encode("utf-8") + b"\n")
                opened.flush()
                os.fsync(opened.fileno())
            sync(self.file.parent)
        return True

    def _whole(self) -> bytes:
        content = self.file.read_bytes()
        return content[: content.rfind(b"\n") + 1]
