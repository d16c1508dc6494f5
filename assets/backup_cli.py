"""`touchstone backup` and `touchstone restore`. What is kept, and in which order, is in pipeline/backup.py."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.located import located, open_located

if TYPE_CHECKING:
    from pipeline.backup import Backup

_FOLDER = click.Path(path_type=Path)


@click.command()
@located
@click.argument("folder", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def backup(data: Path | None, config: Path | None, folder: Path, as_json: bool) -> None:
    """Copy what cannot be had again to a new FOLDER, the history of runs included; runs may go on meanwhile."""
    from assets.postgres_dump import dump
    from assets.resources import postgres_address
    from pipeline.backup import back_up

    workshop = open_located(data, config)
    address = postgres_address()
    made = back_up(workshop.data, folder, functools.partial(dump, address) if address else None)
    _say(made, f"Backed up to {folder}", as_json)


@click.command()
@located
@click.argument("folder", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def restore(data: Path | None, config: Path | None, folder: Path, as_json: bool) -> None:
    """Bring the back-up in FOLDER into an empty data folder and an empty database, checked file by file.

    Nothing else may use them meanwhile: stop Dagster first.
    """
    from assets.postgres_dump import fill
    from assets.resources import postgres_address
    from pipeline.backup import restore

    workshop = open_located(data, config)
    address = postgres_address()
    made = restore(folder, workshop.data, functools.partial(fill, address) if address else None)
    _say(made, f"Restored to {workshop.data}", as_json)


def _say(made: "Backup", done: str, as_json: bool) -> None:
    if as_json:
        click.echo(made.model_dump_json(exclude={"files"}))
        return
    rows = ", ".join(f"{name} {count}" for name, count in made.rows.items() if count)
    runs = "in files" if made.server is None else f"{made.server.get('runs', 0)} in PostgreSQL"
    size = sum(file.bytes for file in made.files) / 1e6
    click.echo(f"{done}: {len(made.files)} files, {size:.1f} MB; versions: {', '.join(made.versions) or 'none'}")
    click.echo(f"Rows: {rows or 'none'}; runs: {runs}")
