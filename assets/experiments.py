"""What `touchstone experiment` does: a study from its settings, its cells on this machine, and what is written down."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from assets.resources import PROJECT, Workshop, code_commit
from assets.training_packages import NEEDED, need_training_packages
from pipeline.disk import sync
from pipeline.errors import ConfigurationError
from pipeline.stages.options import Options
from pipeline.types import Record

if TYPE_CHECKING:
    from training.cells import Cell, Cells
    from training.studies.results import StudyResult
    from training.studies.study import Study

RESULTS = PROJECT / "training" / "experiments"
CELLS, RESULT, PLOT = "cells.jsonl", "result.json", "plot.png"

Configured = TypeVar("Configured")


def study_type(name: str) -> "type[Study]":
    """Raises ConfigurationError for a name that is none."""
    from training.studies.comparisons.registry import COMPARISONS
    from training.studies.registry import STUDIES

    if name not in STUDIES:
        raise ConfigurationError(f"there is no experiment {name!r}; there are {', '.join([*STUDIES, *COMPARISONS])}")
    return STUDIES[name]


def study_of(name: str, settings: Path | None, base: Path | None = None, gguf: Path | None = None) -> "Study":
    """The experiment with the settings of a TOML file, whose paths are relative to it, and with other weights if given.

    Raises ConfigurationError.
    """
    kind = study_type(name)
    return configured(settings, kind.paths, {"base": base, "gguf": gguf}, kind.of)


def configured(
    settings: Path | None,
    paths: Sequence[Sequence[str]],
    chosen: Mapping[str, Path | None],
    of: Callable[[dict[str, object]], Configured],
) -> Configured:
    """What `of` makes of the settings of a TOML file, whose `paths` are relative to it, or are `chosen`.

    Raises ConfigurationError.
    """
    try:
        told = {} if settings is None else tomllib.loads(settings.read_text(encoding="utf-8"))
        folder = Path() if settings is None else settings.absolute().parent
        for *tables, path in paths:
            part = told
            for table in tables:
                part = part.setdefault(table, {})
            if (given := chosen.get(path)) is not None:
                part[path] = given.absolute()
            elif isinstance(part.get(path), str):
                part[path] = (folder / part[path]).resolve()
        return of(told)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        faults = error.errors() if isinstance(error, ValidationError) else ()
        texts = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults] or [str(error)]
        raise ConfigurationError(f"{settings or 'without --settings'}: {'; '.join(texts)}") from error


def command_of(name: str, **files: Path | None) -> str:
    """What was given to make a plan, files by their names alone."""
    told = [f"--{option} {file.name}" for option, file in files.items() if file is not None]
    return " ".join(["touchstone experiment", name, *told])


def do_study(
    workshop: Workshop,
    study: "Study",
    cells: "Cells",
    most: int | None,
    on_cell: "Callable[[Cell, int, int], None]",
    command: str,
) -> str:
    """Do cells that are missing; the setting that they belong to. Raises ConfigurationError."""
    need_training_packages(NEEDED if study.config.acting.gguf is None else (*NEEDED, "gguf", "xllamacpp"))
    from training.studies.local_models import LocalModels
    from training.studies.material import Material
    from training.studies.running import Bench, do_cells

    learning, commit = study.config.learning, code_commit()
    material = Material(
        workshop.data, workshop.store(), workshop.settings.splits, learning.base, learning.max_tokens, commit
    )
    models = LocalModels(workshop.data, workshop.model, commit)
    options = Options(workers=workshop.settings.workers, machines=workshop.machines())
    bench = Bench(material, models, workshop.backend, options, command)
    return do_cells(study, bench, cells, most, on_cell)


def write_result(study: "type[Study]", folder: Path, setting: str | None) -> "StudyResult":
    """Write result.json and the plot of what is known, and return it. Raises ConfigurationError without a plan."""
    from assets.experiment_figures import write_arms_plot
    from training.cells import Cells
    from training.studies.results import result_of

    found = result_of(study, Cells(folder / CELLS), setting)
    write_json(found, folder)
    write_arms_plot(found, folder / PLOT, curves=study.curves)
    return found


def write_json(found: Record, folder: Path) -> None:
    """Write result.json, whole or not at all."""
    part = folder / f".{RESULT}"
    part.write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
    sync(part)
    part.replace(folder / RESULT)
