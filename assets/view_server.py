"""Serves the pages of `touchstone view` to browsers of this machine, with the attempts that came since.

Only pages that were written are served. How they are written is in pipeline/exports/html.
"""

import functools
import logging
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

from pipeline.exports.html.site import write_view
from pipeline.tables import Store

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
_SHOWN = ("trajectories", "verifications", "judgements")


class ViewPages:
    """The viewer of a store in a folder, as new as its tables."""

    def __init__(self, store: Store, folder: Path, only: str) -> None:
        self._store, self.folder, self._only = store, folder, only
        self._lock = threading.Lock()
        self._written: Sequence[list[str]] = ()

    def renew(self) -> None:
        """Write the pages when the tables have changed since. Raises as `write_view` does."""
        with self._lock:
            found = [self._store.files(table) for table in _SHOWN]
            if found != self._written:
                write_view(self._store, self.folder, self._only)
                self._written = found


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, pages: ViewPages, *arguments: object) -> None:
        self._pages = pages
        super().__init__(*arguments, directory=str(pages.folder))  # type: ignore[arg-type]

    def send_head(self) -> IO[bytes] | None:  # type: ignore[override]
        # Another name that leads here is of a page that wants to read what this one shows.
        if self.headers.get("Host", "").rpartition(":")[0] not in (HOST, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        if self.path == "/" or not Path(self.translate_path(self.path)).exists():
            self._pages.renew()
        return super().send_head()

    def list_directory(self, path: object) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        logger.debug(format, *arguments)


def view_server(pages: ViewPages, port: int) -> ThreadingHTTPServer:
    """Bound and ready for `serve_forever`; port 0 takes a free one. Raises OSError for a port that is taken."""
    pages.renew()
    return ThreadingHTTPServer((HOST, port), functools.partial(_Handler, pages))
