"""The splits of the games as published files: splits/NAME.jsonl, one task a line.

    python -m training.environments.task_lists NAME [--material PATH --to FOLDER]

makes the file of a game anew: every gold path in it was played to the full score. With material of your own, the file
goes to a folder that `lists` of [environments] names.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from pipeline.errors import ConfigurationError
from training.environments.game import SPLITS, GameTask, Split
from training.environments.registry import facts_of, make

FOLDER = Path(__file__).parent / "splits"
_NUMBERS = re.compile(r"(\d+)")


def tasks_of(
    name: str, splits: Sequence[Split] = SPLITS, per_split: int | None = None, folder: Path = FOLDER
) -> list[GameTask]:
    """The tasks of a game in these splits, in the order of the file; of each split at most `per_split`.

    Fewer are taken evenly from all templates, the first ones of each. Raises ConfigurationError for a game that there
    is not, and for a file that is none of ours.
    """
    facts_of(name)
    file = folder / f"{name}.jsonl"
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        found = [GameTask.model_validate_json(line) for line in lines]
    except (OSError, ValidationError) as error:
        raise ConfigurationError(f"{file} does not give the tasks of {name}: {error}") from error
    chosen = []
    for split in splits:
        of_split = [task for task in found if task.split == split]
        chosen += of_split if per_split is None else evenly(of_split, per_split)
    return sorted(chosen, key=order)


def order(task: GameTask) -> tuple[str, list[str | int]]:
    """Template, then variation, numbers in it by their value."""
    parts = _NUMBERS.split(task.variation)
    # Every other part is a number, so that like is compared with like.
    return task.task_type, [int(part) if number % 2 else part for number, part in enumerate(parts)]


def evenly(tasks: Sequence[GameTask], count: int) -> list[GameTask]:
    """Some tasks, at most `count`: one of each template in turn until there are `count`."""
    places: dict[str, int] = {}
    ranked = []
    for task in tasks:
        places[task.task_type] = places.get(task.task_type, -1) + 1
        ranked.append((places[task.task_type], task))
    return [task for _, task in sorted(ranked, key=lambda one: one[0])[:count]]


def lines_of(tasks: Iterable[GameTask]) -> str:
    """The content of a file."""
    ordered = sorted(tasks, key=order)
    return "".join(task.model_dump_json(exclude_none=True) + "\n" for task in ordered)


def main() -> None:
    """Make the file of one game."""
    parser = argparse.ArgumentParser(description="Make the splits file of a game anew.")
    parser.add_argument("name")
    parser.add_argument("--material", type=Path)
    parser.add_argument("--to", type=Path, default=FOLDER, metavar="FOLDER")
    told = parser.parse_args()
    if (told.material is not None) != (told.to != FOLDER):
        parser.error("--material and --to belong together: the files of the project are those of its own games")
    game = make(told.name, told.material)
    try:
        text = lines_of(game.candidates())
    finally:
        game.close()
    told.to.mkdir(parents=True, exist_ok=True)
    (told.to / f"{game.facts.name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
