"""`touchstone export messages …`: published versions in the formats of trainers, which are in pipeline/exports."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.located import located, not_empty, open_located

if TYPE_CHECKING:
    from pipeline.exports.account import VersionExport
    from pipeline.exports.projection import Projection

_ENDING = """

    SNAPSHOT is NAME, NAME@VERSION or NAME@TAG, as in `terminal@v0001`; FOLDER must be empty or not there.

    What was written is read again and compared with the version, id by id. export.json says what it is, and every row
    that this format cannot carry is in refused.jsonl with the reason."""


def of_version(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments of an export of a version."""
    command.__doc__ = f"{command.__doc__}{_ENDING}"
    command = click.option("--json", "as_json", is_flag=True, help="One JSON line only.")(command)
    command = click.option(
        "--split", default=None, metavar="NAME", callback=not_empty, help="Only this split (default: a file for each)."
    )(command)
    command = click.argument("folder", type=click.Path(path_type=Path))(command)
    return located(click.argument("snapshot", callback=not_empty)(command))


def from_snapshot(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command about the working tables read a version in their place."""

    def checked(context: click.Context, parameter: click.Parameter, value: str | None) -> object:
        if value is not None and context.params.get("snapshot") is None:
            raise click.UsageError("--split chooses among the rows of a --snapshot", ctx=context)
        return not_empty(context, parameter, value)

    command = click.option(
        "--split", default=None, metavar="NAME", callback=checked, help="Only this split of the version."
    )(command)
    return click.option(
        "--snapshot",
        default=None,
        is_eager=True,
        metavar="NAME@VERSION",
        callback=not_empty,
        help="The rows of this published version in place of the working tables.",
    )(command)


@click.command()
@of_version
def messages(
    data: Path | None, config: Path | None, snapshot: str, folder: Path, split: str | None, as_json: bool
) -> None:
    """Write the conversations as OpenAI messages in Parquet, for TRL, verl's SFT and LLaMA-Factory.

    System first if there is one, then user (or tool) and assistant in turn, the assistant last: a conversation of
    another order is refused. Texts stay as they are, marks of chat templates such as <|im_start|> too: tell a tokenizer
    to split special tokens where that matters.
    """
    from pipeline.exports.messages import Messages

    _export(data, config, snapshot, folder, split, as_json, Messages())


@click.command()
@of_version
def sharegpt(
    data: Path | None, config: Path | None, snapshot: str, folder: Path, split: str | None, as_json: bool
) -> None:
    """Write the conversations as ShareGPT lines in a folder that LLaMA-Factory loads as it is.

    Its data sets are SNAPSHOT_SPLIT, as in `dataset_dir: FOLDER` and `dataset: terminal_train`. Orders are those of
    `export messages`.
    """
    from pipeline.exports.sharegpt import ShareGpt

    _export(data, config, snapshot, folder, split, as_json, ShareGpt())


@click.command()
@of_version
def verl(data: Path | None, config: Path | None, snapshot: str, folder: Path, split: str | None, as_json: bool) -> None:
    """Write the tasks as verl's rows for reinforcement learning, one for each task.

    The prompt is the instruction; reward_model.ground_truth is the verifier as JSON, extra_info names task and image.
    """
    from pipeline.exports.rl import RlRows

    _export(data, config, snapshot, folder, split, as_json, RlRows(skyrl=False))


@click.command()
@of_version
def skyrl(
    data: Path | None, config: Path | None, snapshot: str, folder: Path, split: str | None, as_json: bool
) -> None:
    """Write the tasks as SkyRL's rows, one for each task.

    The prompt is the instruction; reward_spec.ground_truth is the verifier as JSON, extra_info names task and image,
    env_class is `touchstone`.
    """
    from pipeline.exports.rl import RlRows

    _export(data, config, snapshot, folder, split, as_json, RlRows(skyrl=True))


@click.command()
@of_version
def megatron(
    data: Path | None, config: Path | None, snapshot: str, folder: Path, split: str | None, as_json: bool
) -> None:
    """Write the conversations as texts in ChatML, one JSON line each, for Megatron-LM's tools/preprocess_data.py.

    Document n of what that makes is line n of SPLIT.jsonl and of SPLIT.ids.txt. A conversation that holds ChatML's own
    marks is refused.
    """
    from pipeline.exports.megatron import Megatron

    _export(data, config, snapshot, folder, split, as_json, Megatron())


COMMANDS = (messages, sharegpt, verl, skyrl, megatron)


def _export(
    data: Path | None,
    config: Path | None,
    snapshot: str,
    folder: Path,
    split: str | None,
    as_json: bool,
    projection: "Projection",
) -> None:
    from pipeline.exports.projection import export_version
    from pipeline.exports.published import published

    version = published(open_located(data, config).data, snapshot)
    say(export_version(version, folder, projection, split), as_json)


def say(made: "VersionExport", as_json: bool) -> None:
    """One JSON line, or what is worth knowing as a sentence each."""
    if as_json:
        click.echo(json.dumps(made.model_dump()))
        return
    rows = ", ".join(f"{count} {split}" for split, count in made.written.items())
    click.echo(f"{made.format} of {made.source} in {made.folder}: {rows}")
    if made.repeated:
        click.echo(f"{made.repeated} of {made.read} rows are further attempts at a task that has a row already")
    if made.refused:
        rules = ", ".join(f"{count} {rule}" for rule, count in made.rules.items())
        click.echo(f"{made.refused} of {made.read} rows are refused ({rules}); refused.jsonl says why")
