"""Compares admitted instances with the tasks of benchmarks; what comes too near is never rolled out or published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.batch import Failure, Item, Outcome, StageReport
from pipeline.chosen import chosen_rows
from pipeline.curation.benchmarks import fingerprint, read_benchmarks
from pipeline.curation.decontamination import Benchmark, Ours
from pipeline.instances import task_text
from pipeline.rows import instance_of
from pipeline.schemas import Row, to_rows
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from pipeline.types import Record, TaskInstance


class DecontaminationConfig(Record):
    """What data must not hold."""

    benchmarks: tuple[Path, ...] = ()
    """Folders of held-out tasks, or of many such folders (task.toml or task.yaml); relative to the configuration."""


def decontaminate(store: Store, config: DecontaminationConfig, folder: Path, options: Options) -> StageReport:
    """A row in `contaminations` for each selected instance and each set of held-out tasks; none without such tasks.

    `folder` is where the configuration lies. Another set is another comparison, of all instances. Raises
    ConfigurationError for a path.
    """
    tasks = read_benchmarks(folder / path for path in config.benchmarks)
    chosen = [instance_of(row) for row in chosen_rows(store)] if tasks else []
    names = {row["repository_id"]: str(row["full_name"]) for row in to_rows(store.current("repositories"))}
    benchmark_id = fingerprint(tasks)
    ours = [_ours(instance, names.get(instance.repository_id, "")) for instance in chosen]
    found = Benchmark(tasks).check(ours) if ours else {}

    def work(instance: TaskInstance) -> Outcome:
        row: Row = {"instance_id": instance.instance_id, "benchmark_sha256": benchmark_id}
        seen = found[instance.instance_id]
        return Outcome(
            {"contaminations": [row | {"decision": seen.decision, "task": seen.task, "reason": seen.reason}]}
        )

    def failed_rows(instance: TaskInstance, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"contaminations": [{"instance_id": instance.instance_id, "benchmark_sha256": benchmark_id}]}

    batch = [Item(f"{instance.instance_id}/{benchmark_id[:16]}", instance) for instance in chosen]
    return over_items("decontamination", batch, work, store=store, failed_rows=failed_rows, options=options)


def _ours(instance: TaskInstance, repository: str) -> Ours:
    text = task_text(instance)
    return Ours(
        instance_id=instance.instance_id,
        repository=repository,
        instruction=text.instruction,
        verifier=text.verifier,
    )
