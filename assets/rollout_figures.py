"""The report of rollouts: tables for people, and metadata of the asset judgements. What is counted is in
pipeline/rollout_report.py."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from assets.visible import visible
from pipeline.pass_rates import PassRates
from pipeline.rollout_report import JudgeAgreement, PolicyFigures, RolloutReport

if TYPE_CHECKING:
    from rich.table import Table

_POLICIES = {
    "agent": "string",
    "model": "string",
    "instances": "int",
    "samples": "int",
    "passed": "int",
    "pass_at_1": "float",
    "pass_at_4": "float",
}
_FAILURES = {"agent": "string", "model": "string", "kind": "string", "failure_class": "string", "attempts": "int"}
_JUDGES = {
    "model": "string",
    "compared": "int",
    "both_passed": "int",
    "judge_only": "int",
    "execution_only": "int",
    "both_failed": "int",
    "agreement": "float",
    "kappa": "float",
}
_Cells = dict[str, str | int | float | bool | None]


def rollout_figures(report: RolloutReport) -> Mapping[str, dg.MetadataValue]:
    """Rates of the head as numbers that the UI plots over time, where there are any, and the parts as tables."""
    failures: list[_Cells] = [
        {"agent": one.agent, "model": one.model, "kind": kind, "failure_class": name, "attempts": count}
        for one in report.policies
        for kind, classes in one.by_failure.items()
        for name, count in classes.items()
    ]
    numbers = {"pass_at_1": report.pass_at_1, "pass_at_4": report.pass_at_4}
    if report.replays is not None:
        numbers["replay_rate"] = report.replays.rate
    return {
        **{name: dg.MetadataValue.float(value) for name, value in numbers.items() if value is not None},
        "samples": dg.MetadataValue.int(report.samples),
        "policies": _table(_POLICIES, [one.model_dump(include=set(_POLICIES)) for one in report.policies]),
        "by_failure": _table(_FAILURES, failures),
        "judges": _table(_JUDGES, [one.model_dump(include=set(_JUDGES)) for one in report.judges]),
    }


def _table(columns: Mapping[str, str], rows: Sequence[_Cells]) -> dg.MetadataValue:
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table([dg.TableRecord(row) for row in rows], schema)


def rollout_tables(found: RolloutReport) -> "list[Table]":
    """Rates, what was spent, what failed and who read it, parts of the tasks, then the judges; no empty table."""
    from rich.table import Table

    policies = Table("policy", *RATES, title="policies")
    spent = Table("policy", *_SPENT, title="spent")
    failures = Table("policy", "failure of", "class", "attempts", title="what did not pass")
    for one in found.policies:
        name = visible(_name(one))
        policies.add_row(name, *rate_cells(one))
        spent.add_row(name, *_costs(one))
        for kind, classes in one.by_failure.items():
            for failure, count in classes.items():
                failures.add_row(name, kind, visible(failure), str(count))
    parts = [
        _purposes(found.policies),
        _parts("difficulty", [(one, one.by_difficulty) for one in found.policies]),
        _parts("language", [(one, one.by_language) for one in found.policies]),
        _parts("domain", [(one, one.by_domain) for one in found.policies]),
    ]
    return [table for table in (policies, spent, failures, *parts, *map(_judge, found.judges)) if table.row_count]


def remarks(found: RolloutReport) -> list[str]:
    """What has to be known to read the rates, in sentences."""
    said = []
    if stopped := sum(one.stopped for one in found.policies):
        said.append(
            f"{stopped} instances were sampled no further once they were solved (enough = {found.enough}); they are in "
            "neither rate, which are too low without them: leave `enough` out to estimate pass@k"
        )
    if short := sum(one.left_out["pass_at_4"] for one in found.policies if one.model is not None):
        said.append(f"{short} instances with fewer than four judged samples are not in pass@4")
    if any(one.samples and low == high for one in found.policies for low, high in one.intervals.values()):
        said.append("an interval without width says only that all instances agree, not that they are many")
    if waiting := sum(one.unjudged for one in found.policies):
        said.append(f"{waiting} attempts await their verdict")
    if (replays := found.replays) is not None:
        broken = f"; our machinery broke {replays.broken} replays" if replays.broken else ""
        said.append(
            f"{replays.same_verdict} of {replays.replayed} replayed attempts ({replays.rate:.1%}) got the same verdict "
            f"again, {replays.judged} have one{broken}"
        )
    return said


RATES = ("instances", "samples", "passed", "pass@1 [95 %]", "pass@4 [95 %]")
_SPENT = ("turns", "prompt tokens", "written tokens", "USD", "s with the model", "s with commands", "ended by")


def _name(one: PolicyFigures) -> str:
    return one.agent if one.model is None else f"{one.agent} / {one.model}"


def rate_cells(one: PassRates) -> list[str]:
    """Under RATES."""
    cells = [str(one.instances), str(one.samples), str(one.passed)]
    for name, rate in (("pass_at_1", one.pass_at_1), ("pass_at_4", one.pass_at_4)):
        low, high = one.intervals.get(name, (0.0, 0.0))
        cells.append("" if rate is None else f"{rate:.3f} [{low:.3f}, {high:.3f}]")
    return cells


def _costs(one: PolicyFigures) -> list[str]:
    """Means of an attempt, but the sum of the cost."""
    spent, count = one.spent, max(1, one.spent.attempts)
    means = (spent.turns, spent.prompt_tokens, spent.completion_tokens)
    ended = ", ".join(f"{name} {times}" for name, times in sorted(one.stop_reasons.items()))
    return [
        *(f"{value / count:.1f}" for value in means),
        "" if spent.cost_usd is None else f"{spent.cost_usd:.4f} in all",
        *(f"{value / count:.1f}" for value in (spent.model_seconds, spent.command_seconds)),
        ended,
    ]


def _purposes(policies: "Sequence[PolicyFigures]") -> "Table":
    """What the policies inside an agent cost: who names sub-goals, who acts, who sums up."""
    from rich.table import Table

    table = Table("policy", "asked for", "calls", "prompt tokens", "written tokens", title="tokens by policy")
    for one in policies:
        read = sum(asked.prompt_tokens for asked in one.by_purpose.values())
        for purpose, asked in one.by_purpose.items():
            share = f" ({asked.prompt_tokens / read:.1%})" if read else ""
            counts = (str(asked.calls), f"{asked.prompt_tokens}{share}", str(asked.completion_tokens))
            table.add_row(visible(_name(one)), visible(purpose), *counts)
    return table


def _parts(what: str, by_policy: "Sequence[tuple[PolicyFigures, Mapping[str, PassRates]]]") -> "Table":
    """Policies with a model alone: the others are the same everywhere."""
    from rich.table import Table

    table = Table(what, "policy", *RATES, title=f"by {what}")
    names = sorted({name for _, parts in by_policy for name in parts})
    for name in names:
        for one, parts in by_policy:
            if one.model is not None and name in parts:
                table.add_row(visible(name), visible(_name(one)), *rate_cells(parts[name]))
    return table


def _judge(one: JudgeAgreement) -> "Table":
    from rich.table import Table

    table = Table(
        "", "passed by execution", "failed by execution", title=visible(f"judged by {one.model}, for comparison")
    )
    table.add_row("passed by the model", str(one.both_passed), str(one.judge_only))
    table.add_row("failed by the model", str(one.execution_only), str(one.both_failed))
    agreement = "none" if one.agreement is None else f"{one.agreement:.1%}"
    kappa = "undefined" if one.kappa is None else f"{one.kappa:.2f}"
    table.caption = f"agreement {agreement}, kappa {kappa}; {one.unreadable} unreadable, {one.unavailable} unanswered"
    return table
