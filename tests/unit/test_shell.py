"""The persistent shell, with a supervisor that runs on this machine: real pipes, real signals, no container."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sandbox.errors import SandboxUnavailable
from sandbox.overlay.pipes import Pipes
from sandbox.shell import Channel, Shell, ShellUnstartable, supervisor_command
from sandbox.shell_programs import ABANDON
from sandbox.streams import Sink
from sandbox.types import ExecResult

PROGRAMS = ("sh", "cat", "mkdir", "od")


class Machine:
    """Starts supervisors on this machine, in a folder, and reaches their processes. Implements `Processes`."""

    def __init__(self, folder: Path, path: str) -> None:
        self.supervisors: list[subprocess.Popen[bytes]] = []
        self.fault: Exception | None = None
        self.ooms = 0
        self.killed: list[int] = []
        self._folder = folder
        self._path = path

    def open(self) -> Channel:
        if self.fault is not None:
            raise self.fault
        pipes = Pipes()
        stdin, stdout, stderr = pipes.theirs
        self.supervisors.append(
            subprocess.Popen(
                supervisor_command(str(self._folder)),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env={"PATH": self._path, "LANG": "C.UTF-8"},
                executable=shutil.which("sh"),
                start_new_session=True,
            )
        )
        pipes.hand_over()
        return pipes

    def stop(self, shell_pid: int, *, began_s_ago: float, force: bool) -> bool:
        found = _below(shell_pid)
        for pid in found:
            _send(pid, signal.SIGKILL if force else signal.SIGINT)
        _send(shell_pid, ABANDON)
        return bool(found)

    def kill(self, shell_pid: int) -> None:
        self.killed.append(shell_pid)
        for pid in (shell_pid, *_below(shell_pid)):
            _send(pid, signal.SIGKILL)

    def oom_kills(self) -> int:
        return self.ooms

    def end(self) -> None:
        for supervisor in self.supervisors:
            for pid in (supervisor.pid, *_below(supervisor.pid)):
                _send(pid, signal.SIGKILL)
            supervisor.wait(10)


def _below(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [one for child in children for one in (int(child), *_below(int(child)))]


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[Machine]:
    """A machine whose shell is bash."""
    if shutil.which("bash") is None:
        pytest.skip("this machine has no bash")
    machine = Machine(tmp_path, os.defpath)
    yield machine
    machine.end()


@pytest.fixture(params=["bash", "sh"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """A machine with each kind of shell."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in (*PROGRAMS, "bash") if request.param == "bash" else PROGRAMS:
        if (found := shutil.which(name)) is None:
            pytest.skip(f"this machine has no {name}")
        (programs / name).symlink_to(found)
    machine = Machine(tmp_path, str(programs))
    yield machine
    machine.end()


def shell(machine: Machine, *, overtaking: bool = False) -> Shell:
    return Shell(machine.open, machine, overtaking=overtaking)


def run(shell: Shell, command: str, timeout_s: float = 10) -> ExecResult:
    return shell.run(command, timeout_s)


def test_state_lasts_from_command_to_command(machine: Machine, tmp_path: Path) -> None:
    one = shell(machine)
    assert (
        run(one, "pwd; mkdir sub; cd sub; word='a b'; f() { echo $1; return 7; }; exec 3>out").output == f"{tmp_path}\n"
    )
    assert run(one, "pwd; f x; echo $word; echo y >&3; cat out").output == f"{tmp_path}/sub\nx\na b\ny\n"
    assert run(one, "f z").exit_code == 7
    assert run(one, "echo $?").output == "7\n"
    assert len(machine.supervisors) == 1


@pytest.mark.parametrize(
    "command",
    [
        "break",
        "continue 2",
        "echo )",
        "echo 'open",
        "set -x",
        "set -aux",
        "unset IFS",
        "IFS=0123456789",
        "printf() { :; }; read() { :; }; echo() { :; }",
        "exec 2>/dev/null",
        "cd /; cd -; rmdir /nowhere",
    ],
)
def test_the_loop_survives(machine: Machine, command: str) -> None:
    one = shell(machine)
    run(one, "word=kept")
    assert not run(one, command).shell_restarted
    assert run(one, "(exit 5)").exit_code == 5
    assert run(one, "command printf '%s\\n' $word").output.endswith("kept\n")


