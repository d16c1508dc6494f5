"""When a verdict is `passed`: signed, exit code 0, exactly the recorded tests, none skipped or expected to fail.

Each case is a verifier over a state in which the work is done, so that a careless judge would say `passed`: of the
cases that must not pass, most end with exit code 0 under plain pytest. What proves nothing is `error`, no label.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from sandbox.building.images import ImageBuilder
from sandbox.protocol import Backend
from sandbox.types import BuildLimits, FrozenState, ImageSpec
from tests.contract.attacks import ANSWER, DONE, Stage, no_mark_tests

pytestmark = pytest.mark.docker

EXPECTED = ("test_answer",)


@dataclass(frozen=True)
class Case:
    """A verifier, the tests recorded when the oracle was validated, and the verdict."""

    text: str
    verdict: str
    expected: tuple[str, ...] = EXPECTED


def second(body: str, *decorators: str) -> str:
    """A verifier whose second test is this."""
    return ANSWER + "import os, pytest, subprocess, sys\n" + "".join(f"{d}\n" for d in decorators) + body


BOTH = ("test_answer", "test_b")
CASES = {
    # Nothing was proven.
    "all skipped": Case("import pytest\n@pytest.mark.skip\ndef test_answer(): pass\n", "error"),
    "one skipped": Case(second("def test_b(): pass\n", "@pytest.mark.skip"), "failed", BOTH),
    "skipped inside": Case(second("def test_b(): pytest.skip('not here')\n"), "failed", BOTH),
    "skipif": Case(second("def test_b(): pass\n", "@pytest.mark.skipif(True, reason='x')"), "failed", BOTH),
    "xfail": Case(second("def test_b(): assert False\n", "@pytest.mark.xfail"), "failed", BOTH),
    "xpass": Case(second("def test_b(): pass\n", "@pytest.mark.xfail"), "failed", BOTH),
    "xpass that is not strict": Case(
        second("def test_b(): pass\n", "@pytest.mark.xfail(strict=False)"), "failed", BOTH
    ),
    "xfail inside": Case(second("def test_b(): pytest.xfail('known')\n"), "failed", BOTH),
    "importorskip": Case(f"import pytest\npytest.importorskip('nowhere')\n{ANSWER}", "error"),
    "skipped module": Case(f"import pytest\npytest.skip('no', allow_module_level=True)\n{ANSWER}", "error"),
    "returns False": Case(second("def test_b(): return False\n"), "failed", BOTH),
    "async": Case(second("async def test_b(): assert False\n"), "failed", BOTH),
    "generator": Case(second("def test_b():\n    yield\n    assert False\n"), "error", BOTH),
    "no test": Case("def check_answer(): pass\n", "error"),
    "nothing": Case("", "error"),
    "duplicate name": Case(second("def test_b(): assert False\ndef test_b(): pass\n"), "error", BOTH),
    "duplicate method": Case(
        second("class TestB:\n    def test_b(self): assert False\n    def test_b(self): pass\n"),
        "error",
        ("test_answer", "TestB::test_b"),
    ),
    "class with __init__": Case(
        second("class TestB:\n    def __init__(self): pass\n    def test_b(self): assert False\n"), "error"
    ),
    # It ends before its time.
    "a test calls os._exit": Case(second("def test_b(): os._exit(0)\n"), "error", BOTH),
    "a test calls sys.exit": Case(second("def test_b(): sys.exit(0)\n"), "failed", BOTH),
    "a test calls pytest.exit": Case(second("def test_b(): pytest.exit('done', returncode=0)\n"), "error", BOTH),
    "the module calls sys.exit": Case(f"import sys\nsys.exit(0)\n{ANSWER}", "error"),
    "a test interrupts": Case(second("def test_b(): raise KeyboardInterrupt\n"), "error", BOTH),
    "a test stops the session": Case(second("def test_b(request): request.session.shouldstop = 'x'\n"), "error", BOTH),
    "a test empties the session": Case(f"def test_b(request): request.session.items.clear()\n{ANSWER}", "error", BOTH),
    # It does not work.
    "syntax error": Case("def test_answer(:\n", "error"),
    "import error": Case(f"import nowhere\n{ANSWER}", "error"),
    "failing setup": Case(second("def test_b(f): pass\n@pytest.fixture\ndef f(): assert False\n"), "failed", BOTH),
    "failing teardown": Case(
        second("def test_b(f): pass\n@pytest.fixture\ndef f():\n    yield\n    assert False\n"), "failed", BOTH
    ),
    "failing class teardown": Case(
        second("class TestB:\n    def teardown_class(cls): assert False\n    def test_b(self): pass\n"),
        "failed",
        ("test_answer", "TestB::test_b"),
    ),
    "unknown fixture": Case(second("def test_b(nothing): pass\n"), "failed", BOTH),
    "late": Case(second("def test_b():\n    import time\n    time.sleep(60)\n"), "error", BOTH),
    # Other tests than were recorded.
    "one test too few": Case(ANSWER, "failed", BOTH),
    "one test too many": Case(second("def test_b(): pass\n"), "error"),
    "another parameter": Case(
        second("def test_b(n): pass\n", "@pytest.mark.parametrize('n', [1, 3])"),
        "error",
        ("test_answer", "test_b[1]", "test_b[2]"),
    ),
    "no test recorded": Case(ANSWER, "error", ()),
    # What the program under test does is heard by its exit code and its output only.
    "the program calls os._exit": Case(
        second("def test_b(): assert subprocess.run(['/quits'], timeout=9).returncode == 7\n"), "failed", BOTH
    ),
    # It is as it should be.
    "one passing test": Case(ANSWER, "passed"),
    "two passing tests": Case(second("def test_b(tmp_path): assert tmp_path.is_dir()\n"), "passed", BOTH),
    "the same parameters": Case(
        second("def test_b(n): pass\n", "@pytest.mark.parametrize('n', [1, 2])"),
        "passed",
        ("test_answer", "test_b[1]", "test_b[2]"),
    ),
    "a class and a fixture": Case(
        second(
            "class TestB:\n    @pytest.fixture\n    def n(self): return 1\n    def test_b(self, n): assert n == 1\n"
        ),
        "passed",
        ("test_answer", "TestB::test_b"),
    ),
    "unittest": Case(
        second("import unittest\nclass TestB(unittest.TestCase):\n    def test_b(self): self.assertTrue(True)\n"),
        "passed",
        ("test_answer", "TestB::test_b"),
    ),
    "a program that works": Case(
        second("def test_b(): assert subprocess.run(['/quits'], timeout=9).returncode == 0\n"), "passed", BOTH
    ),
    "a box": Case(second("def test_b(box): assert box.text('/answer') == 'done\\n'\n"), "passed", BOTH),
}


@pytest.fixture(scope="module")
def stage(backend: Backend, image: str) -> Iterator[Stage]:
    """Sandboxes of the slim base."""
    with ExitStack() as stack:
        yield Stage(backend, image, stack)


@pytest.fixture(scope="module")
def done(stage: Stage) -> FrozenState:
    """A state in which the work is done, and in which there is a program that ends at once."""
    return stage.acted([DONE, "printf '#!/bin/sh\\nexit 0\\n' > /quits; chmod +x /quits"])


@pytest.fixture(scope="module")
def verdicts(stage: Stage, done: FrozenState) -> dict[str, str]:
    """The verdict of each case."""

    def one(case: Case) -> str:
        limit = 3 if "sleep" in case.text else 60
        return stage.verdict(done, case.text, *case.expected, timeout_s=limit)

    with ThreadPoolExecutor(3) as threads:
        return dict(zip(CASES, threads.map(one, CASES.values()), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_verdict_of(case: str, verdicts: dict[str, str]) -> None:
    assert verdicts[case] == CASES[case].verdict


# What an image may say in its environment, and what a verifier could make of it.
VARIABLES = {
    "PYTEST_ADDOPTS": "--collect-only",
    "PYTEST_PLUGINS": "trap",
    "PYTHONPATH": "/traps",
    "PYTHONHOME": "/traps",
    "PYTHONSTARTUP": "/traps/trap.py",
    "PYTHONUSERBASE": "/traps",
    "PYTHONINSPECT": "1",
    "PYTHONWARNINGS": "error",
    "LD_LIBRARY_PATH": "/traps",
    "OPENSSL_CONF": "/traps/openssl.cnf",
    "OPENSSL_MODULES": "/traps",
    "GCONV_PATH": "/traps",
    "LOCPATH": "/traps",
    "TZDIR": "/traps",
    "GLIBC_TUNABLES": "glibc.malloc.check=3",
    "MALLOC_PERTURB_": "7",
    "MALLOC_ARENA_MAX": "x",
    "LC_ALL": "xx_YY.TRAP",
    "BASH_ENV": "/traps/trap.sh",
    "TMPDIR": "/nowhere",
    "HOME": "/traps",
}
SEEN = (
    "import hashlib, json, locale, os, sqlite3, ssl, subprocess, zlib\n"
    f"VARIABLES = {VARIABLES!r}\n"
    "def test_variables_are_shown(): assert {n: os.environ[n] for n in VARIABLES} == VARIABLES\n"
    "def test_programs_have_them():\n"
    "    out = subprocess.run(['env'], env=None, capture_output=True, text=True, timeout=9).stdout.splitlines()\n"
    "    assert {f'{n}={v}' for n, v in VARIABLES.items()} <= set(out)\n"
    "def test_things_work(): assert ssl.create_default_context() and hashlib.new('sha256').digest_size == 32\n"
)


@pytest.fixture(scope="module")
def trapped_image(builder: ImageBuilder) -> str:
    """An image whose environment leads whoever obeys it into traps."""
    pairs = "\n".join(f"ENV {name}={value}" for name, value in VARIABLES.items())
    mark = "open('/dev/shm/environment', 'w').close()"
    python = "/traps/trap.py /traps/json.py /traps/sitecustomize.py /traps/pytest.py"
    broken = "/traps/openssl.cnf /traps/libz.so.1 /traps/libm.so.6"
    plant = f'mkdir /traps && echo "{mark}" | tee {python} && echo broken | tee {broken}'
    spec = ImageSpec(name="trapped", dockerfile=f"FROM {builder._bases.config.base_image}\nRUN {plant}\n{pairs}\n")
    build = builder.build(spec, BuildLimits(timeout_s=60))
    assert build.digest is not None, build
    return build.digest


def test_verdict_and_attack_by_the_environment_of_the_image(stage: Stage, trapped_image: str) -> None:
    here = Stage(stage.backend, trapped_image, stage.stack)
    text = ANSWER + SEEN + no_mark_tests(["environment"])
    others = ("test_variables_are_shown", "test_programs_have_them", "test_things_work", "test_no_mark_environment")
    outcomes = here.outcomes(here.acted([]), text)
    assert outcomes == {"test_answer": "failed"} | dict.fromkeys(others, "passed")
    assert here.verdict(here.acted([DONE]), text, "test_answer", *others) == "passed"


def test_verdict_on_an_image_with_no_library_at_all(stage: Stage, builder: ImageBuilder) -> None:
    base = builder._bases.config.base_image
    text = (
        f"FROM {base} AS tools\nRUN apt-get install -y -qq busybox-static > /dev/null\n"
        "FROM scratch\nCOPY --from=tools /bin/busybox /bin/busybox\n"
        'RUN ["/bin/busybox", "--install", "/bin"]\n'
    )
    build = builder.build(ImageSpec(name="empty", dockerfile=text), BuildLimits(timeout_s=120))
    assert build.digest is not None, build
    here = Stage(stage.backend, build.digest, stage.stack)
    assert here.verdict(here.acted([]), ANSWER, *EXPECTED) == "failed"
    assert here.verdict(here.acted([DONE]), ANSWER, *EXPECTED) == "passed"
