"""What a terminal promises (sandbox/terminal.py), with real programs in a real container."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sandbox.building.base_images import BaseImageConfig
from sandbox.building.images import ImageBuilder
from sandbox.errors import SandboxUnavailable
from sandbox.protocol import Backend, Sandbox
from sandbox.streams import Deadline
from sandbox.terminals.terminal import Terminal, TerminalState
from sandbox.types import BuildLimits, ImageSpec, Limits

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_mb=512, lifetime_s=300)
WORKDIR = "/work"
PROGRAMS = f"""FROM {BaseImageConfig().base_image}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq less python3-minimal vim-tiny > /dev/null && apt-get clean
WORKDIR {WORKDIR}
"""
ENOUGH_S = 20


@pytest.fixture(scope="module")
def box(backend: Backend, builder: ImageBuilder) -> Iterator[Sandbox]:
    """A sandbox with an editor, a pager and an interpreter."""
    build = builder.build(ImageSpec(name="test-terminal", dockerfile=PROGRAMS), BuildLimits(timeout_s=300))
    assert build.digest is not None, build
    sandbox = backend.start(build.digest, LIMITS)
    yield sandbox
    sandbox.close()


@pytest.fixture
def inspect(box: Sandbox) -> Callable[[str], str]:
    """Output of a command beside the terminal."""
    return lambda command: box.execute(f"({command})", timeout_s=ENOUGH_S).output


@pytest.fixture
def terminal(box: Sandbox) -> Iterator[Terminal]:
    """A shell at its prompt."""
    with box.terminal() as terminal:
        assert until(terminal, "done").status == "done"
        yield terminal


def until(terminal: Terminal, status: str, row: str | None = None) -> TerminalState:
    """The state once it is this one, with such a row on the screen, or when there was time enough for it.

    A busy machine may be silent for a while though something is still to come.
    """
    clock = Deadline(ENOUGH_S)
    while True:
        state = terminal.wait(clock.left)
        if clock.left <= 0 or (state.status == status and (row is None or row in state.screen.rows)):
            return state


def typed(terminal: Terminal, line: str, status: str = "done", row: str | None = None) -> TerminalState:
    """The state after a line and Enter."""
    terminal.send(line)
    terminal.press("Enter")
    return until(terminal, status, row)


def pressed(terminal: Terminal, *names: str, status: str = "done", row: str | None = None) -> TerminalState:
    """The state after some keys."""
    terminal.press(*names)
    return until(terminal, status, row)


class TestShell:
    def test_it_starts_in_the_working_directory_on_a_terminal(self, terminal: Terminal) -> None:
        state = typed(terminal, "pwd; test -t 0 -a -t 1 -a -t 2 && echo yes; echo $TERM")
        assert (state.status, state.exit_code) == ("done", 0)
        assert {WORKDIR, "yes", "xterm-256color"} <= set(state.screen.rows)

    def test_exit_codes_directory_and_environment_stay(self, terminal: Terminal) -> None:
        assert typed(terminal, "cd /usr; NAME=kept; (exit 3)").exit_code == 3
        assert "/usr kept 3" in typed(terminal, 'echo "$PWD $NAME $?"').screen.rows

    def test_it_has_the_size_asked_for_and_the_next_one(self, box: Sandbox) -> None:
        with box.terminal(rows=50, columns=132) as terminal:
            until(terminal, "done")
            assert "50 132" in typed(terminal, "stty size").screen.rows
            terminal.resize(30, 100)
            state = typed(terminal, "stty size; echo $LINES $COLUMNS")
        assert {"30 100"} <= set(state.screen.rows[-30:])
        assert len(state.screen.rows) == 30

    def test_lines_typed_ahead_are_one_wait(self, terminal: Terminal) -> None:
        terminal.send("sleep 0.3; echo o'n'e\recho t'w'o\r")
        state = terminal.wait(ENOUGH_S, quiet_s=1)
        assert {"one", "two"} <= set(state.screen.rows)

    def test_a_missing_working_directory_is_no_reason_to_run_nothing(self, backend: Backend, box: Sandbox) -> None:
        other = backend.start(box.image_digest, LIMITS)
        other.execute(f"rm -r {WORKDIR}", timeout_s=ENOUGH_S)
        with other.terminal() as terminal:
            assert until(terminal, "done").status == "done"
            assert "/" in typed(terminal, "pwd").screen.rows
        other.close()

    def test_closing_ends_what_runs(self, box: Sandbox, inspect: Callable[[str], str]) -> None:
        terminal = box.terminal()
        until(terminal, "done")
        typed(terminal, "bash -c 'trap \"\" HUP INT TERM; while :; do sleep 1; done; : stub'born", "idle")
        assert "stubborn" in inspect("ps -e -o args | grep 'stub[b]orn'")
        terminal.close()
        terminal.close()
        assert (
            inspect(
                "for i in 1 2 3 4 5 6 7 8 9; do ps -e -o args | grep -q 'stub[b]orn' || exit; sleep 0.3; done; echo"
            )
            == ""
        )
        assert terminal.wait(1).status == "shell_exited"

    def test_a_sandbox_that_is_over_is_not_the_end_of_a_shell(self, backend: Backend, image: str) -> None:
        sandbox = backend.start(image, LIMITS.model_copy(update={"lifetime_s": 4}))
        terminal = sandbox.terminal()
        until(terminal, "done")
        with pytest.raises(SandboxUnavailable, match=r"over|gone"):
            until(terminal, "shell_exited")
        terminal.close()
        sandbox.close()
        with pytest.raises(SandboxUnavailable, match="closed"):
            sandbox.terminal()


class TestPrograms:
    def test_vi_edits_a_file_and_saves_it(self, terminal: Terminal, inspect: Callable[[str], str]) -> None:
        state = typed(terminal, "vi note.txt", "waiting_input")
        assert (state.status, state.screen.alternate) == ("waiting_input", True)
        terminal.send("ihello from vi")
        state = pressed(terminal, "Escape", status="waiting_input", row="hello from vi")
        assert state.screen.rows[0] == "hello from vi"
        state = typed(terminal, ":wq")
        assert (state.status, state.screen.alternate) == ("done", False)
        assert inspect(f"cat {WORKDIR}/note.txt") == "hello from vi\n"

    def test_less_scrolls_and_quits(self, terminal: Terminal) -> None:
        state = typed(terminal, "seq 100 | less", "waiting_input", "1")
        assert (state.status, state.screen.rows[0]) == ("waiting_input", "1")
        assert pressed(terminal, "Space", status="waiting_input", row="46").screen.rows[0] == "24"
        assert pressed(terminal, "Up", status="waiting_input", row="23").screen.rows[0] == "23"
        assert pressed(terminal, "G", status="waiting_input", row="100").screen.rows[-2] == "100"
        assert pressed(terminal, "q").status == "done"

    def test_what_a_pager_showed_is_in_the_output(self, terminal: Terminal) -> None:
        typed(terminal, "seq 100 | less", "waiting_input", "1")
        terminal.new_output()
        pressed(terminal, "q")
        typed(terminal, "seq 3 | less", "waiting_input", "3")
        pressed(terminal, "q")
        assert "last screen:]\n1\n2\n3\n" in terminal.new_output().text

    def test_a_repl_answers(self, terminal: Terminal) -> None:
        assert typed(terminal, "python3 -q", "waiting_input").status == "waiting_input"
        state = typed(terminal, "1+1", "waiting_input", "2")
        assert (state.status, "2" in state.screen.rows) == ("waiting_input", True)
        assert pressed(terminal, "C-d").status == "done"

    def test_a_question_waits_for_its_answer(self, terminal: Terminal) -> None:
        assert typed(terminal, "read -p 'Go on? [y/N] ' answer", "waiting_input").status == "waiting_input"
        assert typed(terminal, "y").status == "done"
        assert "<y>" in typed(terminal, 'echo "<$answer>"').screen.rows

    def test_wide_characters_take_two_columns(self, terminal: Terminal) -> None:
        state = typed(terminal, r"printf '日本語%s\n\e[%sGx\n' '' 7; echo 日本語")
        assert {"日本語", "      x"} <= set(state.screen.rows)
        terminal.send("日本")
        state = until(terminal, "done")
        before = state.screen.rows[state.screen.cursor_row]
        assert state.screen.cursor_column == len(before) + 2

    def test_clear_and_reset_leave_an_empty_screen(self, terminal: Terminal) -> None:
        for command in ("clear", "reset"):
            state = typed(terminal, f"seq 50; {command}")
            assert state.status == "done"
            assert sum(row != "" for row in state.screen.rows) == 1


class TestMisuse:
    def test_misuse_an_open_quote_wants_the_rest(self, terminal: Terminal) -> None:
        assert typed(terminal, 'echo "open', "continuation").status == "continuation"
        assert typed(terminal, 'closed"').status == "done"

    def test_misuse_an_open_heredoc_wants_the_rest(self, terminal: Terminal) -> None:
        assert typed(terminal, "cat <<END", "continuation").status == "continuation"
        assert typed(terminal, "line", "continuation").status == "continuation"
        state = typed(terminal, "END")
        assert (state.status, state.screen.rows.count("line")) == ("done", 1)

    def test_misuse_an_open_quote_can_be_left(self, terminal: Terminal) -> None:
        assert typed(terminal, "echo 'open", "continuation").status == "continuation"
        assert pressed(terminal, "C-c").status == "done"

    def test_misuse_exit_ends_the_terminal(self, terminal: Terminal) -> None:
        assert typed(terminal, "exit", "shell_exited").status == "shell_exited"
        assert typed(terminal, "echo more", "shell_exited").status == "shell_exited"

    def test_misuse_killing_the_shell_ends_the_terminal(self, terminal: Terminal) -> None:
        assert typed(terminal, "kill -9 $$", "shell_exited").status == "shell_exited"

    def test_misuse_exit_with_a_background_job_ends_the_terminal(self, terminal: Terminal) -> None:
        assert typed(terminal, "sleep 60 & exit", "shell_exited").status == "shell_exited"

    def test_misuse_exec_bash_is_a_shell_like_the_first(self, terminal: Terminal) -> None:
        assert typed(terminal, "exec bash").status == "done"
        state = typed(terminal, "(exit 4)")
        assert (state.status, state.exit_code) == ("done", 4)

    def test_misuse_a_shell_without_marks_waits_for_input(self, terminal: Terminal) -> None:
        assert typed(terminal, "sh", "waiting_input").status == "waiting_input"
        state = typed(terminal, "echo in'si'de", "waiting_input", "inside")
        assert (state.status, "inside" in state.screen.rows) == ("waiting_input", True)
        assert pressed(terminal, "C-d").status == "done"

    def test_misuse_ctrl_c_ends_a_sleep(self, terminal: Terminal) -> None:
        assert typed(terminal, "sleep 60", "idle").status == "idle"
        state = pressed(terminal, "C-c")
        assert (state.status, state.exit_code) == ("done", 130)

    def test_misuse_a_loop_that_ignores_signals_can_be_stopped_and_killed(self, terminal: Terminal) -> None:
        assert typed(terminal, "bash -c 'trap \"\" INT TERM; while :; do :; done'", "idle").status == "idle"
        assert pressed(terminal, "C-c", status="idle").status == "idle"
        assert pressed(terminal, "C-z").status == "done"
        assert typed(terminal, "kill -KILL %1; wait; echo g'on'e", row="gone").status == "done"

    def test_misuse_ten_megabytes_leave_their_end_on_the_screen(self, terminal: Terminal) -> None:
        state = typed(terminal, "head -c 10000000 /dev/zero | tr '\\0' x | fold -w 70; seq 30")
        assert state.status == "done"
        assert state.screen.rows[:23] == tuple(str(number) for number in range(8, 31))
        output = terminal.new_output()
        assert output.truncated
        assert output.output_bytes > 10_000_000

    def test_misuse_yes_is_stopped_by_ctrl_c(self, terminal: Terminal) -> None:
        terminal.send("yes\r")
        assert terminal.wait(1).status == "timeout"
        assert pressed(terminal, "C-c").status == "done"

    def test_misuse_random_bytes_leave_a_terminal_that_works(self, terminal: Terminal) -> None:
        typed(terminal, "python3 -c 'import os, random; os.write(1, random.Random(1).randbytes(200000))'")
        # The bytes asked the terminal questions; its answers were typed into the shell.
        pressed(terminal, "C-c")
        pressed(terminal, "C-c")
        assert "still" in typed(terminal, "reset; stty sane; echo st'il'l", row="still").screen.rows

    def test_misuse_a_line_of_five_megabytes_ends(self, terminal: Terminal) -> None:
        state = typed(terminal, "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo af'te'r")
        assert (state.status, "after" in state.screen.rows) == ("done", True)

    def test_misuse_cat_echoes_until_the_end_of_input(self, terminal: Terminal) -> None:
        assert typed(terminal, "cat", "waiting_input").status == "waiting_input"
        state = typed(terminal, "echo me", "waiting_input", "echo me")
        assert (state.status, state.screen.rows.count("echo me")) == ("waiting_input", 2)
        assert pressed(terminal, "C-d").status == "done"

    def test_misuse_a_raw_terminal_is_made_right_again(self, terminal: Terminal) -> None:
        typed(terminal, "stty raw -echo")
        typed(terminal, "stty sane")
        assert "fine" in typed(terminal, "echo fi'n'e").screen.rows

    def test_misuse_a_background_job_does_not_delay_the_prompt(self, terminal: Terminal) -> None:
        assert typed(terminal, "(sleep 0.5; echo la'te'r) &").status == "done"
        state = terminal.wait(ENOUGH_S, quiet_s=2)
        assert any("later" in row for row in state.screen.rows)

    def test_misuse_strict_shell_options_keep_the_marks(self, terminal: Terminal) -> None:
        state = typed(terminal, "set -uo pipefail; unset PROMPT_COMMAND; (exit 5)")
        assert (state.status, state.exit_code) == ("done", 5)
        assert typed(terminal, "echo 'open", "continuation").status == "continuation"

    def test_misuse_another_prompt_keeps_the_marks(self, terminal: Terminal) -> None:
        typed(terminal, "PS1='mine> ' PS2='more> '")
        state = typed(terminal, "(exit 6)")
        assert (state.status, state.exit_code) == ("done", 6)
        assert typed(terminal, "echo 'open", "continuation").status == "continuation"

    def test_misuse_a_shell_whose_output_goes_nowhere_still_takes_commands(
        self, terminal: Terminal, inspect: Callable[[str], str]
    ) -> None:
        typed(terminal, "exec >/dev/null")
        typed(terminal, "pwd | tee where")
        assert inspect(f"cat {WORKDIR}/where") == f"{WORKDIR}\n"

    def test_misuse_a_command_line_of_six_kilobytes_runs(self, terminal: Terminal) -> None:
        assert "6000" in typed(terminal, f"x={'y' * 6000}; echo ${{#x}}").screen.rows

    def test_misuse_a_forged_mark_fools_only_the_wait_that_runs_it(self, terminal: Terminal) -> None:
        assert typed(terminal, r"printf '\e]133;D;0\a\e]133;B\a'; sleep 1; (exit 9)").status == "done"
        terminal.wait(ENOUGH_S, quiet_s=2)
        state = typed(terminal, "(exit 8)")
        assert (state.status, state.exit_code) == ("done", 8)
