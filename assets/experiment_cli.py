"""`touchstone experiment`: does the cells of an experiment that are missing. See training/studies."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from assets.located import located, not_empty, open_located

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from assets.resources import Workshop
    from training.cells import Cell
    from training.studies.comparisons.results import ComparisonResult
    from training.studies.results import StudyResult

_INCOMPLETE = 1


class Asked(NamedTuple):
    """What is asked of any experiment."""

    name: str
    settings: Path | None
    base: Path | None
    gguf: Path | None
    most: int | None
    only_report: bool
    folder: Path
    """Of its results."""


@click.command()
@located
@click.argument("name", required=False, callback=not_empty)
@click.option(
    "--settings",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file with the sizes of the experiment.",
)
@click.option(
    "--base",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the weights that are trained (default: [learning] base of the settings).",
)
@click.option(
    "--gguf",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The same weights as a GGUF file, from which a CPU answers (default: [acting] gguf, if there is one).",
)
@click.option(
    "--arms",
    callback=not_empty,
    help="Arms of a comparison, with commas between them (default: all; those that are prompted with --gguf).",
)
@click.option("--seeds", callback=not_empty, help="Seeds of a comparison, with commas between them (default: 0,1,2).")
@click.option("--budget", type=click.IntRange(min=1), help="Token units that each arm of a comparison may spend.")
@click.option("--cells", "most", type=click.IntRange(min=1), help="Do at most so many cells now (default: all).")
@click.option("--report", "only_report", is_flag=True, help="Do nothing: make result.json and the plot anew.")
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of results (default: training/experiments of the project).",
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def experiment(
    data: Path | None,
    config: Path | None,
    name: str | None,
    settings: Path | None,
    base: Path | None,
    gguf: Path | None,
    arms: str | None,
    seeds: str | None,
    budget: int | None,
    most: int | None,
    only_report: bool,
    results: Path | None,
    as_json: bool,
) -> None:
    """Do what is missing of an experiment; without NAME, list them.

    Each cell, a part of a training or of an evaluation, leaves a line in NAME/cells.jsonl of the results, so that a
    stopped experiment goes on, also with lines that others committed. result.json and plot.png are made of the lines.
    Several of the same command at once share the evaluations: a model in a process answers one question at a time.
    A comparison is told its --arms, --seeds and --budget; more arms and seeds add to what is there.
    """
    from rich.console import Console

    from assets.experiments import RESULTS
    from training.studies.comparisons.registry import COMPARISONS

    console = Console(stderr=as_json, log_path=False)
    if name is None:
        _list(console)
        return
    asked = Asked(name, settings, base, gguf, most, only_report, (results or RESULTS) / name)
    options: dict[str, str | int | None] = {"arms": arms, "seeds": seeds, "budget": budget}
    kind = _compare if name in COMPARISONS else _study
    found = kind(console, asked, options, lambda: open_located(data, config))
    if as_json:
        click.echo(found.model_dump_json())
    if most is None and not only_report and found.cells_done < found.cells_planned:
        raise SystemExit(_INCOMPLETE)


def _study(
    console: "Console", asked: "Asked", options: "dict[str, str | int | None]", workshop: "Callable[[], Workshop]"
) -> "StudyResult":
    from assets.experiment_figures import result_remarks, result_tables
    from assets.experiments import CELLS, command_of, do_study, study_of, study_type, write_result
    from assets.progress import ProgressBars
    from training.cells import Cells

    kind, setting = study_type(asked.name), None
    _refuse(asked.name, options, "they are of comparisons, and its own arms and seeds are settings")
    if not asked.only_report:
        study = study_of(asked.name, asked.settings, asked.base, asked.gguf)
        command = command_of(asked.name, settings=asked.settings, base=asked.base, gguf=asked.gguf)
        with ProgressBars(console):
            setting = do_study(workshop(), study, Cells(asked.folder / CELLS), asked.most, _log(console), command)
    found = write_result(kind, asked.folder, setting)
    _show(console, result_tables(found), result_remarks(found))
    return found


def _compare(
    console: "Console", asked: "Asked", options: "dict[str, str | int | None]", workshop: "Callable[[], Workshop]"
) -> "ComparisonResult":
    from assets.comparing import comparison_command, config_of, do_cells, write_comparison
    from assets.comparison_figures import comparison_remarks, comparison_tables
    from assets.experiments import CELLS
    from assets.progress import ProgressBars
    from training.cells import Cells
    from training.studies.comparisons.registry import COMPARISONS

    comparison, setting = COMPARISONS[asked.name], None
    _refuse(asked.name, {"base": asked.base}, "its arms begin from weights of their own")
    if asked.only_report:
        _refuse(asked.name, options, "--report is of all that is known")
    else:
        config = config_of(comparison, asked.settings, asked.gguf, options)
        command = comparison_command(asked.name, asked.settings, asked.gguf, options)
        with ProgressBars(console):
            setting = do_cells(
                workshop().data, comparison, config, Cells(asked.folder / CELLS), asked.most, _log(console), command
            )
    found = write_comparison(comparison, asked.folder, setting)
    _show(console, comparison_tables(found), comparison_remarks(found))
    return found


def _refuse(name: str, options: "Mapping[str, Path | str | int | None]", reason: str) -> None:
    """Raises ConfigurationError for an option that does not belong to an experiment."""
    from pipeline.errors import ConfigurationError

    if given := [f"--{option}" for option, value in options.items() if value is not None]:
        raise ConfigurationError(f"{' and '.join(given)} cannot be given with {name}: {reason}; leave it out")


def _log(console: "Console") -> "Callable[[Cell, int, int], None]":
    return lambda cell, done, of: console.log(f"{cell.name}: {done} of {of} cells", markup=False)


def _list(console: "Console") -> None:
    from training.studies.comparisons.registry import COMPARISONS
    from training.studies.registry import STUDIES

    told = [
        *((one.name, one.about) for one in STUDIES.values()),
        *((one.name, one.about) for one in COMPARISONS.values()),
    ]
    for name, about in told:
        console.print(f"{name}: {about}", soft_wrap=True, markup=False, highlight=False)


def _show(console: "Console", tables: "Sequence[Table]", remarks: "Sequence[str]") -> None:
    for table in tables:
        console.print(table)
    for remark in remarks:
        console.print(remark, soft_wrap=True, highlight=False, markup=False)
