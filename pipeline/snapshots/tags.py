"""Sets and removes tags: names that people and the nightly job give to versions. Reading them is in reading.py.

A tag is one small file that holds the version; it is replaced by one rename. `latest` is the newest version and is
never set. A tagged version is never removed by retention.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from pathlib import Path

from pipeline.disk import sync
from pipeline.errors import PipelineError
from pipeline.snapshots.reading import LATEST, NAME, VERSION, folder_of, tags_of
from sandbox.locks import exclusive

NIGHTLY = "nightly-"
"""Begins the tag of the nightly job; the day follows as YYYY-MM-DD, UTC."""
_TAG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class TagRefused(PipelineError):
    """A tag that may not be set, moved or removed. The text says why."""


def tag(root: Path, name: str, version: str, tag: str) -> str | None:
    """Let `tag` name a version from now on; the version that it named before, None for none.

    Moving a tag is allowed, but for nightly tags of past days: what a day published does not change afterwards. One
    that was never set may be set later, since a night's work ends on the next day.
    Raises TagRefused, also for a version that is not there.
    """
    check_tag(tag)
    folder = folder_of(root, name)
    with naming(root, name):
        if not VERSION.fullmatch(version) or not (folder / version).is_dir():
            raise TagRefused(f"there is no version {version!r} of {name!r}")
        before = tags_of(root, name).get(tag)
        if before == version:
            return before
        if before is not None and _is_past_night(tag):
            raise TagRefused(f"{tag} of {name!r} names {before}: a nightly tag of a past day is not moved; remove it")
        place = folder / "tags" / tag
        place.parent.mkdir(exist_ok=True)
        part = place.with_name(f".{tag}")
        part.write_text(f"{version}\n")
        sync(part)
        part.replace(place)
        sync(place.parent)
        sync(folder)
    return before


def remove_tag(root: Path, name: str, tag: str) -> str:
    """Remove a tag; the version that it named. Raises TagRefused when there is none."""
    check_tag(tag)
    with naming(root, name):
        present = tags_of(root, name)
        if tag not in present:
            raise TagRefused(f"{name!r} has no tag {tag!r}; it has {', '.join(sorted(present)) or 'none'}")
        place = folder_of(root, name) / "tags" / tag
        place.unlink()
        sync(place.parent)
    return present[tag]


def check_tag(tag: str) -> None:
    """Raises TagRefused for a text that is no tag, or that means something else where versions are named."""
    if not _TAG.fullmatch(tag):
        raise TagRefused(f"tag {tag!r}: up to 64 lower-case letters, digits, '.', '-' and '_', no sign first")
    if tag == LATEST:
        raise TagRefused(f"{LATEST} is always the newest version and cannot be set or removed")
    if VERSION.fullmatch(tag) or _DAY.fullmatch(tag):
        raise TagRefused(f"tag {tag!r} looks like a version or a day, which have their own meaning")
    if tag.startswith(NIGHTLY):
        _day(tag)


def naming(root: Path, name: str) -> AbstractContextManager[None]:
    """The lock of a name, which its publishers hold too. Raises TagRefused for an unusable name."""
    if not NAME.fullmatch(name):
        raise TagRefused(f"snapshot name {name!r} may hold lower-case letters, digits, '-' and '_' only")
    return exclusive(root.resolve() / "locks" / f"snapshot-{name}.lock", f"snapshot {name}")


def _is_past_night(tag: str) -> bool:
    return tag.startswith(NIGHTLY) and _day(tag) < datetime.now(UTC).date()


def _day(tag: str) -> date:
    try:
        return datetime.strptime(tag, f"{NIGHTLY}%Y-%m-%d").date()
    except ValueError as error:
        raise TagRefused(f"tag {tag!r}: {NIGHTLY} is followed by a day, YYYY-MM-DD") from error
