"""Dagster's storage where it is a PostgreSQL: what is waited for, and what is known of it.

Which storage there is is chosen in resources.py. Working tables and journal never depend on it: what a run has done is
on disk before Dagster hears of it.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pipeline.errors import ConfigurationError
from sandbox.doctor import Finding

if TYPE_CHECKING:
    from psycopg2.extensions import connection
    from sqlalchemy.engine import Dialect

logger = logging.getLogger(__name__)

OUTAGE_S = 120.0
"""So long a run waits for a PostgreSQL that was there and is gone: a restart with its recovery is shorter."""
SCHEME = "postgresql+psycopg2://"


def checked_address(address: str) -> str:
    """Raises ConfigurationError for an address that the storage would not understand; never says what it is."""
    if not address.startswith(SCHEME):
        raise ConfigurationError(f"TOUCHSTONE_POSTGRES does not begin with {SCHEME}; write {SCHEME}USER@HOST/DATABASE")
    return address


@contextmanager
def connected(address: str) -> Iterator["connection"]:
    """A connection of our own. Raises ConfigurationError when none can be had within ten seconds."""
    import psycopg2

    try:
        opened = psycopg2.connect(checked_address(address).replace(SCHEME, "postgresql://", 1), connect_timeout=10)
    except psycopg2.Error as error:
        fault = " ".join(str(error).split())
        raise ConfigurationError(f"the PostgreSQL of TOUCHSTONE_POSTGRES cannot be used: {fault}") from error
    try:
        yield opened
    finally:
        opened.close()


def storage_finding(address: str | None) -> Finding:
    """Whether the storage answers, for `touchstone doctor`."""
    name = "history of runs"
    if address is None:
        return Finding(name=name, ok=True, detail="in files of the data folder; TOUCHSTONE_POSTGRES names a PostgreSQL")
    try:
        with connected(address) as opened:
            version = opened.server_version // 10_000
            where = opened.info.host
    except ConfigurationError as error:
        return Finding(name=name, ok=False, detail=str(error), remedy="start it, or mend the address or PGPASSWORD")
    return Finding(name=name, ok=True, detail=f"in PostgreSQL {version} at {where}")


class _Outage:
    """How long nothing has answered."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s
        self.since: float | None = None

    def connect(self, dialect: "Dialect", record: object, arguments: Any, parameters: Any) -> object:
        """SQLAlchemy's `do_connect`: a connection, or None for its own way to one."""
        if dialect.name != "postgresql":
            return None
        while True:
            try:
                made = dialect.connect(*arguments, **parameters)
            except dialect.loaded_dbapi.OperationalError as error:
                now = time.monotonic()
                if self.since is None:
                    self.since = now
                    logger.warning("waiting for PostgreSQL: %s", " ".join(str(error).split()))
                if now - self.since >= self.wait_s:
                    raise
                time.sleep(0.5)
            else:
                self.since = None
                return made


_outage = _Outage(OUTAGE_S)


def outlast_restarts(wait_s: float = OUTAGE_S) -> None:
    """From now on whatever this process asks of PostgreSQL waits so long for one that does not answer.

    One outage is waited for once: after that whatever is asked fails at once, until it answers again.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    _outage.wait_s = wait_s
    if not event.contains(Engine, "do_connect", _outage.connect):
        event.listen(Engine, "do_connect", _outage.connect)
