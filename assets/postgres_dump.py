"""Dagster's storage in PostgreSQL as a file, and back, by the programs that come with the server."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from assets.storage import connected
from pipeline.errors import ConfigurationError, PipelineError
from sandbox.doctor import SYSTEM_PATH

if TYPE_CHECKING:
    from psycopg2.extensions import connection

DUMP = "dagster.dump"
LOCK_TIMEOUT = "-c lock_timeout=20s"
"""Who still uses the tables is no reason to wait for ever."""


class DumpFailed(PipelineError):
    """pg_dump or pg_restore did not do it; the text is theirs."""


def dump(address: str, folder: Path) -> Mapping[str, int]:
    """Write all tables, as they are at one moment, and return how many rows each has then.

    Raises ConfigurationError, and DumpFailed.
    """
    with connected(address) as opened:
        opened.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with opened.cursor() as cursor:
            cursor.execute("SELECT pg_export_snapshot()")
            snapshot = cursor.fetchone()[0]
        rows = _counted(opened)
        _run(opened, "pg_dump", "--format=custom", "--no-owner", f"--snapshot={snapshot}", f"--file={folder / DUMP}")
    return rows


def fill(address: str, folder: Path) -> Mapping[str, int]:
    """Bring a dump into a database that knows of no run, all of it or nothing; return how many rows each table has.

    Raises ConfigurationError, and DumpFailed for a database that knows of runs.
    """
    with connected(address) as opened:
        opened.autocommit = True
        if _counted(opened).get("runs"):
            raise DumpFailed("the database knows of runs already; a back-up goes into an empty one only")
        _run(opened, "pg_restore", "--clean", "--if-exists", "--no-owner", "--single-transaction", "--exit-on-error",
             f"--dbname={opened.info.dbname}", str(folder / DUMP))  # fmt: skip
        return _counted(opened)


def _counted(opened: "connection") -> dict[str, int]:
    with opened.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename")
        names = [name for (name,) in cursor.fetchall()]
        rows = {}
        for name in names:
            cursor.execute(f'SELECT count(*) FROM "{name}"')
            rows[name] = int(cursor.fetchone()[0])
    return rows


def _run(opened: "connection", program: str, *arguments: str) -> None:
    """What it connects to is in its environment: others see the arguments of a program."""
    found = shutil.which(program) or shutil.which(program, path=SYSTEM_PATH)
    if found is None:
        raise ConfigurationError(f"there is no {program}; apt-get install postgresql-client")
    info = opened.info
    named = {
        "PGHOST": info.host,
        "PGPORT": str(info.port),
        "PGUSER": info.user,
        "PGDATABASE": info.dbname,
        "PGPASSWORD": info.password or "",
        "PGSSLMODE": info.dsn_parameters.get("sslmode", "prefer"),
        "PGOPTIONS": LOCK_TIMEOUT,
    }
    ended = subprocess.run(
        [found, *arguments], env=named | {"PATH": SYSTEM_PATH}, capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        raise DumpFailed(f"{program}: {' '.join(ended.stderr.split())[-500:]}")
