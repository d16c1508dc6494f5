"""The console script `touchstone`, and the only place that prints. Commands import what they need when they run."""

import atexit
import contextlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.backup_cli import backup, restore
from assets.benchmark_cli import benchmark
from assets.capacity import plan
from assets.datasets_cli import COMMANDS
from assets.environments_cli import environments
from assets.evaluate_cli import evaluate
from assets.experiment_cli import experiment
from assets.export import export
from assets.gc import gc
from assets.hierarchy_cli import hierarchy
from assets.located import located, not_empty, open_located
from assets.quality import quality
from assets.report import report
from assets.training_cli import models, train
from assets.view import view

if TYPE_CHECKING:
    from rich.console import Console

    from assets.attempting import AttemptsResource
    from assets.resources import RetryResource, Workshop

_EXIT_FAILED = 1
_EXIT_CONFIGURATION = 2


@click.group()
@click.version_option(package_name="touchstone")
def touchstone() -> None:
    """Turns real repositories into verified terminal-agent trajectories."""


@touchstone.command()
@located
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def doctor(data: Path | None, config: Path | None, as_json: bool) -> None:
    """Check the machine and say how to mend it."""
    from rich.console import Console
    from rich.table import Table

    from assets.resources import postgres_address
    from assets.storage import storage_finding
    from assets.visible import visible
    from sandbox.doctor import examine

    findings = [*examine(open_located(data, config).data), storage_finding(postgres_address())]
    table = Table("", "check", "found", "remedy")
    for finding in findings:
        state = visible("ok", "green") if finding.ok else visible("no", "red")
        table.add_row(state, finding.name, visible(finding.detail), visible(finding.remedy))
    Console().print(table)
    if as_json:
        click.echo(json.dumps({"ok": all(f.ok for f in findings), "findings": [f.model_dump() for f in findings]}))
    if not all(finding.ok for finding in findings):
        sys.exit(_EXIT_FAILED)


@touchstone.command()
@located
@click.option(
    "--retry", type=click.Choice(["none", "infrastructure", "all"]), default="none", help="Failed items to try again."
)
@click.option(
    "--only",
    multiple=True,
    metavar="ID",
    callback=not_empty,
    help="Retry only these items (may be given several times).",
)
@click.option(
    "--day",
    callback=not_empty,
    help="Crawl day YYYY-MM-DD (default: today, UTC); a past day reads its stored listing.",
)
@click.option(
    "--streams",
    default="all",
    metavar="NAME",
    callback=not_empty,
    help="all (default), languages, domains, or one of them, e.g. go or sql.",
)
@click.option(
    "--agents", metavar="NAMES", callback=not_empty, help="Who attempts the instances, e.g. oracle,noop,bash."
)
@click.option("--samples", type=click.IntRange(min=1), help="Attempts of each agent with a model at each instance.")
@click.option(
    "--difficulty",
    "difficulties",
    type=click.Choice(["easy", "medium", "hard"]),
    multiple=True,
    help="Of the instances that models attempt (default: all; may be given several times).",
)
@click.option("--max-steps", type=click.IntRange(min=1), help="Decisions of each attempt (default: that of [rollout]).")
@click.option(
    "--local-model",
    metavar="NAME",
    callback=not_empty,
    help="smollm2, or the path of a GGUF file: the model of the agents, started on this machine.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="At most so many repositories of each stream, the first ones (default: all); a later run adds the others.",
)
@click.option("--instances-only", is_flag=True, help="Stop when the instances are admitted: no agent attempts them.")
@click.option("--plan", is_flag=True, help="Run nothing: say how many attempts there are to make, and what they take.")
@click.option("--json", "as_json", is_flag=True, help="With --plan: one JSON line only.")
def run(
    data: Path | None,
    config: Path | None,
    retry: str,
    only: tuple[str, ...],
    day: str | None,
    streams: str,
    agents: str | None,
    samples: int | None,
    difficulties: tuple[str, ...],
    max_steps: int | None,
    local_model: str | None,
    limit: int | None,
    instances_only: bool,
    plan: bool,
    as_json: bool,
) -> None:
    """Materialize the main job for one crawl day and print the funnel."""
    from rich.console import Console

    from assets.attempting import AttemptsResource
    from assets.launch import materialize
    from assets.progress import ProgressBars
    from assets.resources import RetryResource
    from assets.visible import visible
    from pipeline.llm.weights import SMOLLM2

    console = Console(log_path=False)
    workshop = open_located(data, config)
    if only and retry == "none":
        raise click.UsageError("--only names items to retry: give --retry infrastructure or --retry all too")
    if (as_json and not plan) or (plan and instances_only):
        raise click.UsageError("--json belongs to --plan, which is about the attempts that --instances-only leaves out")
    if local_model not in {None, SMOLLM2}:
        local_model = os.path.abspath(local_model)  # relative to where the command is given, not to the settings
    attempts = AttemptsResource(
        agents=agents.split(",") if agents else [],
        samples=samples or 0,
        difficulties=list(difficulties),
        max_steps=max_steps or 0,
        local_model=local_model or "",
    )
    if plan:
        retried = RetryResource(retry=retry, only=list(only))
        _print_plan(console, workshop, attempts, streams, day, retried, as_json=as_json)
        return
    with ProgressBars(console):
        job = "instances_only" if instances_only else "main"
        error = materialize(
            workshop,
            job,
            day=day,
            streams=streams,
            retry=retry,
            only=only,
            attempts=attempts,
            limit=limit or 0,
        )
    try:
        _print_funnel(console, workshop, instances_only=instances_only)
    finally:  # a damaged snapshot must not hide why the run failed
        if error is not None:
            console.print(visible("The run failed: ", "red") + visible(error), soft_wrap=True)
    if error is not None:
        sys.exit(_EXIT_FAILED)


