"""The client of a chat server: what is asked again and how often, what is whose fault, and where the key may not go."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator

import pytest
from pydantic import SecretStr, ValidationError

from pipeline.errors import ConfigurationError
from pipeline.llm.openai_server import OpenAIServer, OpenAIServerConfig
from pipeline.llm.protocol import Completion, Message, ModelUnavailable, PromptRefused, Sampling
from tests.contract.chat_server import Answer, ChatServer

ASK = [Message(role="system", content="Be short."), Message(role="user", content="2 + 2?")]
KEY = "sk-very-secret-1234"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


Ask = Callable[..., Completion]


@pytest.fixture
def ask(server: ChatServer) -> Ask:
    """Asks the server once, after giving it its answers."""

    def asked(*answers: Answer, sampling: Sampling | None = None, key: str = KEY, **settings: object) -> Completion:
        server.answers = list(answers)
        config = {"base_url": server.url, "model": "tiny", "tries": 3, "first_wait_s": 0.01, **settings}
        model = OpenAIServer(OpenAIServerConfig.model_validate(config), SecretStr(key))
        try:
            return model.complete(ASK, sampling or Sampling())
        finally:
            model.close()

    return asked


def test_the_request_holds_the_model_the_messages_and_the_sampling(server: ChatServer, ask: Ask) -> None:
    ask(server.chat("4"), sampling=Sampling(temperature=0.5, top_p=0.9, max_tokens=7, seed=3))
    assert server.paths == ["/v1/chat/completions"]
    assert server.asked == [
        {
            "model": "tiny",
            "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "2 + 2?"}],
            "temperature": 0.5,
            "top_p": 0.9,
            "max_tokens": 7,
            "seed": 3,
        }
    ]


SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}}}


def test_a_schema_is_asked_for_as_structured_output(server: ChatServer, ask: Ask) -> None:
    ask(server.chat("4"), sampling=Sampling(answer_schema=SCHEMA))
    assert server.asked[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA},
    }
    assert "answer_schema" not in server.asked[0]


def test_a_server_without_structured_output_is_asked_without_it_from_then_on(server: ChatServer) -> None:
    refusal = (400, {}, b'{"error": "unknown field response_format"}')
    server.answers = [refusal, server.chat("4"), server.chat("5")]
    model = OpenAIServer(OpenAIServerConfig(base_url=server.url, model="tiny", tries=1))
    answers = [model.complete(ASK, Sampling(answer_schema=SCHEMA)).text for _ in range(2)]
    model.close()
    assert answers == ["4", "5"]
    assert ["response_format" in one for one in server.asked] == [True, False, False]


def test_text_that_is_no_unicode_reaches_the_server(server: ChatServer) -> None:
    server.answers = [server.chat("4")]
    model = OpenAIServer(OpenAIServerConfig(base_url=server.url, model="tiny"))
    model.complete([Message(role="user", content="a\udcffb")], Sampling())
    assert server.asked[0]["messages"] == [{"role": "user", "content": "a\ufffdb"}]


def test_the_counts_of_the_server_are_kept(server: ChatServer, ask: Ask) -> None:
    found = ask(server.chat("4", usage={"prompt_tokens": 12, "completion_tokens": 1, "more": {}}))
    assert (found.prompt_tokens, found.completion_tokens) == (12, 1)


def test_an_answer_that_was_cut_says_so(server: ChatServer, ask: Ask) -> None:
    choice = {"message": {"content": "4 is"}, "finish_reason": "length"}
    assert ask(server.chat("", choices=[choice])).finish_reason == "length"


def test_an_answer_without_text_is_an_empty_one(server: ChatServer, ask: Ask) -> None:
    assert ask(server.chat(None)).text == ""


@pytest.mark.parametrize(
    "fault",
    [
        (500, {}, b""),
        (503, {}, b"overloaded"),
        (429, {"Retry-After": "0"}, b""),
        (429, {"Retry-After": "Mon, 02 Nov 2020 00:00:00 GMT"}, b""),
        (429, {"Retry-After": "soon"}, b""),
        (408, {}, b""),
        (0, {}, b""),
        (200, {}, b"<html>a proxy's page</html>"),
        (200, {}, b'{"choices": []}'),
        (200, {"Content-Length": "1000"}, b'{"cut": '),
    ],
)
def test_a_fault_of_the_server_is_asked_again(server: ChatServer, ask: Ask, fault: Answer) -> None:
    assert ask(fault, fault, server.chat("4"), timeout_s=1).text == "4"
    assert len(server.asked) == 3


def test_a_server_that_stays_faulty_is_unavailable_after_the_given_tries(server: ChatServer, ask: Ask) -> None:
    with pytest.raises(ModelUnavailable, match=r"tiny at .*: status 503: overloaded \(3 tries\)"):
        ask(*[(503, {}, b"overloaded")] * 4)
    assert len(server.asked) == 3


def test_nobody_waits_longer_than_allowed(server: ChatServer, ask: Ask) -> None:
    with pytest.raises(ModelUnavailable, match=r"\(1 tries\)"):
        ask((429, {"Retry-After": "86400"}, b""), longest_wait_s=30)


def test_a_server_that_is_not_there_is_unavailable(ask: Ask) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(ModelUnavailable, match="ConnectError"):
            ask(base_url=f"http://127.0.0.1:{free.getsockname()[1]}/v1")


def test_a_server_that_does_not_answer_in_time_is_unavailable(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ModelUnavailable, match="ReadTimeout"):
        ask(base_url=f"http://127.0.0.1:{silent.getsockname()[1]}/v1", timeout_s=0.1, tries=1)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_messages_that_the_server_refuses_are_not_asked_again(server: ChatServer, ask: Ask, status: int) -> None:
    with pytest.raises(PromptRefused, match="maximum context"):
        ask((status, {}, b'{"error": "maximum context length"}'))
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "setting"), [(401, "key"), (403, "key"), (404, "name of its model"), (301, "base_url")]
)
def test_a_mistake_in_the_settings_names_the_setting(server: ChatServer, ask: Ask, status: int, setting: str) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        ask((status, {}, b"no"))
    assert len(server.asked) == 1


def test_the_key_is_sent_as_a_bearer_and_only_when_there_is_one(server: ChatServer, ask: Ask) -> None:
    ask(server.chat("4"))
    ask(server.chat("4"), key="")
    assert [headers.get("Authorization") for headers in server.headers] == [f"Bearer {KEY}", None]


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_the_key_is_in_no_error_and_in_no_log(
    server: ChatServer, ask: Ask, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises((PromptRefused, ConfigurationError, ModelUnavailable)) as refused:
        ask(*[(status, {}, f"wrong key {KEY}".encode())] * 3)
    assert KEY not in str(refused.value) + caplog.text
    assert KEY not in repr(refused.value.__cause__)


def test_a_key_that_no_header_can_carry_is_refused_without_repeating_it(ask: Ask) -> None:
    with pytest.raises(ConfigurationError) as refused:
        ask(key=f"{KEY}\n")
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1:8000/v1",
        "ftp://model.test/v1",
        "http://",
        "http://me:pw@model.test",
        "http://a.test/?k=1",
        "http://a.test:port",
    ],
)
def test_an_address_that_cannot_be_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="base_url"):
        OpenAIServerConfig(base_url=address, model="tiny")


def test_a_server_on_this_machine_is_not_asked_through_a_proxy(
    server: ChatServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    assert ask(server.chat("4")).text == "4"


def test_an_endless_answer_is_given_up(server: ChatServer, ask: Ask) -> None:
    with pytest.raises(ModelUnavailable, match="bytes of answer"):
        ask((200, {}, json.dumps({"x": "y" * (33 * 2**20)}).encode()), tries=1)
