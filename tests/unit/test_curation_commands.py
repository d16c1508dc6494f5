"""What counts as the same attempt: accidents of writing do not tell attempts apart, decisions do."""

from __future__ import annotations

import json
import random

import pytest

from pipeline.curation.commands import (
    MAX_CHARACTERS,
    MAX_WORDS,
    commands_sha256,
    normalised,
    normalised_prose,
    typed,
    words,
)


def same(one: list[str], other: list[str], instruction: str = "") -> bool:
    return normalised(one, instruction) == normalised(other, instruction)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ls  -la\t src ", "ls -la src"),
        ("$ ls", "ls"),
        ("# look first\nls", "ls"),
        ("ls\n\n\n  wc a", "ls\nwc a"),
        ("tar c \\\n   -f x", "tar c -f x"),
        ("cat 'a.txt' \"b.txt\"", "cat a.txt b.txt"),
        ("echo 'two words'", 'echo "two words"'),
        ("sort /tmp/x1 > /tmp/out.9", "sort /tmp/tmp.Qr5 > /tmp/o"),
        ("cat <<'EOF' > a\nx\nEOF\r\n", "cat  <<'EOF' >  a\nx\nEOF"),
    ],
)
def test_accidents_of_writing_make_no_difference(one: str, other: str) -> None:
    assert same([one], [other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ls -l", "ls -a"),
        ("cat data/2023/x", "cat data/2024/x"),
        ("echo '$HOME'", 'echo "$HOME"'),
        ("echo 'a  b'", "echo 'a b'"),
        ("echo a#b", "echo a"),
        ("cat <<EOF > a\n# one\nEOF", "cat <<EOF > a\n# two\nEOF"),
        ("cat <<EOF > a\nx  y\nEOF", "cat <<EOF > a\nx y\nEOF"),
        ("cat <<EOF > a\n1\nEOF", "cat <<EOF > a\n'1'\nEOF"),
        ("cat <<'EOF'\n$x\nEOF", "cat <<EOF\n$x\nEOF"),
        ("cp /tmp/a /tmp/b", "cp /tmp/a /tmp/a"),
        ("python3 -c '\n# a\nprint(1)'", "python3 -c '\n# b\nprint(1)'"),
        ("cat /work/tmp/a", "cat /work/tmp/b"),
    ],
)
def test_decisions_make_a_difference(one: str, other: str) -> None:
    assert not same([one], [other])


def test_the_order_and_the_spread_over_steps_make_a_difference() -> None:
    assert not same(["ls", "wc a"], ["wc a", "ls"])
    assert not same(["ls", "wc a"], ["ls\nwc a"])


def test_a_temporary_name_that_the_instruction_asks_for_stays() -> None:
    assert not same(["cp a /tmp/result"], ["cp a /tmp/other"], "Write /tmp/result.")
    assert normalised(["cp /tmp/x /tmp/result"], "Write /tmp/result.") == ["cp /tmp/1 /tmp/result"]


def test_temporary_names_are_numbered_over_all_steps() -> None:
    assert normalised(["sort a > /tmp/q", "cat /tmp/r /tmp/q"], "") == ["sort a > /tmp/1", "cat /tmp/2 /tmp/1"]


def test_steps_that_say_nothing_are_left_out() -> None:
    assert normalised(["", "  ", "# only thinking", "ls"], "") == ["ls"]


def test_keys_are_compared_without_their_waiting_times() -> None:
    keys = [json.dumps([{"keystrokes": "ls\n", "duration": wait}]) for wait in (0.1, 5.0)]
    assert typed(keys, "terminal") == ["ls\n", "ls\n"]
    assert typed(["no json", ""], "terminal") == ["no json"]


def test_a_shell_and_a_screen_are_not_the_same() -> None:
    assert commands_sha256(["ls"], "shell") != commands_sha256(["ls"], "terminal")


def test_blank_space_of_an_instruction_makes_no_difference() -> None:
    assert normalised_prose(" Do\n  it.\t") == "Do it."


@pytest.mark.parametrize(
    "command",
    [
        "",
        "\0",
        "a\ufffdb\ufffd",
        "'",
        '"',
        "\\",
        "<<",
        "<<EOF",
        "cat <<EOF\nnever ended",
        "'\"'\"'" * 1_000 + '"',
        "<<A\n" * 10_000,
        " " * 300_000 + "\n" * 300_000,
        '"\\' * 100_000,
        "/tmp/" * 100_000,
    ],
)
def test_any_text_is_normalised_and_stays_as_it_is_when_that_is_done_again(command: str) -> None:
    once = normalised([command], "")
    assert commands_sha256(once, "shell") and words(once) is not None
    assert normalised(once, "") == once


def test_a_huge_command_is_compared_as_it_stands_and_its_ends_are_in_the_signature() -> None:
    huge = "x  y " * (MAX_CHARACTERS // 4)
    assert normalised([huge], "") == [huge]
    assert len(words([huge])) == MAX_WORDS
    assert words(["first " + huge + " last"])[0] == "first" and words(["first " + huge + " last"])[-2] == "last"


def test_ten_thousand_steps_are_ten_thousand_commands() -> None:
    made = [f"echo {random.Random(i).random()}" for i in range(10_000)]
    assert normalised(made, "") == made