def _print_plan(
    console: "Console",
    workshop: "Workshop",
    attempts: "AttemptsResource",
    streams: str,
    day: str | None,
    retry: "RetryResource",
    *,
    as_json: bool,
) -> None:
    from assets.partitions import streams_named
    from assets.plan import plan_of, plan_table

    plan = plan_of(workshop, attempts, streams_named(streams), day, retry.options(workshop))
    if as_json:
        click.echo(plan.model_dump_json())
    else:
        console.print(plan_table(plan))


def _print_funnel(console: "Console", workshop: "Workshop", *, instances_only: bool = False) -> None:
    """The stages with their counts, then the newest snapshot; only up to the instances where a run ends with them."""
    from rich.table import Table

    from assets.snapshot_view import QUERY, query_snapshot
    from pipeline.funnel import funnel

    table = Table("stage", "items", title="Funnel")
    for name, count in funnel(workshop.store()).stages():
        table.add_row(name, str(count))
        if instances_only and name == "admitted":
            break
    console.print(table)
    if instances_only:
        return
    snapshot = workshop.latest_snapshot()
    if snapshot is None:
        why = "no trajectory was verified and kept (`touchstone report curation` says what was left out, and why)"
        console.print(f"No snapshot in {workshop.data} yet: {why}.", soft_wrap=True, markup=False)
        return
    found = f"Snapshot {snapshot.name} {snapshot.version}: {snapshot.rows} rows in {snapshot.path}"
    console.print(found, soft_wrap=True, markup=False)
    console.print(QUERY, style="dim", highlight=False)
    columns, rows = query_snapshot(snapshot.path)
    result = Table(*columns)
    for row in rows:
        result.add_row(*map(str, row))
    console.print(result)


@touchstone.command()
@located
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def status(data: Path | None, config: Path | None, as_json: bool) -> None:
    """What the working tables hold and which snapshot is the newest."""
    from rich.console import Console

    from pipeline.funnel import funnel

    workshop = open_located(data, config)
    if not as_json:
        _print_funnel(Console(), workshop)
        return
    counts = funnel(workshop.store())
    snapshot = workshop.latest_snapshot()
    newest = {"name": snapshot.name, "version": snapshot.version, "path": str(snapshot.path)} if snapshot else None
    click.echo(json.dumps({**counts.model_dump(), "snapshot": newest}))


