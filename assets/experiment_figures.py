"""What `touchstone experiment` shows of a result: tables, and the picture beside result.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assets.visible import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

    from pipeline.quality.agreement import Mean
    from training.evaluation_compare import Difference
    from training.studies.figures import ArmResult
    from training.studies.results import StudyResult

_UPRIGHT = 5
"""Arms whose names fit beside each other."""


def result_tables(found: "StudyResult") -> "list[Table]":
    """Arms of each environment, then their differences by family."""
    from rich.table import Table

    head = ("rows", "tokens", "attempts", "pass@1 [95 %]", f"- {found.compared_to} [95 %]", "better", "worse", "p")
    tables = []
    for environment, arms in found.arms.items():
        overall = Table("arm", *head, title=visible(f"{found.name}, {environment}"))
        families = Table("family", "arm", "pass@1 [95 %]", f"- {found.compared_to} [95 %]", title="by family")
        for name, arm in arms.items():
            plan = found.plan.arms[str(found.seeds[0])][name]
            rate = arm.pass_at_k.get(1)
            counts = (str(plan.rows), str(plan.n_tokens), str(arm.judged))
            overall.add_row(visible(name), *counts, _interval(rate), *_difference(arm.difference))
            for family, mean in arm.by_family.items():
                told = _difference(arm.difference_by_family.get(family))[0]
                families.add_row(visible(family), visible(name), _interval(mean), told)
        tables += [overall, families]
    return [table for table in tables if table.row_count]


def result_remarks(found: "StudyResult") -> list[str]:
    """What has to be known to read the tables."""
    said = [f"{found.cells_done} of {found.cells_planned} cells are done; {found.seconds:.0f} s in all"]
    if found.cells_done < found.cells_planned:
        said.append("figures are of what is done; the same command goes on")
    if found.plan.held_out:
        said.append(f"held out: {', '.join(found.plan.held_out)}")
    return [*said, *(f"{name}: {value}" for name, value in found.findings.items())]


def write_arms_plot(found: "StudyResult", path: Path, *, curves: bool = False) -> None:
    """pass@1 of the arms of each environment, or pass@k by k; beside it the losses of their trainings."""
    from matplotlib.figure import Figure

    environments = {name: arms for name, arms in found.arms.items() if arms}
    learned = {name: arm.training for arms in environments.values() for name, arm in arms.items() if arm.training}
    columns = max(1, len(environments)) + bool(learned)
    figure = Figure(figsize=(4.2 * columns, 3.4), layout="constrained")
    places = list(figure.subplots(1, columns, squeeze=False)[0])
    for (environment, arms), axes in zip(environments.items(), places, strict=False):
        (_draw_curves if curves else _draw_rates)(axes, arms)
        axes.set_ylim(0, 1)
        axes.set_title(environment, fontsize=10)
    if learned:
        _draw_losses(places[-1], learned)
    for axes in places:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format="png", dpi=90)


def _draw_rates(axes: "Axes", arms: "Mapping[str, ArmResult]") -> None:
    for number, arm in enumerate(arms.values()):
        if (rate := arm.pass_at_k.get(1)) is not None:
            spread = [[rate.mean - rate.low], [rate.high - rate.mean]]
            axes.errorbar([number], [rate.mean], yerr=spread, fmt="o", capsize=4)
            axes.annotate(f"{rate.mean:.2f}", (number, rate.mean), textcoords="offset points", xytext=(8, 0))
    axes.set_xticks(range(len(arms)), list(arms), rotation=60 if len(arms) > _UPRIGHT else 0)
    axes.set_xlim(-0.6, len(arms) - 0.3)
    axes.set_ylabel("pass@1, 95 % interval")


def _draw_curves(axes: "Axes", arms: "Mapping[str, ArmResult]") -> None:
    for name, arm in arms.items():
        means = list(arm.pass_at_k.values())
        (line,) = axes.plot(list(arm.pass_at_k), [mean.mean for mean in means], "o-", label=name)
        lows, highs = [mean.low for mean in means], [mean.high for mean in means]
        axes.fill_between(list(arm.pass_at_k), lows, highs, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("k")
    axes.set_ylabel("pass@k, 95 % interval")
    axes.legend(frameon=False)


def _draw_losses(axes: "Axes", learned: "Mapping[str, Mapping[str, Mapping[str, JsonValue]]]") -> None:
    for name, seeds in learned.items():
        for seed, told in seeds.items():
            curve = told["losses"]
            assert isinstance(curve, list)
            steps, losses = zip(*curve, strict=True)
            axes.plot(steps, losses, label=name if len(seeds) == 1 else f"{name}, seed {seed}")
    axes.set_xlabel("step")
    axes.set_ylabel("loss, nats a token")
    axes.legend(frameon=False)


def _interval(mean: "Mean | None") -> str:
    return "" if mean is None else f"{mean.mean:.3f} [{mean.low:.3f}, {mean.high:.3f}]"


def _difference(one: "Difference | None") -> tuple[str, str, str, str]:
    if one is None:
        return ("", "", "", "")
    told = f"{one.difference:+.3f} [{one.low:+.3f}, {one.high:+.3f}]"
    return (told, str(one.better), str(one.worse), f"{one.p_value:.4f}")
