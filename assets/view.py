"""`touchstone view`: the trajectories of the working tables as web pages. How they look is in pipeline/exports/html."""

import webbrowser
from pathlib import Path

import click

from assets.located import located, not_empty, open_located


@click.command()
@located
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    callback=lambda context, parameter, value: None if value is None else value.absolute(),
    help="Folder of the pages (default: view in the data folder); an earlier viewer in it is replaced.",
)
@click.option(
    "--only",
    metavar="PREFIX",
    callback=not_empty,
    help="Only attempts whose id, instance, or repository (id or name) begins so.",
)
@click.option("--open", "opened", is_flag=True, help="Open it in the web browser of this machine.")
def view(data: Path | None, config: Path | None, folder: Path | None, only: str | None, opened: bool) -> None:
    """Write a searchable viewer of all trajectories; it needs no server and no network."""
    from pipeline.exports.html.site import write_view

    workshop = open_located(data, config)
    made = write_view(workshop.store(), folder or workshop.data.absolute() / "view", only or "")
    click.echo(f"{made.trajectories} trajectories in {made.index}")
    if opened and not webbrowser.open(made.index.as_uri()):
        raise click.ClickException("no web browser is known here; open the file yourself")
