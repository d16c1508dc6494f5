"""The report of tokens: which paths it is counted along, its tables for people, and its plot. What is counted is in
training/token_report.py, what it comes to in seconds in training/latency.py."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from assets.experiments import RESULT, RESULTS
from assets.games import games_store
from assets.plots import write_steps_plot
from assets.resources import Workshop
from pipeline.agents.oracle import OracleAgent
from pipeline.errors import ConfigurationError
from pipeline.hierarchy import path as paths
from pipeline.hierarchy.attempts import environment_of, path_of, provenance_of
from pipeline.hierarchy.rules import annotate
from pipeline.joined_rows import VerifiedRow, verified
from pipeline.tables import Store
from pipeline.token_counts import TokenCounter
from training.latency import Measured, TimedReport, timed
from training.token_report import AROUND, EARLY, LONG, POLICIES, token_report

if TYPE_CHECKING:
    from rich.table import Table

GAME = "scienceworld"
_NAMES = {"flat": "flat history", "hrl": "classic hierarchy", "step_hrl": "STEP-HRL"}
_SHOWN = (1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 60, 80, 100)
"""Steps in the table."""


def token_figures(shop: Workshop, tokenizer: Path | None, look: bool = False) -> TimedReport:
    """Count along the verified gold paths of the data folder, or with `look` along some that are played now.

    Raises ConfigurationError.
    """
    chosen = tokenizer or (shop.folder / own if (own := shop.settings.dataset.tokenizer) is not None else None)
    if chosen is None:
        raise ConfigurationError(
            "report tokens needs a tokenizer: give --tokenizer FOLDER or [dataset] tokenizer; "
            "`python -m training.qwen_tokenizer` makes that of Qwen2.5"
        )
    counter = TokenCounter(chosen)
    if look:
        from training.environments.looked_at import looked_at_paths

        found = list(looked_at_paths())
    else:
        found = _played(games_store(shop))
    return timed(token_report([(one, annotate(one)) for one in found], counter.count), measured(RESULTS / "tokens"))


def _played(store: Store) -> list[paths.Path]:
    if not (found := list(gold_paths(store, GAME))):
        raise ConfigurationError(
            f"there are no gold paths of {GAME} in {store.root}: `touchstone environments play` makes them, "
            f"with {GAME} among the games of [environments]"
        )
    return found


def gold_paths(store: Store, game: str) -> Iterator[paths.Path]:
    """What the expert did in one game, where it reached the full score: the first variation of each template."""
    first: dict[str, tuple[list[int], VerifiedRow]] = {}
    for attempt in verified(store):
        row = attempt.row
        if row["agent"] != OracleAgent.name or environment_of(row) != game:
            continue
        place = [int(number) for number in re.findall(r"\d+", provenance_of(row)["variation"])]
        template = str(row["family"])
        if template not in first or place < first[template][0]:
            first[template] = (place, attempt)
    for _, attempt in (first[template] for template in sorted(first)):
        yield path_of(attempt.row)


def measured(folder: Path) -> Measured | None:
    """The speed of a model that `python -m training.measure_latency` wrote there. Raises ConfigurationError."""
    file = folder / RESULT
    if not file.exists():
        return None
    try:
        return Measured.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValidationError) as error:
        raise ConfigurationError(f"{file} has no measured speed ({error}); put it back or measure again") from error


def token_tables(found: TimedReport) -> "list[Table]":
    """The totals beside those of the paper, then steps in tokens and seconds."""
    from rich.table import Table

    title = f"prompt tokens of a trajectory, mean of {found.trajectories} gold paths of {GAME}"
    totals = Table("", *_NAMES.values(), title=title)
    rows = {
        "all calls": found,
        "the paper's example": found.paper,
        "earlier count, 24 paths": found.earlier,
        "a step among the first five": found.first_steps,
        "dearest step of any path": found.largest_step,
        "written": found.written,
    }
    if found.late is not None:
        rows |= {
            f"a step from {AROUND[0]} to {AROUND[1]} of {found.late.paths} long paths": found.late.early,
            f"step {EARLY} of these": found.late.at_step_5,
            "a step of the last quarter of these": found.late.late,
        }
    for name, one in rows.items():
        totals.add_row(name, *(f"{getattr(one, policy):,.0f}" for policy in POLICIES))
    steps = Table("step", "paths", *_NAMES.values(), title="prompt tokens of the calls at a step")
    for step in (step for step in _SHOWN if step in found.per_step):
        read = found.per_step[step]
        cells = [f"{getattr(read, policy):,.0f}" for policy in POLICIES]
        if found.latency is not None:
            seconds = found.latency.per_step[step]
            cells = [f"{cell}  {getattr(seconds, policy):.1f} s" for cell, policy in zip(cells, POLICIES, strict=True)]
        steps.add_row(str(step), str(read.n), *cells)
    return [totals, steps]


def token_remarks(found: TimedReport) -> list[str]:
    """What the tables leave out, in sentences."""
    said = [
        f"STEP-HRL reads {found.ratios.step_hrl_to_flat:.1%} of the flat history and "
        f"{found.ratios.step_hrl_to_hrl:.1%} of the classic hierarchy; {found.progress_share:.1%} of that is read to "
        f"write progress ({found.progress_tokens:.0f} tokens each), without which it is "
        f"{found.step_hrl_without_progress_calls:,.0f} tokens",
        f"naming a sub-goal reads {found.peaks.hrl:,.0f} tokens in the classic hierarchy, "
        f"{found.peaks.step_hrl:,.0f} in STEP-HRL",
        f"in tokens STEP-HRL is cheaper than the flat history {_from(found.cheaper_from_step)}",
    ]
    if found.late is not None:
        ratios = found.late.ratio.step_hrl, found.late.ratio.flat, found.late.ratio_to_step_5.step_hrl
        said.append(
            "late steps cost {:.2f} times the early ones with STEP-HRL, {:.2f} times with the flat history "
            "({:.2f} times step 5 alone, where most paths neither look around nor begin a sub-task)".format(*ratios)
        )
    else:
        said.append(f"no path has {LONG} steps: nothing is said of late ones")
    if found.latency is not None:
        name = found.latency.model.get("weights", "a model")
        said.append(
            f"in seconds, by the measured speed of {name} and with no prompt kept in a cache, it is cheaper "
            f"{_from(found.latency.cheaper_from_step)}"
        )
    return said


def plot_tokens(found: TimedReport, file: Path) -> None:
    """A line for each policy. Raises ConfigurationError when the file cannot be written."""
    lines = {
        label: [(step, float(getattr(one, policy))) for step, one in found.per_step.items()]
        for policy, label in _NAMES.items()
    }
    try:
        write_steps_plot(lines, "prompt tokens of a step", file)
    except OSError as error:
        raise ConfigurationError(f"--plot: {file} cannot be written ({error.strerror})") from error


def _from(step: int | None) -> str:
    return "at no step" if step is None else f"from step {step} on"
