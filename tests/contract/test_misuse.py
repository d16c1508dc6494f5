"""What careless and hostile commands do to a shell, and what must be left of it afterwards: on every backend."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.protocol import Backend, Sandbox
from sandbox.types import ExecResult, Limits

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_mb=256, pids=128, lifetime_s=300)
PROJECT = Path(__file__).resolve().parent.parent.parent
KEPT = "/tmp kept\n"
DRIVER = """
import sys, time
from pathlib import Path
project, data, name, image, marker = sys.argv[1:]
sys.path.insert(0, project)
from sandbox.backends.choice import choose
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.engine import connect
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime
client = connect(Path(data))
bases = BaseImages(client, BaseImageConfig(), Path(data))
backend = choose(name, client, VerifierRuntime(client, bases), Path(data), image)
sandbox = backend.start(image, Limits(lifetime_s=300))
sandbox.execute(f"(setsid sleep {marker} &) ; sleep {marker} &", timeout_s=20)
print("ready", flush=True)
sandbox.execute(f"sleep {marker}", timeout_s=100)
"""


@pytest.fixture(scope="module")
def shared(backend: Backend, image: str) -> Iterator[Sandbox]:
    """One sandbox for all commands that must leave it usable."""
    sandbox = backend.start(image, LIMITS)
    yield sandbox
    sandbox.close()


@pytest.fixture
def box(shared: Sandbox) -> Sandbox:
    """That sandbox with a new shell, which has something to lose: a directory and a variable."""
    assert shared.execute("builtin kill -9 $$", timeout_s=20).shell_restarted
    assert shared.execute("cd /tmp && word=kept", timeout_s=20).exit_code == 0
    return shared


@pytest.fixture
def spare(backend: Backend, image: str) -> Iterator[Sandbox]:
    """A sandbox that may be ruined."""
    sandbox = backend.start(image, LIMITS)
    assert sandbox.execute("cd /tmp && word=kept", timeout_s=20).exit_code == 0
    yield sandbox
    sandbox.close()


def act(sandbox: Sandbox, command: str, timeout_s: float = 20) -> ExecResult:
    return sandbox.execute(command, timeout_s=timeout_s)


def state(sandbox: Sandbox) -> str:
    return act(sandbox, 'echo "$PWD $word"').output


def survived(sandbox: Sandbox, result: ExecResult) -> bool:
    """Whether the shell lives on with its directory and variables."""
    return not result.shell_restarted and state(sandbox) == KEPT


def replaced(sandbox: Sandbox, result: ExecResult) -> bool:
    """Whether a new shell came in its place, as the result says."""
    return result.shell_restarted and state(sandbox) == "/ \n"


class TestTheShellIsEnded:
    def test_misuse_exit(self, box: Sandbox) -> None:
        result = act(box, "echo bye; exit 3; echo never")
        assert (result.exit_code, result.output) == (3, "bye\n")
        assert replaced(box, result)

    @pytest.mark.parametrize("command", ["exec bash", "exec sh -i", "exec true"])
    def test_misuse_exec_of_another_program(self, box: Sandbox, command: str) -> None:
        result = act(box, command)
        assert result.exit_code == 0
        assert replaced(box, result)

    def test_misuse_exec_of_a_program_that_hangs(self, box: Sandbox) -> None:
        result = act(box, "exec sleep 1000", timeout_s=0.5)
        assert (result.exit_code, result.timed_out) == (None, True)
        assert replaced(box, result)

    def test_misuse_strict_mode_ends_the_shell_at_the_first_failure(self, box: Sandbox) -> None:
        assert survived(box, act(box, "set -euo pipefail"))
        result = act(box, "echo before; false; echo after")
        assert (result.exit_code, result.output) == (1, "before\n")
        assert replaced(box, result)

    def test_misuse_strict_mode_without_a_failure_lasts(self, box: Sandbox) -> None:
        assert survived(box, act(box, "set -euo pipefail"))
        assert act(box, "echo $-").output.startswith("eh")
        assert survived(box, act(box, "set +eu +o pipefail"))

    def test_misuse_kill_of_the_shell_itself(self, box: Sandbox) -> None:
        result = act(box, "echo x; kill -9 $$; echo never")
        assert (result.exit_code, result.output, result.timed_out, result.oom_killed) == (137, "x\n", False, False)
        assert replaced(box, result)

    def test_misuse_the_shell_is_killed_between_two_commands(self, box: Sandbox) -> None:
        act(box, "(sleep 0.2; kill -9 $$) & sleep 0.1")
        time.sleep(0.5)
        result = act(box, 'echo "$PWD $word"')
        assert (result.output, result.shell_restarted) == ("/ \n", True)
        assert not act(box, "true").shell_restarted

    def test_misuse_the_shell_is_stopped(self, box: Sandbox) -> None:
        result = act(box, "kill -STOP $$", timeout_s=0.5)
        assert result.timed_out
        assert replaced(box, result)

    def test_misuse_a_shell_that_does_not_answer(self, box: Sandbox) -> None:
        result = act(box, "trap '' $(seq 1 8) $(seq 10 18) $(seq 20 64); while :; do :; done", timeout_s=0.5)
        assert result.timed_out
        assert replaced(box, result)


class TestTheShellIsConfused:
    def test_misuse_output_thrown_away(self, box: Sandbox) -> None:
        assert survived(box, act(box, "exec 4>&1 5>&2 >/dev/null 2>&1; echo nothing")) is False
        assert act(box, "exec >&4 2>&5 4>&- 5>&-").exit_code == 0
        assert state(box) == KEPT

    @pytest.mark.parametrize("command", ['echo "open', "echo $(open", "echo )", "if true; then", "f() {", "case x in"])
    def test_misuse_unbalanced_syntax(self, box: Sandbox, command: str) -> None:
        result = act(box, command)
        assert result.exit_code == 2
        assert "bash: eval: line " in result.output
        assert survived(box, result)

    def test_misuse_open_heredoc(self, box: Sandbox) -> None:
        result = act(box, "cat <<END\nline")
        assert result.exit_code == 0
        assert result.output.endswith("line\n")
        assert survived(box, result)

    @pytest.mark.parametrize("command", ["break", "continue", "break 1", "continue 2"])
    def test_misuse_loop_control_outside_of_a_loop(self, box: Sandbox, command: str) -> None:
        assert survived(box, act(box, command))

    def test_misuse_builtins_overridden(self, box: Sandbox) -> None:
        names = "printf read eval echo exit set declare continue trap return unset test"
        act(box, "; ".join(f"{name}() {{ command printf 'own {name}\\n'; }}" for name in names.split()))
        result = act(box, "read; command printf 'x\\n'")
        assert result.output == "own read\nx\n"
        assert survived(box, act(box, f"builtin unset -f {names}"))

    @pytest.mark.parametrize(
        "command",
        [
            "unset PATH",
            "IFS=0123456789:",
            "alias echo=false pwd=false builtin=false eval=false; shopt -s expand_aliases",
            "set -f -o posix; shopt -s extglob nocasematch",
            "set -a",
            "trap - INT; trap 'true' EXIT TERM",
            "LC_ALL=C",
            "HOME=/nowhere; unset OLDPWD SHLVL",
        ],
    )
    def test_misuse_settings(self, spare: Sandbox, command: str) -> None:
        assert not act(spare, command).shell_restarted
        assert act(spare, "(exit 4)").exit_code == 4
        assert act(spare, 'printf "%s\\n" "$PWD $word"').output == KEPT

    def test_misuse_tracing_shows_the_commands_and_nothing_of_ours(self, box: Sandbox) -> None:
        act(box, "set -x")
        result = act(box, "printf '%s\\n' x")
        act(box, "set +x")
        assert "touchstone" not in result.output
        assert result.output.endswith("+ printf '%s\\n' x\nx\n")
        assert state(box) == KEPT

    def test_misuse_forged_status(self, box: Sandbox) -> None:
        forged = "; ".join(f"echo 'exit {number} 0' >&{number % 20}" for number in range(3, 60))
        result = act(box, f"{{ {forged}; }} 2>/dev/null; echo 'exit 1 0'; echo 'exit 1 0' >&2; (exit 9)")
        assert result.exit_code == 9
        assert survived(box, result)

    def test_misuse_garbage_in_every_stream_of_the_shell(self, box: Sandbox) -> None:
        act(box, "for f in /proc/1/fd/* /proc/$$/fd/*; do printf 'x 7 y' > $f; printf '5\\nz' > $f; done 2>/dev/null")
        assert (
            act(box, "printf '\\nexit 9 9\\nexi' | tee /proc/$$/fd/25* /proc/1/fd/9 > /dev/null; true").exit_code == 0
        )
        assert act(box, "echo goes on").output.endswith("goes on\n")
        assert survived(box, act(box, "true"))

    def test_misuse_working_directory_removed(self, box: Sandbox) -> None:
        assert act(box, "mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone").exit_code == 0
        assert act(box, "ls; true").exit_code == 0
        assert act(box, "cd /tmp/gone").exit_code == 1
        assert survived(box, act(box, "cd /tmp"))


class TestTheShellWaits:
    @pytest.mark.parametrize("command", ["bash", "sh -i", "perl", "cat", "more", "bash -i"])
    def test_misuse_programs_that_read_find_no_input(self, box: Sandbox, command: str) -> None:
        result = act(box, command)
        assert not result.timed_out
        assert survived(box, result)

    def test_misuse_pager(self, box: Sandbox) -> None:
        result = act(box, "seq 1000 | more")
        assert (result.output_bytes, result.timed_out) == (3893, False)
        assert survived(box, result)

    def test_misuse_question(self, box: Sandbox) -> None:
        result = act(box, "read -p 'sure [y/n]? ' answer; echo \"$? [$answer]\"")
        assert result.output.endswith("1 []\n")
        assert survived(box, result)

    def test_misuse_hung_command(self, box: Sandbox) -> None:
        result = act(box, "echo part; sleep 1000; echo never", timeout_s=0.5)
        assert (result.exit_code, result.output, result.timed_out) == (None, "part\n", True)
        assert survived(box, result)

    @pytest.mark.parametrize(
        "command",
        [
            "while :; do :; done",
            "while sleep 1; do :; done; echo never",
            "f() { while :; do sleep 9; done; }; g() { f; f; }; g; g",
            "f() { sleep 9; f; }; f",
            "x=$(sleep 1000); echo never",
            "(while :; do :; done)",
            "sleep 1000 | cat",
            "mkfifo /tmp/pipe$$; cat /tmp/pipe$$",
            "read line < <(sleep 1000)",
            "wait",
            "set -o posix; while :; do sleep 1; done",
        ],
    )
    def test_misuse_endless(self, box: Sandbox, command: str) -> None:
        act(box, "sleep 1000 & job=$!; sleep 0.05")
        result = act(box, command, timeout_s=0.3)
        assert (result.exit_code, result.timed_out) == (None, True)
        assert "never" not in result.output
        assert survived(box, result)
        assert act(box, "kill $job; wait $job 2>/dev/null; ps -eo args= | grep -c '[s]leep 1000'").output == "0\n"

    def test_misuse_what_stands_behind_a_stopped_job_never_runs(self, box: Sandbox) -> None:
        assert {act(box, "x=$(sleep 1000); echo never", timeout_s=0.05).output for _ in range(10)} == {""}

    def test_misuse_daemon_of_a_hung_command(self, box: Sandbox) -> None:
        act(box, "(setsid sleep 2001 >/dev/null 2>&1 &); sleep 0.1")
        assert act(box, "(setsid sleep 2002 >/dev/null 2>&1 &); sleep 2003", timeout_s=0.5).timed_out
        assert act(box, "ps -eo args= | grep '[s]leep 200'").output == "sleep 2001\n"
        assert act(box, "pkill -f 'sleep 2001'; pwd").output == "/tmp\n"

    def test_misuse_signals_ignored(self, box: Sandbox) -> None:
        result = act(box, "bash -c 'trap \"\" INT TERM HUP; while :; do sleep 0.1; done'", timeout_s=0.5)
        assert result.timed_out
        assert survived(box, result)
        assert act(box, "ps -eo args= | grep -c '[w]hile :; do sleep'").output == "0\n"

    def test_misuse_background_job_holds_the_output(self, box: Sandbox) -> None:
        result = act(box, "sleep 1000 & echo started")
        assert (result.output, result.timed_out) == ("started\n", False)
        assert survived(box, act(box, "kill %%"))

    def test_misuse_server_left_running_serves_the_next_command(self, box: Sandbox) -> None:
        act(
            box,
            "mkfifo -m 600 in out; (while read -r x <in; do echo $x$x >out; done) &",
        )
        result = act(box, "echo ab >in; cat out; kill %%; rm in out")
        assert result.output == "abab\n"
        assert survived(box, result)


class TestOutput:
    def test_misuse_endless_output(self, box: Sandbox) -> None:
        result = act(box, "yes", timeout_s=1)
        assert (result.exit_code, result.timed_out, result.truncated) == (None, True, True)
        assert result.output.startswith("y\ny\n")
        assert survived(box, result)
        assert act(box, "ps -eo comm= | grep -cx yes").output == "0\n"

    def test_misuse_fifty_megabytes_in_one_line(self, box: Sandbox) -> None:
        result = act(box, "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last", timeout_s=60)
        assert (result.output_bytes, result.truncated, result.exit_code) == (50_000_012, True, 0)
        assert result.output.startswith("first\nxxx")
        assert result.output.endswith("xxx\nlast\n")
        assert len(result.output) < 41_000
        assert "bytes left out" in result.output
        assert survived(box, result)

    def test_misuse_binary(self, box: Sandbox) -> None:
        result = act(box, "head -c 100000 /dev/urandom")
        assert (result.output_bytes, result.exit_code) == (100_000, 0)
        assert survived(box, result)

    def test_misuse_characters_cut_in_two(self, box: Sandbox) -> None:
        result = act(box, r"printf '\346'; sleep 0.2; printf '\227'; sleep 0.2; printf '\245\n'")
        assert (result.output, result.output_bytes) == ("日\n", 4)

    def test_misuse_wide_characters(self, box: Sandbox) -> None:
        result = act(box, "touch 日本語.txt; ls 日*; rm 日*; 変数=1")
        assert (result.output.splitlines()[0], result.exit_code) == ("日本語.txt", 127)
        assert survived(box, result)


@pytest.mark.parametrize("size", [6_000, 500_000])
def test_misuse_long_command(box: Sandbox, size: int) -> None:
    result = act(box, f"text={'x' * size}; echo ${{#text}}; unset text")
    assert result.output == f"{size}\n"
    assert survived(box, result)


class TestTheMachineIsUsedUp:
    def test_misuse_fork_bomb(self, spare: Sandbox) -> None:
        assert not act(spare, "bomb() { bomb | bomb & }; bomb; sleep 0.3", timeout_s=3).oom_killed
        for _ in range(3):
            if act(spare, "for i in 1 2 3; do ls / >/dev/null || exit 1; done; sleep 0.2", timeout_s=2).exit_code == 0:
                break
        assert act(spare, "ls -d /").output == "/\n"

    def test_misuse_memory(self, box: Sandbox) -> None:
        result = act(box, "head -c 900000000 /dev/zero | tail >/dev/null; (exit ${PIPESTATUS[1]})", timeout_s=60)
        assert (result.exit_code, result.oom_killed) == (137, True)
        assert survived(box, result)
        assert not act(box, "(exit 137)").oom_killed

    def test_misuse_memory_of_the_shell(self, box: Sandbox) -> None:
        result = act(box, "x=$(head -c 900000000 /dev/zero | tr '\\0' x)", timeout_s=60)
        assert result.oom_killed or result.exit_code != 0
        assert act(box, "echo alive").output == "alive\n"

    def test_misuse_full_disk(self, box: Sandbox) -> None:
        result = act(box, "cat /dev/zero >/dev/shm/full", timeout_s=60)
        assert result.exit_code == 1
        assert "No space left" in result.output
        assert survived(box, result)
        assert act(box, "echo x >/dev/shm/more").exit_code == 1
        assert survived(box, act(box, "rm /dev/shm/*"))

    @pytest.mark.parametrize(
        "command", ["kill -9 -1; sleep 2", "kill -9 1; kill -TERM 1; sleep 1", "kill -9 $PPID; sleep 2"]
    )
    def test_misuse_kill_of_the_first_process(self, spare: Sandbox, command: str) -> None:
        act(spare, "echo x >/kept")
        result = act(spare, command)
        assert result.exit_code in (0, 137)
        assert act(spare, "cat /kept").output == "x\n"

    def test_misuse_kill_by_a_program(self, spare: Sandbox) -> None:
        result = act(spare, "bash -c 'kill -9 -1'; sleep 5")
        assert (result.exit_code, result.shell_restarted) == (137, True)
        assert state(spare) == "/ \n"


def test_misuse_driver_killed(backend: Backend, image: str, data_folder: Path) -> None:
    marker = str(100_000_000 + time.time_ns() % 100_000_000)
    command = [sys.executable, "-c", DRIVER, str(PROJECT), str(data_folder), backend.name, image, marker]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        try:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "ready\n"
            assert becomes(lambda: sleeping(marker) >= 2)
        finally:
            driver.send_signal(signal.SIGKILL)
    backend.reap()
    assert becomes(lambda: sleeping(marker) == 0)
    assert backend.reap() == 0


def becomes(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true within a time that no working machine needs."""
    patience = time.monotonic() + 20
    while not condition() and time.monotonic() < patience:
        time.sleep(0.1)
    return condition()


def sleeping(marker: str) -> int:
    """How many processes of this machine sleep for that long; the engine's own containers are among them."""
    found = 0
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += one.read_bytes() == f"sleep\0{marker}\0".encode()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
