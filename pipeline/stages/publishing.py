"""Publishes the verified rows of all days as the next version of the data set, when they changed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from pipeline.cards import front_matter
from pipeline.funnel import funnel
from pipeline.joined_rows import verified_rows
from pipeline.replay_rate import replay_rate
from pipeline.schemas import TERMINAL, to_arrow
from pipeline.snapshots import Draft, SnapshotVersion, publish, versions
from pipeline.tables import Store


def publish_verified(store: Store, name: str, *, code_commit: str | None, run_id: str | None) -> SnapshotVersion | None:
    """The version that holds today's verified rows, new or already there; None when there is no verified row."""
    rows = verified_rows(store)
    first = next(rows, None)
    if first is None:
        return None
    replays = replay_rate(store)
    return publish(
        store.root,
        name,
        (to_arrow(TERMINAL, [row]) for row in itertools.chain([first], rows)),
        schema_version=TERMINAL.version,
        parents=tuple(f"{name}/{version.version}" for version in versions(store.root, name)[-1:]),
        code_commit=code_commit,
        run_id=run_id,
        summary={"funnel": dict(funnel(store).stages()), "replays": replays.model_dump() if replays else None},
        describe=_described,
    )


def _described(draft: Draft) -> Mapping[str, str]:
    return {"README.md": f"{front_matter(draft)}\n{_card(draft.rows, draft.summary)}"}


def _card(rows: int, summary: Mapping[str, object]) -> str:
    stages = summary["funnel"]
    assert isinstance(stages, dict)
    lines = "\n".join(f"| {stage} | {count} |" for stage, count in stages.items())
    return f"""# Verified terminal trajectories

{rows} trajectories of agents that solved tasks in containers made from real repositories. Each final state passed the
pytest verifier of its task, run by an interpreter of ours in a fresh sandbox; a task is here only when doing
nothing fails its verifier and its reference solution passes it, twice. The column `agent` says who acted: `oracle`
carried out the reference solution.

| stage | items |
|---|---|
{lines}

`messages` is the attempt as a chat, `steps` has exit codes and seconds as well. `verifier_files` and
`verifier_passing_tests` are what judged it, `image_digest` names the image, and `license` is what was found in the
files of the repository at the pinned version (null: none was recognised).
{_replays(summary["replays"])}"""


def _replays(rate: object) -> str:
    """The figure over all judged attempts, those that failed included; nothing when none was replayed."""
    if rate is None:
        return ""
    assert isinstance(rate, dict)
    return f"""
When the card was written, {rate["replayed"]} of {rate["judged"]} judged attempts, passed and failed, had been carried
out again in fresh sandboxes; {rate["same_verdict"]} of them ({rate["rate"]:.1%}) got the same verdict.
"""
