"""Which versions there are, with what one wants to know before choosing one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.snapshots.manifest import manifest_of
from pipeline.snapshots.reading import LATEST, NAME, folder_of, tags_of, versions


@dataclass(frozen=True)
class Listed:
    """One version."""

    name: str
    version: str
    rows: int
    splits: dict[str, int]
    bytes: int
    """Of its data files."""
    created_at: str
    tags: tuple[str, ...]
    """`latest` among them."""
    parents: tuple[str, ...]
    path: str


def listed(root: Path, name: str | None = None) -> list[Listed]:
    """The versions of a name, or of all names, oldest first. Raises SnapshotDamaged."""
    found = []
    for one in [name] if name is not None else names(root):
        present = versions(root, one) if NAME.fullmatch(one) else []
        tags = tags_of(root, one) if present else {}
        for version in present:
            manifest = manifest_of(version.path)
            latest = (LATEST,) if version is present[-1] else ()
            found.append(
                Listed(
                    name=one,
                    version=version.version,
                    rows=manifest.rows,
                    splits=manifest.splits,
                    bytes=sum(file.bytes for file in manifest.files),
                    created_at=manifest.created_at,
                    tags=(*latest, *(tag for tag, tagged in tags.items() if tagged == version.version)),
                    parents=manifest.parents,
                    path=str(version.path),
                )
            )
    return found


def names(root: Path) -> list[str]:
    """Names that have a folder, in their order."""
    folder = folder_of(root, "x").parent
    return sorted(path.name for path in folder.iterdir() if NAME.fullmatch(path.name)) if folder.is_dir() else []
