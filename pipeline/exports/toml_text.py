"""Tables as TOML 1.0 text; the standard library reads that format only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(table: Mapping[str, object]) -> str:
    """A document of nested tables. Raises TypeError for a value that is no text, number, truth value, list or table."""
    return "\n".join(_lines(table, ())).lstrip("\n") + "\n"


def _lines(table: Mapping[str, object], place: tuple[str, ...]) -> list[str]:
    """Values first: what follows the head of an inner table belongs to that one."""
    inner = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    own = [f"{_key(name)} = {_value(value)}" for name, value in table.items() if name not in inner]
    head = ["", f"[{'.'.join(map(_key, place))}]"] if place else []
    lines = head + own
    for name, value in inner.items():
        lines += _lines(value, (*place, name))
    return lines


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _quoted(text: str) -> str:
    """JSON's escapes are TOML's, but TOML keeps DEL out of texts as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
