"""What every ChatModel promises, whatever stands behind it. The server is a small one of this test, over real HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pipeline.llm.openai_server import OpenAIServer, OpenAIServerConfig
from pipeline.llm.protocol import ChatModel, Message, ModelUnavailable, Sampling
from pipeline.llm.scripted import ScriptedModel
from tests.contract.chat_server import ChatServer

ASK = [Message(role="user", content="2 + 2?")]

Made = Callable[..., ChatModel]


@pytest.fixture(params=["scripted", "openai_server"])
def made(request: pytest.FixtureRequest) -> Iterator[Made]:
    """Makes a model named `tiny` that gives these answers and then fails."""
    if request.param == "scripted":
        yield lambda *answers: ScriptedModel(answers, name="tiny")
        return
    with ChatServer() as server:

        def over_http(*answers: str) -> ChatModel:
            server.answers = [*map(server.chat, answers), *[(503, {}, b"overloaded")] * 2]
            return OpenAIServer(OpenAIServerConfig(base_url=server.url, model="tiny", tries=2, first_wait_s=0.01))

        yield over_http


def test_answers_come_in_turn_with_the_name_of_the_model(made: Made) -> None:
    model = made("four", "vier äöü")
    found = [model.complete(ASK, Sampling()) for _ in range(2)]
    assert [(one.text, one.finish_reason, one.model) for one in found] == [
        ("four", "stop", "tiny"),
        ("vier äöü", "stop", "tiny"),
    ]
    assert model.name == "tiny"


def test_a_model_that_gives_no_answer_is_unavailable(made: Made) -> None:
    model = made()
    with pytest.raises(ModelUnavailable):
        model.complete(ASK, Sampling())
