"""The proxy on the loopback device of this machine: whom it serves, what it refuses, what it writes down."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from sandbox.egress.egress import Egress, HostFailure
from sandbox.egress.events import Event, Journal, read_events
from sandbox.egress.heads import MAX_HEAD
from sandbox.egress.policy import Policy
from sandbox.egress.proxy import MAX_CONNECTIONS, Proxy

TOKEN = "0123456789abcdef"
Exchange = Callable[[bytes], bytes]


class Loop:
    """Servers on a thread of their own, and a client beside them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def serve(self, handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]) -> int:
        """The port on which it answers."""

        async def start() -> int:
            server = await asyncio.start_server(handler, "127.0.0.1", 0, limit=MAX_HEAD)
            return int(server.sockets[0].getsockname()[1])

        return self._call(start())

    def exchange(self, port: int, sent: bytes) -> bytes:
        """What comes back for some bytes, until the other side ends."""

        async def talk() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            received = await asyncio.wait_for(reader.read(), 20)
            writer.close()
            return received

        return self._call(talk())

    def close(self) -> None:
        async def cancel() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._call(cancel())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    loop = Loop()
    yield loop
    loop.close()


async def origin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A web server that tells what it was asked, and 404 below /gone."""
    head = await reader.readuntil(b"\r\n\r\n")
    status = b"404 Not Found" if head.startswith(b"GET /gone") else b"200 OK"
    writer.write(b"HTTP/1.1 " + status + b"\r\nConnection: keep-alive\r\n\r\n" + head)
    await writer.drain()
    writer.close()


def proxy(loop: Loop, folder: Path, registry: int | None = None) -> Exchange:
    """A proxy of a folder; `registry` is a port of this machine that the engine may reach."""
    if registry is not None:
        (folder / "registry").write_text(f"127.0.0.1:{registry}\n")
    port = loop.serve(Proxy(Policy(folder, TOKEN), Journal(folder)).serve)
    return lambda sent: loop.exchange(port, sent)


def request(first: str, who: str = "", *headers: str) -> bytes:
    name = [f"Proxy-Authorization: Basic {base64.b64encode(who.encode()).decode()}"] if who else []
    return "\r\n".join([first, *name, *headers, "", ""]).encode()


def events(folder: Path) -> list[tuple[str, str, int, str, int]]:
    return [(event.who, event.host, event.port, event.outcome, event.status) for event in read_events(folder)]


@pytest.mark.parametrize(
    "who",
    ["", "somebody:x", "engine:x", "engine:", "trusted-recipes:x", f"trusted-:{TOKEN}", f"root:{TOKEN}", "build-:x"],
)
def test_a_client_that_is_not_whom_it_says_is_not_served(loop: Loop, tmp_path: Path, who: str) -> None:
    assert proxy(loop, tmp_path)(request("CONNECT example.org:443 HTTP/1.1", who)).startswith(b"HTTP/1.1 407 ")


@pytest.mark.parametrize("noise", [b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\r\n\r\n"])
def test_what_is_no_request_to_a_proxy_is_refused(loop: Loop, tmp_path: Path, noise: bytes) -> None:
    assert proxy(loop, tmp_path)(noise).startswith(b"HTTP/1.1 400 ")


def test_a_head_without_end_is_cut_off(loop: Loop, tmp_path: Path) -> None:
    ask = proxy(loop, tmp_path)
    try:
        answer = ask(b"GET http://example.org/ HTTP/1.1\r\nX: " + b"a" * (4 * MAX_HEAD))
    except ConnectionResetError:
        answer = b""
    assert answer == b""


def test_a_build_reaches_allowed_hosts_only_and_the_refusal_is_written_down(loop: Loop, tmp_path: Path) -> None:
    (tmp_path / "allowed").write_text("*.example.invalid\n")
    ask = proxy(loop, tmp_path)
    refused = ask(request("CONNECT example.invalid:443 HTTP/1.1", "build-1:x"))
    assert refused.startswith(b"HTTP/1.1 403 ") and b"example.invalid:443 is not on the list" in refused
    assert ask(request("CONNECT a.example.invalid:22 HTTP/1.1", "build-1:x")).startswith(b"HTTP/1.1 403 ")
    assert ask(request("CONNECT a.example.invalid:443 HTTP/1.1", "build-1:x")).startswith(b"HTTP/1.1 502 ")
    assert events(tmp_path) == [
        ("build-1", "example.invalid", 443, "refused", 0),
        ("build-1", "a.example.invalid", 22, "refused", 0),
        ("build-1", "a.example.invalid", 443, "unresolved", 0),
    ]


def test_one_client_holds_a_bounded_number_of_connections(loop: Loop, tmp_path: Path) -> None:
    port = loop.serve(Proxy(Policy(tmp_path, TOKEN), Journal(tmp_path)).serve)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(MAX_CONNECTIONS + 1)]
        held[-1].settimeout(20)
        assert held[-1].recv(1) == b""
        held[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
        held[0].settimeout(20)
        assert held[0].recv(12) == b"HTTP/1.1 400"


def test_the_list_may_change_while_the_proxy_runs(loop: Loop, tmp_path: Path) -> None:
    ask, egress = proxy(loop, tmp_path), Egress(tmp_path, restricted=True)
    asked = request("CONNECT host.invalid:443 HTTP/1.1", "build-1:x")
    assert ask(asked).startswith(b"HTTP/1.1 403 ")
    egress.allow(["host.invalid"])
    assert ask(asked).startswith(b"HTTP/1.1 502 ")
    egress.allow([])
    assert ask(asked).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]", "169.254.169.254"]
)
@pytest.mark.parametrize("who", ["build-1:x", f"trusted-recipes:{TOKEN}", f"engine:{TOKEN}"])
def test_nobody_reaches_this_machine_not_even_when_a_name_of_it_is_allowed(
    loop: Loop, tmp_path: Path, host: str, who: str
) -> None:
    port = loop.serve(origin)
    (tmp_path / "allowed").write_text(f"{host}:{port}\n")
    ask = proxy(loop, tmp_path)
    assert ask(request(f"CONNECT {host}:{port} HTTP/1.1", who)).startswith(b"HTTP/1.1 403 ")
    assert ask(request(f"GET http://{host}:{port}/ HTTP/1.1", who)).startswith(b"HTTP/1.1 403 ")
    assert {outcome for _, _, _, outcome, _ in events(tmp_path)} == {"refused"}


def test_the_engine_alone_reaches_the_configured_registry_on_this_machine(loop: Loop, tmp_path: Path) -> None:
    port = loop.serve(origin)
    ask = proxy(loop, tmp_path, registry=port)
    answer = ask(request(f"GET http://127.0.0.1:{port}/v2/ HTTP/1.1", f"engine:{TOKEN}"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nGET /v2/ HTTP/1.1\r\n")
    assert TOKEN.encode() not in answer and b"roxy" not in answer
    trusted = request(f"GET http://127.0.0.1:{port}/v2/ HTTP/1.1", f"trusted-recipes:{TOKEN}")
    assert ask(trusted).startswith(b"HTTP/1.1 403 ")


def test_the_status_of_a_plain_request_is_written_down(loop: Loop, tmp_path: Path) -> None:
    port = loop.serve(origin)
    ask = proxy(loop, tmp_path, registry=port)
    ask(request(f"GET http://127.0.0.1:{port}/gone HTTP/1.1", f"engine:{TOKEN}"))
    assert events(tmp_path) == [("engine", "127.0.0.1", port, "status", 404)]


def test_a_tunnel_carries_bytes_both_ways_to_the_end(loop: Loop, tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readexactly(300_000)).swapcase())
        await writer.drain()
        writer.close()

    port = loop.serve(echo)
    ask = proxy(loop, tmp_path, registry=port)
    answer = ask(request(f"CONNECT 127.0.0.1:{port} HTTP/1.1", f"engine:{TOKEN}") + b"a" * 300_000)
    assert answer == b"HTTP/1.1 200 connected\r\n\r\n" + b"A" * 300_000


def test_a_body_is_carried_and_nothing_behind_it(loop: Loop, tmp_path: Path) -> None:
    got: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        got.append(await reader.readexactly(5))
        await asyncio.sleep(0.2)
        got.append(await reader.read(1) if reader._buffer else b"")  # type: ignore[attr-defined]
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    port = loop.serve(listen)
    ask = proxy(loop, tmp_path, registry=port)
    post = request(f"POST http://127.0.0.1:{port}/ HTTP/1.1", f"engine:{TOKEN}", "Content-Length: 5")
    assert ask(post + b"12345GET /smuggled HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert got == [b"12345", b""]


def test_a_host_that_refuses_or_says_nothing_useful_is_unreachable(loop: Loop, tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    port = loop.serve(silent)
    ask = proxy(loop, tmp_path, registry=port)
    assert b"HTTP/1.1 504 " in ask(request(f"GET http://127.0.0.1:{port}/ HTTP/1.1", f"engine:{TOKEN}"))
    assert events(tmp_path) == [("engine", "127.0.0.1", port, "unreachable", 0)]


@pytest.mark.parametrize("tunnel", [True, False])
def test_the_proxy_of_this_machine_is_used_with_its_own_credentials(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tunnel: bool
) -> None:
    port = loop.serve(origin)
    monkeypatch.setenv("http_proxy", f"http://me:my%20word@127.0.0.1:{port}")
    monkeypatch.setenv("https_proxy", f"http://me:my%20word@127.0.0.1:{port}")
    (tmp_path / "allowed").write_text("host.invalid\n")
    first = "CONNECT host.invalid:443 HTTP/1.1" if tunnel else "GET http://host.invalid/a HTTP/1.1"
    answer = proxy(loop, tmp_path)(request(first, "build-1:x"))
    asked = b"CONNECT host.invalid:443 HTTP/1.1\r\n" if tunnel else b"GET http://host.invalid/a HTTP/1.1\r\n"
    assert asked in answer
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:my word") in answer
    assert b"build-1" not in answer and base64.b64encode(b"build-1:x") not in answer
    assert [outcome for *_, outcome, _ in events(tmp_path)] == ["ok"]


def test_what_a_recipe_of_ours_reaches_is_allowed_from_then_on_and_a_refused_host_is_not(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{loop.serve(origin)}")
    ask, egress = proxy(loop, tmp_path), Egress(tmp_path, restricted=True)
    build = request("CONNECT index.invalid:443 HTTP/1.1", "build-1:x")
    assert ask(build).startswith(b"HTTP/1.1 403 ") and not egress.allows("index.invalid")
    ask(request("CONNECT 169.254.169.254:443 HTTP/1.1", f"trusted-recipes:{TOKEN}"))
    for who in (f"engine:{TOKEN}", f"trusted-recipes:{TOKEN}"):
        ask(request("CONNECT Index.Invalid:443 HTTP/1.1", who))
    assert (tmp_path / "learned").read_text() == "index.invalid\n"
    assert ask(build).startswith(b"HTTP/1.1 200 ") and egress.allows("INDEX.invalid", 443)
    assert not egress.allows("index.invalid", 22) and not egress.allows("no host")


def test_a_private_address_is_reached_only_by_a_host_that_is_named_one_by_one(loop: Loop, tmp_path: Path) -> None:
    policy = Policy(tmp_path, TOKEN)
    (tmp_path / "allowed").write_text("mirror.invalid:3141\n*.invalid\n10.0.0.1\n")
    assert policy.may_be_private("build", "mirror.invalid", 3141)
    assert policy.may_be_private("build", "10.0.0.1", 443)
    assert not policy.may_be_private("build", "mirror.invalid", 443)
    assert not policy.may_be_private("build", "other.invalid", 443)
    (tmp_path / "allowed").write_text("*.0.0.2\n")
    assert proxy(loop, tmp_path)(request("CONNECT 10.0.0.2:443 HTTP/1.1", f"engine:{TOKEN}")).startswith(
        b"HTTP/1.1 403 "
    )


def test_failures_are_the_hosts_that_one_build_did_not_get(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write("build-1", "flaky.invalid", 443, "unreachable")
    journal.write("build-1", "flaky.invalid", 443, "ok")
    journal.write("build-1", "down.invalid", 443, "unreachable")
    journal.write("build-1", "others.invalid", 443, "unreachable")
    journal.write("build-2", "others.invalid", 443, "ok")
    journal.write("build-1", "gone.invalid", 80, "status", 404)
    journal.write("build-1", "down.invalid", 443, "unresolved")
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"half')
    assert Egress(tmp_path, restricted=True).failures("build-1") == [
        HostFailure("others.invalid", "unreachable", reached_today=True),
        HostFailure("gone.invalid", "status", reached_today=True),
        HostFailure("down.invalid", "unresolved", reached_today=False),
    ]


def test_a_host_that_was_reached_on_another_day_was_not_reached_today(tmp_path: Path) -> None:
    event = Event(time="2020-01-02T03:04:05+00:00", who="build-2", host="a.invalid", port=443, outcome="ok")
    (tmp_path / "events.jsonl").write_text(json.dumps(asdict(event)) + "\n")
    Journal(tmp_path).write("build-1", "a.invalid", 443, "unreachable")
    assert [failure.reached_today for failure in Egress(tmp_path, restricted=True).failures("build-1")] == [False]


def test_the_events_stay_bounded_and_one_client_does_not_push_out_the_others(tmp_path: Path) -> None:
    journal = Journal(tmp_path, max_bytes=2_000)
    for _ in range(3_000):
        journal.write("build-loud", "loud.invalid", 443, "refused")
    files = list(tmp_path.glob("events.jsonl*"))
    assert len(files) == 2 and sum(file.stat().st_size for file in files) < 5_000
    written = Journal(tmp_path)
    written.write("build-quiet", "a.invalid", 443, "refused")
    assert [failure.host for failure in Egress(tmp_path, restricted=True).failures("build-quiet")] == ["a.invalid"]


def test_a_foreign_engine_needs_no_variables_and_restricts_nothing(tmp_path: Path) -> None:
    egress = Egress(tmp_path, restricted=False)
    assert (egress.variables("build-1"), egress.trusted(), egress.allows("example.org")) == ({}, {}, True)


def test_the_token_is_in_the_variables_of_our_own_recipes_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    egress = Egress(tmp_path, restricted=True)
    assert TOKEN in egress.trusted()["https_proxy"]
    assert TOKEN not in str(egress.variables("build-1")) and "build-1:" in egress.variables("build-1")["HTTP_PROXY"]


def test_a_wrong_host_in_the_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="exa mple"):
        Egress(tmp_path, restricted=True).allow(["example.org", "exa mple.org"])
