"""`touchstone export tokens`: a published version as token ids and labels. How they are made is in training/data.py."""

from pathlib import Path

import click

from assets.export_versions import of_version, say
from assets.located import open_located


@click.command()
@of_version
@click.option(
    "--tokenizer",
    "tokenizer_folder",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with tokenizer.json and a chat template, as it lies beside a model's weights.",
)
@click.option("--max-tokens", required=True, type=click.IntRange(min=1), help="Longest window, in tokens.")
def tokens(
    data: Path | None,
    config: Path | None,
    snapshot: str,
    folder: Path,
    split: str | None,
    tokenizer_folder: Path,
    max_tokens: int,
    as_json: bool,
) -> None:
    """Write the conversations as token ids and labels: what the assistant wrote is learned, all else is given.

    A conversation that is longer than a window becomes several: each begins with the task and each turn is learned in
    one of them. audit.json and audit.txt show what is learned. `python -m training.qwen_tokenizer` makes the tokenizer
    of Qwen2.5.
    """
    from pipeline.exports.published import published
    from training.data import export_tokens
    from training.tokens import ChatTokenizer

    version = published(open_located(data, config).data, snapshot)
    say(export_tokens(version, folder, ChatTokenizer(tokenizer_folder), max_tokens, split), as_json)
