"""The bytes of keys."""

from __future__ import annotations

import pytest

from sandbox.terminals.keystrokes import keys


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("Enter", b"\r"),
        ("Tab", b"\t"),
        ("BTab", b"\x1b[Z"),
        ("S-Tab", b"\x1b[Z"),
        ("Escape", b"\x1b"),
        ("Space", b" "),
        ("BSpace", b"\x7f"),
        ("Up", b"\x1b[A"),
        ("Left", b"\x1b[D"),
        ("Home", b"\x1b[H"),
        ("PageDown", b"\x1b[6~"),
        ("NPage", b"\x1b[6~"),
        ("DC", b"\x1b[3~"),
        ("F1", b"\x1bOP"),
        ("F5", b"\x1b[15~"),
        ("F12", b"\x1b[24~"),
        ("C-c", b"\x03"),
        ("C-C", b"\x03"),
        ("^C", b"\x03"),
        ("C-d", b"\x04"),
        ("C-Space", b"\x00"),
        ("C-[", b"\x1b"),
        ("C-?", b"\x7f"),
        ("C-\\", b"\x1c"),
        ("M-x", b"\x1bx"),
        ("C-M-x", b"\x1b\x18"),
        ("M-Enter", b"\x1b\r"),
        ("C-Left", b"\x1b[1;5D"),
        ("S-Up", b"\x1b[1;2A"),
        ("M-F1", b"\x1b[1;3P"),
        ("C-S-PageUp", b"\x1b[5;6~"),
        ("ls -l", b"ls -l"),
        ("^", b"^"),
        ("C-", b"C-"),
        ("C-literal", b"C-literal"),
        ("é", "é".encode()),
    ],
)
def test_a_name_stands_for(name: str, sent: bytes) -> None:
    assert keys(name) == sent


def test_keys_are_joined_in_turn() -> None:
    assert keys("ls", "Enter", "C-c") == b"ls\r\x03"


def test_cursor_keys_have_another_form_for_programs_that_ask() -> None:
    assert keys("Up", "Home", "F5", "C-Up", application=True) == b"\x1bOA\x1bOH\x1b[15~\x1b[1;5A"
