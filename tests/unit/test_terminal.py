"""A terminal over a pseudo-terminal of this machine, with real programs in it."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.streams import Deadline
from sandbox.terminals.marks import ENVIRONMENT, START, STARTED, Marks, start_command
from sandbox.terminals.pty_stream import MOST_UNSENT, PtyFd
from sandbox.terminals.terminal import MOST_KEYS, Terminal, TerminalState

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

ROWS, COLUMNS = 24, 80
Opener = Callable[..., tuple[Terminal, PtyFd]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Opens terminals, with a shell or another program; what still runs in the end is killed."""
    made: list[tuple[Terminal, int]] = []

    def start(*command: str) -> tuple[Terminal, PtyFd]:
        program = list(command) or start_command(str(tmp_path), ROWS, COLUMNS)
        process, descriptor = pty.fork()
        if process == 0:
            environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8", **ENVIRONMENT}
            os.execvpe(program[0], program, environment)
        stream = PtyFd(descriptor, process)
        made.append((Terminal(stream, ROWS, COLUMNS), process))
        return made[-1][0], stream

    yield start
    for terminal, process in made:
        terminal.close()
        terminal.close()
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def until(terminal: Terminal, status: str) -> TerminalState:
    """The state once it is this one: a busy machine may be silent for a while though something is still to come."""
    clock = Deadline(20)
    while True:
        state = terminal.wait(clock.left)
        if state.status == status or clock.left <= 0:
            return state


@pytest.fixture
def terminal(opened: Opener) -> Terminal:
    """A shell at its prompt."""
    terminal, _ = opened()
    assert until(terminal, "done").status == "done"
    return terminal


def test_a_command_is_done_with_its_exit_code(terminal: Terminal) -> None:
    terminal.send("(exit 7)\r")
    state = until(terminal, "done")
    assert (state.status, state.exit_code) == ("done", 7)


def test_new_output_is_what_came_since_the_last_look(terminal: Terminal) -> None:
    terminal.new_output()
    terminal.send("printf 'o%s\\n' ne\r")
    until(terminal, "done")
    output = terminal.new_output()
    assert "\none\n" in output.text
    assert not output.truncated
    assert output.output_bytes > len(output.text)
    assert (terminal.new_output().output_bytes, terminal.new_output().text) == (0, "")


def test_an_open_quote_wants_the_rest(terminal: Terminal) -> None:
    terminal.send("echo 'a\r")
    assert until(terminal, "continuation").status == "continuation"
    terminal.send("b'\r")
    assert until(terminal, "done").status == "done"


def test_a_program_that_reads_waits_for_input(terminal: Terminal) -> None:
    terminal.send("cat\r")
    assert until(terminal, "waiting_input").status == "waiting_input"


def test_a_program_that_sleeps_is_idle(terminal: Terminal) -> None:
    terminal.send("sleep 30\r")
    assert until(terminal, "idle").status == "idle"


def test_a_program_that_never_pauses_meets_the_time_limit(terminal: Terminal) -> None:
    terminal.send("yes\r")
    state = terminal.wait(1)
    assert (state.status, state.screen.rows[3]) == ("timeout", "y")


def test_the_end_of_the_shell_is_told_though_others_hold_the_terminal(terminal: Terminal) -> None:
    terminal.send("sleep 30 & exit\r")
    assert until(terminal, "shell_exited").status == "shell_exited"
    assert until(terminal, "shell_exited").status == "shell_exited"


def test_programs_see_another_size(terminal: Terminal) -> None:
    terminal.resize(30, 100)
    terminal.send("stty size\r")
    assert "30 100" in until(terminal, "done").screen.rows


def test_a_question_of_a_program_is_answered(terminal: Terminal) -> None:
    terminal.send("clear; printf '\\e[6n'; IFS= read -rsdR place; declare -p place\r")
    assert r"""declare -- place=$'\E[1;1""" in until(terminal, "done").screen.text


def test_a_split_character_is_whole_on_the_screen(terminal: Terminal) -> None:
    terminal.send(r"printf '\xe6\x97'; sleep 0.2; printf '\xa5\n'" + "\r")
    assert "日" in until(terminal, "done").screen.rows


def test_a_split_sequence_leaves_nothing_on_the_screen(terminal: Terminal) -> None:
    terminal.send(r"printf 'a\e[3'; sleep 0.2; printf '1mb\n'" + "\r")
    assert "ab" in until(terminal, "done").screen.rows


def test_cursor_keys_take_the_form_that_the_program_asked_for(terminal: Terminal) -> None:
    terminal.send("printf '\\e[?1h'; stty -echo; cat -v\r")
    until(terminal, "waiting_input")
    terminal.press("Up", "Enter")
    assert "^[OA" in until(terminal, "waiting_input").screen.rows


def test_a_program_without_a_shell_ends_the_terminal(opened: Opener) -> None:
    terminal, _ = opened("echo", "over")
    assert until(terminal, "shell_exited").screen.rows[0] == "over"
    assert until(terminal, "shell_exited").status == "shell_exited"


def test_an_image_without_bash_and_stty_has_a_terminal_too(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    terminal, _ = opened(str(tmp_path / "sh"), "-c", f"PATH={tmp_path}\n{START}", "sh", str(tmp_path), "24", "80")
    until(terminal, "waiting_input")
    terminal.send("echo o'n'e\r")
    assert "one" in until(terminal, "waiting_input").screen.rows


def test_misuse_keys_for_a_program_that_reads_nothing_are_refused_in_the_end(opened: Opener) -> None:
    terminal, _ = opened(sys.executable, "-c", "import time, tty; tty.setraw(0); print('ready'); time.sleep(30)")
    assert "ready" in until(terminal, "idle").screen.text
    with pytest.raises(ValueError, match="reads nothing"):
        for _ in range(MOST_UNSENT // MOST_KEYS + 3):
            terminal.send(b"x" * MOST_KEYS)


def test_too_many_keys_at_once_are_refused(terminal: Terminal) -> None:
    with pytest.raises(ValueError, match="too much to type"):
        terminal.send("x" * (MOST_KEYS + 1))


def test_the_shell_names_its_process_first(opened: Opener) -> None:
    _, stream = opened()
    said = b""
    while STARTED.search(said) is None:
        said += stream.read(20)
    assert STARTED.match(said)


def test_marks_tell_where_the_shell_stands() -> None:
    marks = Marks()
    marks.look("\x1b]133;C\x07out")
    assert (marks.place, marks.fresh) == ("running", False)
    marks.look("\x1b]133;D;5\x07\x1b]133;A\x07$ \x1b]133;B\x07")
    assert (marks.place, marks.fresh, marks.exit_code) == ("prompt", True, 5)
    marks.look("\x1b]133;P;k=c\x07> ")
    assert marks.place == "continuation"
