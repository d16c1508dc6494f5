"""A front for a pool of two given nodes: how it spreads requests, what it tells them, and when one of them ails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeline.generators.domains.web_service.commands import answering, nginx, put_in, started, written
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_NODE = '''
"""One node of the pool: node.py NAME PORT. POST /_ail and /_heal on its own port change how it feels."""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME, PORT = sys.argv[1], int(sys.argv[2])
FEELS = {"well": True}


class Node(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        told = {name: ", ".join(self.headers.get_all(name) or []) for name in ("X-Forwarded-For", "X-Forwarded-Host")}
        self.answer({"node": NAME, "method": self.command, "target": self.path, **told})

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path in ("/_ail", "/_heal"):
            FEELS["well"] = self.path == "/_heal"
            return self.answer({}, 200)
        self.do_GET()

    def answer(self, value, status=None):
        body = json.dumps(value).encode()
        self.send_response(status or (200 if FEELS["well"] else 503))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Node).serve_forever()
'''
_NGINX = """
user www-data;
worker_processes 1;
pid /run/front.pid;
events {}
http {
    access_log off;
    upstream pool {
        @SPREAD@
        server 127.0.0.1:@A@ max_fails=1 fail_timeout=1s;
        server 127.0.0.1:@B@ max_fails=1 fail_timeout=1s@SECOND@;
    }
    server {
        listen @FRONT@;
        location @PREFIX@/ {
            proxy_pass http://pool/;
            proxy_set_header X-Forwarded-For "$proxy_add_x_forwarded_for";
            proxy_set_header X-Forwarded-Host $http_host;
            proxy_next_upstream error timeout http_503 non_idempotent;
        }
        location / { return 404; }
    }
}
"""
_HAPROXY = """
global
    daemon
defaults
    mode http
    timeout connect 1s
    timeout client 10s
    timeout server 5s
    option redispatch 1
    option http-buffer-request
    retries 3
    retry-on all-retryable-errors
frontend front
    bind 127.0.0.1:@FRONT@
    http-request return status 404 unless { path_beg @PREFIX@/ }
    http-request set-header X-Forwarded-Host %[req.hdr(host)]
    default_backend pool
backend pool
    balance @SPREAD@
    option forwardfor
    option httpchk GET /health
    http-request replace-path @PREFIX@(/.*) \\\\1
    server a 127.0.0.1:@A@ check inter 300 fall 1 rise 1
    server b 127.0.0.1:@B@ check inter 300 fall 1 rise 1
