"""`touchstone hierarchy`: divides published attempts into sub-goals and publishes the data sets made of them."""

import json
import sys
from pathlib import Path

import click

from assets.located import located, not_empty, open_located


@click.command()
@located
@click.option(
    "--retry", type=click.Choice(["none", "infrastructure", "all"]), default="none", help="Failed items to try again."
)
@click.option("--only", multiple=True, metavar="ID", callback=not_empty, help="Retry only these items.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def hierarchy(data: Path | None, config: Path | None, retry: str, only: tuple[str, ...], as_json: bool) -> None:
    """Materialize the job `hierarchy`: annotations, and the data sets and benchmarks of hierarchies made of them."""
    from rich.console import Console

    from assets.launch import run_job, side_config
    from assets.progress import ProgressBars
    from assets.resources import code_commit
    from assets.run_tags import COMMIT
    from assets.visible import visible
    from pipeline.hierarchy.columns import DATASETS
    from pipeline.snapshots import versions
    from pipeline.stages.benchmarks import PREFIX

    console = Console(stderr=as_json, log_path=False)
    workshop = open_located(data, config)
    with ProgressBars(console):
        error = run_job(workshop, "hierarchy", side_config(retry, only), {COMMIT: code_commit() or "unknown"})
    benchmarks = sorted(path.name for path in (workshop.data / "snapshots").glob(f"{PREFIX}*"))
    newest = [one for name in (*DATASETS, *benchmarks) for one in versions(workshop.data, name)[-1:]]
    for one in newest:
        found = f"Snapshot {one.name} {one.version}: {one.rows} rows in {one.path}"
        console.print(found, soft_wrap=True, markup=False)
    if as_json:
        click.echo(json.dumps({f"{one.name}@{one.version}": one.rows for one in newest}))
    if error is not None:
        console.print(visible("The run failed: ", "red") + visible(error), soft_wrap=True)
        sys.exit(1)
