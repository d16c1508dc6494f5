"""Evaluations for people: tables, remarks and a picture. What is counted is in training/evaluation_report.py and
training/evaluation_compare.py."""

from pathlib import Path
from typing import TYPE_CHECKING

from assets.rollout_figures import RATES, rate_cells
from assets.visible import visible, visible_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from pipeline.pass_rates import PassRates
    from pipeline.quality.agreement import Mean
    from training.evaluation_compare import Comparison, Difference
    from training.evaluation_report import BenchmarkFigures, EvaluationReport

PICTURE = "pass_at_k.png"
_FEW = 30
"""Instances below which a bootstrap over them is known to give too little."""
_PARTS = ("domain", "language", "difficulty", "family")


def report_tables(found: "EvaluationReport") -> "list[Table]":
    """What was attempted, pass@k, its parts, what was spent and what failed, by benchmark; no empty table."""
    from rich.table import Table

    counts = Table("benchmark", "instances", "attempts", "judged", "passed", title=visible(found.name))
    rates = Table("benchmark", "k", "instances", "pass@k [95 %]", title="pass@k")
    spent = Table("benchmark", "turns", "prompt tokens", "written tokens", "USD", "ended by", title="spent, means")
    failures = Table("benchmark", "failure of", "class", "attempts", title="what did not pass")
    for one in found.benchmarks:
        name = visible(one.benchmark)
        counts.add_row(name, str(one.instances), f"{one.begun} of {one.planned}", str(one.judged), str(one.passed))
        for k, mean in one.pass_at_k.items():
            rates.add_row(name, str(k), str(mean.n), _interval(mean))
        spent.add_row(name, *_costs(one))
        for kind, classes in one.failures.items():
            for failure, count in classes.items():
                failures.add_row(name, kind, visible(failure), str(count))
    parts = [table for one in found.benchmarks for table in (*(_parts(part, one) for part in _PARTS), _turns(one))]
    tables = (counts, rates, *parts, spent, failures)
    return [table for table in tables if table.row_count]


def report_remarks(found: "EvaluationReport") -> list[str]:
    """What has to be known to read the tables, in sentences."""
    policy = found.policy
    of = f" ({policy.trained_model})" if policy.trained_model else ""
    said = [
        visible_text(
            f"{policy.agent} with {policy.model}{of}, temperature {policy.temperature:g}, at most "
            f"{policy.budgets.max_steps} steps, {found.runs} runs"
        )
    ]
    if not any("weights" in name for name in policy.details):
        said.append("the server says nothing of its weights: others of that name would be taken for these")
    if few := [visible_text(one.benchmark) for one in found.benchmarks if one.instances < _FEW]:
        said.append(f"intervals over fewer than {_FEW} instances are too narrow: {', '.join(few)}")
    for one in found.benchmarks:
        if (mean := one.pass_at_1_by_repository) is not None:
            said.append(f"{visible_text(one.benchmark)}: pass@1 over repositories drawn as a whole {_interval(mean)}")
        if one.begun > one.judged:
            said.append(
                f"{visible_text(one.benchmark)}: {one.begun - one.judged} attempts have no result and are in no rate; "
                f"had they all failed, pass@1 were {one.pass_at_1_at_least:.3f}; the same command tries them again"
            )
    return [*said, *_held_out(found)]


def _held_out(found: "EvaluationReport") -> list[str]:
    held = found.held_out
    if held is None:
        return ["what this model was trained on is not known here: nothing was left out"]
    shown = [leak for leak in held.leaks if not leak.left_out]
    said = [
        f"{len(held.left_out)} instances are left out, since the model was trained on them or on tasks too near to "
        f"them; {len(shown)} share something that somebody should look at (--json names all)",
        f"of what is evaluated, {held.same_repository:.1%} are of repositories and {held.same_family:.1%} of families "
        "that were in training",
    ]
    return said


def comparison_tables(found: "Comparison") -> "list[Table]":
    """The difference over all instances of each benchmark, then by family."""
    from rich.table import Table

    head = ("instances", "a", "b", "b - a [95 %]", "better", "worse", "p")
    overall = Table("benchmark", *head, title=visible(f"b = {found.b} beside a = {found.a}, pass@1"))
    tables = [overall]
    for one in found.benchmarks:
        overall.add_row(visible(one.benchmark), *_difference(one.overall))
        families = Table("family", *head, title=visible(f"{one.benchmark}, by family"))
        for family, difference in one.by_family.items():
            families.add_row(visible(family), *_difference(difference))
        tables.append(families)
    return tables


def comparison_remarks(found: "Comparison") -> list[str]:
    """What is compared, and what tells the two apart."""
    differing = [visible_text(f"they differ in {one}") for one in found.policies]
    left = f"{found.only_a} instances have results of a alone and {found.only_b} of b alone: they are not compared"
    p = "p: exact sign test over instances that differ; of many families, one in twenty is below 0.05 by chance"
    return [*differing, left, p]


def write_plot(found: "EvaluationReport", folder: Path) -> Path | None:
    """Draw pass@k of each benchmark into the folder of the evaluation; None where there is no rate yet."""
    from assets.plots import write_rates_plot

    lines = {
        one.benchmark: [(k, mean.mean, mean.low, mean.high) for k, mean in one.pass_at_k.items()]
        for one in found.benchmarks
        if one.pass_at_k
    }
    if not lines:
        return None
    write_rates_plot(lines, folder / PICTURE)
    return folder / PICTURE


def _interval(mean: "Mean") -> str:
    return f"{mean.mean:.3f} [{mean.low:.3f}, {mean.high:.3f}]"


def _parts(what: str, one: "BenchmarkFigures") -> "Table":
    from rich.table import Table

    table = Table(what, *RATES, title=visible(f"{one.benchmark}, by {what}"))
    parts: Mapping[str, PassRates] = getattr(one, f"by_{what}")
    for name, rates in parts.items():
        table.add_row(visible(name), *rate_cells(rates))
    return table


def _turns(one: "BenchmarkFigures") -> "Table":
    from rich.table import Table

    table = Table("turns", "attempts", "passed [95 %]", title=visible(f"{one.benchmark}, attempts by their turns"))
    for turns, share in one.by_turns.items():
        table.add_row(turns, str(share.n), _interval(share))
    return table


def _costs(one: "BenchmarkFigures") -> list[str]:
    """Means of an attempt, but the sum of the cost."""
    spent, count = one.spent, max(1, one.spent.attempts)
    means = [f"{value / count:.1f}" for value in (spent.turns, spent.prompt_tokens, spent.completion_tokens)]
    cost = "" if spent.cost_usd is None else f"{spent.cost_usd:.4f} in all"
    return [*means, cost, ", ".join(f"{name} {times}" for name, times in sorted(one.stop_reasons.items()))]


def _difference(one: "Difference") -> list[str]:
    difference = f"{one.difference:+.3f} [{one.low:+.3f}, {one.high:+.3f}]"
    cells = (f"{one.a:.3f}", f"{one.b:.3f}", difference, str(one.better), str(one.worse), f"{one.p_value:.4f}")
    return [str(one.instances), *cells]
