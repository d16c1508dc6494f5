"""What people decided about attempts that a rule could not: a CSV file with the columns id, decision, who, why.

`id` is that of a trajectory, or of an instance for all attempts at it. A later line wins over an earlier one. Without a
line an attempt that waits for a review stays out.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from pipeline.errors import ConfigurationError
from pipeline.types import Record

COLUMNS = ("id", "decision", "who", "why")


class Review(Record):
    """One line."""

    id: str = Field(pattern=r"^(traj|task)-")
    decision: Literal["keep", "drop"]
    who: str = Field(min_length=1)
    why: str


def read_reviews(path: Path) -> dict[str, Review]:
    """The reviews of a file, by id. Raises ConfigurationError: file, line and remedy."""
    found: dict[str, Review] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.DictReader(file, strict=True)
            if tuple(lines.fieldnames or ()) != COLUMNS:
                raise ConfigurationError(f"{path}: its first line has to be {','.join(COLUMNS)}")
            for line in lines:
                review = _review(path, lines.line_num, line)
                found[review.id] = review
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(
            f"{path} cannot be read ({error}); mend it, or leave `reviews` out of [dataset]"
        ) from error
    return found


def _review(path: Path, number: int, line: dict[str, str]) -> Review:
    if len(line) > len(COLUMNS):
        raise ConfigurationError(f"{path}, line {number}: it has more than {len(COLUMNS)} cells; quote a comma")
    try:
        return Review.model_validate({name: (line[name] or "").strip() for name in COLUMNS})
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(
            f"{path}, line {number}, column {column}: {first['msg']} (given: {str(first['input'])[:100]!r})"
        ) from error
