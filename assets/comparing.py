"""What `touchstone experiment` does for a comparison: its settings, its cells, and what is written down."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from assets.experiments import CELLS, PLOT, command_of, configured, write_json
from assets.resources import code_commit
from assets.training_packages import NEEDED, need_training_packages
from sandbox.locks import exclusive

if TYPE_CHECKING:
    from training.cells import Cell, Cells
    from training.studies.comparisons.comparison import Comparison, ComparisonConfig
    from training.studies.comparisons.results import ComparisonResult


def config_of(
    comparison: "Comparison", settings: Path | None, gguf: Path | None, options: dict[str, str | int | None]
) -> "ComparisonConfig":
    """The settings of a TOML file, with `options` (arms and seeds with commas, budget) before what it says.

    Raises ConfigurationError.
    """
    chosen = {
        name: [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        for name, value in options.items()
        if value is not None
    }
    return configured(
        settings, (("gguf",),), {"gguf": gguf}, lambda told: comparison.config.model_validate(told | chosen)
    )


def comparison_command(
    name: str, settings: Path | None, gguf: Path | None, options: dict[str, str | int | None]
) -> str:
    """What was given to make a plan, files by their names alone."""
    said = [f"--{option} {value}" for option, value in options.items() if value is not None]
    return " ".join([command_of(name, settings=settings, gguf=gguf), *said])


def do_cells(
    data: Path,
    comparison: "Comparison",
    config: "ComparisonConfig",
    cells: "Cells",
    most: int | None,
    on_cell: "Callable[[Cell, int, int], None]",
    command: str,
) -> str:
    """Do cells that are missing; the setting that they belong to. Raises ConfigurationError."""
    from training.studies.comparisons.comparison import GGUF
    from training.studies.comparisons.planning import chosen_of
    from training.studies.comparisons.running import Place, do_comparison

    for backbone in {comparison.arms[arm].backbone for arm in chosen_of(comparison, config).arms}:
        need_training_packages(("xllamacpp",) if backbone == GGUF else NEEDED)
    return do_comparison(comparison, config, Place(data, code_commit(), command), cells, most, on_cell)


def write_comparison(comparison: "Comparison", folder: Path, setting: str | None) -> "ComparisonResult":
    """Write result.json and the plot of what is known, and return it. Raises ConfigurationError without a plan."""
    from assets.comparison_figures import write_comparison_plot
    from training.cells import Cells
    from training.studies.comparisons.results import result_of

    cells = Cells(folder / CELLS)
    found = result_of(comparison, cells, setting)  # there is a plan, so there is a file to lock
    with exclusive(cells.file, str(cells.file)):  # another process may end at the same time
        found = result_of(comparison, cells, setting)
        write_json(found, folder)
        write_comparison_plot(found, folder / PLOT)
    return found
