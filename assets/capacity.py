"""`touchstone plan`: machines, days and money for a larger run. The measuring and the formula are in pipeline/capacity.

What one run of agents takes is `touchstone run --plan` (assets/plan.py).
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.located import located, not_empty, open_located

if TYPE_CHECKING:
    from rich.table import Table

    from assets.resources import Workshop
    from pipeline.capacity.planning import CapacityPlan
    from pipeline.capacity.stages import Measured

_DAYS = 30.0
_MOST = 10**12


@click.command()
@located
@click.option(
    "--trajectories", type=click.IntRange(1, _MOST), help="So many verified trajectories, kept by curation, are wanted."
)
@click.option(
    "--repositories", type=click.IntRange(1, _MOST), help="So many repositories are listed, and all follows from them."
)
@click.option("--days", type=click.FloatRange(min=0.01, max=36_500), help="Days that it may take (default: 30).")
@click.option("--machines", type=click.IntRange(1, 1_000_000), help="Machines that there are; the days follow.")
@click.option("--cores", type=click.IntRange(1, 10_000), help="Of each machine (default: cores in [plan]).")
@click.option(
    "--agents",
    metavar="NAMES",
    callback=not_empty,
    help="Whose attempts are measured, e.g. bash (default: those with a model).",
)
@click.option(
    "--measured",
    type=click.Path(path_type=Path),
    help="Output of an earlier --json: plan with what was measured then, without a data folder.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def plan(
    data: Path | None,
    config: Path | None,
    trajectories: int | None,
    repositories: int | None,
    days: float | None,
    machines: int | None,
    cores: int | None,
    agents: str | None,
    measured: Path | None,
    as_json: bool,
) -> None:
    """Say what a larger run takes, from what the run in the data folder took: machines, days, disk and money.

    Give --trajectories, --repositories or both. Nothing is run.
    """
    from rich.console import Console

    from pipeline.agents import NAMES
    from pipeline.capacity.flows import Targets
    from pipeline.capacity.planning import Time, token_prices
    from pipeline.capacity.planning import plan as planned
    from pipeline.llm.openai_server import OpenAIServerConfig

    if trajectories is None and repositories is None:
        raise click.UsageError("say what is wanted: --trajectories, --repositories or both")
    if days is not None and machines is not None:
        raise click.UsageError("give --days or --machines: the one follows from the other")
    if measured is not None and agents is not None:
        raise click.UsageError("--agents belongs to a data folder: what --measured holds is of certain agents already")
    named = agents.split(",") if agents else []
    if unknown := sorted(set(named) - set(NAMES)):
        raise click.UsageError(f"there is no agent {', '.join(unknown)}; there are {', '.join(NAMES)}")
    workshop = open_located(data, config)
    settings = workshop.settings
    terms = settings.plan if cores is None else settings.plan.model_copy(update={"cores": cores})
    found = planned(
        _measured(workshop, named) if measured is None else _read(measured),
        Targets(trajectories=trajectories, repositories=repositories),
        Time(days=None if machines else days or _DAYS, machines=machines),
        terms,
        token_prices(settings.model) if isinstance(settings.model, OpenAIServerConfig) else None,
    )
    if as_json:
        click.echo(found.model_dump_json(by_alias=True))
        return
    console = Console()
    console.print(_table(found))
    for line in _lines(found):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _measured(workshop: "Workshop", agents: Sequence[str]) -> "Measured":
    from assets.datasets import publication_of
    from pipeline.capacity.recorded import Publication, measured

    kept = frozenset(publication_of(workshop).decisions.kept)
    return measured(
        workshop.store(),
        Publication(workshop.settings.snapshot, kept),
        cores=workshop.settings.plan.measured_cores or os.cpu_count() or 1,
        agents=agents,
    )


def _read(file: Path) -> "Measured":
    from pydantic import ValidationError

    from pipeline.capacity.stages import Measured
    from pipeline.errors import ConfigurationError

    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        return Measured.model_validate(held["measured"])
    except OSError as error:
        raise ConfigurationError(f"--measured: {file} cannot be read ({error.strerror})") from error
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise ConfigurationError(f"--measured: {file}: {'; '.join(faults)}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"--measured: {file} is not what `touchstone plan --json` wrote ({error!r})"
        ) from error


def _table(found: "CapacityPlan") -> "Table":
    """A stage per line, then all of them."""
    from rich.table import Column, Table

    from assets.visible import visible

    wanted = [f"{count:,} {name}" for name, count in found.targets.model_dump().items() if count is not None]
    right = [Column(name, justify="right") for name in ("items", "yield", "s", "core-s", "tokens", "MB", "core-hours")]
    table = Table("stage", *right, "basis", title=f"Plan for {' and '.join(wanted)}; nothing was run")
    for one in found.stages:
        asked = one.tokens_per_item
        table.add_row(
            one.stage,
            f"{one.items:,.0f}\n{_span(one.items_interval).strip()}",
            "" if one.yielded is None else f"{one.yielded:.3g}\n{_span(one.yield_interval).strip()}",
            "" if one.seconds_per_item is None else f"{one.seconds_per_item:.3g}",
            "" if one.cpu_seconds_per_item is None else f"{one.cpu_seconds_per_item:.3g}",
            "" if asked is None else f"{asked.prompt:,.0f} + {asked.completion:,.0f}",
            f"{one.bytes_per_item / 1e6:.3g}",
            f"{one.core_hours:,.1f}",
            visible(one.basis if one.gives is None else f"{one.basis}; yield: {one.gives}"),
        )
    table.add_section()
    disk = f"{found.disk_gb * 1e3:,.0f}"
    asked = found.tokens
    tokens = f"{asked.prompt:.3g} + {asked.completion:.3g}"
    table.add_row(
        "all", "", "", "", "", tokens, disk, f"{found.core_hours:,.1f}\n{_span(found.core_hours_interval)}", ""
    )
    return table


def _lines(found: "CapacityPlan") -> list[str]:
    cost = "unknown" if found.cost_usd is None else f"{found.cost_usd:,.2f}{_span(found.cost_usd_interval)}"
    parts = ", ".join(f"{name} {part:,.2f}" for name, part in found.costs.model_dump().items() if part is not None)
    busy = [f"{one.at_a_time:.3g} in {one.stage}" for one in found.stages if one.at_a_time >= 1]
    return [
        f"{found.repositories:,.0f} repositories{_span(found.repositories_interval)} -> "
        f"{found.trajectories:,.0f} trajectories{_span(found.trajectories_interval)}",
        f"machines: {found.machines:,}{_span(found.machines_interval)}, days: {found.days:,.4g}"
        f"{_span(found.days_interval)}, GB: {found.disk_gb:,.4g}{_span(found.disk_gb_interval)}, USD: {cost}",
        f"paid for {parts or 'nothing: there is no price'}",
        f"at a time on all machines together: {', '.join(busy) or 'less than one item of each stage'}",
        *found.formula,
        *found.notes,
    ]


def _span(interval: tuple[float, float] | None) -> str:
    """Where a figure lies in 95 of 100 cases; empty where that is one figure."""
    return "" if interval is None or interval[0] == interval[1] else f" [{_short(interval[0])}, {_short(interval[1])}]"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
