"""The gates over real sandboxes: planted faults are found by their gates, unusual tasks that are sound come through."""

from __future__ import annotations

import base64
import hashlib
import sqlite3
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from pipeline.admission.records import Admission
from pipeline.instances import InstancesConfig, admit
from pipeline.types import TaskInstance, Variant, Verifier, VerifierFile
from sandbox.backends.choice import choose
from sandbox.backends.overlay import OverlayBackend
from sandbox.building.base_images import BaseImages
from sandbox.building.images import ImageBuilder
from sandbox.protocol import Backend
from sandbox.types import BuildLimits, ImageSpec
from sandbox.verifier.verifier_runtime import VerifierRuntime

pytestmark = pytest.mark.docker

FEW = InstancesConfig(repeats_on_state=4)
LOOSE, PACKED, LEAKED = (f"{kind} answer, forty-two of all\n" for kind in ("a loose", "a packed", "a leaked"))
OUT = "/work/out.txt"
READS = f'from pathlib import Path\n\nOUT = Path("{OUT}")\n\n\n'
SOON = int(time.time()) + 200 * 86_400


def blob(text: str) -> str:
    return hashlib.sha1(f"blob {len(text)}\0{text}".encode()).hexdigest()


def index_of_pack(name: str) -> str:
    """The index of a pack that holds one object, as base64."""
    first = int(name[:2], 16)
    fanout = b"".join(struct.pack(">I", int(number >= first)) for number in range(256))
    body = (
        b"\xfftOc" + struct.pack(">I", 2) + fanout + bytes.fromhex(name) + bytes(4) + struct.pack(">I", 12) + bytes(20)
    )
    return base64.b64encode(body + hashlib.sha1(body).digest()).decode()


def database() -> str:
    """A database with two rows, as base64."""
    made = sqlite3.connect(":memory:")
    made.executescript("create table t (n integer); insert into t values (19), (23);")
    return base64.encodebytes(made.serialize()).decode()


@pytest.fixture(scope="module")
def fast(client: docker.DockerClient, bases: BaseImages, data_folder: Path, image: str) -> Iterator[Backend]:
    """The backend that a machine like this one takes by itself."""
    backend = choose("auto", client, VerifierRuntime(client, bases), data_folder, image)
    yield backend
    if isinstance(backend, OverlayBackend):
        backend.close()


@pytest.fixture(scope="module")
def begun(builder: ImageBuilder, bases: BaseImages) -> str:
    """Digest of an image with inputs, and with answers where no answer may lie."""
    loose = f"/srv/old/.git/objects/{blob(LOOSE)[:2]}/{blob(LOOSE)[2:]}"
    pack = "/srv/new/.git/objects/pack"
    steps = [
        f"mkdir -p {Path(loose).parent} {pack} /opt/checks && touch {loose}",
        f"echo {index_of_pack(blob(PACKED))} | base64 -d > {pack}/pack-1.idx",
        f"printf '{LEAKED.strip()}\\n' > /opt/checks/expected.txt",
        "printf 'one\\ntwo\\nthree\\n' > words.txt && echo old > old.txt && echo secret > secret.txt",
    ]
    dockerfile = f"FROM {bases.base().tag}\nWORKDIR /work\nRUN {' && '.join(steps)}\n"
    built = builder.build(ImageSpec(name="admission", dockerfile=dockerfile, workdir="/work"), BuildLimits())
    assert built.digest is not None, built.log_tail
    return built.digest


@pytest.fixture
def make(task: TaskInstance, begun: str) -> TaskInstance:
    return task.model_copy(
        update={"image_digest": begun, "domain": "sql", "instruction": f"Write the answer to {OUT}."}
    )


def given(base: TaskInstance, solution: str, verifier: str, instruction: str = "") -> TaskInstance:
    """A task of that solution and that verifier."""
    files = (VerifierFile(path="test_state.py", content=verifier),)
    return base.model_copy(
        update={
            "solution": (solution,),
            "verifier": Verifier(files=files, timeout_s=30),
            "instruction": instruction or base.instruction,
        }
    )


def refusals(admission: Admission) -> list[str]:
    return [gate.gate for gate in admission.gates if not gate.passed]


