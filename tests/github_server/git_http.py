"""Git's smart HTTP protocol through `git http-backend`; a repository is written when it is first asked for."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.github_server import objects
from tests.github_server.rest import Answer
from tests.github_server.world import World


class GitHttp:
    """The repositories of a world below a folder of this process."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self.folder = folder
        self._lock = threading.Lock()
        self._written: dict[int, str] = {}
        exec_path = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
        self._backend = f"{exec_path}/git-http-backend"

    def serve(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """`path` is `/owner/name.git/…`."""
        name, _, rest = path.removeprefix("/").partition(".git")
        repository_id = self._world.id_of(name)
        if repository_id is None or not self._world.exists(repository_id):
            return Answer(404, b"Repository not found.", {"Content-Type": "text/plain"})
        if self._world.kind_of(repository_id) == "blocked_451":
            return Answer(451, b"Repository unavailable due to DMCA takedown.", {"Content-Type": "text/plain"})
        if self._world.kind_of(repository_id) == "blocked_403":
            return Answer(403, b"Access to this repository has been disabled.", {"Content-Type": "text/plain"})
        if name.lower() != self._world.full_name(repository_id).lower():
            return Answer(301, b"", {"Location": f"/{self._world.full_name(repository_id)}.git{rest}?{query}"})
        self._write(repository_id)
        return self._run(method, f"/{repository_id}.git{rest}", query, headers, body)

    def _write(self, repository_id: int) -> None:
        folder = self.folder / f"{repository_id}.git"
        with self._lock:
            if self._world.kind_of(repository_id) == "empty":
                objects.write_empty(folder)
                return
            found = objects.objects(self._world, repository_id)
            if self._written.get(repository_id) != found.commit:
                if len(self._written) > 500:  # a long crawl does not fill the disk
                    old = next(iter(self._written))
                    shutil.rmtree(self.folder / f"{old}.git")
                    del self._written[old]
                objects.write(found, folder)
                self._written[repository_id] = found.commit

    def _run(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Answer:
        environment = {
            "GIT_PROJECT_ROOT": str(self.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": method,
            "CONTENT_TYPE": headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": headers.get("Git-Protocol", ""),
        }
        done = subprocess.run(
            [self._backend], input=body, capture_output=True, env=environment, timeout=60, check=False
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        status = int(fields.pop("Status", "200").split()[0])
        return Answer(status, content, fields)
