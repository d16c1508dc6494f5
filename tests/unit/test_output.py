"""Output of bounded size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.escapes import clean
from sandbox.output import OutputBuffer


def filled(chunks: list[bytes], head: int = 10, tail: int = 10) -> OutputBuffer:
    buffer = OutputBuffer(head, tail)
    for chunk in chunks:
        buffer.add(chunk)
    return buffer


def test_short_output_is_kept_whole() -> None:
    buffer = filled([b"0123456789", b"abcdefghij"])
    assert (buffer.text(), buffer.truncated, buffer.total) == ("0123456789abcdefghij", False, 20)


def test_the_middle_is_left_out_and_counted() -> None:
    buffer = filled([b"0123456789", b"-" * 1000, b"abcdefghij"])
    assert buffer.truncated
    assert buffer.text() == "0123456789\n[... 1000 of 1020 bytes left out ...]\nabcdefghij"


def test_one_huge_chunk_is_cut_like_many_small_ones() -> None:
    content = bytes(i % 26 + 97 for i in range(5000))
    assert filled([content]).text() == filled([bytes([byte]) for byte in content]).text()


def test_invalid_bytes_are_replaced() -> None:
    assert filled([b"a\xffb"]).text() == "a\ufffdb"


@pytest.mark.parametrize("shift", range(4))
def test_a_cut_never_splits_a_character(shift: int) -> None:
    buffer = filled([b"x" * shift, "€".encode() * 100])
    assert "\ufffd" not in buffer.text()
    head, marker, tail = buffer.text().split("\n")
    kept = len((head + tail).encode())
    assert marker == f"[... {buffer.total - kept} of {buffer.total} bytes left out ...]"


def test_a_cut_inside_an_escape_sequence_hides_nothing_behind_it() -> None:
    buffer = filled([b"ab\xff\x1b]0;t", b"i" * 100, b"tle\x07 end of it"])
    assert buffer.text() == "ab\ufffd\n[... 109 of 122 bytes left out ...]\n end of it"
    assert clean(buffer.text()) == buffer.text()


def test_memory_stays_bounded() -> None:
    buffer = OutputBuffer(1000, 1000)
    for _ in range(1000):
        buffer.add(b"x" * 999)
    assert len(buffer._head) + len(buffer._tail) <= 1000 + 3 * 1000


@settings(deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=30), st.integers(0, 20), st.integers(1, 20))
def test_what_is_kept_is_the_beginning_and_the_end(chunks: list[bytes], head: int, tail: int) -> None:
    content = b"".join(chunks)
    buffer = filled(chunks, head, tail)
    assert buffer.total == len(content)
    assert buffer.truncated == (len(content) > head + tail)
    if not buffer.truncated:
        assert buffer.text() == content.decode("utf-8", "replace")


def test_nonsensical_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="tail > 0"):
        OutputBuffer(10, 0)