"""
_FALLBACK = """
user www-data;
pid /run/front.pid;
events {}
http {
    access_log off;
    proxy_set_header X-Forwarded-For "$proxy_add_x_forwarded_for";
    proxy_set_header X-Forwarded-Host $http_host;
    server {
        listen 127.0.0.1:@FRONT@;
        location / { return 404; }
        location @PREFIX@/ {
            rewrite ^@PREFIX@(/.*)$ $1 break;
            proxy_intercept_errors on;
            error_page 503 = @spare;
            proxy_pass http://127.0.0.1:@A@;
        }
        location @spare { rewrite ^@PREFIX@(/.*)$ $1 break; proxy_pass http://127.0.0.1:@B@; }
    }
}
"""
_VERIFIER = """
import json
import socket
import urllib.error
import urllib.request

FRONT = __FRONT__
NODES = __NODES__
PREFIX = __PREFIX__


def request(target, port=FRONT, data=None, **headers):
    wish = urllib.request.Request(f"http://127.0.0.1:{port}{target}", data=data)
    for name, value in headers.items():
        wish.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(wish, timeout=3) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, {}


def healed():
    for port in NODES.values():
        assert request("/_heal", port, b"")[0] == 200


def wait():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as quiet:
        quiet.bind(("127.0.0.1", 0))
        quiet.settimeout(0.1)
        try:
            quiet.recv(1)
        except TimeoutError:
            return


def eventually(seen):
    for _ in range(30):
        if seen():
            return True
        wait()
    return False


def node_of(target, **headers):
    status, told = request(PREFIX + target, **headers)
    return told["node"] if status == 200 else status


def test_nodes_get_the_rest_of_the_path_and_who_asked():
    healed()
    assert eventually(lambda: node_of("/ping") in NODES)
    sent = {"Host": "shop.example:81", "X_Forwarded_For": "203.0.113.9"}
    status, told = request(PREFIX + "/orders/7?state=open&x=%2F", **sent)
    assert status == 200 and told["target"] == "/orders/7?state=open&x=%2F"
    assert told["X-Forwarded-Host"] == "shop.example:81"
    assert [part.strip() for part in told["X-Forwarded-For"].split(",")] == ["203.0.113.9", "127.0.0.1"]
    assert request(PREFIX + "/orders", data=b"n=1")[1]["method"] == "POST"
    assert [request(target)[0] for target in ("/", "/orders/7", PREFIX + "x/orders")] == [404, 404, 404]

"""
_EVEN = """
def test_both_nodes_work_equally():
    healed()
    assert eventually(lambda: len({node_of("/warm") for _ in range(4)} & set(NODES)) == 2)
    seen = [node_of(f"/item/{number}") for number in range(20)]
    assert {name: seen.count(name) for name in NODES} == dict.fromkeys(NODES, 10)
"""
_AILING = """
def test_an_ailing_node_is_left_out_and_comes_back():
    healed()
    for ailing in NODES:
        assert eventually(lambda: {node_of("/warm") for _ in range(4)} == set(NODES))
        try:
            request("/_ail", NODES[ailing], b"")
            posted = {request(PREFIX + "/item", data=b"x=1")[0] for _ in range(4)}
            seen = {node_of(f"/item/{number}") for number in range(12)}
        finally:
            healed()
        assert (seen, posted) == (set(NODES) - {ailing}, {200})
    assert eventually(lambda: {node_of("/warm") for _ in range(4)} == set(NODES))
"""
_STICKY = """
def test_a_customer_stays_with_one_node():
    healed()
    assert eventually(lambda: {node_of("/warm", __KEY__=f"w{number}") for number in range(12)} == set(NODES))
    seen = {
        customer: {node_of(f"/page/{number}", __KEY__=customer) for number in range(3)}
        for customer in __CUSTOMERS__
    }
    assert all(len(nodes) == 1 for nodes in seen.values()), seen
    assert set().union(*seen.values()) == set(NODES)
"""
_SPARE = """
def test_the_spare_node_works_only_while_the_other_ails():
    healed()
    usual, spare = NODES
    assert eventually(lambda: {node_of("/warm") for _ in range(3)} == {usual})
    assert {node_of(f"/item/{number}") for number in range(10)} == {usual}
    try:
        request("/_ail", NODES[usual], b"")
        replaced = [node_of(f"/item/{number}") for number in range(8)]
    finally:
        healed()
    assert replaced == [spare] * 8
    assert eventually(lambda: {node_of("/warm") for _ in range(3)} == {usual})
"""


@dataclass(frozen=True)
class _Spread:
    """How requests are spread over the nodes."""

    difficulty: Literal["medium", "hard"]
    wish: str
    test: str
    weak: dict[str, tuple[str, str]]
    nginx: str = ""
    nginx_second: str = ""
    haproxy: str = "roundrobin"


def _spread(seed: int, names: tuple[str, str], key: str, customers: list[str]) -> _Spread:
    back = "; when it answers properly again it has to take its share within 3 seconds"
    match seed % 4:
        case 0:
            return _Spread(
                difficulty="medium",
                wish="Both nodes take turns, so that of any even number of requests one "
                "after another each one gets half.",
                test=_EVEN,
                weak={"only_one": ("server 127.0.0.1:@B@ max_fails=1 fail_timeout=1s@SECOND@;", "")},
            )
        case 1:
            return _Spread(
                difficulty="hard",
                wish="Both nodes share the work. A node that ails answers everything, its /health too, with 503; "
                f"clients must never get to see that: what an ailing node refuses goes to the other one, POST requests "
                f"included{back}. For a rehearsal, a POST to /_ail on a node's own port "
                "makes it ill, one to /_heal well.",
                test=_AILING,
                weak={
                    "never_asked_again": ("fail_timeout=1s", "fail_timeout=300s"),
                    "posts_not_repeated": (" non_idempotent", ""),
                    "errors_passed_on": (
                        "proxy_next_upstream error timeout http_503 non_idempotent",
                        "proxy_buffering on",
                    ),
                },
            )
        case 2:
            return _Spread(
                difficulty="medium",
                wish=f"Every request of our clients carries {key}, the customer's name. One customer has to be served "
                "by the same node each time, and the customers have to be spread over both nodes.",
                nginx=f"hash $http_{key.lower().replace('-', '_')};",
                haproxy=f"hdr({key})\n    hash-type consistent djb2 avalanche",
                test=_STICKY.replace("__KEY__", key.replace("-", "_")).replace("__CUSTOMERS__", repr(customers)),
                weak={
                    "in_turn": ("@SPREAD@", ""),
                    "by_address": ("@SPREAD@", "ip_hash;"),
                    "by_path": ("@SPREAD@", "hash $request_uri;"),
                },
            )
    usual, spare = names
    return _Spread(
        difficulty="hard",
        wish=f"{usual} does all the work while it is well, {spare} is a spare. When {usual} ails, it answers "
        f"everything, its /health too, with 503; from then on {spare} has to answer, without one failed request{back}. "
        "For a rehearsal, a POST to /_ail on a node's own port makes it ill, one to /_heal well.",
        nginx_second=" backup",
        test=_SPARE,
        weak={
            "no_spare": ("@SECOND@", ""),
            "spare_never_used": (" http_503", ""),
            "never_back": ("fail_timeout=1s", "fail_timeout=300s"),
        },
    )


def balancer(seed: int, context: Context) -> Draft:
    rng = chance("web_service", "balancer", seed)
    front = rng.randint(8400, 8800)
    first, second = front + 701, front + 702
    names = [("ash", "birch"), ("ruby", "topaz"), ("north", "south"), ("heron", "crane")][rng.randrange(4)]
    prefix = rng.choice(("/api", "/backend", "/v1", "/svc"))
    customers = [f"{rng.choice('bcdfghjk')}{rng.choice('aeiou')}{n}{rng.randint(10, 99)}" for n in range(24)]
    spread = _spread(seed, names, rng.choice(("X-Customer", "X-Tenant", "X-Client-Id")), customers)
    common = {"front": front, "a": first, "b": second, "prefix": prefix}
    nodes = (
        started(f"python3 /opt/pool/node.py {names[0]} {first}", first),
        started(f"python3 /opt/pool/node.py {names[1]} {second}", second),
    )

    def with_nginx(old: str = "", new: str = "") -> tuple[str, ...]:
        text = put_in(_NGINX.replace(old, new), **common, spread=spread.nginx, second=spread.nginx_second)
        return (*nodes, written("/work/front.conf", text), nginx("/work/front.conf", front))

    proxy = put_in(_HAPROXY, **common, spread=spread.haproxy).replace("\\\\1", "\\1")
    if spread.nginx_second:
        fallback = written("/work/front.conf", put_in(_FALLBACK, **common))
        other = Variant(name="answers_by_the_spare", commands=(*nodes, fallback, nginx("/work/front.conf", front)))
    else:
        up = answering(f"http://127.0.0.1:{front}/")
        run = (written("/work/front.cfg", proxy), "haproxy -f /work/front.cfg", up)
        other = Variant(name="haproxy", commands=(*nodes, *run))
    return Draft(
        family="balancer",
        seed=seed,
        difficulty=spread.difficulty,
        instruction=f"The program /opt/pool/node.py is one node of our order service (NAME and PORT are its "
        f"arguments). Start two of them, {names[0]} on port {first} and {names[1]} on port {second}, and put a reverse "
        f"proxy before them that listens on 127.0.0.1:{front}. Everything below {prefix}/ goes to the nodes, without "
        "that prefix but with the rest of the path and the query untouched; any other path is a 404 of the proxy "
        f"itself. {spread.wish} In X-Forwarded-For the nodes get what the client sent there plus the client's address "
        "at the end, in X-Forwarded-Host the Host header as the client sent it. nginx and HAProxy are both installed. "
        "Do not change node.py; leave all three processes running.",
        files=(TaskFile(path="/opt/pool/node.py", text=_NODE.lstrip()),),
        solution=with_nginx(),
        right=(other,),
        weak=(
            *(Variant(name=name, commands=with_nginx(old, new)) for name, (old, new) in spread.weak.items()),
            Variant(name="prefix_kept", commands=with_nginx("http://pool/;", "http://pool;")),
            Variant(name="address_replaced", commands=with_nginx("$proxy_add_x_forwarded_for", "$remote_addr")),
            Variant(name="host_of_the_pool", commands=with_nginx("$http_host", "$proxy_host")),
            Variant(name="nodes_only", commands=nodes),
        ),
        verifier=filled(_VERIFIER, front=front, nodes=dict(zip(names, (first, second), strict=True)), prefix=prefix)
        + spread.test,
        state_scope="live",
    )
