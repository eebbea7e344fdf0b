"""Reads what rebrokerage decides about: waiting jobs by share, and how often their input was moved already.

For users' jobs it reads the submissions that wait at a queue, and their recent activity.

Source: PanDA data model, jobs, job statistics and Harvester slots; PanDA, timeout and rebrokerage rules, analysis
rebrokerage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.lifecycle.model.analysis_rebrokerage import JobSet
from broker.lifecycle.model.fast_rebrokerage import RULE, ShareLoad
from broker.lifecycle.model.jobs import ANALYSIS_LABELS, WAITING_STATUSES, WaitingJob
from broker.store.connection.tables import TableCatalogue

JobStatistics = Literal["live", "panda"]

_JOB_COLUMNS = (
    "pandaid",
    "jobstatus",
    "computingsite",
    "gshare",
    "jeditaskid",
    "jobdefinitionid",
    "modificationtime",
    "creationtime",
    "starttime",
)
_COUNTED = ("computingsite", "gshare", "jobstatus", "workqueue_id")

# NULL NOT IN (...) is not true unless the list is empty: where there are work queues of that function, jobs of no work
# queue are not counted, as with PanDA.
_COUNT_LOADS = """
    SELECT computingsite, gshare,
        coalesce(sum({njobs}) FILTER (WHERE jobstatus = ANY(:waiting)), 0)::bigint,
        coalesce(sum({njobs}) FILTER (WHERE jobstatus = 'running'), 0)::bigint
    FROM (SELECT * FROM {active} AS a UNION ALL SELECT * FROM {defined} AS d) AS jobs
    WHERE computingsite IS NOT NULL
      AND workqueue_id NOT IN (SELECT queue_id FROM {work_queues} AS w WHERE queue_function = 'Resource')
    GROUP BY 1, 2"""
_READ_WAITING_JOBS = """
    SELECT j.pandaid, '{table}', j.jobstatus, j.computingsite, j.gshare, j.jeditaskid, j.jobdefinitionid,
        j.modificationtime, j.creationtime, j.starttime
    FROM {source} AS j JOIN unnest(CAST(:queues AS text[]), CAST(:keys AS {key_type}[])) AS wanted (queue, key)
        ON j.computingsite = wanted.queue AND j.{column} IS NOT DISTINCT FROM wanted.key
    WHERE j.jobstatus = ANY(:waiting) AND (CAST(:tasks AS bigint[]) IS NULL OR j.jeditaskid = ANY(:tasks))"""
_READ_QUEUES_WITH_SLOTS = """
    SELECT DISTINCT pandaqueuename FROM {slots} AS s
    WHERE numslots IS NOT NULL AND (expirationtime IS NULL OR expirationtime > :now)"""

# How often input was moved. Files that many jobs read say nothing about a single job, so only master datasets count.
_COUNT_MOVES = """
    WITH moved AS MATERIALIZED (
        SELECT f.jeditaskid, f.datasetid, f.fileid
        FROM broker.job_actions AS a
        JOIN {files} AS f ON f.pandaid = a.pandaid
        LEFT JOIN {datasets} AS d ON d.jeditaskid = f.jeditaskid AND d.datasetid = f.datasetid
        WHERE a.rule = :rule AND a.acted_at > :since AND f.fileid IS NOT NULL
          AND f.type IN ('input', 'pseudo_input') AND d.masterid IS NULL
        GROUP BY 1, 2, 3 HAVING count(DISTINCT a.pandaid) >= :most
    )
    SELECT DISTINCT f.pandaid FROM {files} AS f JOIN moved USING (jeditaskid, datasetid, fileid)
    WHERE f.pandaid = ANY(:pandaids)"""

_READ_SETTLING_SHARES = """
    SELECT DISTINCT detail ->> 'gshare' FROM broker.job_actions
    WHERE rule = :rule AND acted_at > :since AND acted_at <= :now"""


def read_slots(connection: sa.Connection, catalogue: TableCatalogue, now: datetime) -> set[str]:
    """The queues with a number of slots that has not expired."""
    source = catalogue.source("harvester_slots", ("pandaqueuename", "numslots", "expirationtime"))
    statement = sa.text(_READ_QUEUES_WITH_SLOTS.format(slots=source))
    return set(connection.execute(statement, {"now": naive(now)}).scalars())


def read_loads(connection: sa.Connection, catalogue: TableCatalogue, statistics: JobStatistics) -> list[ShareLoad]:
    """Waiting and running jobs by queue and share, without those of work queues of the function Resource.

    Args:
        connection: any transaction.
        catalogue: the tables of the database.
        statistics: ``live`` counts the job tables, ``panda`` adds up PanDA's statistics.
    """
    tables = (
        ("jobsactive4", "jobsdefined4") if statistics == "live" else ("jobs_share_stats", "jobsdefined_share_stats")
    )
    njobs = "1" if statistics == "live" else "njobs"
    columns = _COUNTED if statistics == "live" else (*_COUNTED, "njobs")
    active, defined = (catalogue.source(table, columns) for table in tables)
    work_queues = catalogue.source("jedi_work_queue", ("queue_id", "queue_function"))
    statement = sa.text(_COUNT_LOADS.format(active=active, defined=defined, njobs=njobs, work_queues=work_queues))
    return [ShareLoad(*row) for row in connection.execute(statement, {"waiting": list(WAITING_STATUSES)})]


def read_waiting_of_shares(
    connection: sa.Connection, catalogue: TableCatalogue, shares: Sequence[tuple[str, str | None]]
) -> list[WaitingJob]:
    """All jobs that wait at one of these queues for the share that is wanted there."""
    queues, keys = [queue for queue, _ in shares], [share for _, share in shares]
    return _waiting(connection, catalogue, ("gshare", "text"), {"queues": queues, "keys": keys, "tasks": None})


def read_waiting_of_submissions(
    connection: sa.Connection, catalogue: TableCatalogue, places: Sequence[tuple[int, int, str]]
) -> list[WaitingJob]:
    """All jobs that wait at one of the places: a task, its submission (``jobdefinitionid``) and a queue."""
    wanted = sorted({(queue, submission) for _, submission, queue in places})
    values = {
        "queues": [queue for queue, _ in wanted],
        "keys": [submission for _, submission in wanted],
        "tasks": sorted({task for task, _, _ in places}),
    }
    waiting = _waiting(connection, catalogue, ("jobdefinitionid", "bigint"), values)
    wanted_places = set(places)
    return [job for job in waiting if (job.jeditaskid, job.jobdefinitionid, job.queue) in wanted_places]


def _waiting(
    connection: sa.Connection, catalogue: TableCatalogue, key: tuple[str, str], values: Mapping[str, object]
) -> list[WaitingJob]:
    column, key_type = key
    jobs: list[WaitingJob] = []
    for table in ("jobsdefined4", "jobsactive4"):
        source = catalogue.source(table, _JOB_COLUMNS)
        statement = _READ_WAITING_JOBS.format(table=table, source=source, column=column, key_type=key_type)
        rows = connection.execute(sa.text(statement), {**values, "waiting": list(WAITING_STATUSES)})
        jobs += [WaitingJob(*row) for row in rows]
    return jobs


def settling_shares(connection: sa.Connection, now: datetime, settle_s: float) -> set[str | None]:
    """The shares whose jobs the fast rebrokerage took back within the last ``settle_s`` seconds."""
    values = {"rule": RULE, "since": now - timedelta(seconds=settle_s), "now": now}
    return set(connection.execute(sa.text(_READ_SETTLING_SHARES), values).scalars())


def moved_often(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    pandaids: Iterable[int],
    most: int,
    now: datetime,
    rule: str = RULE,
) -> set[int]:
    """Those of the jobs whose input a rule has moved ``most`` times or more within 24 hours."""
    parts = {
        "files": catalogue.source("filestable4", ("pandaid", "jeditaskid", "datasetid", "fileid", "type")),
        "datasets": catalogue.source("jedi_datasets", ("jeditaskid", "datasetid", "masterid")),
    }
    values = {"rule": rule, "since": now - timedelta(hours=24), "most": most, "pandaids": list(pandaids)}
    return set(connection.execute(sa.text(_COUNT_MOVES.format(**parts)), values).scalars())


_SET = "jeditaskid, jobdefinitionid, produsername, computingsite, workinggroup"
_ALIKE = "produserid, processingtype"
_ACTIVITY_COLUMNS = (
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

# The first job of a set stands for it. Without an entry in the log, its last change of state is the best estimate.
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

    Defined and assigned jobs are skipped while a set of the same submission, at any queue, is activated and has waited
    for longer than ``least_wait_s``.

    Args:
        connection: a read-only transaction.
        catalogue: the tables of the database.
        now: the instant (aware).
        least_wait_s: defined and assigned jobs that are not older are skipped.
        activity_s: how far back activity is read.
    """
    created_before = _before(now, least_wait_s)
    labels = {"labels": list(ANALYSIS_LABELS)}
    tables = {"jobs": catalogue.source("jobsactive4", _ACTIVITY_COLUMNS), "log": _log(catalogue)}
    rows = connection.execute(sa.text(_READ_ACTIVE_JOBSETS.format(**tables)), labels)
    sets = [JobSet("jobsactive4", *row) for row in rows]
    waiting = {
        (job_set.jeditaskid, job_set.jobdefinitionid)
        for job_set in sets
        if job_set.waits_since is not None and job_set.waits_since < created_before
    }
    statement = _READ_DEFINED_JOBS.format(jobs=catalogue.source("jobsdefined4", _ACTIVITY_COLUMNS))
    rows = connection.execute(sa.text(statement), labels | {"made_before": created_before})
    sets += [JobSet("jobsdefined4", *row) for row in rows if (row[0], row[1]) not in waiting]
    return _with_activity(connection, catalogue, sets, _before(now, activity_s))


