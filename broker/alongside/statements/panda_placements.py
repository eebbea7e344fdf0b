"""What JEDI actually did with chunks and tasks: where it made jobs, which nuclei it chose, and what it let wait.

Source: PanDA JEDI 1.0.4: the site of a job is that of the candidate that was drawn for its bunch; a task without
candidates becomes pending, and its dialog and the log of its statuses keep the last lines of the brokerage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_reads import ANALYSIS_LABELS
from broker.work.chunks import INPUT_FAMILIES

_JOB_TABLES = ("jobsdefined4", "jobsactive4", "jobsarchived4")
JOB_COLUMNS = ("pandaid", "jeditaskid", "computingsite", "gshare", "prodsourcelabel", "lockedby", "creationtime")
FILE_COLUMNS = ("pandaid", "jeditaskid", "datasetid", "fileid", "type", "fsize")
DATASET_COLUMNS = ("jeditaskid", "datasetid", "masterid", "type", "datasetname")
#: Jobs by the minute in which they were made: one row for all that one pass of JEDI placed at a queue.
_JEDI_JOBS = """
    WITH jobs AS MATERIALIZED (
        SELECT DISTINCT ON (pandaid) pandaid, jeditaskid, computingsite, gshare, prodsourcelabel, creationtime
        FROM ({jobs}) AS j
        WHERE lockedby = 'jedi' AND jeditaskid IS NOT NULL AND computingsite IS NOT NULL
          AND creationtime > :since AND creationtime <= :until
        ORDER BY pandaid
    ), input AS (
        SELECT DISTINCT ON (f.pandaid) f.pandaid, f.datasetid, f.fileid
        FROM {files} AS f
        JOIN jobs ON jobs.pandaid = f.pandaid
        JOIN {datasets} AS d ON d.jeditaskid = jobs.jeditaskid AND d.datasetid = f.datasetid AND d.masterid IS NULL
        WHERE d.type = ANY(:types)
        ORDER BY f.pandaid, f.fileid
    )"""
#: Jobs of tasks about which ours decided nothing are added up by the hour, regardless of task and queue: most jobs
#: are of this kind, and their files are not looked up one by one.
_READ_ASSIGNED_JOBS = """
    {made}, decided AS MATERIALIZED (
        SELECT t.jeditaskid FROM (SELECT DISTINCT jeditaskid FROM jobs) AS t WHERE {decided}
    ), known AS MATERIALIZED (
        SELECT jobs.*, input.datasetid, input.fileid FROM jobs LEFT JOIN input ON input.pandaid = jobs.pandaid
    )
    SELECT placed.*, CASE WHEN label = ANY(:analysis) THEN 'analysis_job' ELSE 'production_job' END AS brokerage
    FROM (
        SELECT j.jeditaskid, j.datasetid, coalesce(c.ramcount, 0)::float8 AS ramcount, j.computingsite AS queue,
               j.gshare AS share, j.prodsourcelabel AS label, min(j.creationtime) AS first_at,
               max(j.creationtime) AS at, count(*) AS jobs, j.datasetid IS NOT NULL AS has_dataset
        FROM known AS j
        LEFT JOIN {contents} AS c
          ON c.jeditaskid = j.jeditaskid AND c.datasetid = j.datasetid AND c.fileid = j.fileid
        WHERE j.jeditaskid IN (SELECT jeditaskid FROM decided)
        GROUP BY 1, 2, 3, 4, 5, 6, 10, date_trunc('minute', j.creationtime)
        UNION ALL
        SELECT NULL, NULL, NULL, NULL, j.gshare, j.prodsourcelabel, min(j.creationtime), max(j.creationtime),
               count(*), j.datasetid IS NOT NULL
        FROM known AS j
        WHERE j.jeditaskid NOT IN (SELECT jeditaskid FROM decided)
        GROUP BY j.gshare, j.prodsourcelabel, j.datasetid IS NOT NULL, date_trunc('hour', j.creationtime)
    ) AS placed
    ORDER BY 1, 2, 3, 8, 4, 5, 6, 10"""
_DECIDED = """EXISTS (SELECT FROM broker.decisions AS own WHERE own.jeditaskid = t.jeditaskid
            AND own.decided_at > :decided_since AND own.decided_at <= :decided_until)"""
_READ_INPUT = """
    {made}
    SELECT jobs.jeditaskid, input.datasetid, d.datasetname AS dataset, sum(f.fsize)::float8 AS input_bytes,
           (SELECT count(*) FROM input AS i JOIN jobs AS j USING (pandaid)
            WHERE j.jeditaskid = jobs.jeditaskid AND i.datasetid = input.datasetid) AS jobs
    FROM jobs
    JOIN input ON input.pandaid = jobs.pandaid
    JOIN {files} AS f ON f.pandaid = jobs.pandaid AND f.type = ANY(:types)
    JOIN {datasets} AS d ON d.jeditaskid = jobs.jeditaskid AND d.datasetid = f.datasetid
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
_READ_NUCLEI = """
    SELECT t.jeditaskid, t.nucleus AS queue, t.gshare AS share, t.prodsourcelabel AS label,
           s.last_seen_at AS first_at, s.last_seen_at AS at
    FROM broker.chunk_states AS s JOIN {tasks} AS t ON t.jeditaskid = s.jeditaskid
    WHERE s.brokerage = 'production_task' AND s.last_seen_at > :since AND s.last_seen_at <= :until
      AND t.nucleus IS NOT NULL
    ORDER BY 1"""