WRITES = f"printf 'forty-two and no less\\n' > {OUT}"
IS_RIGHT = 'assert OUT.read_text() == "forty-two and no less\\n"'


@pytest.mark.parametrize(
    "verifier",
    [
        "def test_a():\n    assert True\n",
        f"import pytest\n\n\n@pytest.mark.skip\ndef test_a():\n    {IS_RIGHT}\n",
        f"import pytest\n\n\ndef test_a():\n    pytest.xfail('later')\n    {IS_RIGHT}\n",
        "def test_a():\n    return False\n",
        f"import socket\n\n\ndef test_a():\n    assert socket.create_connection(('a', 1))\n    {IS_RIGHT}\n",
        f"import time\n\n\ndef test_a():\n    assert time.time() < {SOON}\n    {IS_RIGHT}\n",
        f"import os\n\n\ndef test_a():\n    {IS_RIGHT}\n    os._exit(0)\n",
    ],
    ids=["always true", "skipped", "expected to fail", "returns", "network", "time", "leaves"],
)
def test_what_the_text_gives_away_is_refused_by_the_lint(fast: Backend, make: TaskInstance, verifier: str) -> None:
    assert refusals(admit(given(make, WRITES, READS + verifier), fast, FEW)) == ["verifier_lint"]


@pytest.mark.parametrize(
    ("solution", "verifier", "gates"),
    [
        (
            WRITES,
            f'def test_a():\n    {IS_RIGHT}\n    assert next(iter({{"a", "b", "c"}})) != "a"\n',
            {"oracle", "stability"},
        ),
        (
            WRITES,
            f"SEEN = []\n\n\ndef test_a():\n    SEEN.append(1)\n    {IS_RIGHT}\n\n\ndef test_b():\n    assert SEEN\n",
            {"order_independence"},
        ),
        (
            WRITES,
            "import logging\n\n\ndef test_a():\n    record = logging.makeLogRecord({})\n"
            f"    {IS_RIGHT}\n    assert record.created < {SOON}\n",
            {"time_independence"},
        ),
        (
            f"printf '{LEAKED.strip()}\\n' > {OUT}",
            'def test_a():\n    assert OUT.read_text() == Path("/opt/checks/expected.txt").read_text()\n',
            {"no_answer_in_image"},
        ),
        (f"printf '{LOOSE.strip()}\\n' > {OUT}", "def test_a():\n    assert OUT.read_text()\n", {"no_answer_in_image"}),
        (
            f"printf '{PACKED.strip()}\\n' > {OUT}",
            "def test_a():\n    assert OUT.read_text()\n",
            {"no_answer_in_image"},
        ),
        (WRITES, "def test_a():\n    assert OUT.exists()\n", {"weak_solutions"}),
        (WRITES, "def test_a():\n    assert OUT.read_text().startswith('forty')\n", {"weak_solutions"}),
        (
            f"printf '#!/bin/sh\\necho forty-two\\n' > {OUT}; chmod 755 {OUT}",
            f"import subprocess\n\n\ndef test_a():\n    assert subprocess.run(['{OUT}'], timeout=9).returncode == 0\n",
            {"weak_solutions"},
        ),
        (WRITES, "def test_a():\n    assert Path('/work/words.txt').exists()\n", {"noop"}),
    ],
    ids=["flaky", "order", "clock", "path", "loose", "packed", "exists", "beginning", "exit code", "nothing"],
)
def test_what_only_running_shows_is_refused_by_its_gate(
    fast: Backend, make: TaskInstance, solution: str, verifier: str, gates: set[str]
) -> None:
    config = InstancesConfig() if "stability" in gates else FEW
    admission = admit(given(make, solution, READS + verifier), fast, config)
    assert len(refused := refusals(admission)) == 1 and set(refused) <= gates, admission.gates[-1]


def test_a_weak_solution_of_the_generator_that_passes_and_a_right_one_that_fails_are_refused(
    fast: Backend, make: TaskInstance
) -> None:
    task = given(make, WRITES, READS + f"def test_a():\n    {IS_RIGHT}\n")
    same = Variant(name="same", commands=(WRITES,))
    other = Variant(name="other", commands=(f"echo forty-three > {OUT}",))
    assert refusals(admit(task, fast, FEW, weak=[same])) == ["weak_solutions"]
    assert refusals(admit(task, fast, FEW, right=[other])) == ["other_solutions"]


