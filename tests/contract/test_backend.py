"""What every backend promises (sandbox/protocol.py), against real containers."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest

from sandbox.engine import DEADLINE, OWNER
from sandbox.errors import ImageMissing, SandboxUnavailable, VerifierBroken
from sandbox.protocol import Backend, Sandbox
from sandbox.types import FileChange, FrozenState, Limits

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_mb=512, lifetime_s=300)
PROJECT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def box(backend: Backend, image: str) -> Iterator[Sandbox]:
    """A fresh sandbox."""
    sandbox = backend.start(image, LIMITS)
    yield sandbox
    sandbox.close()


@pytest.fixture
def frozen(backend: Backend, image: str) -> Iterator[Callable[[str], FrozenState]]:
    """Runs a command in a fresh sandbox and freezes what it leaves."""
    references: list[str] = []

    def freeze(command: str) -> FrozenState:
        references.append(f"test-{uuid.uuid4().hex}")
        sandbox = backend.start(image, LIMITS)
        try:
            sandbox.execute(command, timeout_s=20)
            return sandbox.freeze(references[-1])
        finally:
            sandbox.close()

    yield freeze
    for reference in references:
        backend.discard(reference)


@pytest.fixture(scope="module")
def kept(backend: Backend, image: str) -> Iterator[FrozenState]:
    """A frozen state in which /kept says `kept`."""
    sandbox = backend.start(image, LIMITS)
    sandbox.execute("echo kept > /kept", timeout_s=20)
    state = sandbox.freeze(f"test-{uuid.uuid4().hex}")
    sandbox.close()
    yield state
    backend.discard(state.reference)


def run(sandbox: Sandbox, command: str, timeout_s: float = 20) -> str:
    """Output of a command that succeeds."""
    result = sandbox.execute(command, timeout_s=timeout_s)
    assert result.exit_code == 0, result
    return result.output


def by_path(changes: list[FileChange]) -> dict[str, FileChange]:
    return {change.path: change for change in changes}


class TestExecute:
    def test_output_of_both_streams_keeps_its_order(self, box: Sandbox) -> None:
        result = box.execute("echo one; echo two >&2; echo three; (exit 3)", timeout_s=20)
        assert (result.output, result.exit_code) == ("one\ntwo\nthree\n", 3)
        assert (result.output_bytes, result.truncated, result.timed_out) == (14, False, False)
        assert not result.shell_restarted

    def test_the_shell_starts_in_the_working_directory_and_keeps_its_state(self, box: Sandbox) -> None:
        assert run(box, "pwd; [[ -n $BASH_VERSION ]] && echo bash") == "/\nbash\n"
        run(box, "cd /tmp; word='a b'; greet() { echo \"hello $1\"; }")
        run(box, "declare -A table; table[key]=value; export SHOWN=yes; set -f; exec 3>/tmp/three")
        shown = run(box, 'pwd; greet "$word"; echo ${table[key]}; env | grep SHOWN; echo *; echo x >&3; cat three')
        assert shown == "/tmp\nhello a b\nvalue\nSHOWN=yes\n*\nx\n"

    def test_a_background_job_lives_on_and_is_the_shells_own(self, box: Sandbox) -> None:
        run(box, "(sleep 0.2; exit 7) & job=$!")
        assert run(box, "wait $job; echo $?; jobs") == "7\n"

    def test_the_last_exit_code_is_known_to_the_next_command(self, box: Sandbox) -> None:
        assert box.execute("(exit 7)", timeout_s=20).exit_code == 7
        assert run(box, "echo $?") == "7\n"
        assert run(box, "echo $?") == "0\n"

    def test_messages_name_the_line_of_the_command(self, box: Sandbox) -> None:
        result = box.execute("true\nnosuchprogram", timeout_s=20)
        assert (result.exit_code, result.output) == (127, "bash: line 2: nosuchprogram: command not found\n")

    def test_input_is_empty_and_nothing_of_the_host_is_in_the_environment(self, box: Sandbox) -> None:
        assert run(box, "cat; [ -t 1 ] || echo no terminal") == "no terminal\n"
        names = {line.partition("=")[0] for line in run(box, "env").splitlines()}
        assert names == {"HOME", "HOSTNAME", "LANG", "PATH", "PWD", "SHLVL", "TERM", "_"}

    def test_a_time_limit_ends_what_the_command_started_and_nothing_else(self, box: Sandbox) -> None:
        run(box, "cd /tmp; word=kept; sleep 1000 & sleep 0.1")
        result = box.execute("echo begun; sleep 1001 & (trap '' TERM INT; sleep 1002); sleep 1003", timeout_s=0.7)
        assert (result.exit_code, result.timed_out, result.shell_restarted) == (None, True, False)
        assert result.output.startswith("begun\n")
        assert 0.7 <= result.seconds < 10
        assert run(box, "pwd; echo $word; ps -eo args= | grep '[s]leep 100'; kill %1") == "/tmp\nkept\nsleep 1000\n"

    def test_a_background_child_that_holds_the_output_does_not_hold_the_call(self, box: Sandbox) -> None:
        result = box.execute("sleep 30 & echo started", timeout_s=20)
        assert (result.exit_code, result.output, result.timed_out) == (0, "started\n", False)
        assert result.seconds < 10
        # The child may not have become `sleep` yet: it is there under its number from the beginning.
        assert run(box, "kill -0 $! && jobs -r | wc -l") == "1\n"

    def test_bytes_that_are_no_text_are_replaced_in_what_is_shown(self, box: Sandbox) -> None:
        result = box.execute(r"printf 'a\377b'", timeout_s=20)
        assert (result.output, result.output_bytes) == ("a\ufffdb", 3)

    def test_every_byte_of_a_command_arrives(self, box: Sandbox) -> None:
        shown = run(box, "cat <<'E'\n \\ \\n \\c \t\x01\x7f%s \u65e5\u672c $x `y` \nE\nprintf '\udcff' | od -An -tx1")
        assert shown == " \\ \\n \\c \t\x01\x7f%s \u65e5\u672c $x `y` \n ff\n"

    def test_a_command_that_no_shell_can_be_given_is_a_failed_command(self, box: Sandbox) -> None:
        for command in ("echo \0", "echo \ud800", "# " + "x" * (1 << 20)):
            assert box.execute(command, timeout_s=20).exit_code == 126
        assert run(box, "echo ran # " + "x" * ((1 << 20) - 11)) == "ran\n"

    def test_a_sandbox_without_programs_fails_its_commands_not_the_driver(self, box: Sandbox) -> None:
        run(box, "true")
        box.execute("rm -rf /usr /bin /lib /lib64", timeout_s=20)
        assert run(box, "echo the shell itself lives on") == "the shell itself lives on\n"
        assert box.execute("ls", timeout_s=20).exit_code == 127
        assert box.execute("exit 5", timeout_s=20).exit_code == 5
        result = box.execute("echo x", timeout_s=20)
        assert (result.exit_code, result.output_bytes > 0) == (126, True)

    def test_orphans_are_buried(self, box: Sandbox) -> None:
        run(box, "for i in $(seq 20); do (true &); done; sleep 0.2")
        assert run(box, "ps -eo stat= | grep -c Z || true") == "0\n"

    def test_much_output_of_a_short_command_is_complete(self, box: Sandbox) -> None:
        for size in (0, 1, 30_000, 39_999) * 5:
            result = box.execute(f"head -c {size} /dev/zero", timeout_s=20)
            assert (result.output_bytes, len(result.output)) == (size, size)

    def test_the_network_is_off_and_privileges_are_few(self, box: Sandbox) -> None:
        assert run(box, "ls /sys/class/net") == "lo\n"
        assert "NoNewPrivs:\t1" in run(box, "cat /proc/self/status")
        assert box.execute("mount -t tmpfs none /mnt", timeout_s=20).exit_code != 0
        assert (
            run(
                box, "ulimit -n; ulimit -c; cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max"
            )
            == "4096\n0\n512\n"
        )


class TestFiles:
    def test_files_arrive_with_their_parents_and_mode(self, box: Sandbox) -> None:
        box.put({"/a/b/run.sh": b"#!/bin/sh\necho ran\n", "/tmp/x": b"\0\1"}, mode=0o755)
        assert run(box, "/a/b/run.sh; stat -c %a /a /a/b /a/b/run.sh /tmp") == "ran\n755\n755\n755\n1777\n"
        assert box.get("/tmp/x", max_bytes=2) == b"\0\1"

    def test_only_a_regular_file_has_content(self, box: Sandbox) -> None:
        run(box, "ln -s /etc/passwd /link; mkfifo /pipe")
        assert [box.get(path, max_bytes=100_000) for path in ("/link", "/pipe", "/etc", "/none/x")] == [None] * 4

    def test_a_file_beyond_the_limit_is_refused(self, box: Sandbox) -> None:
        with pytest.raises(ValueError, match="/etc/passwd"):
            box.get("/etc/passwd", max_bytes=10)


class TestChanges:
    def test_a_fresh_sandbox_has_none(self, box: Sandbox) -> None:
        run(box, "true")
        assert box.changes() == []

    def test_what_is_equal_again_is_left_out(self, box: Sandbox) -> None:
        run(box, "touch /etc/passwd; cp -p /etc/fstab /etc/f; rm /etc/fstab; mv /etc/f /etc/fstab")
        run(
            box,
            "chmod 600 /etc/issue; chmod 644 /etc/issue; echo x > /etc/x; rm /etc/x; mkdir /run/y; echo > /dev/shm/z",
        )
        assert box.changes() == []

    def test_each_kind_is_told_apart(self, box: Sandbox) -> None:
        run(box, "mkdir -p /new/deep; echo hi > /new/deep/f; ln -s f /new/deep/l; echo x >> /etc/passwd; rm /etc/issue")
        run(
            box, "chmod 700 /srv; rm /etc/debian_version; mkdir /etc/debian_version; chmod 755 /etc/fstab; mkfifo /pipe"
        )
        found = by_path(box.changes())
        assert {path: (one.kind, one.type, one.mode) for path, one in found.items()} == {
            "/etc/debian_version": ("modified", "directory", 0o755),
            "/etc/fstab": ("modified", "file", 0o755),
            "/etc/issue": ("deleted", "file", 0),
            "/etc/passwd": ("modified", "file", 0o644),
            "/new": ("added", "directory", 0o755),
            "/new/deep": ("added", "directory", 0o755),
            "/new/deep/f": ("added", "file", 0o644),
            "/new/deep/l": ("added", "symlink", 0o777),
            "/pipe": ("added", "other", 0o644),
            "/srv": ("modified", "directory", 0o700),
        }
        assert (found["/new/deep/f"].sha256, found["/new/deep/f"].size) == (hashlib.sha256(b"hi\n").hexdigest(), 3)
        assert found["/new/deep/l"].sha256 == hashlib.sha256(b"f").hexdigest()

    def test_many_files_hard_links_and_odd_names_are_read(self, box: Sandbox) -> None:
        run(box, "mkdir /etc/many; seq 3000 | split -l 1 -a 4 - /etc/many/f; ln /etc/many/faaaa /etc/many/hard")
        run(box, r"""touch /etc/many/"$(printf 'bad\377name')" /root/"$(printf 'x\377y')" "/root/a b'é" """)
        found = by_path(box.changes())
        assert len(found) == 3005
        assert found["/etc/many/hard"].sha256 == found["/etc/many/faaaa"].sha256 == hashlib.sha256(b"1\n").hexdigest()
        assert {"/etc/many/bad�name", "/root/x�y", "/root/a b'é"} <= set(found)


class TestStates:
    def test_a_state_is_restored_without_processes_any_number_of_times(
        self, backend: Backend, image: str, frozen: Callable[[str], FrozenState]
    ) -> None:
        state = frozen("sleep 1000 & echo kept > /kept; rm -r /srv")
        assert state.image_digest == image
        for _ in range(2):
            sandbox = backend.restore(state, LIMITS)
            assert run(sandbox, "cat /kept; ls -d /srv 2>/dev/null || pgrep -fc '[s]leep 1000' || true") == "kept\n0\n"
            assert sandbox.image_digest == image
            assert sandbox.changes() == []
            sandbox.close()

    def test_a_frozen_sandbox_can_only_be_closed(self, backend: Backend, image: str) -> None:
        sandbox = backend.start(image, LIMITS)
        reference = f"test-{uuid.uuid4().hex}"
        sandbox.freeze(reference)
        with pytest.raises(SandboxUnavailable, match="frozen"):
            sandbox.execute("true", timeout_s=5)
        sandbox.close()
        sandbox.close()
        assert backend.has_state(reference)
        backend.discard(reference)
        backend.discard(reference)
        assert not backend.has_state(reference)
        with pytest.raises(ImageMissing):
            backend.restore(FrozenState(reference=reference, image_digest=image), LIMITS)

    def test_an_unknown_image_is_named(self, backend: Backend) -> None:
        with pytest.raises(ImageMissing, match="sha256:0000"):
            backend.start("sha256:" + "0" * 64, LIMITS)


PASSING = "import pathlib\ndef test_kept():\n    assert pathlib.Path('/kept').read_text() == 'kept\\n'\n"


class TestJudge:
    def judge(self, backend: Backend, state: FrozenState, text: str, timeout_s: float = 30) -> dict[str, str]:
        judgement = backend.judge(state, {"test_it.py": text}, limits=LIMITS, timeout_s=timeout_s)
        return {one.test_id.removeprefix("test_it.py::"): one.outcome for one in judgement.tests}

    def test_each_outcome_is_told_apart(self, backend: Backend, kept: FrozenState) -> None:
        text = PASSING + (
            "import pytest\n"
            "def test_wrong(): assert 1 == 2, 'not equal'\n"
            "@pytest.mark.skip(reason='why')\ndef test_skipped(): pass\n"
            "@pytest.mark.xfail\ndef test_xfailed(): assert False\n"
            "@pytest.mark.xfail\ndef test_xpassed(): pass\n"
            "@pytest.fixture\ndef broken(): raise ValueError('setup')\n"
            "def test_error(broken): pass\n"
            "def test_returns(): return False\n"
        )
        assert self.judge(backend, kept, text) == {
            "test_kept": "passed",
            "test_wrong": "failed",
            "test_skipped": "skipped",
            "test_xfailed": "xfailed",
            # xfail is strict: a pass that was not expected is a failure.
            "test_xpassed": "failed",
            "test_error": "error",
            "test_returns": "failed",
        }

    def test_the_tests_see_the_frozen_files_and_fail_on_others(
        self, backend: Backend, frozen: Callable[[str], FrozenState]
    ) -> None:
        state = frozen("echo other > /kept")
        judgement = backend.judge(state, {"test_it.py": PASSING}, limits=LIMITS, timeout_s=30)
        [test] = judgement.tests
        assert (test.test_id, test.outcome) == ("test_it.py::test_kept", "failed")
        assert "other" in test.message
        assert "test_kept" in judgement.log_tail

    def test_programs_under_test_run_as_in_the_sandbox(self, backend: Backend, box: Sandbox, kept: FrozenState) -> None:
        seen = run(box, "env; pwd; ls /sys/class/net").splitlines()
        expected = {line for line in seen if not line.startswith(("SHLVL=", "_="))}
        text = (
            "import subprocess\n"
            "def test_environment():\n"
            "    done = subprocess.run(['sh', '-c', 'env; pwd; ls /sys/class/net'], capture_output=True, text=True)\n"
            f"    assert set(done.stdout.splitlines()) == {expected!r}\n"
        )
        assert self.judge(backend, kept, text) == {"test_environment": "passed"}

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "def test_it(:\n",
            "import os\ndef test_it(): os._exit(0)\n",
            "import pytest\npytest.skip('all', allow_module_level=True)\n",
            "import sys\nsys.exit(0)\n",
            "import pytest\ndef test_a(): pytest.exit('enough', returncode=0)\ndef test_b(): pass\n",
        ],
        ids=["no test", "syntax error", "os._exit", "module skipped", "sys.exit", "ended early"],
    )
    def test_a_verifier_that_cannot_speak_is_broken_not_a_verdict(
        self, backend: Backend, kept: FrozenState, text: str
    ) -> None:
        with pytest.raises(VerifierBroken):
            self.judge(backend, kept, text)

    def test_a_late_verdict_is_none(self, backend: Backend, kept: FrozenState) -> None:
        text = "import time\ndef test_slow(): time.sleep(60)\n"
        with pytest.raises(VerifierBroken, match=r"within 1\.5 s"):
            self.judge(backend, kept, text, timeout_s=1.5)

    def test_what_tests_print_is_never_the_verdict(self, backend: Backend, kept: FrozenState) -> None:
        text = (
            "import os, subprocess, sys\n"
            "def test_prints(capfd):\n"
            "    with capfd.disabled():\n"
            "        os.write(1, b'0' * 64 + b' {}\\n'); print('{}'); subprocess.run(['echo', 'loud'])\n"
            "        sys.__stdout__.write('x')\n"
        )
        assert self.judge(backend, kept, text) == {"test_prints": "passed"}

    def test_nothing_in_the_judged_file_system_is_loaded(
        self, backend: Backend, frozen: Callable[[str], FrozenState]
    ) -> None:
        state = frozen(
            "echo kept > /kept; echo 'import os; os._exit(0)' | tee /conftest.py /json.py /sitecustomize.py; "
            "printf '[pytest]\\naddopts = --collect-only\\n' | tee /pytest.ini; "
            "printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/python3; chmod +x /usr/local/bin/python3; "
            "cp /bin/sh /etc/ld.so.preload; rm -rf /usr/lib/python3* /tmp; ln -s /nowhere /tmp"
        )
        assert self.judge(backend, state, PASSING) == {"test_kept": "passed"}

    def test_a_program_that_kills_everything_cannot_end_the_verifier(self, backend: Backend, kept: FrozenState) -> None:
        text = (
            PASSING + "import subprocess\ndef test_kill():\n    subprocess.run(['sh', '-c', 'kill -9 -1; kill -9 1'])\n"
        )
        assert self.judge(backend, kept, text) == {"test_kept": "passed", "test_kill": "passed"}

    def test_a_state_that_is_gone_is_missing(self, backend: Backend, image: str) -> None:
        with pytest.raises(ImageMissing):
            self.judge(backend, FrozenState(reference="never-frozen", image_digest=image), PASSING)


class TestReaping:
    def test_only_what_dead_or_late_owners_left_is_removed(
        self, backend: Backend, box: Sandbox, client: docker.DockerClient, image: str
    ) -> None:
        code = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from sandbox.engine import OWNER, owner_labels\n"
            "print(owner_labels(1)[OWNER])"
        )
        dead = subprocess.run([sys.executable, "-c", code, str(PROJECT)], capture_output=True, text=True, check=True)
        mine = _owner()
        labels = {
            "dead": {OWNER: dead.stdout.strip(), DEADLINE: "99999999999"},
            "late": {OWNER: mine, DEADLINE: "1000"},
            "alive": {OWNER: mine, DEADLINE: "99999999999"},
        }
        made = {name: client.containers.create(image, ["true"], labels=one) for name, one in labels.items()}
        # Another test's driver may have reaped before: only what is left counts.
        backend.reap()
        left = {one["Id"] for one in client.api.containers(all=True)}
        assert [name for name, container in made.items() if container.id in left] == ["alive"]
        assert run(box, "echo alive") == "alive\n"
        made["alive"].remove()


def _owner() -> str:
    from sandbox.engine import owner_labels

    return owner_labels(1)[OWNER]


def test_sandboxes_of_several_threads_do_not_meet(backend: Backend, image: str) -> None:
    def one(number: int) -> str:
        sandbox = backend.start(image, LIMITS)
        try:
            run(sandbox, f"echo {number} > /mine")
            return run(sandbox, "cat /mine")
        finally:
            sandbox.close()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(one, range(4))) == [f"{number}\n" for number in range(4)]