_READ_WAITS = """
    SELECT l.jeditaskid, l.modificationtime AS at, coalesce(l.reason, '') AS dialog, t.gshare AS share,
           t.prodsourcelabel AS label,
           CASE WHEN t.prodsourcelabel = ANY(:analysis) THEN 'analysis_job' ELSE 'production_job' END AS brokerage
    FROM {log} AS l JOIN {tasks} AS t ON t.jeditaskid = l.jeditaskid
    WHERE l.status = 'pending' AND l.modificationtime > :since AND l.modificationtime <= :until
    UNION
    SELECT t.jeditaskid, t.modificationtime, coalesce(t.errordialog, ''), t.gshare, t.prodsourcelabel,
           CASE WHEN t.prodsourcelabel = ANY(:analysis) THEN 'analysis_job' ELSE 'production_job' END
    FROM {tasks} AS t
    WHERE t.status = 'pending' AND t.modificationtime > :since AND t.modificationtime <= :until
    ORDER BY 1, 2, 3"""


#: jeditaskid, datasetid of the master, ramcount.
Chunk = tuple[int, int | None, float]


@dataclass(frozen=True)
class InputBytes:
    """The input of the jobs of one master dataset: the bytes of one dataset, and the number of jobs."""

    jeditaskid: int
    datasetid: int
    dataset: str
    input_bytes: float
    jobs: int


@dataclass(frozen=True)
class Placement:
    """Work that PanDA placed: jobs of a chunk at a queue, or a task at its nucleus.

    Attributes:
        brokerage: the one of ours that decides the same.
        jeditaskid: of the task.
        datasetid: the master dataset of the jobs; None for a task at a nucleus, and where the jobs' files are gone.
        ramcount: of the files' chunk, MB; 0 where it has none.
        queue: computing site of the jobs, or the nucleus.
        share: the global share.
        label: prodsourcelabel of the jobs or of the task.
        first_at: when the first of the jobs was made (aware).
        at: when the last was; for a nucleus, when ours last decided about the task (aware).
        jobs: how many; 1 for a task.
    """

    brokerage: str
    jeditaskid: int
    datasetid: int | None
    ramcount: float
    queue: str
    share: str | None
    label: str | None
    first_at: datetime
    at: datetime
    jobs: int

    @property
    def chunk(self) -> Chunk:
        """The chunk of the jobs."""
        return self.jeditaskid, self.datasetid, self.ramcount


@dataclass(frozen=True)
class Wait:
    """A task that PanDA let wait at an instant, with what its dialog says."""

    brokerage: str
    jeditaskid: int
    share: str | None
    label: str | None
    at: datetime
    dialog: str


@dataclass(frozen=True)
class Undecided:
    """Jobs of one hour that JEDI made for tasks about which ours decided nothing.

    Attributes:
        brokerage: the one of ours that decides the same.
        share: the global share.
        label: prodsourcelabel of the jobs.
        at: when the last of them was made (aware).
        jobs: how many.
        has_dataset: whether their master dataset is known.
    """

    brokerage: str
    share: str | None
    label: str | None
    at: datetime
    jobs: int
    has_dataset: bool


