"""`touchstone gc`: what each stage holds on disk, and what of it can go. The stages are in pipeline/disk_use.py."""

import json
from pathlib import Path

import click

from assets.located import located, open_located

_STAGES = ("images", "archives", "sources", "states", "tables", "journal", "snapshots", "other")


@click.command()
@located
@click.option("--dry-run", is_flag=True, help="Only say what is held and what could go.")
@click.option(
    "--stage", "stages", type=click.Choice(_STAGES), multiple=True, help="Only this one (may be given several times)."
)
@click.option(
    "--free-mb",
    type=click.IntRange(min=1),
    default=1 << 40,
    help="Keep images and build caches as soon as so much is free where the engine keeps them (default: never).",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def gc(
    data: Path | None, config: Path | None, dry_run: bool, stages: tuple[str, ...], free_mb: int, as_json: bool
) -> None:
    """Remove what no row and no version needs, stage by stage, and say what it would cost to have it again.

    Images go least recently used first. Downloaded archives go only with --stage archives; working tables and published
    versions never (see `touchstone retain`).
    """
    from rich.console import Console
    from rich.table import Table

    from assets.visible import visible
    from pipeline.disk_use import Disk

    workshop = open_located(data, config)
    disk = Disk(workshop.store(), workshop.room, workshop.backend, free_mb=free_mb)
    uses = disk.look(stages) if dry_run else disk.free(stages)
    if as_json:
        click.echo(json.dumps({"dry_run": dry_run, "stages": [use.model_dump() for use in uses]}))
        return
    table = Table("stage", "holds MB", "could go" if dry_run else "freed MB", "to have it again", "note")
    for use in uses:
        amount = use.freeable if dry_run else use.freed
        table.add_row(use.stage, _mb(use.held), _mb(amount), use.back, visible(use.note))
    Console().print(table)


def _mb(size: int | None) -> str:
    return "-" if size is None else f"{size / 1e6:.1f}"
