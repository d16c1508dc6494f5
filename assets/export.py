"""`touchstone export …`: admitted tasks in the formats of other programs. The formats are in pipeline/exports."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.located import located, not_empty, open_located

if TYPE_CHECKING:
    from assets.resources import Workshop
    from pipeline.exports.harbor import HarborExport


@click.group()
def export() -> None:
    """Admitted tasks in the formats of other programs."""


@export.command()
@located
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--instance",
    "instances",
    multiple=True,
    metavar="ID",
    callback=not_empty,
    help="Only this instance (may be given several times).",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def harbor(data: Path | None, config: Path | None, folder: Path, instances: tuple[str, ...], as_json: bool) -> None:
    """Write a Harbor task folder for each admitted instance below FOLDER, which must be empty or not there."""
    made = harbor_export(open_located(data, config), folder, instances)
    if as_json:
        click.echo(json.dumps(made.model_dump()))
        return
    click.echo(f"{len(made.tasks)} tasks in {made.folder}; `harbor run --path {made.folder} --agent oracle` tries them")


def harbor_export(workshop: "Workshop", folder: Path, instances: tuple[str, ...]) -> "HarborExport":
    """The selected instances, or those named, as task folders on the images of this engine or its registry."""
    from pipeline.exports.harbor import export_tasks
    from pipeline.exports.tasks import selected_tasks
    from sandbox.building.references import References
    from sandbox.engine import connect
    from sandbox.verifier.verifier_runtime import VerifierRuntime

    tasks = selected_tasks(workshop.store(), instances)
    client = connect(workshop.data)
    references = References(client, workshop.registry())
    runtime = VerifierRuntime(client, workshop.bases()).image().digest
    return export_tasks(tasks, folder, references.of(runtime), references.of)
