"""`make experiment-rollouts`: a small real model at easy instances, several samples each. The last line is JSON.

The instances are those of the data folder (`touchstone run --instances-only` makes them), the model is that of the
configuration. One line per attempt goes to training/experiments/small_model_rollouts/cells.jsonl when its verdict is
there, without any text of task, model or repository; what has a line is not done again, also with another data folder,
so a run may be ended and begun again. Figures go to result.json, verified attempts to the snapshot of the data folder.
"""

from __future__ import annotations

import argparse
import itertools
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from assets.curation import benchmarks
from assets.datasets import publication_of
from assets.progress import ProgressBars
from assets.resources import code_commit, open_workshop
from pipeline.attempts import Attempt, rounds
from pipeline.chosen import chosen_rows
from pipeline.curation.secrets import RULES_CACHE, Detector
from pipeline.errors import ConfigurationError
from pipeline.pass_rates import Tally, pass_rates
from pipeline.rows import instance_of
from pipeline.schemas import Row, to_rows
from pipeline.snapshots import SnapshotVersion, batches
from pipeline.stages.curating import curate
from pipeline.stages.options import Options
from pipeline.stages.publishing import publish_kept
from pipeline.stages.rollouts import roll_out
from pipeline.stages.verifications import verify_all
from pipeline.tables import Store
from pipeline.types import content_id

EXPERIMENT = Path(__file__).resolve().parents[2] / "training" / "experiments" / "small_model_rollouts"
AT_ONCE = 8
"""Attempts between two looks at the verdicts: so much is lost when the run is ended."""


def easy(rows: Iterable[Row], count: int) -> list[Row]:
    """Easy instances, one of each domain in turn, families and seeds in order."""
    by_domain: dict[str, list[Row]] = {}
    for row in sorted(rows, key=_name):
        if row["difficulty"] == "easy":
            by_domain.setdefault(str(row["domain"]), []).append(row)
    turns = itertools.zip_longest(*(_spread(found) for _, found in sorted(by_domain.items())))
    return [row for turn in turns for row in turn if row is not None][:count]


def _spread(rows: Sequence[Row]) -> list[Row]:
    """Another family each time, as long as there is one."""
    seen: dict[str, int] = {}
    order = []
    for row in rows:
        order.append(seen.get(str(row["family"]), 0))
        seen[str(row["family"])] = order[-1] + 1
    return [row for _, _, row in sorted(zip(order, range(len(rows)), rows, strict=True), key=lambda entry: entry[:2])]


def _name(row: Mapping[str, object]) -> tuple[str, ...]:
    """Names a task on every machine: its id depends on the image that was built."""
    provenance = {pair["key"]: pair["value"] for pair in _list(row["provenance"])}
    place = (str(provenance.get("document_sha256", ""))[:12], str(provenance.get("line", "")))
    return (str(row["domain"]), str(row["family"]), f"{row['seed']}", *place)


def _list(value: object) -> list[Any]:
    assert isinstance(value, list)
    return value


def cell(row: Row, attempt: Attempt, trajectory: Row | None, verdict: Row | None) -> dict[str, object]:
    """The line of one attempt; without a trajectory our machinery failed, and nothing is known of the agent."""
    told: dict[str, object] = {
        "task": "/".join(_name(row)),
        "domain": row["domain"],
        "family": row["family"],
        "language": row["language"],
        "agent": attempt.agent.name,
        "model": attempt.agent.model,
        "sample": attempt.sample,
        "temperature": attempt.agent.sampling.get("temperature"),
        "seed": attempt.agent.sampling.get("seed"),
        "outcome": verdict["outcome"] if verdict is not None else None,
        "details": dict(attempt.agent.details),
    }
    if trajectory is not None:
        steps = _list(trajectory["steps"])
        calls = [call for step in steps for call in json.loads(step["extra"] or "{}").get("calls", ())]
        told |= {
            "stop_reason": trajectory["stop_reason"],
            "failure_class": trajectory["failure_class"],
            "turns": trajectory["n_turns"],
            "commands": sum(bool(step["action"]) for step in steps),
            "prompt_tokens": trajectory["n_prompt_tokens"],
            "completion_tokens": trajectory["n_tokens"],
            "model_seconds": round(sum(call["seconds"] for call in calls), 1),
        }
    return told


def cells() -> list[dict[str, Any]]:
    """What is known already."""
    path = EXPERIMENT / "cells.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _key(one: Mapping[str, Any]) -> tuple[object, ...]:
    return (one["task"], one["agent"], one["model"], _prompts(one), one["sample"])


def _prompts(one: Mapping[str, Any]) -> str:
    """Names the wording of the agent's prompts: attempts with another one are of another policy."""
    return content_id("prompts", sorted(pair for pair in one["details"].items() if pair[0].startswith(one["agent"])))


