"""Terminal output as plain text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.escape_grammar import unfinished
from sandbox.escapes import DRAWN_CHARACTERS, clean

SIZE = 1 << 18
FRAGMENTS = st.sampled_from(
    [
        "\x1b",
        "[",
        "]",
        "P",
        "0;",
        "31m",
        "?1049h",
        "?1049l",
        "?47h",
        "\x1b[",
        "\x1b[2K",
        "\x1b[K",
        "\x1b]0;t",
        "\x07",
        "\x1b\\",
        "\x9b",
        "\x9d",
        "\x9c",
        "\x85",
        "\r",
        "\r\n",
        "\n",
        "\b",
        "\t",
        "\0",
        "\x18",
        "\x7f",
        "a",
        "日",
        "é",
        " ",
        "\x1b[3D",
        "\x1b[G",
        "\x1b(0",
        "\x01",
        "\x02",
        "e\u0301",
        "[5;5Hx",
        "\x1b[?1049hfull\x1b[?1049l",
    ]
)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mred\x1b[38:5:1m!\x1b[m", "red!"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]2;a title\x1b\\text", "text"),
        ("\x1b]8;;http://there/\x1b\\link\x1b]8;;\x1b\\ after", "link after"),
        ("\x1b]8;id=1;http://there/\x07link\x1b]8;;\x07", "link"),
        ("\x1b]133;D;0\x07\x1b]133;A\x07$ \x1b]133;B\x07ls", "$ ls"),
        ("\x1b(0lqk\x1b(B box", "lqk box"),
        ("\x1b)0\x0ex\x0fy", "xy"),
        ("\x1b[?2004h$ ls\x1b[?2004l\r\n", "$ ls\n"),
        ("\x1b[200~pasted\x1b[201~", "pasted"),
        ("\x1bP1$r0m\x1b\\after", "after"),
        ("\x1bP+q544e\x1b\\after", "after"),
        ("\x1b_payload\x1b\\\x1b^private\x1b\\\x1bXstring\x1b\\after", "after"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x9d0;title\x9ctext", "text"),
        ("\x90payload\x9ctext", "text"),
        ("\x1b[2;20rregion\x1b[r", "region"),
        ("\x1b7saved\x1b8\x1bM\x1bc\x1b=\x1b>", "saved"),
        ("\x1b#8align\x1b%Gutf", "alignutf"),
        ("\x1b[!psoft\x1b[1 qcursor\x1b[>4;1mkeys\x1b[?25$pmode", "softcursorkeysmode"),
        ("\x1b[<uone\x1b[=5;1utwo", "onetwo"),
        ("text\x1b", "text"),
        ("text\x1b[", "text"),
        ("text\x1b[38;5", "text"),
        ("text\x1b]0;never ended", "text"),
        ("text\x1bP", "text"),
        ("a\x1b]0;aborted\x1b[1mb", "ab"),
        ("a\x1b\x1b[1mb", "ab"),
        ("bell\x07 nul\0 del\x7f\x05", "bell nul del"),
        ("a\tb", "a\tb"),
        ("one\vtwo\fthree", "one\ntwo\nthree"),
        ("one\r\ntwo\r\r\nthree", "one\ntwo\nthree"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("a longer line\rshort\n", "shortger line\n"),
        ("a longer line\rshort\x1b[K\n", "short\n"),
        ("a longer line\r\x1b[Kshort\n", "short\n"),
        ("a longer line\x1b[2K\rshort\n", "short\n"),
        ("a longer line\x1b[1Gshort\x1b[0K\n", "short\n"),
        ("abc\x1b[2Kx", "   x"),
        ("abc\x1b[1000Dxy", "xyc"),
        ("downloading\r           \rdone\n", "done\n"),
        ("progress 10%\r", "progress 10%"),
        ("typo\b\b\b\bfixed", "fixed"),
        ("ab\b \bc", "ac"),
        ("abc\x1b[2DX", "aXc"),
        ("\b\b\ba", "a"),
        ("b\x08\x08\x08\x08old", "old"),
        ("bo\bold", "bold"),
        ("x\x1b[01;31m\x1b[Kmatch\x1b[m\x1b[Kx", "xmatchx"),
        ("日本\rあ", "あ本"),
        ("plain text\n", "plain text\n"),
        ("", ""),
    ],
)
def test_what_was_written_reads_as(written: str, read: str) -> None:
    assert clean(written) == read


@pytest.mark.parametrize("switch", ["1049", "1047", "47", "1;1049", "1049;25"])
def test_a_full_screen_program_leaves_its_last_screen(switch: str) -> None:
    written = f"$ vi\r\n\x1b[?{switch}h\x1b[2;3Hfirst\x1b[2;3Hsecond\x1b[5;1H~\x1b[?{switch}l$ "
    assert clean(written) == (
        "$ vi\n\n[full-screen program, its last screen:]\n\n  second\n\n\n~\n[end of the screen]\n$ "
    )


def test_a_full_screen_program_that_was_cut_off_is_drawn() -> None:
    assert "  second\n" in clean("\x1b[?1049h\x1b[2;3Hsecond")


def test_the_screen_is_drawn_in_its_size() -> None:
    assert "\nabc\nde\n" in clean("\x1b[?1049habcde", rows=3, columns=3)


def test_too_much_to_draw_leaves_a_note() -> None:
    text = clean(f"before\x1b[?1049h{'x' * DRAWN_CHARACTERS}\x1b[?1049lafter")
    assert text == f"before\n[... {DRAWN_CHARACTERS + 8} characters of a full-screen program left out ...]\nafter"


def test_an_empty_screen_says_nothing() -> None:
    assert clean("a\x1b[?1049h\x1b[2J\x1b[?1049lb") == "ab"


@settings(deadline=None)
@given(st.lists(FRAGMENTS | st.text(max_size=5), max_size=40).map("".join))
def test_clean_text_stays_as_it_is(written: str) -> None:
    once = clean(written)
    assert clean(once) == once
    assert not any((char < " " and char not in "\t\n") or "\x7f" <= char <= "\x9f" for char in once)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_text_without_controls_is_left_alone(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    "unit",
    [
        "\x1b",
        "\x1b[",
        "\x1b[;",
        "\x1b]",
        "\x1b]0;",
        "\x1bP",
        "\x9d",
        "\x9d\n",
        "\x9b",
        "\b",
        "\r",
        "a\r",
        "a\b",
        "\r\r\n",
        "\x1b[2K",
        "\x1b[999D",
        "\x1b[?1049h",
        "\x1b[?1049h\x1b[?1049l",
        "\x1b ",
        "\0",
    ],
)
def test_misuse_one_hostile_piece_without_end_is_cleaned(unit: str) -> None:
    # Were the time not linear, this would take many minutes.
    assert len(clean(unit * (SIZE // len(unit)))) <= SIZE


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[" + "1;" * SIZE,
        "\x1b[?" + "47;" * SIZE,
        "\x1b]0;" + "a" * SIZE,
        "x" * SIZE + "\b\x1b[K" * (SIZE // 4),
        "x" * SIZE + "\x1b[2Ky\r" * (SIZE // 8),
    ],
)
def test_misuse_a_long_hostile_piece_is_cleaned(text: str) -> None:
    assert len(clean(text)) <= SIZE


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("abc", 3),
        ("abc\x1b", 3),
        ("abc\x1b[", 3),
        ("abc\x1b[12;3", 3),
        ("abc\x1b[1m", 7),
        ("abc\x1b(", 3),
        ("abc\x1b]0;title", 3),
        ("abc\x1b]0;title\x1b", 3),
        ("abc\x1b]0;title\x1b\\", 14),
        ("abc\x1b]0;title\x07", 13),
        ("abc\x9b1", 3),
        ("abc\x1b[1m\x1b", 7),
        ("", 0),
    ],
)
def test_the_start_of_a_sequence_that_is_cut_off_is_found(text: str, start: int) -> None:
    assert unfinished(text) == start
