"""Moving ended jobs, with their files, to the archive. Standalone only: alongside PanDA these tables are PanDA's.

Source: PanDA data model, jobs; finished, failed, closed and cancelled are the states in which a job ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.store.connection.tables import PANDA, Names, declared_tables, quoted

ARCHIVE_SCHEMA = "doma_pandaarch"
ARCHIVE_TABLES = ("jobsarchived", "filestable_arch")
_ENDED = "jobstatus IN ('finished', 'failed', 'closed', 'cancelled')"

_LOCK_OLD_JOBS = f"""
    SELECT pandaid FROM {{jobs}} WHERE modificationtime < :before AND {_ENDED}
    ORDER BY modificationtime LIMIT :rows FOR UPDATE SKIP LOCKED"""  # noqa: S608 - constants
_COUNT_OLD_JOBS = f"SELECT count(*) FROM {{jobs}} WHERE modificationtime < :before AND {_ENDED}"  # noqa: S608 - constants
_WITHOUT_TIME = f"SELECT count(*) FROM {{jobs}} WHERE modificationtime IS NULL AND {_ENDED}"  # noqa: S608 - constants
_MOVE_TO_ARCHIVE = """
    WITH moved AS (DELETE FROM {source} WHERE pandaid = ANY(:ids) RETURNING {columns})
    INSERT INTO {archive} ({columns}) SELECT {columns} FROM moved"""
_MAKE_ROOM = "DELETE FROM {archive} WHERE {key} IN (SELECT {key} FROM {source} WHERE pandaid = ANY(:ids))"
_FORGET_LOG = "DELETE FROM {log} WHERE pandaid = ANY(:ids)"
# Pilots' reports about a job, and its workers, are of no use without the job.
_FORGET_REPORTS = """
    WITH debugged AS (DELETE FROM {jobsdebug} WHERE pandaid = ANY(:ids)),
        related AS (DELETE FROM {harvester_rel_jobs_workers} WHERE pandaid = ANY(:ids))
    DELETE FROM broker.pilot_logs WHERE pandaid = ANY(:ids)"""
_REPORTS = ("jobsdebug", "harvester_rel_jobs_workers")


@dataclass(frozen=True)
class ArchivedJobs:
    """The result of a batch: jobs and files moved to the archive, and rows removed from the status log."""

    jobs: int = 0
    files: int = 0
    log_rows: int = 0


def archive(connection: sa.Connection, names: Names, before: datetime, rows: int) -> ArchivedJobs:
    """Move at most ``rows`` ended jobs that were last changed before ``before`` (aware), oldest first."""
    values = {"before": naive(before), "rows": rows}
    locked = connection.execute(sa.text(_LOCK_OLD_JOBS.format(jobs=names.table("jobsarchived4"))), values)
    ids = list(locked.scalars())
    if not ids:
        return ArchivedJobs()
    jobs = _move(connection, names, "jobsarchived4", "jobsarchived", "pandaid", ids)
    files = _move(connection, names, "filestable4", "filestable_arch", "row_id", ids)
    log = connection.execute(sa.text(_FORGET_LOG.format(log=names.table("jobs_statuslog"))), {"ids": ids})
    reports = _FORGET_REPORTS.format(**{name: names.table(name) for name in _REPORTS})
    connection.execute(sa.text(reports), {"ids": ids})
    return ArchivedJobs(jobs, files, log.rowcount)


def count(connection: sa.Connection, names: Names, before: datetime) -> int:
    """The number of jobs to move."""
    statement = sa.text(_COUNT_OLD_JOBS.format(jobs=names.table("jobsarchived4")))
    return int(connection.execute(statement, {"before": naive(before)}).scalar_one())


def count_ended(connection: sa.Connection, names: Names) -> int:
    """The number of ended jobs that are not in the archive."""
    statement = f"SELECT count(*) FROM {names.table('jobsarchived4')}"  # noqa: S608 - quoted names
    return int(connection.execute(sa.text(statement)).scalar_one())


def count_without_time(connection: sa.Connection, names: Names) -> int:
    """The number of ended jobs without a time of their last change; they are never moved."""
    return int(connection.execute(sa.text(_WITHOUT_TIME.format(jobs=names.table("jobsarchived4")))).scalar_one())


def _move(connection: sa.Connection, names: Names, source: str, archive_table: str, key: str, ids: list[int]) -> int:
    """Move the rows of jobs; rows with the same keys in the archive are replaced."""
    parts = {
        "source": names.table(source),
        "archive": f"{quoted(ARCHIVE_SCHEMA)}.{quoted(archive_table)}",
        "columns": _columns(source),
        "key": key,
    }
    connection.execute(sa.text(_MAKE_ROOM.format(**parts)), {"ids": ids})
    return connection.execute(sa.text(_MOVE_TO_ARCHIVE.format(**parts)), {"ids": ids}).rowcount


@cache
def _columns(table: str) -> str:
    return ", ".join(quoted(column) for column in declared_tables(PANDA)[table].columns)
