"""Attacks with the files that an agent leaves: answers that are none, planted results, broken folders.

| attack | stopped by |
|---|---|
| FIFO, /dev/zero, socket, folder, huge file as answer | what is no regular file of bounded size fails the test |
| link to /proc/self/environ, fd/N, /proc/PID/mem | neither `open` nor `box` follows links out of the file system |
| link to the expected file at a fixed path | the tests have none, and leave the disk before anything runs |
| content that needs too much memory, or time to show | half of the sandbox's memory per test; no diff of large values |
| planted rewards and reports, links and FIFOs as such | no file of the state is ever the verdict |
| chattr +i, read-only, removed, replaced folders | the verifier writes only to memory of its own |
| full disk, full /dev/shm | the same |
| a huge file name, a loop of links | an error of the test that meets it |

What keeps the verifier from speaking at all is an error, never a label; nothing here does. None raises an integrity
flag: all are stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from sandbox.building.base_images import BaseImages
from sandbox.building.images import ImageBuilder
from sandbox.protocol import Backend
from sandbox.types import BuildLimits, ImageSpec, Limits
from tests.contract.attacks import ANSWER, Stage

pytestmark = pytest.mark.docker

# Name of the answer's file in /answers -> the command that leaves it there.
ANSWERS = {
    "fifo": "mkfifo fifo",
    "zero": "ln -s /dev/zero zero",
    "endless_text": "ln -s /dev/urandom endless_text",
    "environ": "ln -s /proc/self/environ environ",
    "descriptor": "ln -s /proc/self/fd/3 descriptor",
    "memory_of_the_verifier": "ln -s /proc/1/mem memory_of_the_verifier",
    "verifier_by_a_folder": "ln -s /proc/self proc; ln -s proc/cwd/../../proc/self/cmdline verifier_by_a_folder",
    "expected_file": "ln -s /tests/test_it.py expected_file; mkdir /tests; mkfifo /tests/test_it.py",
    "sparse": "truncate -s 100M sparse",
    "too_deep": "head -c 9000000 /dev/zero | tr '\\0' '[' > too_deep",
    "too_much_memory": "(echo -n '['; yes '{},[],' | tr -d '\\n' | head -c 30000000; echo '1]') > too_much_memory",
    "folder": "mkdir folder",
    "socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/answers/socket\")'",
    "loop": "ln -s loop loop",
    "empty_by_null": "ln -s /dev/null empty_by_null",
    "not_text": "printf '\\377\\376done' > not_text",
    "database": "ln -s fifo database",
}
HUGE_NAME = "n" * 255


def reading(name: str) -> str:
    """The tests that read one answer: plainly, as data, and through the fixture."""
    tests = {
        "plain": "assert Path({0!r}).read_text() == 'done\\n'",
        "data": "assert json.loads(open({0!r}).read())[0] == 'done'",
        "box": "assert box.text({0!r}) == 'done\\n'",
        "database": "assert sqlite3.connect('file:' + {0!r} + '?mode=ro', uri=True).execute('select 1 from x')",
    }
    arguments = {"box": "box"}
    return "".join(
        f"def test_{kind}_{name}({arguments.get(kind, '')}):\n    {body.format(f'/answers/{name}')}\n"
        for kind, body in tests.items()
        if (kind == "database") == (name == "database")
    )


VERIFIER = (
    "import json, sqlite3\n"
    + ANSWER
    + "".join(map(reading, ANSWERS))
    + "def test_control(): assert Path('/control').read_text() == 'kept\\n'\n"
    + "def test_box_control(box): assert box.text('/control', 5) == 'kept\\n' and box.text('/link') == 'kept\\n'\n"
    + "def test_box_is_bounded(box): box.read('/control', 4)\n"
    + "def test_box_in_a_folder_of_the_test(box, tmp_path):\n"
    + "    (tmp_path / 'x').write_text('x')\n    assert box.text(tmp_path / 'x') == 'x'\n"
    + "def test_box_out_of_a_folder_of_the_test(box, tmp_path):\n"
    + "    (tmp_path / 'x').symlink_to('/control')\n    box.text(tmp_path / 'x')\n"
    + f"def test_huge_name(): assert {HUGE_NAME!r} in [one.name for one in Path('/names').iterdir()]\n"
)


@pytest.fixture(scope="module")
def stage(backend: Backend, bases: BaseImages) -> Iterator[Stage]:
    """Sandboxes with Python."""
    with ExitStack() as stack:
        yield Stage(backend, bases.toolchain("python").digest, stack)


@pytest.fixture(scope="module")
def undone(stage: Stage) -> dict[str, str]:
    """What a verifier says about a state in which every answer is of another kind of dishonesty."""
    state = stage.acted(
        [
            "mkdir /answers /names; echo kept > /control; ln -s control /link",
            f"touch /names/{HUGE_NAME}",
            *(f"cd /answers; {command}" for command in ANSWERS.values()),
        ]
    )
    return stage.outcomes(state, VERIFIER)


@pytest.mark.parametrize("answer", [name for name in ANSWERS if name != "database"])
def test_attack_answer_that_is_none(answer: str, undone: dict[str, str]) -> None:
    assert {undone[f"test_{kind}_{answer}"] for kind in ("plain", "data", "box")} == {"failed"}
    assert (undone["test_answer"], undone["test_control"]) == ("failed", "passed")


def test_attack_answer_that_is_no_database(undone: dict[str, str]) -> None:
    assert (undone["test_database_database"], undone["test_control"]) == ("failed", "passed")


def test_attack_huge_file_name_is_only_a_name(undone: dict[str, str]) -> None:
    assert undone["test_huge_name"] == "passed"


def test_the_box_reads_files_of_the_state_and_of_the_test_alone(undone: dict[str, str]) -> None:
    names = ("control", "is_bounded", "in_a_folder_of_the_test", "out_of_a_folder_of_the_test")
    assert [undone[f"test_box_{name}"] for name in names] == ["passed", "failed", "passed", "failed"]


# Name -> what an agent does to the places where results, tests and temporary files usually are.
SABOTAGE = {
    "planted_reward": "mkdir -p /logs/verifier; echo 1 | tee /logs/verifier/reward.txt /reward.txt /tmp/reward.json",
    "planted_junit": 'for d in / /tmp /tests /logs; do mkdir -p $d; echo \'<testsuite tests="1" failures="0"/>\' > '
    '$d/junit.xml; echo \'{"passed": ["test_answer"]}\' > $d/report.json; done',
    "result_is_a_fifo": "mkdir -p /logs/v; mkfifo /logs/v/reward.txt /result.json; mkfifo /logs/v/ctrf.json",
    "result_is_a_link": "mkdir -p /logs/w; ln -s /etc/passwd /logs/w/reward.txt; ln -s /dev/full /logs/w/junit.xml",
    "tests_are_a_link": "ln -s /etc /tests2; rm -rf /tests; ln -s /proc/self/cwd /tests",
    "planted_tests": "mkdir -p /verifier; echo 'def test_answer(): pass' | tee /verifier/test_it.py /test_it.py",
    "immutable": "chattr +i / /etc /tmp /answer; echo no > /answer; chattr +i /answer",
    "read_only": "chmod -R a-w /srv /opt /home; chmod 000 /tmp /var/tmp /dev/shm",
    "broken_tmp": "rm -rf /tmp /var/tmp; ln -s /nowhere /tmp; echo > /var/tmp",
    "full_shared_memory": "head -c 200000000 /dev/zero > /dev/shm/full",
    "many_files": "mkdir /many; cd /many; seq 5000 | split -l 1 -a 4 -",
    "broken_accounts": "head -c 3000000 /dev/urandom > /etc/passwd; rm /etc/group /etc/hosts; echo x > /etc/group",
    "impossible_home": "printf 'root:x:0:0::/ro\\0ot:/bin/sh\\n' > /etc/passwd",
    "clock": "date -s '1990-01-01'; hwclock --set --date 1990-01-01; touch -d 1990-01-01 /answer",
    "no_programs": "rm -rf /usr/bin/[d-z]* /bin/sh /usr/lib/python3* /opt/venv",
}


# The answer is missing; the rest of the verifier has all it needs.
AFTER_SABOTAGE = (
    ANSWER
    + "def test_control(): assert Path('/control').read_text() == 'kept\\n'\n"
    + "def test_own_folder(tmp_path):\n    (tmp_path / 'x').write_text('x')\n    assert (tmp_path / 'x').exists()\n"
)


@pytest.fixture(scope="module")
def sabotaged(stage: Stage) -> dict[str, Future[dict[str, str]]]:
    """What a verifier says about states in which nothing was done but to hinder it, by name of the hindrance."""

    def one(command: str) -> dict[str, str]:
        return stage.outcomes(stage.acted(["echo kept > /control", command]), AFTER_SABOTAGE)

    with ThreadPoolExecutor(4) as threads:
        return {name: threads.submit(one, command) for name, command in SABOTAGE.items()}


@pytest.mark.parametrize("kind", SABOTAGE)
def test_attack_sabotage_hinders_no_verdict(kind: str, sabotaged: dict[str, Future[dict[str, str]]]) -> None:
    assert sabotaged[kind].result() == {"test_answer": "failed", "test_control": "passed", "test_own_folder": "passed"}


def test_attack_full_disk_hinders_no_verdict(stage: Stage) -> None:
    """Where a backend bounds the disk of a sandbox, it is full; where none does, there is one large file."""
    here = Stage(stage.backend, stage.image, stage.stack, Limits(memory_mb=256, lifetime_s=300))
    state = here.acted(["echo kept > /control", "head -c 150000000 /dev/zero > /full; echo done > /answer.part"])
    assert here.outcomes(state, AFTER_SABOTAGE) == {
        "test_answer": "failed",
        "test_control": "passed",
        "test_own_folder": "passed",
    }


WORKDIRS = {
    "is a link to another folder": "rm -rf /work; ln -s /proc/self/fd /work",
    "is a link to nothing": "rm -rf /work; ln -s /nowhere /work",
    "is a loop": "rm -rf /work; ln -s work /work",
    "was removed": "rm -rf /work",
    "is a file": "rm -rf /work; echo done > /work",
    "is full of shadows": "cd /work; for m in json pytest sandbox ast; do echo 'raise SystemExit(0)' > $m.py; done",
}


@pytest.mark.parametrize("command", WORKDIRS.values(), ids=WORKDIRS.keys())
def test_attack_working_directory(command: str, stage: Stage, builder: ImageBuilder) -> None:
    spec = ImageSpec(name="workdir", dockerfile=f"FROM {builder._bases.config.base_image}\n", workdir="/work")
    image = builder.build(spec, BuildLimits(timeout_s=60)).digest
    assert image is not None
    here = Stage(stage.backend, image, stage.stack)
    state = here.acted(["echo kept > /control", command])
    assert here.outcomes(state, AFTER_SABOTAGE) == {
        "test_answer": "failed",
        "test_control": "passed",
        "test_own_folder": "passed",
    }
