"""What a terminal shows."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.terminals.floods import MOST, WORTHWHILE, shortened
from sandbox.terminals.screen import Screen, ScreenModel

FRAGMENTS = st.sampled_from(
    [
        *"ABCDEFGHIJKLMPSTXZ@`abcdefghlmnpqrsu78=>()0#\\",
        "\x1b[",
        "\x1b",
        "\x1b]",
        "\x1bP",
        "\x9b",
        "\x90",
        "?",
        ">",
        "!",
        "$",
        " ",
        ";",
        "5",
        "99999999",
        "²",
        "-1",
        ":",
        "\x1b[?1049h",
        "\x1b[?1049l",
        "\x1b[?6h",
        "\x1b[2;3r",
        "\x1b[4h",
        "\x1b[?7l",
        "\x1b[?3h",
        "\x1b[6n",
        "\x1b[?5h",
        "\r",
        "\n",
        "\b",
        "\t",
        "\x0e",
        "\x0f",
        "日",
        "e",
        "\u0301",
        "\u200d",
        "\x18",
        "\0",
        "\x85",
        "\x8d",
        "x" * 30,
    ]
)


def shown(text: str, rows: int = 4, columns: int = 10) -> Screen:
    model = ScreenModel(rows, columns)
    model.feed(text)
    return model.snapshot()


@pytest.mark.parametrize(
    ("written", "rows"),
    [
        ("one\r\ntwo", ("one", "two", "", "")),
        ("one\ntwo", ("one", "   two", "", "")),
        ("0123456789ab", ("0123456789", "ab", "", "")),
        ("0123456789\r\nab", ("0123456789", "ab", "", "")),
        ("1\r\n2\r\n3\r\n4\r\n5", ("2", "3", "4", "5")),
        ("\x1b[2;3Hx\x1b[Ay\x1b[2Bz", ("   y", "  x", "    z", "")),
        ("abc\x1b[2Dx", ("axc", "", "", "")),
        ("abcdef\x1b[3D\x1b[K", ("abc", "", "", "")),
        ("abcdef\x1b[3D\x1b[1K", ("    ef", "", "", "")),
        ("abc\x1b[2J", ("", "", "", "")),
        ("abcdef\x1b[4G\x1b[2P", ("abcf", "", "", "")),
        ("abcdef\x1b[2G\x1b[2@", ("a  bcdef", "", "", "")),
        ("abcdef\x1b[2G\x1b[2X", ("a  def", "", "", "")),
        ("1\r\n2\r\n3\x1b[2;1H\x1b[L", ("1", "", "2", "3")),
        ("1\r\n2\r\n3\x1b[2;1H\x1b[M", ("1", "3", "", "")),
        ("1\r\n2\r\n3\r\n4\x1b[2S", ("3", "4", "", "")),
        ("1\r\n2\r\n3\r\n4\x1b[T", ("", "1", "2", "3")),
        ("1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n", ("1", "3", "", "4")),
        ("1\x1b[H\x1bM", ("", "1", "", "")),
        ("a\x1b[3b", ("aaaa", "", "", "")),
        ("\x1b(0lqk\x1b(Bx", ("┌─┐x", "", "", "")),
        ("\x1b)0\x0eq\x0fq", ("─q", "", "", "")),
        ("a\tb", ("a       b", "", "", "")),
        ("日本\r\x1b[2Cx", ("日x", "", "", "")),
        ("日本\rx", ("x 本", "", "", "")),
        ("日本\x1b[2Gx", (" x本", "", "", "")),
        ("123456789日", ("123456789", "日", "", "")),
        ("\x1b[?7l0123456789ab", ("012345678b", "", "", "")),
        ("e\u0301a", ("éa", "", "", "")),
        ("\x1b7abc\x1b8x", ("xbc", "", "", "")),
        ("abc\x1b[!p\x1b[1 q\x1b[>4;1m\x1b[38:2:1:2:3md", ("abcd", "", "", "")),
        ("a\x1bP+q544e\x1b\\b\x1b_x\x1b\\c", ("abc", "", "", "")),
        ("shell\x1b[?1049hfull", ("     full", "", "", "")),
        ("shell\x1b[?1049h\x1b[Hfull\x1b[?1049l!", ("shell!", "", "", "")),
        ("text\x1bcnew", ("new", "", "", "")),
    ],
)
def test_the_screen_shows(written: str, rows: tuple[str, ...]) -> None:
    assert shown(written).rows == rows


def test_title_cursor_and_alternate_screen_are_told() -> None:
    screen = shown("\x1b]0;the title\x07\x1b[?1049h\x1b[3;2Hx")
    assert (screen.title, screen.cursor_row, screen.cursor_column, screen.alternate) == ("the title", 2, 2, True)


def test_programs_get_answers_to_their_questions() -> None:
    model = ScreenModel(4, 10)
    model.feed("ab\x1b[6n\x1b[5n\x1b[c")
    assert (model.replies(), model.replies()) == (b"\x1b[1;3R\x1b[0n\x1b[?6c", b"")


def test_a_smaller_screen_keeps_the_row_of_the_cursor() -> None:
    model = ScreenModel(4, 10)
    model.feed("1\r\n2\r\n3\r\n4")
    model.resize(2, 5)
    assert (model.snapshot().rows, model.snapshot().cursor_row) == (("3", "4"), 1)
    model.resize(3, 5)
    model.feed("x")
    assert model.snapshot().rows == ("3", "4x", "")


@settings(deadline=None)
@given(st.lists(FRAGMENTS, max_size=60).map("".join), st.integers(1, 5), st.integers(1, 12), st.integers(1, 5))
def test_misuse_no_input_breaks_the_screen(text: str, rows: int, columns: int, new_rows: int) -> None:
    model = ScreenModel(rows, columns)
    model.feed(text)
    model.resize(new_rows, columns + 1)
    model.feed(text)
    screen = model.snapshot()
    assert len(screen.rows) == new_rows
    assert 0 <= screen.cursor_row < new_rows
    assert 0 <= screen.cursor_column <= columns + 1
    model.feed("\x1bcok")
    assert model.snapshot().rows[0] == "ok"[: columns + 1]


def both(text: str, before: str = "", rows: int = 10, columns: int = 30) -> tuple[Screen, Screen, int]:
    """The screen after all of the text, the screen after the short text, and the length of that."""
    short_length = 0
    screens = []
    for shorten in (False, True):
        model = ScreenModel(rows, columns)
        model.feed(before)
        if shorten:
            text = shortened(text, rows, columns, scrolls_whole=model.scrolls_whole)
            short_length = len(text)
        # What follows shows whether modes, tab stops and the saved cursor are right too.
        model.feed(text)
        model.feed("q\tx\x1b[3A\x1b8y")
        screens.append(model.snapshot())
    return screens[0], screens[1], short_length


NUMBERED = "".join(f"line {number}\r\n" for number in range(2000))
LETTERS = "".join(random.Random(1).choices("abcdefgh ", k=50_003))


@pytest.mark.parametrize(
    ("text", "before"),
    [
        pytest.param("y\r\n" * 10_000, "", id="yes"),
        pytest.param(NUMBERED, "\x1b[2;1H" + "X" * 200 + "\x1b[H", id="over a full screen"),
        pytest.param(NUMBERED + "\x1b[?2004h\x1b]0;t\x07$ ls -l\b\b\x1b[K", "", id="then a prompt"),
        pytest.param("\x1b]0;title\x07\x1b[4h\x1b[?7l" + NUMBERED, "", id="modes in what is left out"),
        pytest.param("\x1b(0" + NUMBERED + "\x1b)0\x0e" + NUMBERED, "", id="line drawing"),
        pytest.param("\x1b[5;5H\x1b7" + NUMBERED, "", id="saved cursor"),
        pytest.param(NUMBERED + "\x1b[?1049h" + NUMBERED + "\x1b[?1049l", "", id="full screen and back"),
        pytest.param("\x1b[2;5r" + NUMBERED + "\x1b[r" + NUMBERED, "", id="margins set and unset"),
        pytest.param(NUMBERED, "\x1b[2;5r\x1b[3;1Hkept", id="margins before"),
        pytest.param(NUMBERED + "\x1b[2;2Hhere\x1b[1A" + NUMBERED, "", id="moves between"),
        pytest.param(LETTERS, "abc", id="one long line"),
        pytest.param("\x1b[?7l" + LETTERS, "abc", id="one long line that does not wrap"),
        pytest.param((LETTERS + "\r\n") * 3, "", id="long lines"),
        pytest.param("日本語\t中\r\n" * 3_000, "", id="wide characters"),
        pytest.param("".join(f"\x1b[3{n % 8}m{n}\x1b[0m\x1b[K\r\n" for n in range(2000)), "", id="colours"),
    ],
)
def test_misuse_a_flood_leaves_the_same_screen_drawn_or_shortened(text: str, before: str) -> None:
    whole, short, length = both(text, before)
    assert short == whole
    assert length < len(text) or "\x1b[2;5r" in before


@pytest.mark.parametrize("seed", range(20))
def test_any_mixture_leaves_the_same_screen_drawn_or_shortened(seed: int) -> None:
    chance = random.Random(seed)
    pieces = [
        "\x1b[3A",
        "\x1b[H",
        "\x1b[2J",
        "\x1b[31m",
        "\x1b[?7l",
        "\x1b[?7h",
        "\x1b[4h",
        "\x1b[4l",
        "\x1b(0",
        "\x1b(B",
    ]
    pieces += [
        "\x1b[5;8r",
        "\x1b[r",
        "\r",
        "\b\b",
        "\t",
        "\x1b[?1049h",
        "\x1b[?1049l",
        "日本",
        "\x1b7",
        "\x1b8",
        "\x1bM",
    ]
    pieces += ["\x1b[K", "\x1b[2L", "\x0e", "\x0f", "\x1b[?6h", "\x1b[?6l", "\x1bc", "\x1b[20h", "\x1b[20l", "\x1b[!p"]
    long = ["y\r\n" * chance.randint(5500, 6500), "x" * chance.randint(1, 9000), "\n" * chance.randint(1, 30), NUMBERED]
    text = "".join(chance.choice(long if chance.random() < 0.3 else pieces) for _ in range(chance.randint(5, 30)))
    whole, short, _ = both(text)
    assert short == whole


def test_short_text_is_not_touched() -> None:
    text = "y\r\n" * (WORTHWHILE // 3)
    assert shortened(text, 10, 30, scrolls_whole=True) == text


def test_misuse_what_cannot_be_shortened_well_is_still_cut() -> None:
    text = "\x1b[?1049h" + "".join(f"\x1b[{n % 9 + 1};{n % 20 + 1}Hxy{n}" for n in range(20_000))
    whole, short, length = both(text)
    assert length <= MOST + 1000
    assert (short.alternate, short.rows[0]) == (whole.alternate, whole.rows[0])
