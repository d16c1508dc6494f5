"""`touchstone environments …`: the games that agents act in. How they are played is in training/environments/."""

import json
import sys
from collections import Counter
from pathlib import Path

import click

from assets.located import located, not_empty, open_located


@click.group()
def environments() -> None:
    """Games that agents act in: their tasks, and attempts at them."""


@environments.command()
@located
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def tasks(data: Path | None, config: Path | None, as_json: bool) -> None:
    """How many tasks the settings choose of each game, by split and difficulty."""
    from rich.console import Console
    from rich.table import Table

    from assets.games import chosen_tasks

    workshop = open_located(data, config)
    table = Table("game", "split", "templates", "tasks", "easy", "medium", "hard", "gold steps")
    told: dict[str, dict[str, object]] = {}
    for name in workshop.settings.environments.games:
        found = chosen_tasks(workshop, name)
        told[name] = {}
        for split in dict.fromkeys(task.split for task in found):
            of_split = [task for task in found if task.split == split]
            levels = Counter(task.difficulty for task in of_split)
            templates, steps = {task.task_type for task in of_split}, sum(task.gold_steps for task in of_split)
            numbers = [len(templates), len(of_split), *(levels[level] for level in ("easy", "medium", "hard")), steps]
            table.add_row(name, split, *map(str, numbers))
            counts = {"templates": len(templates), "tasks": len(of_split), "gold_steps": steps}
            told[name][split] = counts | dict(levels)
    if as_json:
        click.echo(json.dumps(told))
        return
    Console().print(table)


@environments.command()
@located
@click.option(
    "--retry", type=click.Choice(["none", "infrastructure", "all"]), default="none", help="Failed items to try again."
)
@click.option("--only", multiple=True, metavar="ID", callback=not_empty, help="Retry only these items.")
def play(data: Path | None, config: Path | None, retry: str, only: tuple[str, ...]) -> None:
    """Materialize the job `environments`: tasks, attempts, verdicts and a published version of [environments]."""
    from rich.console import Console

    from assets.launch import run_job, side_config
    from assets.progress import ProgressBars
    from assets.resources import code_commit
    from assets.run_tags import COMMIT
    from assets.visible import visible
    from pipeline.snapshots import versions

    console = Console(log_path=False)
    workshop = open_located(data, config)
    with ProgressBars(console):
        error = run_job(workshop, "environments", side_config(retry, only), {COMMIT: code_commit() or "unknown"})
    if error is not None:
        console.print(visible("The run failed: ", "red") + visible(error), soft_wrap=True)
        sys.exit(1)
    for version in versions(workshop.data, workshop.settings.environments.snapshot)[-1:]:
        found = f"Snapshot {version.name} {version.version}: {version.rows} rows in {version.path}"
        console.print(found, soft_wrap=True, markup=False)