@pytest.mark.parametrize(
    ("instruction", "solution", "verifier"),
    [
        (
            "Make /work/link a symbolic link to words.txt.",
            "ln -s words.txt /work/link",
            'def test_a():\n    assert Path("/work/link").readlink() == Path("words.txt")\n',
        ),
        (
            "Write the bytes from zero to three, four times, to /work/out.bin.",
            "for i in 1 2 3 4; do printf '\\000\\001\\002\\003'; done > /work/out.bin",
            'def test_a(box):\n    assert box.read("/work/out.bin") == bytes(range(4)) * 4\n',
        ),
        (
            "Write a program /work/twice that prints its argument two times.",
            "printf '#!/bin/sh\\necho \"$1$1\"\\n' > /work/twice; chmod 755 /work/twice",
            "import subprocess\n\n\ndef test_a():\n    for word in ('ab', 'xyz'):\n"
            "        made = subprocess.run(['/work/twice', word], capture_output=True, text=True, timeout=9)\n"
            "        assert made.stdout == f'{word}{word}\\n'\n",
        ),
        (
            "Make a folder /work/tree with a/one.txt and b/c/two.txt that say their names.",
            "mkdir -p tree/a tree/b/c; echo one > tree/a/one.txt; echo two > tree/b/c/two.txt",
            "def test_a():\n    found = {str(p): p.read_text() for p in Path('/work/tree').rglob('*.txt')}\n"
            "    assert found == {'/work/tree/a/one.txt': 'one\\n', '/work/tree/b/c/two.txt': 'two\\n'}\n",
        ),
        ("Remove old.txt.", "rm old.txt", "def test_a():\n    assert not Path('/work/old.txt').exists()\n"),
        (
            "Nobody but the owner may read secret.txt.",
            "chmod 600 secret.txt",
            "def test_a():\n    assert Path('/work/secret.txt').stat().st_mode & 0o777 == 0o600\n",
        ),
        (
            "Make /work/shop.db, a database of SQLite, with a table t that has 19 and 23 in its column n.",
            f"base64 -d > /work/shop.db <<'END'\n{database()}END",
            "import sqlite3\n\n\ndef test_a():\n    shop = sqlite3.connect('/work/shop.db')\n"
            "    assert sorted(shop.execute('select n from t')) == [(19,), (23,)]\n",
        ),
        (
            "Write the French word for coffee to `latin.txt` in Latin-1.",
            "printf 'caf\\351\\n' > latin.txt",
            "def test_a(box):\n    assert box.read('latin.txt') == b'caf\\xe9\\n'\n",
        ),
        (
            "Start with `terms.txt`:\n\n```\nsix\nseven\n```\n\nWrite its number of lines to `count.txt`.",
            "printf 'six\\nseven\\n' > terms.txt; echo 2 > count.txt",
            "def test_a():\n    assert Path('count.txt').read_text() == '2\\n'\n",
        ),
        (
            "Append the line four to words.txt.",
            "echo four >> words.txt",
            "def test_a():\n    assert Path('words.txt').read_text().split() == ['one', 'two', 'three', 'four']\n",
        ),
    ],
    ids=["symlink", "binary", "program", "tree", "deleted", "mode", "database", "not UTF-8", "given", "appended"],
)
def test_an_unusual_task_that_is_sound_is_admitted(
    fast: Backend, make: TaskInstance, instruction: str, solution: str, verifier: str
) -> None:
    admission = admit(given(make, solution, READS + verifier, instruction), fast, FEW)
    assert admission.admitted, admission.gates[-1]
    assert admission.flake_rate == 0.0


def test_a_line_that_a_package_of_the_system_brought_is_no_answer_that_lies_there(
    fast: Backend, make: TaskInstance
) -> None:
    line = "# /etc/login.defs - Configuration control definitions for the login package."
    solution = f"{WRITES}; : '\n{line}\n'"
    task = given(make, solution, READS + f"def test_a():\n    {IS_RIGHT}\n").model_copy(update={"domain": "security"})
    admission = admit(task, fast, FEW)
    assert admission.admitted, admission.gates[-1]
