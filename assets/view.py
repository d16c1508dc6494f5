"""`touchstone view`: the trajectories of the working tables as web pages. How they look is in pipeline/exports/html."""

import contextlib
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.located import located, not_empty, open_located

if TYPE_CHECKING:
    from pipeline.tables import Store

VIEWER_PORT = 3200
"""Where the links in the Dagster UI lead."""


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
@click.option("--serve", is_flag=True, help="Serve it to browsers of this machine until Ctrl-C, new attempts included.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=VIEWER_PORT,
    help=f"Of --serve (links lead to {VIEWER_PORT}).",
)
def view(
    data: Path | None, config: Path | None, folder: Path | None, only: str | None, opened: bool, serve: bool, port: int
) -> None:
    """Write a searchable viewer of all trajectories; it needs no server and no network."""
    from pipeline.exports.html.site import write_view

    workshop = open_located(data, config)
    if serve:
        _serve(workshop.store(), folder or workshop.data.absolute() / "view", only or "", port, opened)
        return
    made = write_view(workshop.store(), folder or workshop.data.absolute() / "view", only or "")
    click.echo(f"{made.trajectories} trajectories in {made.index}")
    if opened and not webbrowser.open(made.index.as_uri()):
        raise click.ClickException("no web browser is known here; open the file yourself")


def _serve(store: "Store", folder: Path, only: str, port: int, opened: bool) -> None:
    from assets.view_server import HOST, ViewPages, view_server

    try:
        server = view_server(ViewPages(store, folder, only), port)
    except OSError as error:
        raise click.ClickException(f"port {port} of {HOST} cannot be used: {error}") from error
    address = f"http://{HOST}:{server.server_address[1]}/"
    click.echo(f"all attempts at {address} (Ctrl-C ends it)")
    if opened:
        webbrowser.open(address)
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
