"""Attacks by processes that an agent leaves behind, on sandbox and engine, and by what it finds in the repository.

| attack | stopped by |
|---|---|
| daemons that rewrite tests and rewards, or read and answer | freezing ends them; the verifier's sandbox is fresh |
| setsid, double fork, ignored signals, PID 1 traced, killed | the same, from outside, by no signal they may ignore |
| fork bomb, memory, a shell that hangs | limits; what remains of the sandbox is frozen and judged |
| git history with later commits, tags and reflogs | images are built from a tree without any history |

None raises an integrity flag: all are stopped.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipeline.checkout import CheckoutConfig
from pipeline.sources.local import LocalConfig, LocalPath, LocalSource
from sandbox.building.base_images import BaseImages
from sandbox.building.images import ImageBuilder
from sandbox.protocol import Backend
from sandbox.types import BuildLimits, ImageSpec
from tests.contract.attacks import ANSWER, MARKS, Stage

pytestmark = pytest.mark.docker

# Waits until hidden tests appear anywhere, as they do in harnesses that judge in the sandbox of the agent.
WATCH = "while :; do for f in $(find / -xdev -name test_it*.py 2>/dev/null); do {0}; done; sleep 0.05; done"
SHELL = "sh -c '{0}' </dev/null >/dev/null 2>&1 &"
PYTHON = "python3 -c '{0}' </dev/null >/dev/null 2>&1 &"
DAEMONS = {
    "rewrites_tests": SHELL.format(WATCH.format('echo "def test_answer(): pass" > "$f"')),
    "overwrites_reward": SHELL.format(
        "mkdir -p /logs/verifier; while :; do echo 1 | tee /logs/verifier/reward.txt > /reward.txt; sleep 0.01; done"
    ),
    "reads_tests_then_answers": SHELL.format(WATCH.format("echo done > /answer")),
    "in_a_session_of_its_own": f"setsid {SHELL.format('sleep 2; echo done > /answer')}",
    "forked_twice": PYTHON.format(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        '        time.sleep(2); open("/answer", "w").write("done\\n")'
    ),
    "ignores_signals": SHELL.format('trap "" 1 2 3 15; sleep 2; echo done > /answer'),
    "nohup": "nohup sh -c 'sleep 2; echo done > /answer' >/dev/null 2>&1 & disown",
    "traces_pid_1": PYTHON.format(
        "import ctypes, time\n"
        "l = ctypes.CDLL(None)\n"
        'open("/traced", "w").write(str([l.ptrace(r, 1, 0, 0) for r in (0x4206, 16)]))\n'
        'time.sleep(2); open("/answer", "w").write("done\\n")'
    ),
    "kills_pid_1": "kill -9 1; kill -9 -1",
    "fork_bomb": "bomb() { bomb | bomb & }; bomb; sleep 1",
    "eats_memory": "python3 -c 'x = bytearray(1 << 33)'; head -c 900000000 /dev/zero | tail > /dev/null",
    "hangs": "trap '' 1 2 15; while :; do :; done",
    "stops_itself": "kill -STOP -1; kill -STOP $$",
    "watches_for_the_runtime": SHELL.format("while :; do for f in /*/runner.py; do echo > $f; done; sleep 0.05; done"),
}


@pytest.fixture(scope="module")
def stage(backend: Backend, bases: BaseImages) -> Iterator[Stage]:
    """Sandboxes with Python."""
    with ExitStack() as stack:
        yield Stage(backend, bases.toolchain("python").digest, stack)


@pytest.fixture(scope="module")
def left(stage: Stage) -> dict[str, Future[dict[str, str]]]:
    """What a verifier that takes its time says about states in which such a process was left running."""
    text = (
        "import time\nfrom pathlib import Path\n"
        "def test_control():\n    time.sleep(1)\n    assert Path('/control').read_text() == 'kept\\n'\n" + ANSWER
    )

    def one(command: str) -> dict[str, str]:
        return stage.outcomes(stage.acted(["echo kept > /control", command], timeout_s=3), text)

    with ThreadPoolExecutor(4) as threads:
        return {name: threads.submit(one, command) for name, command in DAEMONS.items()}


@pytest.mark.parametrize("process", DAEMONS)
def test_attack_process_that(process: str, left: dict[str, Future[dict[str, str]]]) -> None:
    assert left[process].result() == {"test_control": "passed", "test_answer": "failed"}


def test_attack_git_history_holds_no_later_commit(
    tmp_path: Path, backend: Backend, builder: ImageBuilder, stage: Stage
) -> None:
    secret = "the-fix-of-tomorrow"
    project = tmp_path / "project"
    project.mkdir()

    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *arguments], cwd=project, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    (project / "main.py").write_text("today = 1\n")
    git("add", ".")
    git("commit", "-qm", "today")
    (project / "fix.py").write_text(f"{secret!r}\n")
    git("add", ".")
    git("commit", "-qm", secret)
    git("tag", "-am", secret, "v2")
    git("branch", "later")
    git("reset", "-q", "--hard", "HEAD~1")
    source = LocalSource(LocalConfig(paths=(LocalPath(path=Path("project")),)), CheckoutConfig(), tmp_path)
    (repository,) = source.repositories(None)
    checkout = source.fetch(repository, tmp_path / "sources")
    tree = tmp_path / "sources" / f"{checkout.tree_sha256}.tar"
    assert secret.encode() not in tree.read_bytes()
    text = f"FROM {builder._bases.config.base_image}\nCOPY . /work\n"
    spec = ImageSpec(name="history", dockerfile=text, context=tree, workdir="/work")
    build = builder.build(spec, BuildLimits(timeout_s=60))
    assert build.digest is not None, build
    here = Stage(backend, build.digest, stage.stack)
    searches = {
        "tree": "test -f main.py",
        "log": "git log --all --reflog",
        "lost": "git fsck --lost-found",
        "folder": "find / -xdev -name .git | grep .",
        "text": f"grep -r {secret} /work",
    }
    here.acted([f"{search} && : > {MARKS}/{name}" for name, search in searches.items()])
    assert here.marks == ["tree"]
