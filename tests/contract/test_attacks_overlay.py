"""Hostile sandboxes against the overlay backend: trees that break a walk, processes that never rest, states that lie.

What both backends promise is in test_backend.py and test_misuse.py, the life of the keeper in test_overlay.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import docker
import pytest

from sandbox.backends.docker import DockerBackend
from sandbox.backends.overlay import OverlayBackend
from sandbox.building.base_images import BaseImages
from sandbox.errors import SandboxUnavailable
from sandbox.protocol import Backend, Sandbox
from sandbox.types import FileChange, FrozenState, Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime

pytestmark = pytest.mark.docker

PROJECT = Path(__file__).resolve().parents[2]
# Prints the pid of a child that it forked, which reads what the driver is told and ends with that.
FORKING_DRIVER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from sandbox.backends.docker import DockerBackend
from sandbox.backends.overlay import OverlayBackend
from sandbox.engine import connect
from sandbox.types import Limits
data = Path(sys.argv[2])
client = connect(data)
backend = OverlayBackend(client, None, DockerBackend(client, None), data)
sandbox = backend.start(sys.argv[3], Limits(memory_mb=256, lifetime_s=300))
sandbox.execute("(setsid sleep 8765 &)", timeout_s=20)
if (child := os.fork()):
    print(child, flush=True)
sys.stdin.read()
"""
LIMITS = Limits(memory_mb=512, lifetime_s=300)
# Longer than Python's stack is deep, shorter than the longest path.
DEEP = "mkdir -p /deep; cd /deep; mkdir -p $(printf 'a/%.0s' $(seq 1100)); cd /; find /deep -name a | wc -l"
# Past the longest path, so that no single call can name the last folder.
TOO_DEEP = f"{DEEP}; cd /deep; cd $(printf 'a/%.0s' $(seq 1100)); mkdir -p $(printf 'b/%.0s' $(seq 1500)); echo $?"
# One line of `setxattr`, for images without a program for it: path, name, how many bytes.
XATTR = "perl -e '($p, $n, $s) = @ARGV; $v = \"x\" x $s; exit(syscall(188, $p, $n, $v, length($v), 0) ? 1 : 0)'"


class Stage:
    """An overlay backend and what tests made with it, to be removed."""

    def __init__(self, backend: OverlayBackend, contained: DockerBackend, image: str, stack: ExitStack) -> None:
        self.overlay = backend
        self.docker = contained
        self._image = image
        self._stack = stack

    def start(self, limits: Limits = LIMITS, backend: Backend | None = None) -> Sandbox:
        """A sandbox that is closed at the end."""
        return self._closed((backend or self.overlay).start(self._image, limits))

    def restore(self, state: FrozenState, backend: Backend | None = None) -> Sandbox:
        """A sandbox over a state, closed at the end."""
        return self._closed((backend or self.overlay).restore(state, LIMITS))

    def freeze(self, sandbox: Sandbox, *, keep: bool = True, backend: Backend | None = None) -> FrozenState:
        """A state that is discarded at the end."""
        state = sandbox.freeze(f"attack-{uuid.uuid4().hex}", keep=keep)
        self._stack.callback((backend or self.overlay).discard, state.reference)
        return state

    def _closed(self, sandbox: Sandbox) -> Sandbox:
        self._stack.callback(sandbox.close)
        return sandbox


@pytest.fixture(scope="module")
def backends(
    client: docker.DockerClient, bases: BaseImages, data_folder: Path
) -> Iterator[tuple[OverlayBackend, DockerBackend]]:
    """Both backends."""
    runtime = VerifierRuntime(client, bases)
    contained = DockerBackend(client, runtime)
    overlay = OverlayBackend(client, runtime, contained, data_folder)
    yield overlay, contained
    overlay.close()


@pytest.fixture
def stage(backends: tuple[OverlayBackend, DockerBackend], image: str) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(*backends, image, stack)


def output(sandbox: Sandbox, command: str) -> str:
    return sandbox.execute(command, timeout_s=30).output


