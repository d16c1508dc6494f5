"""A real PostgreSQL for one test: a cluster in a folder of its own, which can be killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "not %a secret/"
"""With characters that mean something in an address."""


def programs() -> Path | None:
    """Folder of the newest PostgreSQL of this machine, None without one."""
    if (found := shutil.which("postgres")) is not None:
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


class PostgresServer:
    """Databases on 127.0.0.1, whose user needs the password."""

    def __init__(self, folder: Path) -> None:
        found = programs()
        assert found is not None
        self._programs = found
        self._data = folder / "cluster"
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        self._databases = 0
        secret = folder / "secret"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
            shutil.chown(secret, "nobody")
        self._run("initdb", "--pgdata", str(self._data), "--username", "touchstone", "--pwfile", str(secret),
                  "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync")  # fmt: skip
        secret.unlink()

    def database(self) -> str:
        """Address of a new database, without the password, which is expected in PGPASSWORD."""
        self._databases += 1
        name = f"touchstone{self._databases}"
        psql = self._command("psql", "-q", "-h", "127.0.0.1", "-p", str(self._port), "-U", "touchstone", "postgres")
        subprocess.run([*psql, "-c", f"CREATE DATABASE {name}"], env=os.environ | {"PGPASSWORD": PASSWORD}, check=True)
        return f"postgresql+psycopg2://touchstone@127.0.0.1:{self._port}/{name}"

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers."""
        if self._process is not None:
            return
        command = self._command("postgres", "-D", str(self._data), "-p", str(self._port), "-k", str(self._data))
        self._process = subprocess.Popen(
            [*command, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"],
            stdout=subprocess.DEVNULL,
            stderr=(self._data.parent / "log").open("ab"),
            user=self._user(),
            start_new_session=True,
            cwd="/",
        )
        ready = self._command("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self._port))
        deadline = time.monotonic() + 60
        while subprocess.run(ready, check=False).returncode != 0:
            assert self._process.poll() is None, (self._data.parent / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL did not answer in time"
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL, for all of its processes."""
        if self._process is None:
            return
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def _run(self, *command: str) -> None:
        subprocess.run(self._command(*command), user=self._user(), check=True, stdout=subprocess.DEVNULL, cwd="/")

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [str(self._programs / program), *arguments]

    def _user(self) -> str | None:
        return "nobody" if os.geteuid() == 0 else None


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """One that runs, until the end. Its folder is where a user without rights may go."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        server = PostgresServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()
