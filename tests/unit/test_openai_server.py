"""The client of a chat server: what is asked again and how often, what is whose fault, and where the key may not go."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import SecretStr, ValidationError

from pipeline.errors import ConfigurationError
from pipeline.llm.openai_server import OpenAIServer, OpenAIServerConfig
from pipeline.llm.protocol import Completion, ContextOverflow, Message, ModelUnavailable, PromptRefused, Sampling
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


OK = {"Content-Type": "application/json"}


def body(**columns: object) -> Answer:
    """A 200 of any content."""
    return 200, OK, json.dumps(columns).encode()


def choice(content: object = "4", **columns: object) -> dict[str, object]:
    return {"choices": [{"message": {"content": content}, "finish_reason": "stop", **columns}]}


@pytest.mark.parametrize(
    "fault",
    [
        body(**choice(), usage={"prompt_tokens": -5}),
        body(**choice(), usage={"completion_tokens": 10**20}),
        body(**choice(["4"])),
        body(**choice(4)),
        body(choices=[{}]),
        body(choices=None),
        body(error={"message": "upstream is gone"}),
        (200, OK, b'{"choices": [{"message": {"content": "4"}, "finish_reason": NaN}]}'),
        (200, OK, b"[" * 200_000),
        (200, OK, b'{"choices": ' + b"1" * 5_000 + b"}"),
        (200, OK, b"null"),
        (200, OK, b""),
        (200, OK, b"\xff\xfe\x00"),
        (200, OK | {"Content-Encoding": "gzip"}, b"no gzip"),
        (429, {"Retry-After": "nan"}, b""),
        (429, {"Retry-After": "-1"}, b""),
        (429, {"Retry-After": "Mon, 02 Nov 99999999999999999999 00:00:00 GMT"}, b""),
        (429, {"Retry-After": "Mon, 02 Nov 2020 99:99:99 +999999"}, b""),
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


@pytest.mark.parametrize("text", ["a\ud83d", "\ud83d\ude00 \udc00", "\udcff"])
def test_half_a_character_of_an_answer_that_was_cut_is_replaced(server: ChatServer, ask: Ask, text: str) -> None:
    found = ask(server.chat(text, model="\ud83d"))
    assert found.text == text.replace("\ud83d\ude00", "😀").encode("utf-8", "replace").decode().replace("?", "\ufffd")
    assert found.model == "\ufffd"


def test_a_broken_byte_of_an_answer_is_replaced(ask: Ask) -> None:
    assert ask((200, OK, b'{"choices": [{"message": {"content": "4\xe2\x82"}}]}')).text == "4\ufffd"


def test_an_answer_that_calls_a_tool_is_an_empty_one(ask: Ask) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]
    found = ask(body(choices=[{"message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}]))
    assert (found.text, found.finish_reason) == ("", "other")


def test_token_ids_and_probabilities_are_asked_for_and_kept(server: ChatServer, ask: Ask) -> None:
    answered = choice(token_ids=[7, 8], logprobs={"content": [{"token": "4", "logprob": -0.5}]})
    found = ask(body(**answered, prompt_token_ids=[1, 2]), sampling=Sampling(token_details=True))
    assert (server.asked[0]["logprobs"], server.asked[0]["return_token_ids"]) == (True, True)
    assert (found.prompt_token_ids, found.completion_token_ids, found.logprobs) == ((1, 2), (7, 8), (-0.5,))


@pytest.mark.parametrize(("counted", "kept"), [(2, (7, 8)), (None, (7, 8)), (4, None)])
def test_token_ids_beside_the_probabilities_are_kept_only_where_none_is_left_out(
    ask: Ask, counted: int | None, kept: tuple[int, ...] | None
) -> None:
    answered = choice(logprobs={"content": [{"id": 7, "logprob": -0.5}, {"id": 8, "logprob": -0.25}]})
    found = ask(body(**answered, usage={"completion_tokens": counted}), sampling=Sampling(token_details=True))
    assert found.completion_token_ids == kept
    assert found.logprobs == (None if kept is None else (-0.5, -0.25))


def test_a_server_that_gives_no_token_ids_is_fine(ask: Ask) -> None:
    found = ask(body(**choice(logprobs=None)), sampling=Sampling(token_details=True))
    assert (found.prompt_token_ids, found.completion_token_ids, found.logprobs) == (None, None, None)


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"prompt_tokens": 1000, "completion_tokens": 100}, 1000 * 2 + 100 * 8),
        (
            {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 900}},
            100 * 2 + 900 * 1 + 100 * 8,
        ),
        ({"prompt_tokens": 10, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 900}}, 10 * 1),
        ({"prompt_tokens": 10, "completion_tokens": 0, "prompt_tokens_details": None}, 20),
        ({"prompt_tokens": 1000}, None),
        (None, None),
    ],
)
def test_the_cost_follows_the_prices(ask: Ask, usage: dict[str, object] | None, cost: float | None) -> None:
    prices = {
        "usd_per_million_prompt_tokens": 2,
        "usd_per_million_cached_tokens": 1,
        "usd_per_million_completion_tokens": 8,
    }
    found = ask(body(**choice(), usage=usage), **prices).cost_usd
    assert found == (None if cost is None else pytest.approx(cost / 1e6))


def test_what_a_server_failed_at_before_is_not_in_the_time_of_the_answer(server: ChatServer, ask: Ask) -> None:
    began = time.monotonic()
    found = ask((503, {}, b""), (503, {}, b""), server.chat("4"), first_wait_s=0.2)
    assert found.seconds <= time.monotonic() - began - 0.2 * 0.75 - 0.4 * 0.75


def test_waiting_for_a_turn_is_not_in_the_time_of_the_answer(server: ChatServer) -> None:
    server.answers = [server.chat("4")] * 2
    model = OpenAIServer(OpenAIServerConfig(base_url=server.url, model="tiny", requests_per_minute=120))
    began = time.monotonic()
    both = [model.complete(ASK, Sampling()).seconds for _ in range(2)]
    # The second one may begin half a second after the first.
    assert sum(both) <= time.monotonic() - began - max(0.0, 0.5 - both[0])


def test_many_threads_keep_the_pace_together(server: ChatServer) -> None:
    server.answers = [server.chat("4")] * 6
    model = OpenAIServer(OpenAIServerConfig(base_url=server.url, model="tiny", requests_per_minute=1200))
    began = time.monotonic()
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda _: model.complete(ASK, Sampling()), range(6)))
    assert time.monotonic() - began >= 5 * 60 / 1200


def test_those_who_were_asked_to_wait_for_the_same_time_come_back_spread(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("pipeline.llm.openai_server.time.sleep", slept.append)
    server.answers = [(429, {"Retry-After": "2"}, b"")] * 8
    model = OpenAIServer(OpenAIServerConfig(base_url=server.url, model="tiny", tries=9, first_wait_s=0.5))
    server.answers.append(server.chat("4"))
    model.complete(ASK, Sampling())
    assert all(pause >= 2 for pause in slept) and len(set(slept)) == 8


def test_a_storm_ends_for_every_thread(server: ChatServer) -> None:
    server.answers = [(429, {"Retry-After": "0"}, b"slow down")] * 20 + [server.chat("4")] * 8
    model = OpenAIServer(OpenAIServerConfig(base_url=server.url, model="tiny", tries=21, first_wait_s=0.001))
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: model.complete(ASK, Sampling()).text, range(8)))
    assert found == ["4"] * 8


def test_an_answer_that_drips_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
                with contextlib.suppress(OSError):
                    for _ in range(100):
                        connection.sendall(b" ")
                        time.sleep(0.05)

        threading.Thread(target=drip, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        model = OpenAIServer(OpenAIServerConfig(base_url=url, model="tiny", tries=1, timeout_s=0.3))
        began = time.monotonic()
        with pytest.raises(ModelUnavailable, match="no end of the answer"):
            model.complete(ASK, Sampling())
        assert time.monotonic() - began < 3


TOO_LONG = {
    "vLLM": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
    "llama.cpp": "the request exceeds the available context size, try increasing it",
    "OpenAI": '{"error": {"code": "context_length_exceeded"}}',
    "Anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
}


@pytest.mark.parametrize("server_name", TOO_LONG)
def test_messages_that_are_too_long_are_told_apart(ask: Ask, server_name: str) -> None:
    with pytest.raises(ContextOverflow):
        ask((400, {}, TOO_LONG[server_name].encode()))


def test_an_answer_that_fills_the_context_is_too_long_and_no_fault_of_the_server(server: ChatServer, ask: Ask) -> None:
    # llama.cpp says so with the status of a fault; asked again it would say it again.
    with pytest.raises(ContextOverflow):
        ask((500, {}, b'{"error": {"code": 500, "message": "Context size has been exceeded."}}'))
    assert len(server.asked) == 1


def test_messages_that_are_refused_for_another_reason_are_not_too_long(ask: Ask) -> None:
    with pytest.raises(PromptRefused) as refused:
        ask((400, {}, b'{"error": "conversation roles must alternate"}'))
    assert not isinstance(refused.value, ContextOverflow)


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


def test_the_key_is_in_no_error_about_an_answer_that_is_none(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ModelUnavailable) as refused:
        ask(*[(200, OK, f'{{"your key": "{KEY}"}}'.encode())] * 3)
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
