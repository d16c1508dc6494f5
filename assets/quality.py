"""`touchstone quality …`: the blind sheet that people rate tasks on, out and in. The figures are `report quality`."""

from pathlib import Path

import click

from assets.located import located, not_empty, open_located


@click.group()
def quality() -> None:
    """Have people rate tasks, without knowing where these come from."""


@quality.command()
@located
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--per-bin", type=click.IntRange(min=1), default=20, show_default=True, help="Tasks of each score bin.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed, another sample.")
def sheet(data: Path | None, config: Path | None, file: Path, per_bin: int, seed: int) -> None:
    """Write a CSV sheet of tasks, equally many from each bin of repository scores."""
    from pipeline.quality.sampling import stratified
    from pipeline.quality.sheet import write_sheet
    from pipeline.stages.rating import bins, rateable

    store = open_located(data, config).store()
    chosen = stratified(rateable(store), bins(store), per_bin, seed)
    if not chosen:
        raise click.ClickException("no admitted task of a repository yet; `touchstone run` makes them")
    write_sheet(chosen, seed, file)
    click.echo(f"{len(chosen)} tasks in {file}; give each of its four columns a score of 1 (poor) to 5 (good)")


@quality.command()
@located
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--rater", required=True, callback=not_empty, help="What the rater is called in the tables.")
def read(data: Path | None, config: Path | None, file: Path, rater: str) -> None:
    """Keep the scores of a sheet that somebody filled in."""
    from pipeline.quality.sheet import read_sheet
    from pipeline.stages.rating import rateable, record

    store = open_located(data, config).store()
    ratings = read_sheet(file, rater, rateable(store).values())
    report = record(store, ratings)
    click.echo(f"{report.total - report.skipped} ratings kept, {report.skipped} were there already")
