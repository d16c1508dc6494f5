"""`touchstone evaluate`: makes an evaluation, shows one, or compares two. See training/evaluate.py."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.located import located, not_empty, open_located

if TYPE_CHECKING:
    from assets.resources import Workshop
    from training.evaluation_tasks import Selection


@click.command()
@located
@click.option("--name", callback=not_empty, help="Its folder below evaluations/ (default: of model, agent and choice).")
@click.option("--agent", type=click.Choice(["bash", "terminus"]), default="bash", help="Who acts (default: bash).")
@click.option("--runs", type=click.IntRange(min=1), default=4, help="Attempts at each instance (default: 4).")
@click.option(
    "--split", type=click.Choice(["test", "validation"]), help="Held-out instances made here (default: test)."
)
@click.option("--families", callback=not_empty, metavar="NAMES", help="Only these families of tasks, e.g. a,b.")
@click.option("--source", callback=not_empty, metavar="NAME", help="Of this source; tasks: imported task folders.")
@click.option(
    "--instances",
    "listed",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with an id of an instance in each line.",
)
@click.option("--limit", type=click.IntRange(min=1), help="At most so many instances, the first ones by their ids.")
@click.option("--max-steps", type=click.IntRange(min=1), help="Decisions of each attempt (default: that of [rollout]).")
@click.option("--temperature", type=click.FloatRange(min=0), help="Of the model (default: 0.7).")
@click.option(
    "--model",
    "trained_model",
    metavar="NAME[@VERSION]",
    callback=not_empty,
    help="The version of models/ that is evaluated: what it was trained on is left out.",
)
@click.option(
    "--base",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --model: weights of its adapter, to answer in this process (default: whoever [model] names answers).",
)
@click.option(
    "--local-model",
    metavar="FILE",
    callback=not_empty,
    help="smollm2, or the path of a GGUF file, started on this machine (default: the model of [model]).",
)
@click.option("--report", "shown", metavar="NAME", callback=not_empty, help="Evaluate nothing: show this evaluation.")
@click.option("--compare", "pair", nargs=2, metavar="A B", callback=not_empty, help="Evaluate nothing: B less A.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def evaluate(
    data: Path | None,
    config: Path | None,
    name: str | None,
    agent: str,
    runs: int,
    split: str | None,
    families: str | None,
    source: str | None,
    listed: Path | None,
    limit: int | None,
    max_steps: int | None,
    temperature: float | None,
    trained_model: str | None,
    base: Path | None,
    local_model: str | None,
    shown: str | None,
    pair: tuple[str, str] | None,
    as_json: bool,
) -> None:
    """Evaluate a model on held-out instances, as often as asked; the same command goes on where it was stopped.

    Results lie in evaluations/NAME of the data folder, which is never published or trained on. Benchmarks are told
    apart and never averaged.
    """
    if base is not None and (trained_model is None or local_model is not None):
        raise click.UsageError("--base goes with --model, and says who answers: leave --local-model out")
    workshop = open_located(data, config)
    if pair is not None:
        _compare(workshop, pair, as_json=as_json)
        return
    if shown is None:
        from rich.console import Console

        from assets.evaluating import config_of, name_of, policy_of, run_evaluation
        from assets.progress import ProgressBars

        selection = _selection(split, families, source, listed, limit)
        chosen = config_of(workshop, agent, runs, temperature, max_steps)
        policy = policy_of(workshop, trained_model, base, _local(local_model))
        shown = name or name_of(policy, chosen, selection)
        with ProgressBars(Console(stderr=as_json, log_path=False)):
            run_evaluation(workshop, shown, selection, policy, chosen)
    _report(workshop, shown, as_json=as_json)


def _selection(
    split: str | None, families: str | None, source: str | None, listed: Path | None, limit: int | None
) -> "Selection":
    from training.evaluation_tasks import Selection

    if split is None and families is None and source is None and listed is None:
        split = "test"
    ids = listed.read_text(encoding="utf-8").split() if listed is not None else []
    if listed is not None and not ids:
        raise click.UsageError(f"{listed} names no instance")
    return Selection.model_validate(
        {
            "split": split,
            "families": sorted(families.split(",")) if families else [],
            "source": source,
            "instances": sorted(set(ids)),
            "limit": limit,
        }
    )


def _local(model: str | None) -> str | None:
    """Relative to where the command is given, not to the settings."""
    from pipeline.llm.weights import SMOLLM2

    return model if model in {None, SMOLLM2} else str(Path(str(model)).absolute())


def _report(workshop: "Workshop", name: str, *, as_json: bool) -> None:
    from rich.console import Console

    from assets.evaluation_figures import report_remarks, report_tables, write_plot
    from training.evaluation_folder import EvaluationFolder
    from training.evaluation_report import evaluation_report

    folder = EvaluationFolder(workshop.data, name)
    found = evaluation_report(folder)
    plot = write_plot(found, folder.path)
    if as_json:
        click.echo(found.model_dump_json())
        return
    console = Console()
    for table in report_tables(found):
        console.print(table)
    for remark in [*report_remarks(found), *([f"pass@k as a picture: {plot}"] if plot else [])]:
        console.print(remark, soft_wrap=True, highlight=False, markup=False)


def _compare(workshop: "Workshop", pair: tuple[str, str], *, as_json: bool) -> None:
    from rich.console import Console

    from assets.evaluation_figures import comparison_remarks, comparison_tables
    from training.evaluation_compare import compare
    from training.evaluation_folder import EvaluationFolder

    first, second = (EvaluationFolder(workshop.data, name) for name in pair)
    found = compare(first, second)
    if as_json:
        click.echo(found.model_dump_json())
        return
    console = Console()
    for table in comparison_tables(found):
        console.print(table)
    for remark in comparison_remarks(found):
        console.print(remark, soft_wrap=True, highlight=False, markup=False)