def test_attack_a_tree_deeper_than_a_stack_is_compared_kept_laid_over_and_removed(stage: Stage) -> None:
    sandbox = stage.start()
    assert output(sandbox, DEEP) == "1100\n"
    assert len(sandbox.changes()) == 1101
    state = stage.freeze(sandbox)
    restored = stage.restore(state)
    assert output(restored, "cd /deep; cd $(printf 'a/%.0s' $(seq 1100)); echo leaf > f; cat f") == "leaf\n"
    assert [change.size for change in restored.changes()] == [5]
    again = stage.restore(stage.freeze(restored))
    assert output(again, "find /deep -type f | xargs cat; rm -rf /deep; ls -d /deep 2>&1 | wc -l") == "leaf\n1\n"
    stage.overlay.discard(state.reference)
    assert not stage.overlay.has_state(state.reference)


def test_attack_paths_that_no_call_can_name_are_an_error_with_a_name_and_leave_nothing(
    stage: Stage, data_folder: Path
) -> None:
    sandbox = stage.start()
    assert output(sandbox, TOO_DEEP) == "1100\n0\n"
    with pytest.raises(SandboxUnavailable, match="too long"):
        sandbox.changes()
    assert output(sandbox, "echo lives") == "lives\n"
    with pytest.raises(SandboxUnavailable, match="too long"):
        stage.freeze(sandbox)
    sandbox.close()
    own = f".{os.getpid()}:"
    assert not [path for path in (data_folder / "overlay" / "states").iterdir() if path.name.startswith(own)]


def test_attack_a_symlink_of_the_image_that_becomes_a_folder_leads_nowhere(stage: Stage) -> None:
    sandbox = stage.start()
    output(sandbox, "/usr/bin/rm /sbin; /usr/bin/mkdir /sbin; /usr/bin/cp -a /usr/sbin/useradd /sbin/")
    seen = [(change.path, change.kind, change.type) for change in sandbox.changes()]
    assert seen == [("/sbin", "modified", "directory"), ("/sbin/useradd", "added", "file")]


def test_attack_changes_never_follow_a_folder_that_turns_into_a_symlink(stage: Stage) -> None:
    sandbox = stage.start()
    swap = 'perl -e \'($a, $b) = ("/q", "/l"); while (1) { syscall(316, -100, $a, -100, $b, 2) }\''
    output(
        sandbox,
        f"mkdir /q; ln -s /etc /l; touch /q/{{1..200}}; {swap} & {swap} &\n"
        "(while :; do kill -CONT -1; done) & (while :; do /bin/true; done) & sleep 0.3",
    )
    for _ in range(20):
        assert {change.path.rstrip("0123456789") for change in sandbox.changes()} <= {"/q", "/l", "/q/", "/l/"}


def test_attack_terminals_that_were_closed_hold_no_process_and_no_freeze(stage: Stage) -> None:
    sandbox = stage.start(LIMITS.model_copy(update={"pids": 16}))
    for _ in range(20):
        with sandbox.terminal():
            pass
    assert output(sandbox, "echo a | cat") == "a\n"
    with sandbox.terminal():
        assert stage.overlay.has_state(stage.freeze(sandbox, keep=False).reference)


def test_a_judgement_of_a_running_sandbox_stops_no_job_of_a_terminal_and_starts_none(stage: Stage) -> None:
    sandbox = stage.start()
    output(sandbox, "sleep 6789 & kill -STOP $!")
    with sandbox.terminal() as terminal:
        terminal.send("sh -c 'read answer; echo got $answer'\n")
        terminal.wait(5)
        sandbox.changes()
        judged = stage.overlay.judge_live(sandbox, {"test_it.py": "def test_it(): pass"}, limits=LIMITS, timeout_s=60)
        assert len(judged.tests) == 1
        terminal.send("it\n")
        terminal.wait(5)
        text = terminal.new_output().text
    assert "got it" in text and "Stopped" not in text
    assert output(sandbox, "grep ^State /proc/$!/status") == "State:\tT (stopped)\n"


def test_attack_every_kill_for_memory_is_reported_also_after_the_container_died_of_one(stage: Stage) -> None:
    sandbox = stage.start(LIMITS.model_copy(update={"memory_mb": 48}))
    output(sandbox, "true")
    results = []
    for _ in range(3):
        results.append(sandbox.execute("head -c 60M /dev/zero > /dev/shm/x", timeout_s=20))
        output(sandbox, "true")
    assert [(result.exit_code, result.oom_killed) for result in results] == [(137, True)] * 3


