"""What `touchstone experiment` shows of a result: tables, and the picture beside result.json."""

from pathlib import Path
from typing import TYPE_CHECKING

from assets.visible import visible

if TYPE_CHECKING:
    from rich.table import Table

    from pipeline.quality.agreement import Mean
    from training.evaluation_compare import Difference
    from training.studies.results import StudyResult


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


def write_arms_plot(found: "StudyResult", path: Path) -> None:
    """pass@k of the arms where there are several k, else pass@1; beside it the losses of their trainings."""
    from matplotlib.figure import Figure

    environments = [name for name, arms in found.arms.items() if arms]
    learned = {name: arm.training for arms in found.arms.values() for name, arm in arms.items() if arm.training}
    columns = max(1, len(environments)) + bool(learned)
    figure = Figure(figsize=(4.2 * columns, 3.4), layout="constrained")
    places = list(figure.subplots(1, columns, squeeze=False)[0])
    for environment, axes in zip(environments, places, strict=False):
        for number, arm in enumerate(found.arms[environment].values()):
            if 1 in arm.pass_at_k:
                rate = arm.pass_at_k[1]
                spread = [[rate.mean - rate.low], [rate.high - rate.mean]]
                axes.errorbar([number], [rate.mean], yerr=spread, fmt="o", capsize=4)
                axes.annotate(f"{rate.mean:.2f}", (number, rate.mean), textcoords="offset points", xytext=(8, 0))
        names = list(found.arms[environment])
        axes.set_xticks(range(len(names)), names, rotation=30 if len(names) > 4 else 0, ha="center")
        axes.set_xlim(-0.6, len(names) - 0.3)
        axes.set_ylim(0, 1)
        axes.set_ylabel("pass@1, 95 % interval")
        axes.set_title(environment, fontsize=10)
    if learned:
        for name, seeds in learned.items():
            for seed, told in seeds.items():
                curve = told["losses"]
                assert isinstance(curve, list)
                steps, losses = zip(*curve, strict=True)
                places[-1].plot(steps, losses, label=name if len(seeds) == 1 else f"{name}, seed {seed}")
        places[-1].set_xlabel("step")
        places[-1].set_ylabel("loss, nats a token")
        places[-1].legend(frameon=False)
    for axes in places:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format="png", dpi=90)


def _interval(mean: "Mean | None") -> str:
    return "" if mean is None else f"{mean.mean:.3f} [{mean.low:.3f}, {mean.high:.3f}]"


def _difference(one: "Difference | None") -> tuple[str, str, str, str]:
    if one is None:
        return ("", "", "", "")
    told = f"{one.difference:+.3f} [{one.low:+.3f}, {one.high:+.3f}]"
    return (told, str(one.better), str(one.worse), f"{one.p_value:.4f}")