def read_placements(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    since: datetime,
    until: datetime,
    decided_since: datetime | None = None,
) -> tuple[list[Placement], list[Undecided]]:
    """The jobs that were made after ``since`` up to ``until`` (aware).

    Args:
        connection: with both schemas.
        catalogue: of PanDA's tables.
        since: start (aware).
        until: end (aware).
        decided_since: jobs of tasks about which ours decided nothing after it (aware) are only added up; None: none.

    Returns:
        Jobs by task, chunk, time and queue, and those that are only added up.
    """
    query = _READ_ASSIGNED_JOBS.format(
        made=_jedi_jobs(catalogue),
        decided="true" if decided_since is None else _DECIDED,
        contents=catalogue.source("jedi_dataset_contents", ("jeditaskid", "datasetid", "fileid", "ramcount")),
    )
    values: dict[str, Any] = {**_span(since, until), "types": list(INPUT_FAMILIES), "analysis": list(ANALYSIS_LABELS)}
    if decided_since is not None:
        values |= {"decided_since": decided_since, "decided_until": until}
    placements, undecided = [], []
    for task, dataset, ramcount, queue, share, label, first, last, jobs, known, brokerage in connection.execute(
        sa.text(query), values
    ):
        at = last.replace(tzinfo=UTC)
        if task is None:
            undecided.append(Undecided(brokerage, share, label, at, jobs, known))
        else:
            first_at = first.replace(tzinfo=UTC)
            placements.append(Placement(brokerage, task, dataset, ramcount, queue, share, label, first_at, at, jobs))
    return placements, undecided


def read_input(
    connection: sa.Connection, catalogue: TableCatalogue, since: datetime, until: datetime
) -> list[InputBytes]:
    """The input of the jobs that were made after ``since`` up to ``until`` (aware); unknown size: 0 bytes."""
    query = _READ_INPUT.format(
        made=_jedi_jobs(catalogue),
        files=catalogue.source("filestable4", FILE_COLUMNS),
        datasets=catalogue.source("jedi_datasets", DATASET_COLUMNS),
    )
    values = {**_span(since, until), "types": list(INPUT_FAMILIES)}
    rows = connection.execute(sa.text(query), values)
    return [InputBytes(**{**row._mapping, "input_bytes": row.input_bytes or 0.0}) for row in rows]


def _jedi_jobs(catalogue: TableCatalogue) -> str:
    """The SQL of the jobs that JEDI made, each with the first file of its master dataset."""
    selects = (f"SELECT * FROM {catalogue.source(table, JOB_COLUMNS)} AS {table}" for table in _JOB_TABLES)  # noqa: S608
    return _JEDI_JOBS.format(
        jobs=" UNION ALL ".join(selects),
        files=catalogue.source("filestable4", FILE_COLUMNS),
        datasets=catalogue.source("jedi_datasets", DATASET_COLUMNS),
    )


def read_nuclei(
    connection: sa.Connection, catalogue: TableCatalogue, since: datetime, until: datetime
) -> list[Placement]:
    """The nuclei of tasks about which the task brokerage last decided after ``since`` up to ``until`` (aware)."""
    query = _READ_NUCLEI.format(
        tasks=catalogue.source("jedi_tasks", ("jeditaskid", "nucleus", "gshare", "prodsourcelabel"))
    )
    rows = connection.execute(sa.text(query), {"since": since, "until": until})
    common: dict[str, Any] = {"brokerage": "production_task", "datasetid": None, "ramcount": 0.0, "jobs": 1}
    return [Placement(**row._mapping, **common) for row in rows]


def read_waits(connection: sa.Connection, catalogue: TableCatalogue, since: datetime, until: datetime) -> list[Wait]:
    """The tasks that became pending after ``since`` up to ``until`` (aware), each time they did."""
    columns = ("jeditaskid", "status", "errordialog", "gshare", "prodsourcelabel", "modificationtime")
    query = _READ_WAITS.format(
        log=catalogue.source("tasks_statuslog", ("jeditaskid", "modificationtime", "status", "reason")),
        tasks=catalogue.source("jedi_tasks", columns),
    )
    values = {**_span(since, until), "analysis": list(ANALYSIS_LABELS)}
    return [Wait(**_aware(row)) for row in connection.execute(sa.text(query), values)]


def _span(since: datetime, until: datetime) -> dict[str, Any]:
    """The bounds as PanDA's columns hold times: UTC without a zone."""
    return {"since": naive(since), "until": naive(until)}


def _aware(row: sa.Row[Any]) -> dict[str, Any]:
    values: dict[str, Any] = dict(row._mapping)
    return {**values, **{name: values[name].replace(tzinfo=UTC) for name in ("first_at", "at") if name in values}}


def tasks_of(placements: Sequence[Placement], waits: Sequence[Wait]) -> list[int]:
    """The tasks of both, each once, in order."""
    return sorted({one.jeditaskid for one in placements} | {one.jeditaskid for one in waits})
