"""What the list of runs can be searched by."""

from collections.abc import Sequence

from assets.resources import code_commit

DAY = "touchstone/day"
STREAMS = "touchstone/streams"
COMMIT = "touchstone/commit"
AGENTS = "touchstone/agents"
MODEL = "touchstone/model"
SNAPSHOT = "touchstone/snapshot"
"""Of a run that a published version started, or that trains on another than the newest; `name@version`."""


def run_tags(day: str, streams: str, *, agents: Sequence[str] = (), model: str | None = None) -> dict[str, str]:
    """Tags of a run, for the streams of that name on one day; `agents` are those that attempt tasks in it."""
    tags = {DAY: day, STREAMS: streams, COMMIT: code_commit() or "unknown"}
    if agents:
        tags[AGENTS] = ", ".join(agents)
    if model is not None:
        tags[MODEL] = model
    return tags
