"""`touchstone train` and `touchstone models`. How models are trained and kept is in training/."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.located import located, not_empty, open_located

if TYPE_CHECKING:
    from training.models import Training

_JSON = click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")


@click.command()
@located
@click.argument("how", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--snapshot", metavar="NAME[@VERSION]", callback=not_empty, help="Rows to learn from (default: newest).")
@click.option("--name", callback=not_empty, help="Of the model (default: that of [training]).")
@click.option("--devices", type=click.IntRange(min=1), help="GPUs of this machine (default: those of [training]).")
@_JSON
def train(
    data: Path | None,
    config: Path | None,
    how: Path,
    snapshot: str | None,
    name: str | None,
    devices: int | None,
    as_json: bool,
) -> None:
    """Fine-tune a model on the rows in `train` of a published version, as the table [sft] of FILE says.

    A training that was stopped goes on from its newest checkpoint when the command is given again. The model is a new
    version below models/NAME of the data folder, with a card, and with the rows that it was trained on.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from assets.resources import code_commit
    from assets.training_packages import need_training_packages

    need_training_packages()
    from training.launch import fine_tune_on

    workshop = open_located(data, config)
    told = workshop.settings.training
    columns = (TextColumn("steps"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("steps", total=None)
        model = fine_tune_on(
            devices or told.devices,
            how,
            workshop.data,
            snapshot or workshop.settings.snapshot,
            name or told.model,
            code_commit=code_commit(),
            on_step=lambda done, of: bars.update(task, completed=done, total=of),
        )
    if as_json:
        click.echo(json.dumps({"model": model.reference, "folder": str(model.folder), **_told(model.file.training)}))
        return
    found = model.file.training
    click.echo(f"{model.reference}: {found.rows} rows of {found.snapshot}, {found.steps} steps, loss ", nl=False)
    click.echo(f"{found.first_loss:.4f} -> {found.last_loss:.4f}, in {model.folder}")


@click.command()
@located
@click.argument("name", required=False, callback=not_empty)
@_JSON
def models(data: Path | None, config: Path | None, name: str | None, as_json: bool) -> None:
    """List the models that were trained here, the versions of one NAME or of all."""
    from rich.console import Console
    from rich.table import Column, Table

    from assets.visible import visible
    from training.models import model_names
    from training.models import models as versions

    workshop = open_located(data, config)
    found = [one for each in ([name] if name else model_names(workshop.data)) for one in versions(workshop.data, each)]
    if name is not None and not found:
        raise click.ClickException(f"there is no model {name!r}")
    if as_json:
        click.echo(json.dumps([{"model": one.reference, **_told(one.file.training)} for one in found]))
        return
    table = Table(Column("model", no_wrap=True), "kind", "base", "snapshot", "rows", "steps", "loss", "trained")
    for one in found:
        told = one.file.training
        loss = f"{told.first_loss:.3f} -> {told.last_loss:.3f}"
        numbers = (str(told.rows), str(told.steps), loss)
        table.add_row(one.reference, one.file.kind, visible(told.base), told.snapshot, *numbers, one.file.created_at)
    Console().print(table)


def _told(training: "Training") -> dict[str, object]:
    names = {"base", "snapshot", "rows", "steps", "first_loss", "last_loss", "validation_loss", "seconds"}
    return training.model_dump(include=names)
