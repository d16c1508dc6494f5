"""What the lines of a comparison come to: result.json, made anew from cells.jsonl at any time, on any machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from pipeline.errors import ConfigurationError
from pipeline.quality.agreement import Mean
from pipeline.types import Record
from training.cells import CellLine, Cells
from training.studies.comparisons.comparison import ArmFacts, Cited, Comparison
from training.studies.comparisons.figures import GROUPS, Group
from training.studies.comparisons.intervals import difference_over, mean_over
from training.studies.comparisons.planning import Setting, held_out, settings_of
from training.studies.comparisons.running import CellFigures


class GroupResult(Record):
    """Of one arm on the tasks of one group, over the seeds that are done."""

    mean: float
    """Of all shares of attempts that passed."""
    interval: tuple[float, float]
    """95 %, by a bootstrap over seeds and tasks."""
    n: int
    """Seeds times tasks."""
    tasks: int
    by_seed: dict[str, float]
    difference: Mean | None
    """Less the arm that is compared to, at the same seeds and tasks; None for that one, for arms of another backbone,
    and where they have no seed in common."""


class Tokens(Record):
    """Mean over seeds, each."""

    learned: float
    read: float
    written: float


class SpentResult(Record):
    """Means over the seeds that are done."""

    tokens: Tokens
    budget: float
    """Token units."""
    environment_steps: float
    episodes: float
    cpu_s: float


class ArmResult(Record):
    """Of one arm in one environment."""

    facts: ArmFacts
    seeds_done: tuple[int, ...]
    seeds_planned: tuple[int, ...]
    groups: dict[Group, GroupResult]
    """Empty while no seed is done."""
    later: dict[Group, GroupResult]
    """When tries after a first failure count too; empty for arms without such tries."""
    spent: SpentResult | None
    """None while no seed is done."""

    @property
    def finished(self) -> bool:
        """Whether all that was planned is done."""
        return self.seeds_done == self.seeds_planned


class EnvironmentResult(Record):
    """Of one environment."""

    tasks: dict[Group, int]
    held_out: Group
    """The group that is farthest from what was learned."""
    arms: dict[str, ArmResult]
    bounds: dict[str, dict[str, dict[Group, GroupResult]]]
    """Backbone -> arm that is a bound -> the same on the tasks that arms of the backbone are judged on."""


class ComparisonResult(Record):
    """result.json."""

    name: str
    about: str
    command: str
    """That the plan was made with; of several, which added arms or seeds, one after the other."""
    setting: str
    seeds: tuple[int, ...]
    budget: int
    """Token units that each arm may spend."""
    backbones: dict[str, tuple[str, ...]]
    """Backbone -> its arms."""
    weights: dict[str, str]
    """Backbone -> SHA-256 of the weights that were given for it."""
    compared_to: str
    cells_done: int
    cells_planned: int
    code_commits: tuple[str, ...]
    seconds: float
    """Of all cells."""
    environments: dict[str, EnvironmentResult]
    cited: tuple[Cited, ...]


def result_of(comparison: Comparison, cells: Cells, setting: str | None = None) -> ComparisonResult:
    """Of one setting, by default that of the newest plan. Raises ConfigurationError where there is none."""
    known = settings_of(cells)
    if not known:
        raise ConfigurationError(f"{cells.file} has no plan yet; `touchstone experiment {comparison.name}` makes one")
    chosen = setting or next(reversed(known))
    of, wanted = known[chosen], known[chosen].cells()
    done = cells.of(chosen)
    planned = dict.fromkeys(cell.arm for cell in wanted)
    facts = {name: one for name, one in comparison.arms.items() if name in planned}
    return ComparisonResult(
        name=comparison.name,
        about=comparison.about,
        command=" && ".join(of.commands),
        setting=chosen,
        seeds=tuple(dict.fromkeys(cell.seed for cell in wanted)),
        budget=of.plan.budget,
        backbones={
            backbone: tuple(name for name, one in facts.items() if one.backbone == backbone)
            for backbone in dict.fromkeys(one.backbone for one in facts.values())
        },
        weights={backbone: sha256 for one in of.chosen for backbone, sha256 in one.weights.items()},
        compared_to=comparison.compared_to,
        cells_done=sum(cell.name in done for cell in wanted),
        cells_planned=len(wanted),
        code_commits=tuple(dict.fromkeys(line.code_commit or "unknown" for line in done.values())),
        seconds=round(sum(line.seconds for line in done.values()), 1),
        environments={name: _environment(name, of, facts, comparison.compared_to, done) for name in of.plan.tasks},
        cited=comparison.cited,
    )


def _environment(
    name: str, of: Setting, facts: Mapping[str, ArmFacts], compared_to: str, done: Mapping[str, CellLine]
) -> EnvironmentResult:
    found: dict[str, dict[int, CellFigures]] = {arm: {} for arm in facts}
    planned: dict[str, list[int]] = {arm: [] for arm in facts}
    for cell in of.cells():
        if cell.environment == name and cell.arm in facts:
            planned[cell.arm].append(cell.seed)
            if (line := done.get(cell.name)) is not None:
                found[cell.arm][cell.seed] = CellFigures.model_validate(line.figures)
    tasks = of.plan.tasks[name]
    results = {}
    for arm, one in facts.items():
        alike = compared_to in facts and facts[compared_to].backbone == one.backbone
        others = found[compared_to] if alike and arm != compared_to else {}
        results[arm] = ArmResult(
            facts=one,
            seeds_done=tuple(found[arm]),
            seeds_planned=tuple(planned[arm]),
            groups=_groups(_shares(found[arm]), _shares(others)),
            later=_groups({seed: line.later for seed, line in found[arm].items()}, {}),
            spent=_spent(list(found[arm].values())),
        )
    groups = {group: len(tasks[group]) for group in GROUPS if group in tasks}
    bounds = {
        backbone: {arm: _groups(_shares(found[arm], most), {}) for arm, one in facts.items() if one.group == "bound"}
        for backbone, most in {one.backbone: one.judged for one in facts.values()}.items()
    }
    return EnvironmentResult(tasks=groups, held_out=held_out(tasks), arms=results, bounds=bounds)


Shares = Mapping[Group, tuple[float, ...]]


def _shares(found: Mapping[int, CellFigures], most: int | None = None) -> dict[int, Shares]:
    """By seed, of the first tasks of each group."""
    return {seed: {group: of[:most] for group, of in one.groups.items()} for seed, one in found.items()}


def _groups(found: Mapping[int, Shares], others: Mapping[int, Shares]) -> dict[Group, GroupResult]:
    results: dict[Group, GroupResult] = {}
    for group in GROUPS:
        shares = {seed: one[group] for seed, one in found.items() if group in one}
        compared = {seed: one[group] for seed, one in others.items() if group in one}
        differences = {
            seed: tuple(a - b for a, b in zip(shares[seed], compared[seed], strict=True))
            for seed in shares
            if seed in compared
        }
        if (mean := mean_over(shares)) is not None:
            results[group] = GroupResult(
                mean=mean.mean,
                interval=(mean.low, mean.high),
                n=mean.n,
                tasks=len(next(iter(shares.values()))),
                by_seed={str(seed): round(fmean(one), 3) for seed, one in shares.items()},
                difference=difference_over(differences),
            )
    return results


def _spent(found: Sequence[CellFigures]) -> SpentResult | None:
    if not found:
        return None
    spent = [one.spent for one in found]
    return SpentResult(
        tokens=Tokens(
            learned=round(fmean(one.learned_tokens for one in spent), 1),
            read=round(fmean(one.read_tokens for one in spent), 1),
            written=round(fmean(one.written_tokens for one in spent), 1),
        ),
        budget=round(fmean(one.budget for one in spent), 1),
        environment_steps=round(fmean(one.environment_steps for one in spent), 1),
        episodes=round(fmean(one.episodes for one in spent), 1),
        cpu_s=round(fmean(one.cpu_s for one in spent), 1),
    )
