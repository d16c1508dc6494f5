"""Requests as clients send them, and as those send them who want the proxy and the host to see two different things."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.egress.heads import BadRequest, Request, closing_response, parse_request


def parse(first: str, *headers: str) -> Request:
    return parse_request("\r\n".join([first, *headers, "", ""]).encode("latin-1"))


def basic(pair: str) -> str:
    return f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}"


def test_a_tunnel_names_host_port_and_client() -> None:
    request = parse("CONNECT Example.org:443 HTTP/1.1", "Host: example.org:443", basic("build-1:x:y"))
    assert (request.tunnel, request.host, request.port) == (True, "example.org", 443)
    assert (request.user, request.secret) == ("build-1", "x:y")


def test_an_address_is_split_into_host_port_and_path() -> None:
    request = parse("GET http://example.org:8080/a/b?c=d HTTP/1.1", "Host: example.org:8080")
    assert (request.host, request.port, request.path, request.tunnel) == ("example.org", 8080, "/a/b?c=d", False)
    assert parse("GET HTTP://example.org HTTP/1.1").path == "/"
    assert parse("GET http://example.org?q HTTP/1.1").path == "/?q"
    assert parse("GET http://[2001:db8::1]:81/ HTTP/1.1").host == "2001:db8::1"


def test_the_host_gets_neither_credentials_nor_another_host_name() -> None:
    request = parse(
        "GET http://example.org/a HTTP/1.1",
        "Host: other.invalid",
        basic("build-1:x"),
        "Proxy-Connection: keep-alive",
        "Connection: keep-alive, X-Private",
        "X-Private: 1",
        "Accept: */*",
    )
    assert request.forwarded() == b"GET /a HTTP/1.1\r\nHost: example.org\r\naccept: */*\r\nConnection: close\r\n\r\n"


def test_another_proxy_gets_the_whole_address_and_its_own_credentials() -> None:
    sent = parse("GET http://example.org:81/a HTTP/1.1", basic("build-1:x")).forwarded("Basic abc")
    assert sent.startswith(b"GET http://example.org:81/a HTTP/1.1\r\nHost: example.org:81\r\n")
    assert b"Proxy-Authorization: Basic abc\r\n" in sent


def test_the_length_of_a_body_is_known() -> None:
    post = "POST http://example.org/ HTTP/1.1"
    assert parse(post, "Content-Length: 12").body_bytes == 12
    assert parse(post, "Transfer-Encoding: chunked").body_bytes is None
    assert parse(post).body_bytes == 0


@pytest.mark.parametrize(
    "lines",
    [
        [""],
        ["GET / HTTP/1.1", "Host: example.org"],
        ["GET https://example.org/ HTTP/1.1"],
        ["GET file:///etc/passwd HTTP/1.1"],
        ["GET http://user@example.org/ HTTP/1.1"],
        ["GET http://example.org\\@evil.invalid/ HTTP/1.1"],
        ["GET http://example.org#@evil.invalid/ HTTP/1.1"],
        ["GET http:///path HTTP/1.1"],
        ["GET http://example.org/ HTTP/2.0"],
        ["GET http://example.org/ a HTTP/1.1"],
        ["GET  http://example.org/ HTTP/1.1"],
        ["CONNECT example.org HTTP/1.1"],
        ["CONNECT example.org:443/path HTTP/1.1"],
        ["CONNECT example.org:99999 HTTP/1.1"],
        ["CONNECT http://example.org:443 HTTP/1.1"],
        ["CONNECT ::1:443 HTTP/1.1"],
        ["CONNECT example.org%00.evil.invalid:443 HTTP/1.1"],
        ["GET http://example.org/ HTTP/1.1", " folded: yes"],
        ["GET http://example.org/ HTTP/1.1", "no colon"],
        ["GET http://example.org/ HTTP/1.1", "Content-Length : 3"],
        ["GET http://example.org/ HTTP/1.1", "Content-Length: 3", "Content-Length: 4"],
        ["GET http://example.org/ HTTP/1.1", "Content-Length: 3", "Transfer-Encoding: chunked"],
        ["GET http://example.org/ HTTP/1.1", "Transfer-Encoding: chunked, identity"],
        ["GET http://example.org/ HTTP/1.1", "Content-Length: -3"],
        ["GET http://example.org/ HTTP/1.1", "Content-Length: +3"],
        ["GET http://example.org/ HTTP/1.1", "X: a\nY: b"],
        ["GET http://example.org/ HTTP/1.1", "X: a\rY: b"],
        ["GET http://example.org/ HTTP/1.1", "X: a\x00b"],
        ["GET http://example.org/ HTTP/1.1", "Proxy-Authorization: Digest abc"],
        ["GET http://example.org/ HTTP/1.1", "Proxy-Authorization: Basic %%%"],
        ["GET http://example.org/ HTTP/1.1", basic("a:b"), basic("c:d")],
    ],
)
def test_what_is_not_clearly_one_request_is_refused(lines: list[str]) -> None:
    with pytest.raises(BadRequest):
        parse(*lines)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_whatever_comes_is_a_request_or_is_refused(noise: bytes) -> None:
    for head in (noise, b"GET http://example.org/ HTTP/1.1\r\n" + noise, b"CONNECT " + noise + b" HTTP/1.1\r\n\r\n"):
        try:
            request = parse_request(head)
        except BadRequest:
            continue
        assert b"\r\n\r\n" not in request.forwarded()[:-4]


def test_an_answer_says_that_the_connection_ends_with_it() -> None:
    status, head = closing_response(
        b"HTTP/1.1 404 Not Found\r\nKeep-Alive: 5\r\nconnection: keep-alive\r\nA: b\r\n\r\n"
    )
    assert (status, head) == (404, b"HTTP/1.1 404 Not Found\r\nA: b\r\nConnection: close\r\n\r\n")


def test_an_announcement_of_an_answer_is_handed_on_as_it_is() -> None:
    assert closing_response(b"HTTP/1.1 100 Continue\r\n\r\n") == (100, b"HTTP/1.1 100 Continue\r\n\r\n")


def test_an_answer_that_is_not_http_is_refused() -> None:
    with pytest.raises(BadRequest):
        closing_response(b"SSH-2.0-OpenSSH\r\n\r\n")
