"""Inputs and outputs of documented commands, and what is asked of a documented program. Nothing is run here."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from pipeline.generators.documents import Block, Tree
from pipeline.generators.facts import Fact
from pipeline.generators.instance_text import build_instance
from pipeline.generators.plans import Plan, resolve, with_other_input
from pipeline.generators.protocol import GeneratorInput
from pipeline.generators.survey import Survey
from pipeline.generators.trials import Trial
from pipeline.types import Repository, TaskInstance

PROGRAM = "import tally\n\nprint(tally.count('a b a'))"
SIZES = {"README.md": 400, "data/a.csv": 90, "data/b.csv": 80, "notes.txt": 50}


def block(text: str = "", language: str = "sh") -> Block:
    return Block("README.md", 12, ("Counting",), "Count the words of a text.", language, text)


def test_another_input_is_one_of_the_same_kind() -> None:
    plan = Plan("shell", block(), ("tally ./data/a.csv | head",), shown="a,1")
    other = with_other_input(plan, SIZES, 0)
    assert other is not None
    assert (other.steps, other.shown) == (("tally data/b.csv | head",), None)
    assert with_other_input(plan, SIZES, 1) is None


def test_an_input_whose_result_seems_to_lie_beside_it_comes_last() -> None:
    sizes = {"tests/a.txt": 90, "tests/b.txt": 90, "tests/b.html": 90, "texts/deep/c.txt": 90}
    others = [with_other_input(Plan("shell", block(), ("tally tests/a.txt",)), sizes, turn) for turn in range(3)]
    assert [o and o.steps[0] for o in others] == ["tally texts/deep/c.txt", "tally tests/b.txt", None]


def test_a_plan_without_a_shipped_input_has_no_other() -> None:
    assert with_other_input(Plan("shell", block(), ("tally --all",)), SIZES, 0) is None


@pytest.mark.parametrize(
    ("step", "given"), [("tally out.csv", ("out.csv",)), ("tally -o out.csv", ()), ("tally > out.csv", ())]
)
def test_what_a_command_writes_is_not_given(step: str, given: tuple[str, ...]) -> None:
    found = resolve(Plan("shell", block(), (step,)), set(), {("README.md", "out.csv"): [(3, "word,count\n")]})
    assert tuple(name for name, _ in found.files) == given


@pytest.fixture
def task(tmp_path: Path) -> TaskInstance:
    archive = tmp_path / "tree.tar"
    with tarfile.open(archive, "w") as tar:
        member = tarfile.TarInfo("README.md")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"text"))
    plan = Plan("program", block(PROGRAM, "python"), ("python3 program1.py",), files=(("program1.py", PROGRAM + "\n"),))
    repository = Repository(source="local", full_name="tests/tally", commit="1", language="python", locator=".")
    given = GeneratorInput(repository=repository, tree=archive, image_digest="sha256:0")
    printed = Fact("/workspace/out.txt", "text", b"a 2\nb 1\n")
    made = build_instance(given, plan, Trial(plan.steps, printed), Survey("/workspace", "host", {}), Tree.open(archive))
    assert isinstance(made, TaskInstance)
    return made


@pytest.mark.parametrize(
    ("saved", "passes"),
    [(PROGRAM, True), (PROGRAM.replace("\n", "  \n") + "\n\n", True), ("", False), ("print('a 2')", False)],
)
def test_a_program_that_is_to_be_saved_is_judged_too(
    task: TaskInstance, tmp_path: Path, saved: str, passes: bool
) -> None:
    (tmp_path / "program1.py").write_text(saved)
    (tmp_path / "out.txt").write_text("a 2\nb 1\n")
    assert "from line 12 on, as `program1.py`" in task.instruction
    tests: dict[str, object] = {}
    exec(task.verifier.files[0].content.replace("/workspace", str(tmp_path)), tests)
    failures = 0
    for name, test in tests.items():
        if name.startswith("test_") and callable(test):
            try:
                test()
            except AssertionError:
                failures += 1
    assert (failures == 0) == passes
