"""The gate `network_off`: nothing that a task is judged by comes from outside its sandbox."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from urllib.parse import urlsplit

from pipeline.admission.records import Gate
from pipeline.types import TaskInstance

REACHING = {
    *("connect", "connect_ex", "create_connection", "urlopen", "Request", "getaddrinfo", "gethostbyname", "sendto"),
    *("HTTPConnection", "HTTPSConnection", "open", "SMTP", "FTP", "IMAP4", "POP3", "ServerProxy", "open_connection"),
}
LOOPBACK = {"localhost", "::1", "0.0.0.0", ""}


def network_gate(instance: TaskInstance) -> Gate:
    """No sandbox of the task has a network, and a verifier of services asks those of its own sandbox only."""
    if instance.limits.network != "none":
        return Gate(gate="network_off", passed=False, evidence=f"its network is {instance.limits.network}")
    if instance.state_scope == "live":
        for file in instance.verifier.files:
            for host in _hosts(ast.parse(file.content)):
                if not _is_loopback(host):
                    return Gate(gate="network_off", passed=False, evidence=f"{file.path} asks the host {host[:80]}")
    evidence = "every sandbox and every judgement without a network"
    return Gate(gate="network_off", passed=True, evidence=evidence)


def _hosts(tree: ast.Module) -> Iterator[str]:
    """Hosts that calls which reach out are given as literals, or by names of literals."""
    named = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name not in REACHING:
            continue
        for part in (part for argument in call.args[:1] for part in ast.walk(argument)):
            given = named.get(part.id) if isinstance(part, ast.Name) else part
            if isinstance(given, ast.JoinedStr) and given.values:
                given = given.values[0]
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                yield from _host(given.value, plain=name not in {"open", "urlopen", "Request"})


def _host(text: str, *, plain: bool) -> Iterator[str]:
    if "://" in text:
        scheme, _, rest = text.partition("://")
        if scheme in {"http", "https", "ftp", "ws", "wss"} and rest:
            yield urlsplit(text).netloc.rpartition("@")[2].rsplit(":", 1)[0].strip("[]")
    elif plain and "/" not in text:
        yield text


def _is_loopback(host: str) -> bool:
    return host in LOOPBACK or host.startswith("127.")