def test_attack_attributes_larger_than_a_disk_takes_keep_no_state_from_being_made(stage: Stage) -> None:
    sandbox = stage.start()
    output(sandbox, f"mkdir /d; {XATTR} /d user.a 60000; rm -rf /etc/apt; mkdir /etc/apt; {XATTR} /etc/apt user.a 3900")
    restored = stage.restore(stage.freeze(sandbox))
    assert output(restored, f"{XATTR} /d user.b 60000 && chmod 700 /d && touch /d/f; ls /etc/apt") == ""
    again = stage.restore(stage.freeze(restored))
    assert output(again, "stat -c %a /d; ls /d; ls /etc/apt") == "700\nf\n"


def test_a_state_that_lives_in_memory_may_be_as_large_as_two_sandboxes(stage: Stage) -> None:
    sandbox = stage.start()
    output(sandbox, "head -c 180M /dev/zero > /one")
    restored = stage.restore(stage.freeze(sandbox, keep=False))
    output(restored, "head -c 180M /dev/zero > /two")
    again = stage.restore(stage.freeze(restored, keep=False))
    assert output(again, "cat /one /two | wc -c") == f"{360 << 20}\n"


def test_misuse_a_name_with_a_zero_byte_or_half_a_character_costs_no_sandbox(stage: Stage) -> None:
    sandbox = stage.start()
    assert sandbox.get("/etc/passwd\0.txt", max_bytes=1 << 20) is None
    for name in ("/a\0b", "/a\ud800b"):
        with pytest.raises(SandboxUnavailable, match="writing"):
            sandbox.put({name: b"x"})
    assert output(sandbox, "ls -d /a* 2>/dev/null; echo lives") == "lives\n"


def test_misuse_a_driver_s_umask_is_not_the_sandbox_s(
    client: docker.DockerClient, bases: BaseImages, tmp_path: Path, image: str
) -> None:
    runtime = VerifierRuntime(client, bases)
    before = os.umask(0o077)
    try:
        backend = OverlayBackend(client, runtime, DockerBackend(client, runtime), tmp_path / "a folder: with, names")
        sandbox = backend.start(image, LIMITS)
        sandbox.put({"/put/here": b"x"})
        modes = output(
            sandbox, "stat -c %a / /etc /etc/hosts /run /put; su nobody -s /bin/sh -c 'cat /etc/hosts' | wc -l"
        )
        state = sandbox.freeze("umask")
        sandbox.close()
        restored = backend.restore(state, LIMITS)
        assert output(restored, "stat -c %a / /etc") == "755\n755\n"
        restored.close()
        backend.close()
    finally:
        os.umask(before)
    assert modes == "755\n755\n644\n755\n755\n2\n"


def test_misuse_a_reference_that_no_state_can_have_ends_nothing(stage: Stage) -> None:
    for sandbox in (stage.start(), stage.start(backend=stage.docker)):
        for reference in ("../up", "a/b", ".hidden", ""):
            with pytest.raises(ValueError, match="cannot name a state"):
                sandbox.freeze(reference, keep=False)
        assert output(sandbox, "echo lives") == "lives\n"


def test_misuse_a_forked_child_of_a_driver_keeps_no_sandbox_of_a_driver_that_died(
    image: str, data_folder: Path
) -> None:
    command = [sys.executable, "-c", FORKING_DRIVER, str(PROJECT), str(data_folder), image]
    driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert driver.stdin is not None and driver.stdout is not None
    try:
        child = int(driver.stdout.readline())
        begun = time.monotonic()
        while not runs("8765"):
            assert time.monotonic() < begun + 10
            time.sleep(0.05)
        driver.kill()
        end = time.monotonic() + 10
        while runs("8765") and time.monotonic() < end:
            time.sleep(0.05)
        assert not runs("8765") and Path(f"/proc/{child}").exists()
    finally:
        driver.kill()
        driver.stdin.close()
        driver.wait()


