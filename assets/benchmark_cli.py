"""`touchstone benchmark`: plays the held-out tasks of a benchmark of hierarchies with one agent, and scores it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.located import located, not_empty, open_located

if TYPE_CHECKING:
    from rich.table import Table

    from training.benchmark import BenchmarkScore


@click.command()
@located
@click.argument("reference", metavar="NAME[@VERSION]", callback=not_empty)
@click.option("--agent", default="step_hrl", callback=not_empty, metavar="NAME", help="Who acts (default: step_hrl).")
@click.option(
    "--split",
    "splits",
    type=click.Choice(["id", "ood"]),
    multiple=True,
    default=("id", "ood"),
    help="Of the tasks (default: both; may be given several times).",
)
@click.option("--limit", type=click.IntRange(min=1), help="At most so many tasks of each split.")
@click.option(
    "--local-model",
    metavar="FILE",
    callback=not_empty,
    help="smollm2, or the path of a GGUF file, started on this machine (default: the model of [model]).",
)
@click.option("--temperature", type=click.FloatRange(min=0), default=0.0, help="Of the model (default: 0).")
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def benchmark(
    data: Path | None,
    config: Path | None,
    reference: str,
    agent: str,
    splits: tuple[str, ...],
    limit: int | None,
    local_model: str | None,
    temperature: float,
    as_json: bool,
) -> None:
    """Attempt each held-out task of a benchmark (hierarchical-scienceworld, -alfworld, -textcraft) once, and score it.

    Strict pass@1 and the mean last score, apart for new tasks of known types (id) and for types that are in no row of
    train (ood). The same command again makes only the attempts that are missing.
    """
    import os

    from rich.console import Console

    from assets.attempting import AttemptsResource
    from assets.progress import ProgressBars
    from pipeline.agents import NAMES
    from pipeline.attempts import SamplesConfig
    from pipeline.errors import ConfigurationError
    from pipeline.snapshots import locate
    from pipeline.stages.options import Options
    from training.benchmark import score
    from training.benchmark_tasks import attempt, game_of, store_of, tasks_of
    from training.environments.suite import GameSuite

    if agent not in NAMES:
        raise ConfigurationError(f"there is no agent {agent!r}; there are {', '.join(NAMES)}")
    workshop = open_located(data, config)
    try:
        version = locate(workshop.data, reference)
    except ValueError as error:
        raise ConfigurationError(f"{error}; the job `hierarchy` publishes the benchmarks") from error
    if local_model not in {None, "smollm2"}:
        local_model = os.path.abspath(local_model)
    model = AttemptsResource(local_model=local_model or "").model(workshop)
    store = store_of(workshop.data, f"{version.parent.name}@{version.name}")
    game, max_steps = game_of(version)
    suite = GameSuite(game, workshop.settings.environments.processes)
    options = Options(workers=workshop.settings.environments.processes)
    samples = SamplesConfig(count=1, temperatures=(temperature,))
    try:
        with ProgressBars(Console(stderr=as_json, log_path=False)):
            attempt(
                store,
                tasks_of(version, suite, splits, limit),
                suite,
                agent,
                model,
                samples,
                options,
                max_steps=max_steps,
            )
    finally:
        suite.close()
    found = score(version, store, agent, _name(agent, model), splits)
    if as_json:
        click.echo(found.model_dump_json())
        return
    Console().print(_table(found))


def _name(agent: str, model: object) -> str | None:
    """Of the model that acted; agents that ask none have none."""
    from pipeline.agents import MODELLED

    return str(getattr(model, "name", "")) if agent in MODELLED else None


def _table(found: "BenchmarkScore") -> "Table":
    from rich.table import Table

    title = f"{found.benchmark}: {found.agent}" + (f" with {found.model}" if found.model else "")
    table = Table("tasks", "count", "judged", "pass@1", "final score", "steps", title=title)
    for split, told in found.splits.items():
        groups = {split: told} | {f"{split}, {level}": one for level, one in told.by_difficulty.items()}
        for name, one in groups.items():
            rates = [
                "-" if mean is None else f"{mean.mean:.3f} [{mean.low:.3f}, {mean.high:.3f}]"
                for mean in (one.pass_at_1, one.final_score)
            ]
            steps = "-" if one.mean_steps is None else f"{one.mean_steps:.1f}"
            table.add_row(name, str(one.tasks), str(one.judged), *rates, steps)
    return table
