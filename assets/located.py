"""The options of every command that say where the data and the configuration are, and what is opened from them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from assets.resources import Workshop


def not_empty(context: click.Context, parameter: click.Parameter, value: str | tuple[str, ...] | None) -> object:
    """Refuse an empty text: it would mean "everything" where a variable of a script was not set."""
    if value is not None and "" in ([value] if isinstance(value, str) else value):
        raise click.BadParameter("it is empty", ctx=context, param=parameter)
    return value


def _not_empty_path(context: click.Context, parameter: click.Parameter, value: str | None) -> Path | None:
    not_empty(context, parameter, value)
    return None if value is None else Path(value)


def located(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say where the data and the configuration are."""
    command = click.option(
        "--data", callback=_not_empty_path, help="Data folder (default: TOUCHSTONE_DATA, then touchstone.toml)."
    )(command)
    return click.option("--config", callback=_not_empty_path, help="Configuration file (default: touchstone.toml).")(
        command
    )


def open_located(data: Path | None, config: Path | None) -> "Workshop":
    """The workshop of the options. Raises ConfigurationError."""
    from assets.resources import open_workshop

    return open_workshop(data=data, config=config)
