"""Reading the submissions of users whose jobs wait at a queue, and what of them did anything lately.

Source: PanDA, timeout and rebrokerage rules, analysis rebrokerage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.lifecycle.model.analysis_rebrokerage import JobSet
from broker.lifecycle.model.jobs import ANALYSIS_LABELS
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.task_reads import stored_time

_SET = "jeditaskid, jobdefinitionid, produsername, computingsite, workinggroup"
_ALIKE = "produserid, processingtype"
_JOB_COLUMNS = (
    *_SET.split(", "),
    *_ALIKE.split(", "),
    "pandaid",
    "jobstatus",
    "jobsetid",
    "prodsourcelabel",
    "lockedby",
    "creationtime",
    "modificationtime",
    "statechangetime",
)
_OF_USERS = """prodsourcelabel = ANY(:labels) AND lockedby = 'jedi'
          AND jeditaskid IS NOT NULL AND jobdefinitionid IS NOT NULL AND computingsite IS NOT NULL"""

# The first job of a set stands for it. Without an entry in the log its last change of state is the best that is known.
_READ_ACTIVE_JOBSETS = f"""
    WITH sets AS (
        SELECT {_SET}, {_ALIKE}, min(pandaid) AS first FROM {{jobs}} AS a
        WHERE {_OF_USERS} AND jobsetid IS NOT NULL AND jobstatus IN ('activated', 'starting')
        GROUP BY {_SET}, {_ALIKE}
    )
    SELECT s.jeditaskid, s.jobdefinitionid, s.produsername, s.computingsite, s.workinggroup,
        coalesce(
            (SELECT max(l.modificationtime) FROM {{log}} AS l WHERE l.pandaid = s.first AND l.jobstatus = 'activated'),
            nullif(j.statechangetime, '1970-01-01'), nullif(j.modificationtime, '1970-01-01'))
    FROM sets AS s JOIN {{jobs}} AS j ON j.pandaid = s.first
    ORDER BY s.jeditaskid, s.jobdefinitionid, s.computingsite, s.first"""  # noqa: S608 - constants
_READ_DEFINED_JOBS = f"""
    SELECT {_SET}, max(creationtime) FROM {{jobs}} AS d
    WHERE {_OF_USERS} AND jobstatus IN ('assigned', 'defined') AND creationtime < :made_before
    GROUP BY {_SET}, {_ALIKE} ORDER BY jeditaskid, jobdefinitionid, computingsite, min(pandaid)"""  # noqa: S608 - constants
_READ_LAST_ACTIVITY = """
    SELECT jeditaskid, jobdefinitionid, produsername, computingsite, max(statechangetime)
    FROM (SELECT * FROM {active} AS a UNION ALL SELECT * FROM {archived} AS f) AS jobs
    WHERE jeditaskid = ANY(:tasks) AND statechangetime > :since AND jobstatus NOT IN ('closed', 'failed', 'starting')
    GROUP BY 1, 2, 3, 4"""


def read_sets(
    connection: sa.Connection, catalogue: TableCatalogue, now: datetime, least_wait_s: float, activity_s: float
) -> list[JobSet]:
    """The sets that may be judged, those of activated and starting jobs first.

    Jobs that are defined or assigned are skipped while a set of the same submission, at whatever queue, is activated
    and waits for longer than ``least_wait_s``.

    Args:
        connection: a read-only transaction.
        catalogue: the tables of the database.
        now: the instant (aware).
        least_wait_s: defined and assigned jobs that are not older are skipped.
        activity_s: for how long activity is looked for.
    """
    made_before = _before(now, least_wait_s)
    labels = {"labels": list(ANALYSIS_LABELS)}
    tables = {"jobs": catalogue.source("jobsactive4", _JOB_COLUMNS), "log": _log(catalogue)}
    rows = connection.execute(sa.text(_READ_ACTIVE_JOBSETS.format(**tables)), labels)
    sets = [JobSet("jobsactive4", *row) for row in rows]
    waiting = {
        (one.jeditaskid, one.jobdefinitionid)
        for one in sets
        if one.waits_since is not None and one.waits_since < made_before
    }
    statement = _READ_DEFINED_JOBS.format(jobs=catalogue.source("jobsdefined4", _JOB_COLUMNS))
    rows = connection.execute(sa.text(statement), labels | {"made_before": made_before})
    sets += [JobSet("jobsdefined4", *row) for row in rows if (row[0], row[1]) not in waiting]
    return _with_activity(connection, catalogue, sets, _before(now, activity_s))


def _with_activity(
    connection: sa.Connection, catalogue: TableCatalogue, sets: Sequence[JobSet], since: datetime
) -> list[JobSet]:
    active, archived = (catalogue.source(table, _JOB_COLUMNS) for table in ("jobsactive4", "jobsarchived4"))
    statement = sa.text(_READ_LAST_ACTIVITY.format(active=active, archived=archived))
    tasks = sorted({one.jeditaskid for one in sets})
    found = {tuple(row[:4]): row[4] for row in connection.execute(statement, {"tasks": tasks, "since": since})}
    return [
        replace(one, active_at=found.get((one.jeditaskid, one.jobdefinitionid, one.produsername, one.queue)))
        for one in sets
    ]


def _log(catalogue: TableCatalogue) -> str:
    return catalogue.source("jobs_statuslog", ("pandaid", "modificationtime", "jobstatus"))


def _before(now: datetime, age_s: float) -> datetime:
    """Naive UTC; the beginning of time when there is no such instant."""
    try:
        return stored_time(now - timedelta(seconds=age_s))
    except OverflowError:
        return datetime.min  # noqa: DTZ901 - naive UTC, as in PanDA's tables
