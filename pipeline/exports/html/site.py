"""Writes the viewer: a folder that is complete or not there, and that replaces only an earlier viewer."""

from __future__ import annotations

import secrets
import shutil
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.exports.html.attempts import Attempts, Listed
from pipeline.exports.html.pages import FOLDER, GENERATOR, Pages, index_data, index_entry, instance_entry, page_name
from pipeline.tables import Store
from pipeline.types import Record

_INDEX = "index.html"
_BEGINNING = 4_096
"""Characters of an index in which it says what wrote it."""
_STATES = ("unfinished", "earlier")


class View(Record):
    """What was written."""

    index: Path
    trajectories: int


def write_view(store: Store, folder: Path, only: str = "") -> View:
    """The attempts whose id, instance or repository begins with `only` as pages below `folder`.

    Raises NothingToShow, and ConfigurationError for a folder that holds something else.
    """
    _refuse_what_is_not_ours(folder)
    attempts = Attempts(store, only)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished, earlier = (folder.with_name(f".{folder.name}.{name}-{secrets.token_hex(4)}") for name in _STATES)
    try:
        (unfinished / FOLDER).mkdir(parents=True)
        _write(attempts, unfinished, only)
        if folder.exists():
            folder.rename(earlier)
        unfinished.rename(folder)
    finally:
        for left in (unfinished, earlier):
            shutil.rmtree(left, ignore_errors=True)
    return View(index=folder / _INDEX, trajectories=len(attempts.listed))


def _write(attempts: Attempts, folder: Path, only: str) -> None:
    pages = Pages()
    order = {one.trajectory_id: place for place, one in enumerate(attempts.listed)}
    siblings: dict[str, list[Listed]] = defaultdict(list)
    for one in attempts.listed:
        siblings[one.instance_id].append(one)
    around = [None, *attempts.listed, None]
    entries: dict[int, dict[str, object]] = {}
    instances: dict[str, object] = {}
    for shown in attempts:
        listed = shown.listed
        place = order[listed.trajectory_id]
        page = pages.attempt(shown, siblings[listed.instance_id], around[place], around[place + 2])
        (folder / FOLDER / page_name(listed.trajectory_id)).write_text(page, "utf-8")
        entries[place] = index_entry(shown)
        if listed.instance_id not in instances:
            instances[listed.instance_id] = instance_entry(shown)
    data = index_data([entries[place] for place in sorted(entries)], instances, attempts.lost)
    (folder / _INDEX).write_text(pages.index(data, only, datetime.now(UTC)), "utf-8")


def _refuse_what_is_not_ours(folder: Path) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    index = folder / _INDEX
    if index.is_file() and f'content="{GENERATOR}"' in index.read_text(errors="replace")[:_BEGINNING]:
        return
    raise ConfigurationError(f"{folder} holds something else than a viewer; name an empty folder or a new one")