def _with_activity(
    connection: sa.Connection, catalogue: TableCatalogue, sets: Sequence[JobSet], since: datetime
) -> list[JobSet]:
    active, archived = (catalogue.source(table, _ACTIVITY_COLUMNS) for table in ("jobsactive4", "jobsarchived4"))
    statement = sa.text(_READ_LAST_ACTIVITY.format(active=active, archived=archived))
    tasks = sorted({job_set.jeditaskid for job_set in sets})
    last_activity = {tuple(row[:4]): row[4] for row in connection.execute(statement, {"tasks": tasks, "since": since})}
    return [
        replace(
            job_set,
            active_at=last_activity.get(
                (job_set.jeditaskid, job_set.jobdefinitionid, job_set.produsername, job_set.queue)
            ),
        )
        for job_set in sets
    ]


def _log(catalogue: TableCatalogue) -> str:
    return catalogue.source("jobs_statuslog", ("pandaid", "modificationtime", "jobstatus"))


def _before(now: datetime, age_s: float) -> datetime:
    """``now`` less an age, as naive UTC; ``datetime.min`` when there is no such instant."""
    try:
        return naive(now - timedelta(seconds=age_s))
    except OverflowError:
        return datetime.min  # noqa: DTZ901 - naive UTC, as in PanDA's tables
