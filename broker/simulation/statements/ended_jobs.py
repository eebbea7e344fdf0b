"""The source of ended jobs: ``jobsarchived4`` for the last days, the archive for earlier ones."""

from __future__ import annotations

import sqlalchemy as sa

from broker.store.connection.tables import Names

#: Columns of an ended job.
COLUMNS = (
    "pandaid, jeditaskid, computingsite, jobstatus, starttime, endtime, modificationtime, minramcount, prodsourcelabel,"
    " gshare, actualcorecount, corecount, attemptnr, cpuconsumptiontime, maxrss, piloterrorcode, exeerrorcode,"
    " transexitcode, processingtype, produsername"
)
#: Table to which ended jobs move from ``jobsarchived4`` after some days.
ARCHIVE = "doma_pandaarch.jobsarchived"
_READABLE = """
SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'doma_pandaarch' AND c.relname = 'jobsarchived'
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"""


def ended_jobs(connection: sa.Connection, names: Names) -> str:
    """SQL for a FROM clause: each ended job once, from ``jobsarchived4`` and from the archive if it can be read."""
    recent = names.sql(f"(SELECT {COLUMNS} FROM {{panda}}.jobsarchived4)")  # noqa: S608 - our names
    if connection.execute(sa.text(_READABLE)).first() is None:
        return recent
    before = f"SELECT {COLUMNS} FROM {ARCHIVE} AS old WHERE NOT EXISTS"  # noqa: S608 - our names
    young = names.sql("(SELECT 1 FROM {panda}.jobsarchived4 AS young WHERE young.pandaid = old.pandaid)")
    return f"({recent[1:-1]} UNION ALL {before} {young})"