@touchstone.command()
@located
@click.argument("identifier", callback=not_empty)
def show(data: Path | None, config: Path | None, identifier: str) -> None:
    """Explain a repository, image, instance or trajectory by its id or the beginning of it.

    A single trajectory is replayed turn by turn.
    """
    from rich.console import Console

    from assets.show import explain

    sheets = explain(open_located(data, config).store(), identifier)
    if not sheets:
        raise click.ClickException(
            f"nothing is known under {identifier!r}; ids are in the tables and in `touchstone status`"
        )
    for sheet in sheets:
        Console().print(sheet)


@touchstone.command()
@located
@click.argument("identifier", required=False, callback=not_empty)
@click.option("--all", "everything", is_flag=True, help="Every judged row, passed and failed.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def replay(data: Path | None, config: Path | None, identifier: str | None, everything: bool, as_json: bool) -> None:
    """Carry out recorded commands again in fresh sandboxes and compare the verdicts."""
    from rich.console import Console

    from assets.progress import ProgressBars
    from assets.replays import replay_rows
    from assets.visible import visible

    if everything == (identifier is not None):
        raise click.UsageError("give one trajectory id or --all")
    console = Console(stderr=as_json, log_path=False)
    workshop = open_located(data, config)
    with ProgressBars(console):
        report = replay_rows(workshop, identifier)
    if report.replayed == 0 and identifier is not None:
        raise click.ClickException(f"no judged trajectory begins with {identifier!r}")
    console.print(f"{report.replayed} replayed, same verdict in {report.same_verdict_rate:.1%}")
    for row in report.differing:
        console.print(visible(f"{row.trajectory_id}: {row.recorded} -> {row.replayed} ({row.reason})"))
    if as_json:
        click.echo(json.dumps(report.model_dump()))
    for broken in report.broken:
        console.print(visible(f"{broken}; not replayed"))
    if report.differing or report.broken:
        sys.exit(_EXIT_FAILED)


touchstone.add_command(report)
touchstone.add_command(train)
touchstone.add_command(models)
touchstone.add_command(environments)
touchstone.add_command(evaluate)
touchstone.add_command(experiment)
touchstone.add_command(export)
touchstone.add_command(quality)
touchstone.add_command(view)
touchstone.add_command(gc)
touchstone.add_command(backup)
touchstone.add_command(benchmark)
touchstone.add_command(hierarchy)
touchstone.add_command(restore)
touchstone.add_command(plan)
for _command in COMMANDS:
    touchstone.add_command(_command)


def main() -> None:
    """Entry point; see `command_line`. Ends the process."""
    try:
        command_line()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else _EXIT_FAILED
    _leave(code)


def command_line() -> None:
    """The errors that the user can mend become one line; exit code 2 where a setting is at fault."""
    from pipeline.errors import ConfigurationError, PipelineError
    from pipeline.snapshots import SnapshotDamaged
    from sandbox.errors import SandboxError, SandboxUnavailable

    try:
        touchstone()
    except ConfigurationError as error:
        _end(f"configuration: {error}", _EXIT_CONFIGURATION)
    except SandboxUnavailable as error:
        _end(f"sandbox: {error}", _EXIT_CONFIGURATION)
    except SnapshotDamaged as error:
        _end(f"{error}; put the version's folder back as it was, or move it away", _EXIT_FAILED)
    except (PipelineError, SandboxError) as error:
        _end(str(error), _EXIT_FAILED)


def _end(reason: str, code: int) -> None:
    from assets.visible import visible_text

    click.echo(f"touchstone: {visible_text(reason)}", err=True)
    sys.exit(code)


def _leave(code: int) -> None:
    """End the process without the destructors of native libraries.

    Those of Arrow's thread pools abort it when a thread of theirs is just starting: one in fifteen short commands ended
    with SIGABRT in place of its exit code. Python's own exit functions are called as ever.
    """
    logging.shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # Who does not read any more has no use for the rest.
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