@pytest.mark.parametrize(
    ("command", "code"), [("exit 3", 3), ("exec cat", 0), ("kill -9 $$", 137), ("set -e; false", 1)]
)
def test_a_shell_that_ends_is_replaced_and_the_result_says_so(machine: Machine, command: str, code: int) -> None:
    one = shell(machine)
    run(one, "word=kept")
    result = run(one, command)
    assert (result.exit_code, result.shell_restarted, result.timed_out) == (code, True, False)
    again = run(one, "echo [$word]")
    assert (again.output, again.shell_restarted) == ("[]\n", False)
    assert len(machine.supervisors) == 1


def test_every_byte_arrives(machine: Machine) -> None:
    one = shell(machine)
    text = " \\ \\n \\c %s \t\x01\x7f 日本 \\"
    assert run(one, f"cat <<'E'\n{text}\nE\nprintf '\udcff' | od -An -tx1").output == f"{text}\n ff\n"


def test_a_bash_abandons_its_command_and_lives_on(bash: Machine) -> None:
    one = shell(bash)
    run(one, "word=kept")
    for command in (
        "sleep 100",
        "while :; do :; done",
        "f() { while :; do sleep 5; done; }; f",
        "set -o posix; wait; sleep 9",
    ):
        result = run(one, f"echo part; {command}", 0.2)
        assert (result.exit_code, result.timed_out, result.shell_restarted) == (None, True, False)
        assert result.output.startswith("part\n")
        assert run(one, "echo $word").output == "kept\n"
    assert bash.killed == []


def test_a_late_signal_does_not_touch_the_next_command(bash: Machine) -> None:
    one = shell(bash)
    pid = int(run(one, "echo $$").output)
    for number in range(50):
        os.kill(pid, ABANDON)
        assert run(one, f"echo {number}").output == f"{number}\n"


def test_a_bash_that_does_not_answer_is_ended(bash: Machine) -> None:
    one = shell(bash)
    result = run(one, f"echo part; trap '' {ABANDON}; while :; do :; done", 0.2)
    assert (result.exit_code, result.timed_out, result.shell_restarted) == (None, True, True)
    assert result.output == "part\n"
    assert len(bash.killed) == 1
    assert run(one, "echo next").output == "next\n"


def test_a_shell_that_ended_between_two_commands_is_told_with_the_next(bash: Machine) -> None:
    one = shell(bash)
    pid = int(run(one, "echo $$").output)
    os.kill(pid, signal.SIGKILL)
    while _below(bash.supervisors[0].pid):
        time.sleep(0.01)
    results = [run(one, "echo x") for _ in range(2)]
    assert [(result.output, result.shell_restarted) for result in results] == [("x\n", True), ("x\n", False)]


def test_a_lost_supervisor_is_opened_again(bash: Machine) -> None:
    one = shell(bash)
    result = run(one, "kill -9 $PPID $$; sleep 1")
    assert (result.exit_code, result.shell_restarted) == (137, True)
    assert run(one, "echo next").output == "next\n"
    assert len(bash.supervisors) == 2


def test_a_supervisor_lost_for_a_reason_of_ours_is_no_result(bash: Machine) -> None:
    one = shell(bash)
    run(one, "true")
    bash.fault = SandboxUnavailable("the engine is gone")
    with pytest.raises(SandboxUnavailable, match="engine is gone"):
        run(one, "kill -9 $PPID $$; sleep 1")


def test_where_no_program_starts_commands_fail(bash: Machine) -> None:
    bash.fault = ShellUnstartable("nothing starts here")
    result = run(shell(bash), "true")
    assert (result.exit_code, result.output) == (126, "nothing starts here\n")


