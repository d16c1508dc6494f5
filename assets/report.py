"""`touchstone report …`: figures over the working tables, as tables for people or as one JSON line.

What is counted is in pipeline/crawl_report.py, image_report.py, scoring_report.py, instance_report.py,
rollout_report.py, curation_report.py, quality/report.py and training/token_report.py; the faces of those from images to
curation in the Dagster UI are image_figures.py, scoring_figures.py, instance_figures.py, rollout_figures.py and
curation_figures.py.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.located import located, open_located

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from pipeline.crawl_report import HubReport
    from pipeline.image_report import ImageReport, Rates
    from pipeline.instance_report import InstanceReport, Yield
    from pipeline.quality.report import QualityReport


@click.group()
def report() -> None:
    """Figures over the working tables."""


@report.command()
@located
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def images(data: Path | None, config: Path | None, as_json: bool) -> None:
    """How many repositories became images that work, by language and strategy, and what stopped the others."""
    from rich.console import Console

    from pipeline.image_report import image_report

    found = image_report(open_located(data, config).store())
    if as_json:
        click.echo(found.model_dump_json())
        return
    console = Console()
    for table in image_tables(found):
        console.print(table)
    seconds = found.build_seconds
    console.print(
        f"{seconds.builds} builds that did not come from the cache: median {seconds.p50:g} s, "
        f"nine of ten within {seconds.p90:g} s, {seconds.total:g} s in all",
        soft_wrap=True,
        highlight=False,
    )


@report.command()
@located
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def crawl(data: Path | None, config: Path | None, as_json: bool) -> None:
    """How far the crawl of each hub is; asks nothing of the hub."""
    from rich.console import Console

    from assets.resources import CRAWL
    from pipeline.crawl_report import crawl_report

    found = crawl_report(open_located(data, config).data / CRAWL)
    if as_json:
        click.echo(found.model_dump_json())
        return
    console = Console()
    for hub in found.hubs:
        for table in crawl_tables(hub):
            console.print(table)
        console.print(
            f"{hub.index}: up to date until {hub.up_to_date or 'the first round has ended'}; questions of this round: "
            f"{hub.questions_done} answered, {hub.questions_open} open; {hub.missing} results out of reach",
            soft_wrap=True,
            highlight=False,
        )
    if not found.hubs:
        console.print('nothing was crawled yet; use = ["github", ...] in [sources] begins it', highlight=False)


@report.command()
@located
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def scoring(data: Path | None, config: Path | None, as_json: bool) -> None:
    """How good the learned score is on repositories it never saw, and what each threshold would keep."""
    from rich.console import Console

    from assets.scoring_figures import scoring_remarks, scoring_tables
    from pipeline.scoring_report import scoring_report

    workshop = open_located(data, config)
    found = scoring_report(workshop.store(), workshop.data)
    if as_json:
        click.echo(found.model_dump_json())
        return
    console = Console()
    for table in scoring_tables(found):
        console.print(table)
    for remark in scoring_remarks(found):
        console.print(remark, soft_wrap=True, highlight=False, markup=False)


@report.command()
@located
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def instances(data: Path | None, config: Path | None, as_json: bool) -> None:
    """How many tasks were written and admitted, by gate, domain, language and difficulty."""
    from rich.console import Console

    from pipeline.instance_report import instance_report

    found = instance_report(open_located(data, config).store())
    if as_json:
        click.echo(found.model_dump_json())
        return
    console = Console()
    for table in instance_tables(found):
        console.print(table)
    console.print(
        f"{found.admitted} of {found.written} tasks are admitted, {found.documented} of them from what repositories "
        f"document; {found.domains_complete} domains are complete",
        soft_wrap=True,
        highlight=False,
    )


@report.command()
@located
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def quality(data: Path | None, config: Path | None, as_json: bool) -> None:
    """Quality scores of admitted tasks by bin of repository scores, and how far raters agree."""
    from rich.console import Console

    from pipeline.quality.report import quality_report
    from pipeline.schemas import to_rows
    from pipeline.stages.rating import bins

    store = open_located(data, config).store()
    found = quality_report(to_rows(store.current("ratings")), bins(store))
    if as_json:
        click.echo(found.model_dump_json())
        return
    console = Console()
    for table in quality_tables(found):
        console.print(table)
    raters = ", ".join(f"{name} ({count})" for name, count in found.raters.items()) or "nobody yet"
    console.print(f"rated by {raters}", soft_wrap=True, highlight=False, markup=False)


@report.command()
@located
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def rollouts(data: Path | None, config: Path | None, as_json: bool) -> None:
    """How often agents pass, what stopped them and what they cost, by model; how far judges and replays agree."""
    from rich.console import Console

    from assets.rollout_figures import remarks, rollout_tables
    from pipeline.rollout_report import rollout_report

    workshop = open_located(data, config)
    found = rollout_report(workshop.store(), workshop.settings.rollout.samples)
    if as_json:
        click.echo(found.model_dump_json())
        return
    console = Console()
    for table in rollout_tables(found):
        console.print(table)
    for remark in remarks(found) or ([] if found.policies else ["no attempt was made yet"]):
        console.print(remark, soft_wrap=True, highlight=False, markup=False)


@report.command()
@located
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
def curation(data: Path | None, config: Path | None, as_json: bool) -> None:
    """What is published of the verified attempts, which step stops the others, and what waits for a review."""
    from rich.console import Console

    from assets.curation import report_of
    from assets.curation_figures import curation_remarks, curation_tables

    found = report_of(open_located(data, config))
    if as_json:
        click.echo(found.model_dump_json())
        return
    console = Console()
    for table in curation_tables(found):
        console.print(table)
    for remark in curation_remarks(found):
        console.print(remark, soft_wrap=True, highlight=False, markup=False)


@report.command()
@located
@click.option("--json", "as_json", is_flag=True, help="One JSON line only.")
@click.option(
    "--tokenizer", type=click.Path(path_type=Path), help="tokenizer.json or its folder ([dataset] tokenizer)."
)
@click.option(
    "--look", is_flag=True, help="Along paths that are played now, with all that is in sight in each observation."
)
@click.option("--plot", type=click.Path(path_type=Path), help="PNG file for the tokens of each step.")
def tokens(
    data: Path | None, config: Path | None, as_json: bool, tokenizer: Path | None, look: bool, plot: Path | None
) -> None:
    """What a flat history, a classic hierarchy and STEP-HRL read along the same gold paths of ScienceWorld."""
    from rich.console import Console

    from assets.token_figures import plot_tokens, token_figures, token_remarks, token_tables

    found = token_figures(open_located(data, config), tokenizer, look)
    if plot is not None:
        plot_tokens(found, plot)
    if as_json:
        click.echo(found.model_dump_json())
        return
    console = Console()
    for table in token_tables(found):
        console.print(table)
    for remark in token_remarks(found):
        console.print(remark, soft_wrap=True, highlight=False, markup=False)


def quality_tables(found: "QualityReport") -> "list[Table]":
    """Means with their 95 % intervals for each kind of rater, then the agreement; no empty table."""
    from rich.table import Table

    from assets.visible import visible
    from pipeline.quality.ratings import DIMENSIONS

    names = [dimension.replace("_", " ") for dimension in DIMENSIONS]
    tables = []
    for kind, by_bin in found.by_kind.items():
        table = Table("repository score", "tasks", *names, title=f"rated by {kind}, 1 (poor) to 5 (good)")
        for name, means in by_bin.items():
            cells = [f"{one.mean:.2f} [{one.low:.2f}, {one.high:.2f}]" if one else "" for one in means.values()]
            table.add_row(visible(name), str(next((one.n for one in means.values() if one), 0)), *cells)
        tables.append(table)
    agreement = Table("", *names, title="agreement of raters (quadratic-weighted kappa)")
    kappas = [found.agreement[dimension] for dimension in DIMENSIONS]
    if any(one.items for one in kappas):
        agreement.add_row("kappa", *("" if one.kappa is None else f"{one.kappa:.2f}" for one in kappas))
        agreement.add_row("tasks with two raters", *(str(one.items) for one in kappas))
    return [table for table in (*tables, agreement) if table.row_count]


def instance_tables(found: "InstanceReport") -> "list[Table]":
    """The report for people: gates, domains, languages, difficulties and generators; no empty table."""
    from rich.table import Table

    from assets.visible import visible

    gates = Table("gate", "tasks that came", "passed", title="by gate")
    for name, gate in found.by_gate.items():
        gates.add_row(visible(name), str(gate.reached), f"{gate.passed} ({gate.rate:.1%})")
    domains = Table("domain", "written", "admitted", "families", "levels of difficulty", title="by domain")
    for name, domain in found.by_domain.items():
        cells = (f"{domain.admitted} ({domain.rate:.1%})", str(domain.families), str(domain.levels))
        domains.add_row(visible(name), str(domain.written), *cells)
    parts = [
        _yields("by language", found.by_language),
        _yields("by difficulty", found.by_difficulty),
        _yields("by generator", found.by_generator),
    ]
    return [table for table in (gates, domains, *parts) if table.row_count]


def _yields(title: str, parts: "Mapping[str, Yield]") -> "Table":
    from rich.table import Table

    from assets.visible import visible

    table = Table("", "written", "admitted", title=title)
    for name, one in parts.items():
        table.add_row(visible(name), str(one.written), f"{one.admitted} ({one.rate:.1%})")
    return table


def crawl_tables(hub: "HubReport") -> "list[Table]":
    """Repositories of a hub for people, by language and by state."""
    from rich.table import Table

    from assets.visible import visible

    tables = []
    parts = (("language", {"all": None, **hub.by_language}), ("state", hub.by_state))
    for title, counts in parts:
        table = Table(title, "found", "with a commit")
        for name, one in counts.items():
            counted = one or hub
            table.add_row(visible(name), f"{counted.found:,}", f"{counted.pinned:,}")
        tables.append(table)
    return tables


def image_tables(found: "ImageReport") -> "list[Table]":
    """The report for people: rates of all, of each language and of each strategy, then the failures; no empty table."""
    from rich.table import Table

    from assets.visible import visible

    whole = {"all": found, "packages of Debian": found.packages, "all others": found.without_packages}
    if found.domains.repositories:
        whole["domains, beside all"] = found.domains
    tables = [
        _rates("images", whole),
        _rates("by language", found.by_language),
        _rates("by strategy of the best attempt", found.by_strategy),
    ]
    strategies = Table("strategy", "attempts", "built", title="attempts by strategy")
    for name, rates in found.by_strategy.items():
        strategies.add_row(visible(name), str(rates.attempts), str(rates.attempts_built))
    failures = Table("failure class", "repositories", "of all", "says something of it", title="not built")
    for name, stopped in found.by_failure_class.items():
        of_it = "no" if name in found.infrastructure else "yes"
        failures.add_row(visible(name), str(stopped.repositories), f"{stopped.rate:.1%}", of_it)
    if found.infrastructure:
        failures.caption = f"built without the ones that say nothing: {found.built_rate_without_infrastructure:.1%}"
    return [table for table in (*tables, strategies, failures) if table.row_count]


def _rates(title: str, parts: "Mapping[str, Rates]") -> "Table":
    from rich.table import Table

    from assets.visible import visible

    table = Table("", "repositories", "built", "usable", "tests pass", "substituted base", title=title)
    for name, rates in parts.items():
        table.add_row(
            visible(name),
            str(rates.repositories),
            f"{rates.built} ({rates.built_rate:.1%})",
            f"{rates.smoke_ok} ({rates.smoke_ok_rate:.1%})",
            f"{rates.tests_ok} of {rates.tests_run}",
            str(rates.base_substituted),
        )
    return table
