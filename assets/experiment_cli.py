"""`touchstone experiment`: does the cells of an experiment that are missing. See training/studies."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.located import located, not_empty, open_located

if TYPE_CHECKING:
    from rich.console import Console

    from training.studies.results import StudyResult

_INCOMPLETE = 1


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
    most: int | None,
    only_report: bool,
    results: Path | None,
    as_json: bool,
) -> None:
    """Do what is missing of an experiment; without NAME, list them.

    Each cell, a part of a training or of an evaluation, leaves a line in NAME/cells.jsonl of the results, so that a
    stopped experiment goes on, also with lines that others committed. result.json and plot.png are made of the lines.
    Several of the same command at once share the evaluations: a model in a process answers one question at a time.
    """
    from rich.console import Console

    from assets.experiments import CELLS, RESULTS, command_of, do_study, study_of, study_type, write_result
    from training.cells import Cells

    console = Console(stderr=as_json, log_path=False)
    if name is None:
        _list(console)
        return
    folder, setting = (results or RESULTS) / name, None
    if not only_report:
        from assets.progress import ProgressBars

        study = study_of(name, settings, base, gguf)
        with ProgressBars(console):
            setting = do_study(
                open_located(data, config),
                study,
                Cells(folder / CELLS),
                most,
                lambda cell, done, of: console.log(f"{cell.name}: {done} of {of} cells", markup=False),
                command_of(name, settings=settings, base=base, gguf=gguf),
            )
    found = write_result(study_type(name), folder, setting)
    _show(console, found)
    if as_json:
        click.echo(found.model_dump_json())
    if most is None and not only_report and found.cells_done < found.cells_planned:
        raise SystemExit(_INCOMPLETE)


def _list(console: "Console") -> None:
    from training.studies.registry import STUDIES

    for study in STUDIES.values():
        console.print(f"{study.name}: {study.about}", soft_wrap=True, markup=False, highlight=False)


def _show(console: "Console", found: "StudyResult") -> None:
    from assets.experiment_figures import result_remarks, result_tables

    for table in result_tables(found):
        console.print(table)
    for remark in result_remarks(found):
        console.print(remark, soft_wrap=True, highlight=False, markup=False)
