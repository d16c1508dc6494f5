"""What `touchstone experiment` shows of a comparison: tables, and the picture beside result.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from assets.visible import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

    from training.studies.comparisons.figures import Group
    from training.studies.comparisons.results import ArmResult, ComparisonResult, EnvironmentResult, GroupResult

_BOUND_STYLES = ("--", ":", "-.")


def comparison_tables(found: "ComparisonResult") -> "list[Table]":
    """One for each environment and backbone, and one of what others told, which was not run here."""
    from rich.table import Table

    tables = []
    for name, environment in found.environments.items():
        against = f"{environment.held_out} - {found.compared_to} [95 %]"
        for backbone, arms in found.backbones.items():
            most = environment.arms[arms[0]].facts.judged
            counts = {group: min(tasks, most or tasks) for group, tasks in environment.tasks.items()}
            groups = [f"{group} ({tasks} tasks) [95 %]" for group, tasks in counts.items()]
            head = ("arm", "seeds", *groups, against, "environment steps", "learned", "read", "written", "CPU s")
            table = Table(*head, title=visible(f"{found.name}, {name}, backbone {backbone}, {found.budget:,} units"))
            for arm, bound in environment.bounds[backbone].items():
                table.add_row(visible(arm), "", *_shown(environment, bound))
            for arm in (name for name in arms if environment.arms[name].facts.group != "bound"):
                one = environment.arms[arm]
                table.add_row(visible(arm), *_cells(environment, one))
                if one.later:
                    table.add_row(visible(f"{arm}, later tries too"), "", *_shown(environment, one.later))
            tables.append(table)
    if found.cited:
        told = Table("cited", "figure", "source", "", title="of others, on other backbones and tasks: not run")
        for other in found.cited:
            told.add_row(visible(other.name), visible(other.figure), visible(other.source), other.status)
        tables.append(told)
    return tables


def comparison_remarks(found: "ComparisonResult") -> list[str]:
    """What has to be known to read the tables."""
    said = [f"{found.cells_done} of {found.cells_planned} cells are done; {found.seconds:.0f} s in all"]
    if found.cells_done < found.cells_planned:
        said.append("figures are of what is done; the same command goes on")
    if len(found.seeds) == 1:
        said.append("there is one seed: intervals are over tasks alone")
    return [*said, "steps, tokens and CPU seconds are means over seeds"]


def write_comparison_plot(found: "ComparisonResult", path: Path) -> None:
    """Success on held-out tasks by arm, for each environment and backbone, and beside it against environment steps."""
    from matplotlib.figure import Figure

    columns, rows = len(found.backbones) + 1, len(found.environments)
    figure = Figure(figsize=(4.2 * columns, 3.4 * rows), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False)
    for (name, environment), row in zip(found.environments.items(), places, strict=True):
        for (backbone, arms), axes in zip(found.backbones.items(), row, strict=False):
            _draw_arms(axes, environment, backbone, {arm: environment.arms[arm] for arm in arms})
            axes.set_title(f"{name}, {backbone}", fontsize=10)
        backbone, arms = _learned(found)
        _draw_steps(row[-1], environment, backbone, {arm: environment.arms[arm] for arm in arms})
        row[-1].set_title(f"{name}, {backbone}", fontsize=10)
        for axes in row:
            axes.set_ylim(-0.03, 1.03)
            axes.set_ylabel(f"success, {environment.held_out} tasks, 95 %")
            axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format="png", dpi=90)


def _learned(found: "ComparisonResult") -> tuple[str, tuple[str, ...]]:
    """The backbone that learns with its arms, or the last one where the arm to compare to is not there."""
    first = (one for one in found.backbones.items() if found.compared_to in one[1])
    return next(first, list(found.backbones.items())[-1])


def _draw_arms(axes: "Axes", environment: "EnvironmentResult", backbone: str, arms: "Mapping[str, ArmResult]") -> None:
    _draw_bounds(axes, environment, backbone)
    shown = {name: arm for name, arm in arms.items() if arm.facts.group != "bound"}
    for number, arm in enumerate(shown.values()):
        if (group := arm.groups.get(environment.held_out)) is not None:
            spread = [[group.mean - group.interval[0]], [group.interval[1] - group.mean]]
            axes.errorbar([number], [group.mean], yerr=spread, fmt="o", capsize=4, color=f"C{number}")
    labels = [name if arm.finished else f"{name} (unfinished)" for name, arm in shown.items()]
    axes.set_xticks(range(len(shown)), labels, rotation=60, ha="right", fontsize=8)
    axes.set_xlim(-0.6, max(1, len(shown)) - 0.4)


def _draw_steps(axes: "Axes", environment: "EnvironmentResult", backbone: str, arms: "Mapping[str, ArmResult]") -> None:
    """In the colours of the arms; intervals are beside it."""
    _draw_bounds(axes, environment, backbone)
    shown = {name: arm for name, arm in arms.items() if arm.facts.group != "bound"}
    for number, (name, arm) in enumerate(shown.items()):
        group = arm.groups.get(environment.held_out)
        if group is not None and arm.spent is not None:
            place = (arm.spent.environment_steps, group.mean)
            axes.plot(*place, "o", color=f"C{number}")
            axes.annotate(name, place, textcoords="offset points", xytext=(5, 4), fontsize=7)
    axes.set_xscale("symlog", linthresh=100)
    axes.set_xlim(left=-10)
    axes.margins(x=0.15)
    axes.set_xlabel("environment steps")


def _draw_bounds(axes: "Axes", environment: "EnvironmentResult", backbone: str) -> None:
    for (name, groups), style in zip(environment.bounds[backbone].items(), _BOUND_STYLES, strict=False):
        if (group := groups.get(environment.held_out)) is not None:
            axes.axhline(group.mean, color="#767676", linewidth=1, linestyle=style)
            axes.annotate(
                name, (1, group.mean), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7
            )


def _shown(environment: "EnvironmentResult", groups: "Mapping[Group, GroupResult]") -> list[str]:
    found = [groups.get(group) for group in environment.tasks]
    return ["" if one is None else f"{one.mean:.3f} [{one.interval[0]:.3f}, {one.interval[1]:.3f}]" for one in found]


def _cells(environment: "EnvironmentResult", arm: "ArmResult") -> list[str]:
    done, planned = len(arm.seeds_done), len(arm.seeds_planned)
    said = [str(done) if arm.finished else f"unfinished, {done} of {planned}", *_shown(environment, arm.groups)]
    held_out = arm.groups.get(environment.held_out)
    apart = None if held_out is None else held_out.difference
    said.append("" if apart is None else f"{apart.mean:+.3f} [{apart.low:+.3f}, {apart.high:+.3f}]")
    if arm.spent is None:
        return [*said, *[""] * 5]
    tokens = arm.spent.tokens
    counts = (arm.spent.environment_steps, tokens.learned, tokens.read, tokens.written, arm.spent.cpu_s)
    return [*said, *(f"{count:,.0f}" for count in counts)]
