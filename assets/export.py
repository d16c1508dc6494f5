"""`touchstone export …`: tasks and attempts in the formats of other programs. The formats are in pipeline/exports."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.export_tokens import tokens
from assets.export_versions import COMMANDS, from_snapshot, say
from assets.located import located, not_empty, open_located

if TYPE_CHECKING:
    from assets.resources import Workshop
    from pipeline.exports.account import VersionExport
    from pipeline.exports.harbor import HarborExport


@click.group()
def export() -> None:
    """Published versions, admitted tasks and recorded attempts in the formats of other programs."""


for _command in (*COMMANDS, tokens):
    export.add_command(_command)


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
@from_snapshot
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def harbor(
    data: Path | None,
    config: Path | None,
    folder: Path,
    instances: tuple[str, ...],
    snapshot: str | None,
    split: str | None,
    as_json: bool,
) -> None:
    """Write a Harbor task folder for each admitted instance below FOLDER, which must be empty or not there.

    With --snapshot for each task of a published version, whose images have to be in the engine or its registry.
    """
    workshop = open_located(data, config)
    if snapshot is not None:
        if instances:
            raise click.UsageError("--instance chooses among admitted instances, --snapshot takes those of a version")
        say(version_tasks(workshop, folder, snapshot, split), as_json)
        return
    made = harbor_export(workshop, folder, instances)
    if as_json:
        click.echo(json.dumps(made.model_dump()))
        return
    click.echo(f"{len(made.tasks)} tasks in {made.folder}; `harbor run --path {made.folder} --agent oracle` tries them")


def harbor_export(workshop: "Workshop", folder: Path, instances: tuple[str, ...]) -> "HarborExport":
    """The selected instances, or those named, as task folders on the images of this engine or its registry."""
    from pipeline.exports.harbor import export_tasks
    from pipeline.exports.tasks import selected_tasks

    tasks = selected_tasks(workshop.store(), instances)
    return export_tasks(tasks, folder, *_images(workshop))


def version_tasks(workshop: "Workshop", folder: Path, snapshot: str, split: str | None) -> "VersionExport":
    """The tasks of a published version as task folders on the images of this engine or its registry."""
    from pipeline.exports.harbor import export_version_tasks
    from pipeline.exports.published import published

    version = published(workshop.data, snapshot)
    return export_version_tasks(version, folder, *_images(workshop), split)


def _images(workshop: "Workshop") -> tuple[str, Callable[[str], str]]:
    """A reference of the verifier runtime, and what gives those of other images."""
    from sandbox.building.references import References
    from sandbox.engine import connect
    from sandbox.verifier.verifier_runtime import VerifierRuntime

    client = connect(workshop.data)
    references = References(client, workshop.registry())
    return references.of(VerifierRuntime(client, workshop.bases()).image().digest), references.of


def _attempts(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments of an export of recorded attempts."""
    command = click.option("--json", "as_json", is_flag=True, help="One JSON line only.")(command)
    command = click.option(
        "--trajectory", default=None, metavar="ID", callback=not_empty, help="Only ids that are this or begin so."
    )(command)
    return located(click.argument("folder", type=click.Path(path_type=Path))(command))


@export.command()
@_attempts
@from_snapshot
def atif(
    data: Path | None,
    config: Path | None,
    folder: Path,
    trajectory: str | None,
    snapshot: str | None,
    split: str | None,
    as_json: bool,
) -> None:
    """Write each attempt as an ATIF document, in a job folder below FOLDER, which must be empty or not there.

    With --snapshot each attempt of a published version, as it stands there.
    """
    from pipeline.exports.atif_job import export_job, export_version_job
    from pipeline.exports.published import published
    from pipeline.exports.recorded import recorded_attempts

    workshop = open_located(data, config)
    if snapshot is not None:
        if trajectory:
            raise click.UsageError("--trajectory chooses among recorded attempts, --snapshot takes those of a version")
        say(export_version_job(published(workshop.data, snapshot), folder, split), as_json)
        return
    made = export_job(recorded_attempts(workshop.store(), trajectory or ""), folder)
    if as_json:
        click.echo(json.dumps(made.model_dump()))
        return
    click.echo(f"{len(made.trajectories)} attempts in {made.folder}; `harbor view {made.folder}` shows them")


@export.command()
@_attempts
def asciicast(data: Path | None, config: Path | None, folder: Path, trajectory: str | None, as_json: bool) -> None:
    """Write a recording of each attempt to FOLDER, which must be empty or not there."""
    from pipeline.exports.asciicast import export_casts
    from pipeline.exports.recorded import recorded_attempts

    made = export_casts(recorded_attempts(open_located(data, config).store(), trajectory or ""), folder)
    if as_json:
        click.echo(json.dumps(made.model_dump()))
        return
    click.echo(f"{len(made.trajectories)} recordings in {made.folder}; `asciinema play FILE` plays one")