def test_a_shell_without_programs_is_not_asked_for_ever(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/nowhere")
    result = run(shell(machine), "true")
    machine.end()
    assert (result.exit_code, "no shell can be started" in result.output) == (126, True)


@pytest.mark.parametrize(
    ("command", "ooms", "marked"), [("(exit 137)", 1, True), ("(exit 1)", 0, False), ("true", 1, False)]
)
def test_a_kill_for_memory_marks_the_command_that_failed(bash: Machine, command: str, ooms: int, marked: bool) -> None:
    one = shell(bash)
    run(one, "true")
    bash.ooms += ooms
    assert run(one, command).oom_killed == marked


def test_a_command_that_no_shell_can_be_given_fails(bash: Machine) -> None:
    one = shell(bash)
    for command in ("\0", "\ud800", "x" * ((1 << 20) + 1)):
        assert run(one, command).exit_code == 126
    assert bash.supervisors == []
    assert run(one, "#" * (1 << 20)).exit_code == 0


class Overtaken:
    """A channel whose output arrives, in small pieces, only when the status before which it was written is read."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._late: list[bytes] = []

    @property
    def ended(self) -> bool:
        return self._channel.ended and not self._late

    def send(self, data: bytes) -> None:
        self._channel.send(data)

    def read(self, sinks: Mapping[int, Sink], wait_s: float) -> bool:
        late = self._late
        status = _Kept()
        held = _Kept()
        if not self._channel.ended and self._channel.read({1: held, 2: status}, 0.0 if late else wait_s):
            late += [bytes([byte]) for byte in held.content]
        if status.content:
            sinks[2].add(status.content)
            return True
        if not late or wait_s == 0:
            return bool(held.content)
        sinks.get(1, _Kept()).add(late.pop(0))
        return True

    def close(self) -> None:
        self._channel.close()


class _Kept:
    def __init__(self) -> None:
        self.content = b""

    def add(self, chunk: bytes) -> None:
        self.content += chunk


def test_output_that_its_status_overtakes_is_not_lost(machine: Machine) -> None:
    one = Shell(lambda: Overtaken(machine.open()), machine, overtaking=True)
    for text in ("x" * 300, "0123456789abcdef" * 20, "", "y\n"):
        result = run(one, f"command printf %s '{text}'; word=1")
        assert (result.output, result.output_bytes, result.exit_code) == (text, len(text), 0)
    assert run(one, "echo part; exit 3").exit_code == 3


def test_output_thrown_away_for_ever_is_not_waited_for(machine: Machine) -> None:
    one = shell(machine, overtaking=True)
    run(one, "exec >/dev/null 2>&1")
    result = run(one, "echo x")
    assert (result.output, result.exit_code) == ("", 0)
    assert result.seconds < 0.9


def test_a_mark_made_impossible_costs_time_and_nothing_else(bash: Machine) -> None:
    one = shell(bash, overtaking=True)
    assert run(one, "echo x; unset __touchstone_mark").output == "x\n"
    assert run(one, "echo y").output == "y\n"


class Recorded:
    """A supervisor that answers each read with the next recorded piece. Implements `Channel`."""

    ended = False

    def __init__(self, pieces: list[tuple[int, bytes]]) -> None:
        self._pieces = pieces

    def send(self, data: bytes) -> None:
        pass

    def read(self, sinks: Mapping[int, Sink], wait_s: float) -> bool:
        if wait_s == 0 or not self._pieces:
            return False
        stream, data = self._pieces.pop(0)
        sinks.get(stream, _Kept()).add(data)
        return True

    def close(self) -> None:
        pass


def test_status_may_come_in_pieces_and_what_is_forged_about_other_commands_is_passed_over(bash: Machine) -> None:
    text = b"ready 17\nexit 0 9\nexit 2 9\nnonsense\nexit 1 3\n"
    pieces = [(2, text[at : at + 1]) for at in range(len(text))]
    one = Shell(lambda: Recorded([*pieces[:20], (1, b"out"), *pieces[20:]]), bash)
    result = run(one, "anything")
    assert (result.exit_code, result.output, result.shell_restarted) == (3, "out", False)
