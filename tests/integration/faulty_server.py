"""A model that is a script, behind a server that fails on command. It knows the tasks of chaos.py by their number."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TRY_S = 0.6
"""For one try of the client."""
FAULTS = ("429", "500", "503", "hang up", "truncated", "garbage", "page", "empty", "null", "drip", "silence")


def right(number: int, temperature: float) -> bool:
    """Whether the script solves a task; the others end with a wrong number, which is a verdict too."""
    return (number + round(2 * temperature)) % 2 == 0


def commands(number: int, temperature: float, pause: str) -> list[str]:
    """What the script does, one command per turn."""
    written = number if right(number, temperature) else -number
    return ["echo step >> /tmp/steps.txt", f"sleep {pause}", f"echo {written} > /tmp/count.txt"]


def script(request: dict[str, Any], pause: str) -> str:
    """The answer to a conversation, from how far it has come."""
    first = request["messages"][0]["content"]
    found = re.search(r"\(task (\d+)\)", first)
    assert found is not None
    planned = commands(int(found[1]), request["temperature"], pause)
    turn = sum(one["role"] == "assistant" for one in request["messages"])
    if '"keystrokes"' not in first:
        return f"Now this.\n```bash\n{planned[turn]}\n```" if turn < len(planned) else "DONE"
    typed = [{"keystrokes": f"{planned[turn]}\n", "duration": 30}] if turn < len(planned) else []
    return json.dumps({"analysis": "a", "plan": "p", "commands": typed, "task_complete": not typed})


class FaultyServer:
    """Speaks the chat API and answers by the script, but for what `fault` says of each request, numbered from 0."""

    def __init__(self, *, pause: str = "0") -> None:
        self.pause = pause
        self.fault: Callable[[int], str | None] = lambda number: None
        self.seen: Callable[[int, dict[str, Any]], None] = lambda number, request: None
        """Called before each answer."""
        self.asked = 0
        self._lock = threading.Lock()
        self._port = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Listen, at the same address as before."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    number, outer.asked = outer.asked, outer.asked + 1
                outer.seen(number, request)
                fault = outer.fault(number)
                with contextlib.suppress(OSError):
                    _serve(self, fault, outer.body(request))

            def log_message(self, format: str, *arguments: object) -> None:
                """Not on the terminal of the tests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Nobody listens any more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def body(self, request: dict[str, Any]) -> bytes:
        """A usual answer."""
        choice = {"index": 0, "message": {"role": "assistant", "content": script(request, self.pause)}}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        return json.dumps({"model": "tiny", "choices": [choice | {"finish_reason": "stop"}], "usage": usage}).encode()

    def __enter__(self) -> FaultyServer:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _serve(handler: BaseHTTPRequestHandler, fault: str | None, body: bytes) -> None:
    status, headers = 200, {}
    if fault == "hang up":
        handler.close_connection = True
        return
    if fault == "silence":
        time.sleep(TRY_S * 1.3)
        return
    if fault in {"429", "500", "503"}:
        status, headers, body = int(fault), {"Retry-After": "0.05"} if fault == "429" else {}, b"too much"
    elif fault == "truncated":
        headers = {"Content-Length": str(len(body))}
        body = body[: len(body) // 2]
    elif fault in {"garbage", "page", "empty", "null"}:
        garbage = {"garbage": body[:-7], "page": b"<html>", "empty": b'{"choices": []}', "null": b"null"}
        body = garbage[fault]
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    for byte in body if fault == "drip" else ():
        handler.wfile.write(bytes([byte]))
        time.sleep(TRY_S / 10)
    if fault != "drip":
        handler.wfile.write(body)
