"""The grammar of terminal escape sequences (ECMA-48 and xterm), as one regular expression that is linear in its input.

What a sequence does is in terminals/screen.py; how text is freed of them in escapes.py.
"""

from __future__ import annotations

import re

# The 8-bit forms are characters here, so a stream must be decoded first. A string (OSC, DCS, SOS, PM, APC) ends with
# ST or BEL; ESC, CAN, SUB and every 8-bit control abort it, as in a terminal. No part can match in two ways, and a
# string never reaches beyond the next introducer: hostile input costs no more than other input.
_STRING = r"[^\x07\x18\x1a\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)?"
SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~])?"
    rf"|(?:\x1b\]|\x9d)(?P<command>{_STRING})"
    rf"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f]){_STRING}"
    r"|\x1b(?P<designator>[ -/]+)(?P<designated>[0-~])?"
    r"|\x1b(?P<escape>[0-~])?"
    r"|(?P<eight_bit>[\x80-\x9f])"
)
INTRODUCERS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"
_UNFINISHED = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x18\x1a\x1b\x80-\x9f]*\x1b?"
    r"|\x1b[ -/]*"
)
# Pictures come as long strings; a program that never ends its string may not make everything wait for it.
LONGEST_WAIT = 1 << 20


def unfinished(text: str) -> int:
    """Where a sequence starts that the end of `text` cuts off; the length of `text` when there is none."""
    starts = _last_two(text)
    for start in starts:
        if len(text) - start <= LONGEST_WAIT and _UNFINISHED.fullmatch(text, start):
            return start
    return len(text)


def _last_two(text: str) -> list[int]:
    """Places of the last two introducers, the earlier one first: the last may be half of the earlier one's end."""
    last = max(text.rfind(introducer) for introducer in INTRODUCERS)
    if last < 0:
        return []
    earlier = max(text.rfind(introducer, 0, last) for introducer in INTRODUCERS)
    return [earlier, last] if earlier >= 0 else [last]
