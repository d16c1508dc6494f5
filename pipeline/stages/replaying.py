"""Carries recorded attempts out again, each time anew, and keeps the second verdict beside the first."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipeline.batch import Failure, Item, Outcome, StageReport
from pipeline.joined_rows import JudgedRow
from pipeline.replay_rate import newest_replays
from pipeline.schemas import Row
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from pipeline.verification import replay
from sandbox.protocol import Backend


class _Numbered(NamedTuple):
    """One attempt, for the `number`-th time."""

    judged: JudgedRow
    number: int


def replay_all(
    store: Store, judged: Sequence[JudgedRow], backend: Backend, options: Options, *, command_timeout_s: float
) -> StageReport:
    """A new row in `replays` for each of `judged`, however often it was replayed before.

    A fault of our machinery leaves a row without a second verdict, `infrastructure`.
    """

    def work(one: _Numbered) -> Outcome:
        judged, began = one.judged, time.monotonic()
        again = replay(judged.instance, judged.trajectory, judged.outcome, backend, command_timeout_s=command_timeout_s)
        row = {**again.model_dump(), "number": one.number, "backend": backend.name}
        return Outcome({"replays": [row | {"seconds": time.monotonic() - began}]})

    def failed_rows(one: _Numbered, failure: Failure) -> Mapping[str, Sequence[Row]]:
        row: Row = {"trajectory_id": one.judged.trajectory_id, "recorded": one.judged.outcome}
        return {"replays": [row | {"number": one.number}]}

    before = {name: int(str(row["number"])) for name, row in newest_replays(store).items()}
    numbered = [_Numbered(one, before.get(one.trajectory_id, 0) + 1) for one in judged]
    items = [Item(f"{one.judged.trajectory_id}/{one.number}", one) for one in numbered]
    machines = options.machines
    return over_items("replay", items, work, store=store, failed_rows=failed_rows, options=options, machines=machines)
