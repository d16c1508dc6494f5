"""The commands about published versions: list, compare, tag, keep, send and fetch them. See pipeline/snapshots."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.located import located, not_empty, open_located

if TYPE_CHECKING:
    from pipeline.snapshots.diffing import FieldChange, RowNote, VersionDiff

_NAME = click.argument("name", callback=not_empty)
_REFERENCE = click.argument("snapshot", metavar="NAME[@VERSION]", callback=not_empty)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON line only.")


@click.command()
@located
@click.argument("name", required=False, callback=not_empty)
@_JSON
def snapshots(data: Path | None, config: Path | None, name: str | None, as_json: bool) -> None:
    """List the published versions, of one NAME or of all."""
    from rich.console import Console
    from rich.table import Column, Table

    from assets.visible import visible
    from pipeline.snapshots.listing import listed

    found = listed(open_located(data, config).data, name)
    if name is not None and not found:
        raise click.ClickException(f"there is no version of {name!r}")
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(one) for one in found]))
        return
    table = Table(Column("version", no_wrap=True), "rows", "splits", "MB", "published", "tags", "made from")
    for one in found:
        splits = ", ".join(f"{count} {split}" for split, count in one.splits.items())
        parents, tags = ", ".join(one.parents), ", ".join(one.tags)
        size = f"{one.bytes / 1e6:.1f}"
        table.add_row(f"{one.name}@{one.version}", str(one.rows), splits, size, one.created_at, tags, visible(parents))
    Console().print(table)


@click.command()
@located
@_REFERENCE
@click.argument("tag", callback=not_empty)
@click.option("--remove", is_flag=True, help="Remove the tag; it must name that version.")
def tag(data: Path | None, config: Path | None, snapshot: str, tag: str, remove: bool) -> None:
    """Let TAG name a version, or move it there.

    `latest` is always the newest version. Tagged versions are never removed by `touchstone retain`. The tags
    nightly-YYYY-MM-DD of past days are not moved.
    """
    from pipeline.snapshots.tags import TagRefused, remove_tag
    from pipeline.snapshots.tags import tag as set_tag

    root = open_located(data, config).data
    path = _located(root, snapshot)
    name, version = path.parent.name, path.name
    if remove:
        from pipeline.snapshots.reading import tags_of

        if tags_of(root, name).get(tag) not in (None, version):
            raise TagRefused(f"{tag} of {name!r} names {tags_of(root, name)[tag]}, not {version}")
        click.echo(f"{tag} no longer names {name}@{remove_tag(root, name, tag)}")
        return
    before = set_tag(root, name, version, tag)
    moved = f", no longer {before}" if before not in (None, version) else ""
    click.echo(f"{tag} names {name}@{version}{moved}")


@click.command()
@located
@_NAME
@click.option("--keep", required=True, type=click.IntRange(min=1), help="Newest versions that stay in any case.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@_JSON
def retain(data: Path | None, config: Path | None, name: str, keep: int, dry_run: bool, as_json: bool) -> None:
    """Remove old versions of NAME: untagged, not among the newest, and no parent of one that stays.

    The manifest of each stays in removed/, and its number is never given again.
    """
    from pipeline.snapshots.retention import retain as remove_old

    fates = remove_old(open_located(data, config).data, name, keep, dry_run=dry_run)
    gone = [fate for fate in fates if fate.kept_as is None]
    if as_json:
        click.echo(json.dumps({"dry_run": dry_run, "versions": [dataclasses.asdict(fate) for fate in fates]}))
        return
    for fate in fates:
        click.echo(f"{name}@{fate.version}: {'stays, ' + fate.kept_as if fate.kept_as else 'goes'}")
    done = "would be removed" if dry_run else "removed"
    click.echo(f"{len(gone)} of {len(fates)} versions {done}, {sum(fate.bytes for fate in gone) / 1e6:.1f} MB")


@click.command()
@located
@click.argument("before", metavar="NAME@A", callback=not_empty)
@click.argument("after", metavar="NAME@B", callback=not_empty)
@click.option("--limit", default=20, type=click.IntRange(min=0), help="Rows of each kind that are named (default: 20).")
@_JSON
def diff(data: Path | None, config: Path | None, before: str, after: str, limit: int, as_json: bool) -> None:
    """What became of the rows of version A in version B, and why: added, removed, changed, moved between splits."""
    from pipeline.snapshots.diffing import difference

    root = open_located(data, config).data
    found = difference(_located(root, before), _located(root, after), limit=limit)
    if as_json:
        click.echo(found.model_dump_json())
    else:
        _print_diff(found)


def _print_diff(found: "VersionDiff") -> None:
    from rich.console import Console
    from rich.table import Table

    from assets.visible import visible

    console = Console()
    console.print(f"{found.a} ({found.rows_a} rows) -> {found.b} ({found.rows_b} rows)", highlight=False)
    table = Table("rows", "", "why")
    table.add_row("same", str(found.same), "")
    for kind, count, reasons in (
        ("added", found.added, found.why_added),
        ("removed", found.removed, found.why_removed),
    ):
        table.add_row(kind, str(count), visible("\n".join(f"{number} {why}" for why, number in reasons.items())))
    columns = found.columns
    differing = ", ".join(f"{name} in {count}" for name, count in columns.differing.items())
    compared = f"of {columns.compared} compared: {differing or 'no column of both'}" if columns.compared else ""
    table.add_row("changed", str(found.changed), visible(compared))
    table.add_row("of these moved", str(found.moved), "to another split" if found.moved else "")
    console.print(table)
    for title, changes in (("schema", found.schema_changes), ("filter", found.filter_changes)):
        for change in changes:
            console.print(visible(_change(title, change)), soft_wrap=True)
    for kind, rows in (("added", found.added_rows), ("removed", found.removed_rows), ("moved", found.moved_rows)):
        for row in rows:
            console.print(visible(_note(kind, row)), soft_wrap=True)
    for key in found.changed_ids:
        console.print(visible(f"changed {key}"), soft_wrap=True)


def _change(title: str, change: "FieldChange") -> str:
    before = "(none)" if change.before is None else change.before
    return f"{title} {change.name}: {before} -> {'(none)' if change.after is None else change.after}"


def _note(kind: str, row: "RowNote") -> str:
    return f"{kind} {row.trajectory_id} ({row.split}): {row.why}"


@click.command()
@located
@_REFERENCE
@click.argument("url", callback=not_empty)
@_JSON
def push(data: Path | None, config: Path | None, snapshot: str, url: str, as_json: bool) -> None:
    """Copy a version with its tags to a folder at URL: a path, s3://BUCKET/PREFIX or what else fsspec can write to.

    Endpoint and keys of S3 are those of the environment (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID …) or of ~/.aws. A version
    that is there is never replaced; a push that was cut off goes on.
    """
    from pipeline.snapshots.pushing import push_version

    pushed = push_version(open_located(data, config).data, snapshot, url)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(pushed)))
        return
    was = "is now in" if pushed.created else "was already in"
    click.echo(
        f"{pushed.name}@{pushed.version} {was} {pushed.url}: {pushed.sent} files, {pushed.bytes / 1e6:.1f} MB sent"
    )
    if pushed.tags:
        click.echo(f"tags: {', '.join(pushed.tags)}")


@click.command()
@located
@_REFERENCE
@click.option(
    "--from", "url", callback=not_empty, help="Where versions were pushed to (default: those of the data folder)."
)
@click.option(
    "--to", "target", type=click.Path(path_type=Path), help="Folder, empty or not there (default: ./NAME-VERSION)."
)
@_JSON
def pull(
    data: Path | None, config: Path | None, snapshot: str, url: str | None, target: Path | None, as_json: bool
) -> None:
    """Copy a version to a folder, with every hash checked, and say how it is read.

    SNAPSHOT is NAME, NAME@VERSION, NAME@TAG or NAME@YYYY-MM-DD. The folder appears when all of it is there; a pull that
    was cut off goes on.
    """
    from pipeline.snapshots.pulling import pull as fetch
    from pipeline.snapshots.remote import Place

    found = fetch(Place(url) if url else open_located(data, config).data, snapshot, target)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found) | {"path": str(found.path)}))
        return
    click.echo(
        f"{found.name}@{found.version}: {found.rows} rows in {found.path} "
        f"({found.fetched} files, {found.bytes / 1e6:.1f} MB fetched)"
    )
    for line in reading_lines(found.path):
        click.echo(line)


def reading_lines(path: Path) -> list[str]:
    """How a version in this folder is read with programs of others."""
    files = f"{path}/data/*.parquet"
    return [
        f'datasets:  datasets.load_dataset("{path}")',
        f"duckdb:    duckdb.sql(\"SELECT split, count(*) FROM '{files}' GROUP BY 1\")",
        f'pyarrow:   pyarrow.dataset.dataset("{path}/data").to_batches(batch_size=100)',
    ]


def _located(root: Path, reference: str) -> Path:
    from pipeline.snapshots import locate

    try:
        return locate(root, reference)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


COMMANDS = (snapshots, tag, retain, diff, push, pull)
