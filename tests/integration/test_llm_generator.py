"""The generator that asks a model, with a scripted one: what it is shown, what goes back to it, what becomes a task."""

from __future__ import annotations

import functools
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.generators.llm import Llm, LlmConfig
from pipeline.generators.protocol import Candidate, GeneratorInput
from pipeline.instances import admit
from pipeline.llm.protocol import ModelUnavailable, PromptRefused
from pipeline.llm.scripted import ScriptedModel
from pipeline.types import Repository
from sandbox.backends.choice import choose
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.engine import connect
from sandbox.protocol import Backend
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime

pytestmark = pytest.mark.docker

README = """# slugs

Makes file names of titles: lower case, words joined by hyphens. `python3 -c` is enough for it; the list of titles lies
in titles.txt, one title a line, and the order of the titles is kept in everything that is written. Nothing else is
needed, neither a server nor a data base.
"""
INSTRUCTION = (
    "Write the titles Blue Moon and Red Sun as slugs to /tmp/slugs.txt: lower case, words joined by hyphens, one slug "
    "per line, in this order."
)
VERIFIER = """
def test_slugs(box):
    assert box.text("/tmp/slugs.txt").splitlines() == ["blue-moon", "red-sun"]


def test_only_slugs(box):
    assert box.text("/tmp/slugs.txt").count("-") == 2
"""
SOLUTION = ["printf '%s\\n' blue-moon red-sun > /tmp/slugs.txt"]

Ask = Callable[..., list[Candidate]]


def answer(verifier: str = VERIFIER, solution: list[str] = SOLUTION, difficulty: str = "easy") -> str:
    task = {"instruction": INSTRUCTION, "solution": solution, "verifier": verifier, "difficulty": difficulty}
    return f"Here it is:\n```json\n{json.dumps(task)}\n```"


@pytest.fixture(scope="module")
def machine(data_folder: Path) -> tuple[Backend, str]:
    client = connect(data_folder)
    bases = BaseImages(client, BaseImageConfig(), data_folder)
    runtime = VerifierRuntime(client, bases)
    backend = choose("auto", client, runtime, data_folder, bases.base().digest)
    return backend, bases.base().digest


@pytest.fixture
def ask(machine: tuple[Backend, str], tmp_path: Path) -> Ask:
    """Candidates of one piece of material, and the model that was asked."""
    backend, image = machine
    (tmp_path / "README.md").write_text(README)
    tree = tmp_path / "tree.tar"
    with tarfile.open(tree, "w") as tar:
        tar.add(tmp_path / "README.md", arcname="README.md")
    repository = Repository(source="local", full_name="own/slugs", commit="1", language="python", locator="slugs")
    given = GeneratorInput(repository=repository, tree=tree, image_digest=image)

    def asked(model: ScriptedModel, **settings: int) -> list[Candidate]:
        config = LlmConfig.model_validate({"tasks": 1, "rounds": 3, **settings})
        generator = Llm(model, functools.partial(admit, backend=backend), config)
        return list(generator.instances(given, lambda: backend.start(image, Limits())))

    return asked


def test_what_admission_found_goes_back_to_the_model_until_the_task_is_good(ask: Ask) -> None:
    always = 'def test_slugs(box):\n    assert box.text("/etc/hostname") is not None\n'
    model = ScriptedModel(["I would write slugs.", answer(always), answer()])
    (found,) = ask(model)
    assert found.instance is not None
    assert found.instance.solution == tuple(SOLUTION)
    assert found.instance.verifier.files[0].content == VERIFIER.strip("\n") + "\n"
    assert (found.document, found.instance.provenance["answers"]) == ("README.md", "3")
    first, second, third = (messages[-1].content for messages in model.asked)
    assert "Makes file names of titles" in first and "README.md" in first
    assert "there is no JSON object" in second
    assert "noop" in third and "all tests pass when nothing is done" in third
    assert [len(messages) for messages in model.asked] == [1, 3, 3]


def test_a_task_that_stays_bad_is_handed_over_for_its_reason_to_be_recorded(ask: Ask) -> None:
    wrong = answer(solution=["printf 'blue moon' > /tmp/slugs.txt"])
    (found,) = ask(ScriptedModel([wrong, wrong]), rounds=2)
    assert found.instance is not None and found.instance.solution == ("printf 'blue moon' > /tmp/slugs.txt",)


def test_an_answer_that_is_never_one_is_a_refusal(ask: Ask) -> None:
    (found,) = ask(ScriptedModel(["no", '{"instruction": "x"}']), rounds=2)
    assert found.instance is None
    assert (found.failure_class, found.reason) == (
        "no_answer",
        "the JSON object does not fit: instruction: String should have at least 20 characters",
    )


def test_material_that_the_model_refuses_is_a_refusal(ask: Ask) -> None:
    (found,) = ask(ScriptedModel([PromptRefused("too long")]))
    assert (found.failure_class, found.reason) == ("prompt_refused", "too long")


def test_a_server_that_is_gone_says_nothing_of_the_repository(ask: Ask) -> None:
    with pytest.raises(ModelUnavailable):
        ask(ScriptedModel([ModelUnavailable("down")]))
