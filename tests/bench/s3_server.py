"""A local S3 server in a process of its own, for tests and for the benchmark of snapshots.

What is stored is kept in its memory and ends with it. Real servers differ in one point that matters here: in the bucket
`forgetful` the header If-None-Match of writes is ignored, in `strict` it is refused as not implemented.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent.parent
BUCKETS = ("plain", "forgetful", "strict")
_NOT_IMPLEMENTED = b"<Error><Code>NotImplemented</Code><Message>a header is not implemented</Message></Error>"


@contextmanager
def running() -> Iterator[Mapping[str, str]]:
    """The server with its BUCKETS; yields the environment that leads programs to it."""
    command = [sys.executable, "-m", "tests.bench.s3_server"]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["port"]
            yield {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_DEFAULT_REGION": "us-east-1",
                "NO_PROXY": "127.0.0.1",
            }
        finally:
            process.kill()


def _unlike(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """The same server with the habits of the two odd buckets."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        bucket = str(environ["PATH_INFO"]).split("/")[1]
        if bucket == "strict" and environ["REQUEST_METHOD"] == "PUT" and "HTTP_IF_NONE_MATCH" in environ:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("501 Not Implemented", [("Content-Type", "application/xml")])
            return [_NOT_IMPLEMENTED]
        if bucket == "forgetful":
            environ.pop("HTTP_IF_NONE_MATCH", None)
        return app(environ, start_response)

    return answer


def main() -> None:
    """Serve until standard input ends."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    app = _unlike(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for bucket in BUCKETS:
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}/{bucket}", method="PUT")
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60).close()
    print(json.dumps({"port": server.port}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
