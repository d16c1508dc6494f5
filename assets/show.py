"""What is known of one id: a sheet per row that the working tables hold about it, and a single attempt turn by turn."""

from collections.abc import Iterator, Mapping
from itertools import islice

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from assets.terminal_replay import replay
from assets.visible import visible, visible_text
from pipeline.exports.recorded import recorded_attempts
from pipeline.schemas import to_rows
from pipeline.tables import Store

_IDS: dict[str, tuple[str, ...]] = {
    "listings": ("repository_id", "full_name"),
    "repositories": ("repository_id", "full_name"),
    "contexts": ("context_id", "repository_id"),
    "scores": ("repository_id",),
    "image_builds": ("repository_id", "image_digest"),
    "instances": ("instance_id", "repository_id", "image_digest"),
    "selections": ("instance_id",),
    "trajectories": ("trajectory_id", "instance_id"),
    "verifications": ("trajectory_id",),
    "judgements": ("trajectory_id",),
    "replays": ("trajectory_id",),
    "annotations": ("trajectory_id",),
}
"""The columns by which a row of each table is found."""

_OF_AN_ATTEMPT = ("trajectories", "verifications")
"""The tables whose rows about one attempt its replay shows."""

_IDENTITIES = ("trajectory_id", "instance_id", "context_id", "image_digest", "repository_id")
"""The column that tells the rows of a list apart: the first one that a row has."""

_CODE = {"dockerfile": "docker", "content": "python", "solution": "bash", "action": "bash"}
_ROWS_IN_FULL = 3
"""So many rows of a table are shown whole; more become a line each."""


def explain(store: Store, identifier: str) -> list[RenderableType]:
    """A sheet for each table that knows an id, a digest or a name beginning with `identifier`; empty when none does.

    A single attempt is replayed in place of its sheets.
    """
    sheets: list[RenderableType] = []
    attempts = list(islice(recorded_attempts(store, identifier), 2))
    replayed = _OF_AN_ATTEMPT if len(attempts) == 1 else ()
    for table, columns in _IDS.items():
        if table in replayed:
            continue
        rows = [
            row for row in to_rows(store.read(table)) if any(_begins(row.get(column), identifier) for column in columns)
        ]
        if len(rows) > _ROWS_IN_FULL:
            sheets.append(_list(table, rows))
        else:
            sheets.extend(_sheet(table, row) for row in rows)
    return [*sheets, *replay(attempts[0])] if replayed else sheets


def _begins(value: object, identifier: str) -> bool:
    return isinstance(value, str) and (
        value.startswith(identifier) or value.removeprefix("sha256:").startswith(identifier)
    )


def _list(table: str, rows: list[dict[str, object]]) -> RenderableType:
    lines = Table("id", "attempt", "outcome", "reason", title=f"{table}: {len(rows)} rows", expand=True)
    for row in rows:
        identity = next((row[column] for column in _IDENTITIES if row.get(column)), None)
        outcome = (
            row.get("outcome") or row.get("status") or row.get("failure_class") or ("ok" if identity else "failed")
        )
        lines.add_row(
            *(visible(str(cell or "")) for cell in (identity, row.get("attempt"), outcome, row.get("reason")))
        )
    return lines


def _sheet(table: str, row: Mapping[str, object]) -> RenderableType:
    return Panel(Group(*_fields(row)), title=f"{table}, attempt {row['attempt']}", title_align="left")


def _fields(row: Mapping[str, object]) -> Iterator[RenderableType]:
    for name, value in row.items():
        if value is None or value == [] or value == "":
            continue
        if name in _CODE and isinstance(value, str):
            yield Text(f"{name}:", style="bold")
            yield Syntax(visible_text(value), _CODE[name], word_wrap=True)
        elif isinstance(value, list) and value and isinstance(value[0], dict) and set(value[0]) != {"key", "value"}:
            yield Text(f"{name}:", style="bold")
            for entry in value:
                yield Panel(Group(*_fields(entry)), border_style="dim")
        else:
            yield Text.assemble((f"{name}: ", "bold"), visible(_plain(value)))


def _plain(value: object) -> str:
    """One value as text."""
    if isinstance(value, list):
        if all(isinstance(entry, dict) for entry in value):
            return ", ".join(f"{entry['key']}={entry['value']}" for entry in value)
        return "\n".join(str(entry) for entry in value)
    return str(value)
