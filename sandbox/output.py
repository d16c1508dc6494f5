"""Output of a command: however much it is, a text of bounded size with the beginning and the end of it.

Bytes are bytes until somebody looks: what is no UTF-8 is replaced in the text alone. Reading the output from an engine
is in streams.py, freeing a text of escape sequences in escapes.py.
"""

from __future__ import annotations

from sandbox.escape_grammar import unfinished

HEAD_BYTES = 20_000
TAIL_BYTES = 20_000


class OutputBuffer:
    """Takes any amount of bytes, holds at most about `head + 3 * tail` of them. Not safe for several threads."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        if head < 0 or tail <= 0:
            raise ValueError("an output buffer needs head >= 0 and tail > 0 bytes")
        self._head_limit = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the output."""
        self.total += len(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if len(chunk) >= self._tail_limit:
            self._tail = bytearray(chunk[-self._tail_limit :])
            return
        self._tail += chunk
        # Trimmed only now and then: doing it for each small chunk would copy the tail every time.
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    @property
    def truncated(self) -> bool:
        """Whether the text is not all of the output."""
        return self.total > self._head_limit + self._tail_limit

    def text(self) -> str:
        """The output decoded as UTF-8 with replacement; a cut is marked with the number of bytes left out."""
        if not self.truncated:
            return (self._head + self._tail).decode("utf-8", "replace")
        head = _without_partial_sequence(_without_partial_end(bytes(self._head)))
        tail = _without_partial_start(bytes(self._tail[-self._tail_limit :]))
        left_out = self.total - len(head) - len(tail)
        marker = f"\n[... {left_out} of {self.total} bytes left out ...]\n"
        return head.decode("utf-8", "replace") + marker + tail.decode("utf-8", "replace")

    def last(self, characters: int) -> str:
        """At most the last `characters` of the text."""
        return self.text()[-characters:]


def _without_partial_end(data: bytes) -> bytes:
    """Drop a UTF-8 sequence that the cut left incomplete; other invalid bytes stay and are replaced later."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needed > back else data
    return data


def _without_partial_sequence(data: bytes) -> bytes:
    """Drop an escape sequence that the cut left incomplete: a terminal would take what follows for its rest."""
    text = data.decode("utf-8", "surrogateescape")
    return text[: unfinished(text)].encode("utf-8", "surrogateescape")


def _without_partial_start(data: bytes) -> bytes:
    """Drop the continuation bytes at the start of a cut, at most the three that one character can have."""
    skip = 0
    while skip < min(3, len(data)) and data[skip] & 0b1100_0000 == 0b1000_0000:
        skip += 1
    return data[skip:]