def _add(store: Store, rows: Mapping[str, Row], done: Sequence[Attempt]) -> None:
    trajectories = {row["trajectory_id"]: row for row in to_rows(store.current("trajectories"))}
    verdicts = {row["trajectory_id"]: row for row in to_rows(store.current("verifications"))}
    with (EXPERIMENT / "cells.jsonl").open("a") as file:
        for one in done:
            found = trajectories.get(one.trajectory_id)
            verdict = verdicts.get(one.trajectory_id)
            # What our machinery broke is done again by the next call.
            if found is not None and verdict is not None and verdict["outcome"] != "error":
                file.write(json.dumps(cell(rows[one.instance.instance_id], one, found, verdict)) + "\n")


def figures(found: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Of all attempts of one agent and model."""
    tasks: dict[str, list[bool]] = {}
    for one in found:
        tasks.setdefault(one["task"], []).append(one["outcome"] == "passed")
    rates = pass_rates([Tally(len(passed), len(passed), sum(passed)) for _, passed in sorted(tasks.items())])
    ends: dict[str, int] = {}
    for one in found:
        end = "passed" if one["outcome"] == "passed" else f"failed, {one['stop_reason']}"
        ends[end] = ends.get(end, 0) + 1
    return {
        **rates.model_dump(mode="json"),
        "attempts": len(found),
        "ends": dict(sorted(ends.items())),
        "passed_by_domain": _passed(found, "domain"),
        "passed_by_family": _passed(found, "family"),
        "turns": sum(one["turns"] for one in found),
        "prompt_tokens": sum(one["prompt_tokens"] for one in found),
        "completion_tokens": sum(one["completion_tokens"] for one in found),
        "model_seconds": round(sum(one["model_seconds"] for one in found)),
        "details": found[-1]["details"] if found else {},
    }


def _passed(found: Sequence[Mapping[str, Any]], field: str) -> dict[str, str]:
    return {
        name: f"{sum(one['outcome'] == 'passed' for one in group)} of {len(group)}"
        for name, group in _grouped(found, field)
    }


def _grouped(found: Sequence[Mapping[str, Any]], field: str) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    for name in sorted({str(one[field]) for one in found}):
        yield name, [one for one in found if one[field] == name]


def main() -> None:
    parser = argparse.ArgumentParser(prog="make experiment-rollouts", description=__doc__)
    parser.add_argument("--instances", type=int, default=36)
    parser.add_argument("--agent", default="bash")
    parser.add_argument("--generator", help="Only instances that this generator made, e.g. files.")
    chosen = parser.parse_args()
    workshop, console = open_workshop(), Console(width=110)
    config, store, backend, model = workshop.settings.rollout, workshop.store(), workshop.backend(), workshop.model()
    if model is None:
        raise ConfigurationError("the configuration names no [model]")
    made = [row for row in chosen_rows(store) if chosen.generator in (None, row["generator"])]
    rows = {str(row["instance_id"]): row for row in easy(made, chosen.instances)}
    tasks = [instance_of(row) for row in rows.values()]
    EXPERIMENT.mkdir(parents=True, exist_ok=True)
    options = Options(workers=workshop.settings.workers)
    with ProgressBars(console):
        for attempts in rounds(tasks, [chosen.agent], model, config.samples):
            known = {_key(one) for one in cells()}
            missing = [
                one for one in attempts if _key(cell(rows[one.instance.instance_id], one, None, None)) not in known
            ]
            for start in range(0, len(missing), AT_ONCE):
                part = missing[start : start + AT_ONCE]
                roll_out(store, part, backend, config, options)
                verify_all(store, tasks, backend, options, command_timeout_s=config.command_timeout_s)
                _add(store, rows, part)
    curate(store, benchmarks(workshop), workshop.host(), Detector(workshop.data / RULES_CACHE), options)
    published = publish_kept(store, publication_of(workshop), code_commit=code_commit(), run_id=None)
    result = {"/".join(policy): figures(group) for policy, group in _policies(cells())}
    if published is not None:
        result["snapshot"] = _in(published, model.name)
    (EXPERIMENT / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


def _in(version: SnapshotVersion, model: str) -> dict[str, object]:
    """Rows of this model that the version of the data folder holds."""
    rows = [name for batch in batches(version.path, ["model"]) for name in batch.column("model").to_pylist()]
    return {"version": f"{version.name}@{version.version}", "sha256": version.sha256, "rows": rows.count(model)}


def _policies(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str, str], list[Mapping[str, Any]]]]:
    """Attempts of each agent, model and wording of the prompts."""
    key = operator.itemgetter(0)
    named = [((one["agent"], one["model"], _prompts(one)), one) for one in found]
    for policy, group in itertools.groupby(sorted(named, key=key), key=key):
        yield policy, [one for _, one in group]


if __name__ == "__main__":
    main()
