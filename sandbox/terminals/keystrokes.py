"""The bytes that a terminal sends for a key, by the names that tmux's send-keys has for them."""

from __future__ import annotations

import re

_NAMED = {
    "Enter": "\r",
    "Tab": "\t",
    "BTab": "\x1b[Z",
    "S-Tab": "\x1b[Z",
    "Escape": "\x1b",
    "Space": " ",
    "BSpace": "\x7f",
    "DC": "\x1b[3~",
    "Delete": "\x1b[3~",
    "IC": "\x1b[2~",
    "Insert": "\x1b[2~",
    "Home": "\x1b[H",
    "End": "\x1b[F",
    "PageUp": "\x1b[5~",
    "PgUp": "\x1b[5~",
    "PPage": "\x1b[5~",
    "PageDown": "\x1b[6~",
    "PgDn": "\x1b[6~",
    "NPage": "\x1b[6~",
    "Up": "\x1b[A",
    "Down": "\x1b[B",
    "Right": "\x1b[C",
    "Left": "\x1b[D",
    **{f"F{number}": f"\x1bO{final}" for number, final in enumerate("PQRS", start=1)},
    **{
        f"F{number}": f"\x1b[{code}~"
        for number, code in zip(range(5, 13), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)
    },
}
_MODIFIED = re.compile(r"(?P<modifiers>(?:[CMS]-|\^(?=.))+)(?P<key>.+)", re.DOTALL)
_CURSOR_KEY = re.compile(r"\x1b[\[O](?P<final>[A-DHFP-S])")
_TILDE_KEY = re.compile(r"\x1b\[(?P<code>\d+)~")


def keys(*names: str, application: bool = False) -> bytes:
    """The bytes of keys in turn: `Enter`, `C-c`, `M-x`, `Up`, `F5`, `C-Left`; any other text stands for itself.

    `application` gives the cursor keys the form that programs such as vi and less may have asked for.
    """
    return "".join(_bytes_of(name, application) for name in names).encode()


def _bytes_of(name: str, application: bool) -> str:
    if name in _NAMED:
        plain = _NAMED[name]
        return re.sub(r"^\x1b\[([A-DHF])$", "\x1bO\\1", plain) if application else plain
    match = _MODIFIED.fullmatch(name)
    if match is None:
        return name
    modifiers, key = match["modifiers"].replace("^", "C-"), match["key"]
    base = _NAMED.get(key, key)
    if (found := _CURSOR_KEY.fullmatch(base)) is not None:
        return f"\x1b[1;{_modifier(modifiers)}{found['final']}"
    if (found := _TILDE_KEY.fullmatch(base)) is not None:
        return f"\x1b[{found['code']};{_modifier(modifiers)}~"
    if len(base) != 1:
        return name
    if "S-" in modifiers:
        base = base.upper()
    if "C-" in modifiers:
        base = _with_control(base)
    return ("\x1b" if "M-" in modifiers else "") + base


def _modifier(modifiers: str) -> int:
    """xterm's number for the modifier keys that are held."""
    return 1 + ("S-" in modifiers) + 2 * ("M-" in modifiers) + 4 * ("C-" in modifiers)


def _with_control(char: str) -> str:
    if char == "?":
        return "\x7f"
    if char == " ":
        return "\0"
    return chr(ord(char.upper()) & 0x1F) if "@" <= char.upper() <= "_" else char
