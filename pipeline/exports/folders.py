"""Folders of exported files: there as a whole or not at all, and with everything in them that was to be exported."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import ConfigurationError, PipelineError


class ExportDamaged(PipelineError):
    """What was written does not hold the rows that it was made from."""


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `folder` at the end; nothing is left of it after an error.

    Raises ConfigurationError when `folder` is there and not empty, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} is not empty; name a folder that is not there yet")
    part = folder.with_name(f".{folder.name}-{secrets.token_hex(8)}")
    try:
        part.mkdir(parents=True)
        yield part
        part.rename(folder)
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def prove(place: str, found: Iterable[tuple[str, object]], expected: Mapping[str, object]) -> None:
    """Compare what was read back with what was to be written: ids with what each says of its row, in order.

    Raises ExportDamaged at the first difference.
    """
    wanted = iter(expected.items())
    for number, (identity, said) in enumerate(found):
        due = next(wanted, None)
        if due is None:
            raise ExportDamaged(f"{place}: {identity} is there, and nothing more was to be")
        if (identity, said) != due:
            raise ExportDamaged(f"{place}: number {number} is {identity}, not {due[0]} as it was")
    if (due := next(wanted, None)) is not None:
        raise ExportDamaged(f"{place}: it ends before {due[0]}")
