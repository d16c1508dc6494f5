"""SQL: files of SQLite that are asked, tuned and given another shape, and a server of PostgreSQL."""

from __future__ import annotations

from pipeline.generators.domains.sql.access import row_security
from pipeline.generators.domains.sql.normal_form import normalise
from pipeline.generators.domains.sql.partitions import partition
from pipeline.generators.domains.sql.reports import hierarchy, window_report
from pipeline.generators.domains.sql.restore import restore_dump
from pipeline.generators.domains.sql.schemas import migrate_schema, orphans
from pipeline.generators.domains.sql.settings import server_settings
from pipeline.generators.domains.sql.tuning import audit_trail, slow_query
from pipeline.generators.drafts import Pack

PACK = Pack(
    domain="sql",
    families={
        "window_report": window_report,
        "hierarchy": hierarchy,
        "slow_query": slow_query,
        "audit_trail": audit_trail,
        "migrate_schema": migrate_schema,
        "orphans": orphans,
        "normalise": normalise,
        "row_security": row_security,
        "partition": partition,
        "server_settings": server_settings,
        "restore_dump": restore_dump,
    },
)