def runs(argument: str) -> bool:
    """Whether a process of this machine has an argument."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if argument.encode() in path.read_bytes().split(b"\0"):
                return True
    return False


FIRST = r"""
mkdir -p /w; cd /w
rm -rf /etc/cron.d /etc/apt; echo file > /etc/apt; mkdir /etc/cron.d; echo n > /etc/cron.d/new
mv /usr/share/doc /usr/share/doc2; ln -s doc2 /usr/share/doc
chmod 700 /root; chown 12:34 /srv; chmod 4755 /usr/bin/true; chmod 711 /
echo h > h1; ln h1 h2; mkdir sub; ln h1 sub/h3; ln /etc/passwd /etc/passwd.link
touch 'a b' $'new\nline' $'\xff\xfe' ' lead' -- '-rf'
mkfifo p; ln -s /nowhere dangling; ln -s . loop
cp -a /etc/profile prof; rm /etc/profile; cp -a prof /etc/profile
cp -a /etc/skel skel; rm -rf /etc/skel; cp -a skel /etc/skel
mv /etc/init.d /etc/init2.d; mkdir -p d1/d2/d3/d4; echo x > d1/d2/d3/d4/f
echo '# more' >> /etc/bash.bashrc; truncate -s 5M sp; : > empty; head -c 300000 /dev/zero > big
rm /etc/issue /etc/debian_version; rm -rf /var/log; mkdir -m 1777 st; mkdir -m 2755 sg
rm /etc/issue.net; ln -s passwd /etc/issue.net
"""
SECOND = r"""
cd /w
mkdir /etc/apt2; rm /etc/apt; mkdir /etc/apt; echo back > /etc/apt/sources.list
rm -rf /etc/cron.d; mkdir /etc/cron.d; echo n2 > /etc/cron.d/newer
rm /usr/share/doc; mv /usr/share/doc2 /usr/share/doc
chmod 755 /root; chmod 701 /; chown 0:0 /srv; echo more >> h1; ln h2 h4; echo k > k1; ln k1 k2
rm -rf -- '-rf' $'new\nline'; rm p; mkdir p; rm loop; rm dangling; echo there > dangling
rm -rf d1/d2; mkdir d1/d2; echo y > d1/d2/g; echo '# even more' >> /etc/bash.bashrc
echo iss > /etc/issue; mkdir -p /var/log/new; mv st st2; rm -rf sub; mkdir sub; mv /etc/init2.d /etc/init.d
rm -rf /opt; echo gone > /opt; mkdir -p /srv/a/b; rm -rf /srv/a; mkdir -p /srv/a/c
"""
THIRD = "rm -rf /w/* /etc/apt; echo third > /w/3; mv /srv /moved"
# What engines put there for themselves is left out, and what depends on the kind of disk: sizes and links of folders.
LISTING = r"""
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run \) -prune -o \
  \( -type d -printf '%p %y %m %U:%G\n' \) -o -printf '%p %y %m %U:%G %s %n %l\n' |
  grep -av '^/.dockerenv\|docker-init\|^/etc/\(hosts\|hostname\|resolv.conf\) ' | sort > /dev/shm/list
find /w /etc /moved /opt /usr/bin/true -type f ! -name hosts ! -name hostname ! -name resolv.conf -print0 2>/dev/null |
  sort -z | xargs -0 sha256sum >> /dev/shm/list
cp /dev/shm/list /list
"""


def test_states_upon_states_are_what_docker_makes_of_the_same_commands(stage: Stage) -> None:
    overlay, contained = (seen(stage, backend) for backend in (stage.overlay, stage.docker))
    for step, (ours, theirs) in enumerate(zip(overlay, contained, strict=True)):
        assert len(ours) > 10 or step == 6
        assert ours == theirs, f"step {step}"


def seen(stage: Stage, backend: Backend) -> list[list[str] | list[FileChange]]:
    """What changed and what is there after each of three rounds of commands, each on the state of the one before."""
    rounds: list[list[str] | list[FileChange]] = []
    sandbox = stage.start(backend=backend)
    for commands in (FIRST, SECOND, THIRD):
        output(sandbox, commands)
        rounds.append(sandbox.changes())
        state = stage.freeze(sandbox, backend=backend)
        reader = stage.restore(state, backend=backend)
        output(reader, LISTING)
        rounds.append((reader.get("/list", max_bytes=1 << 24) or b"").decode(errors="replace").splitlines())
        sandbox = stage.restore(state, backend=backend)
    return rounds
