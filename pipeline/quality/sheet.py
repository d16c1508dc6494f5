"""The sheet that people rate on: a CSV file without anything that says where a task came from, out and in again."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from pipeline.errors import ConfigurationError
from pipeline.quality.ratings import DIMENSIONS, HIGHEST, LOWEST, Rating, Scores
from pipeline.quality.sampling import blind_name
from pipeline.types import TaskInstance

COLUMNS = ("sheet", "item", "instruction", "solution", "verifier", *DIMENSIONS, "remark")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_LARGEST_CELL = 32_000
"""Spreadsheets cut longer cells."""


def write_sheet(instances: Sequence[TaskInstance], seed: int, path: Path) -> None:
    """One line per instance, in the given order, with empty cells for the scores.

    Raises ConfigurationError when the file is there already or cannot be written.
    """
    try:
        with path.open("x", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(_line(instance, seed) for instance in instances)
    except FileExistsError as error:
        raise ConfigurationError(f"{path} is there already and may hold scores; name another file") from error
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error


def read_sheet(path: Path, rater: str, instances: Iterable[TaskInstance]) -> list[Rating]:
    """The ratings of the lines that were filled in; lines without any score are passed over.

    Raises ConfigurationError that names the line: a score that is missing or none of 1 to 5, an item that is unknown
    or stands twice, a file that is no such sheet.
    """
    try:
        content = path.read_bytes()
        lines = list(csv.DictReader(content.decode("utf-8-sig").splitlines(keepends=True)))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{path} is no CSV file in UTF-8: {error}") from error
    known = {instance.instance_id for instance in instances}
    names: dict[int, dict[str, str]] = {}
    ratings: dict[str, Rating] = {}
    for number, line in enumerate(lines, 1):
        place = f"{path}, item {number}"
        if missing := [column for column in COLUMNS if line.get(column) is None and column != "remark"]:
            raise ConfigurationError(f"{place}: it has no column {', '.join(missing)}; is it a sheet of ours?")
        cells: dict[str, str] = {dimension: line[dimension].strip() for dimension in DIMENSIONS}
        if not any(cells.values()):
            continue
        seed = _seed(line["sheet"], place)
        if seed not in names:
            names[seed] = {blind_name(one, seed): one for one in known}
        instance_id = names[seed].get(line["item"])
        if instance_id is None:
            raise ConfigurationError(f"{place}: {line['item']} is no admitted instance of this data folder")
        if instance_id in ratings:
            raise ConfigurationError(f"{place}: {line['item']} stands twice; keep one of the lines")
        ratings[instance_id] = Rating(
            instance_id=instance_id,
            rater=rater,
            kind="people",
            scores=_scores(cells, place),
            remark=line.get("remark") or "",
            provenance={"sheet": str(seed), "sheet_sha256": hashlib.sha256(content).hexdigest()},
        )
    return list(ratings.values())


def _line(instance: TaskInstance, seed: int) -> Mapping[str, str]:
    return {
        "sheet": str(seed),
        "item": blind_name(instance.instance_id, seed),
        "instruction": _cell(instance.instruction),
        "solution": _cell("\n".join(instance.solution)),
        "verifier": _cell("\n\n".join(file.content for file in instance.verifier.files)),
    }


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    text = text if len(text) <= _LARGEST_CELL else f"{text[:_LARGEST_CELL]}\n[cut]"
    return f"'{text}" if text.startswith(_FORMULA) else text


def _seed(text: str, place: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ConfigurationError(f"{place}: the column sheet holds {text!r}, no number; leave it as it was") from error


def _scores(cells: Mapping[str, str], place: str) -> Scores:
    try:
        return Scores.model_validate(cells)
    except ValidationError as error:
        wrong = ", ".join(f"{fault['loc'][0]} {cells[str(fault['loc'][0])]!r}" for fault in error.errors())
        raise ConfigurationError(f"{place}: {wrong}; every score is a whole number {LOWEST} to {HIGHEST}") from error
