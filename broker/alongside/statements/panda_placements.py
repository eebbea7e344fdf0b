"""What JEDI really did with chunks and tasks: where it made jobs, which nuclei it chose, and what it let wait.

Source: PanDA JEDI 1.0.4: the site of a job is that of the candidate that was drawn for its bunch; a task without
candidates becomes pending, and its dialog and the log of its statuses keep the last lines of the brokerage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_reads import ANALYSIS_LABELS
from broker.work.chunks import INPUT_FAMILIES

_JOB_TABLES = ("jobsdefined4", "jobsactive4", "jobsarchived4")
JOB_COLUMNS = ("pandaid", "jeditaskid", "computingsite", "gshare", "prodsourcelabel", "lockedby", "creationtime")
FILE_COLUMNS = ("pandaid", "jeditaskid", "datasetid", "fileid", "type", "fsize")
DATASET_COLUMNS = ("jeditaskid", "datasetid", "masterid", "type", "datasetname")
#: Jobs in the minute in which they were made: one line for all that one pass of JEDI's placed at a queue.
_MADE = """
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
_READ_ASSIGNED_JOBS = """
    {made}
    SELECT jobs.jeditaskid, input.datasetid, coalesce(c.ramcount, 0)::float8 AS ramcount,
           jobs.computingsite AS queue, jobs.gshare AS share,
           CASE WHEN jobs.prodsourcelabel = ANY(:analysis) THEN 'analysis_job' ELSE 'production_job' END AS brokerage,
           jobs.prodsourcelabel AS label, min(jobs.creationtime) AS first_at, max(jobs.creationtime) AS at,
           count(*) AS jobs
    FROM jobs
    LEFT JOIN input ON input.pandaid = jobs.pandaid
    LEFT JOIN {contents} AS c
      ON c.jeditaskid = jobs.jeditaskid AND c.datasetid = input.datasetid AND c.fileid = input.fileid
    GROUP BY 1, 2, 3, 4, 5, 6, 7, date_trunc('minute', jobs.creationtime)
    ORDER BY 1, 2, 3, 9, 4"""
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
    """The input of the jobs of one master dataset: of each dataset the bytes, and of how many jobs."""

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
        at: when the last was; of a nucleus when ours last decided about the task (aware).
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


def read_placements(
    connection: sa.Connection, catalogue: TableCatalogue, since: datetime, until: datetime
) -> list[Placement]:
    """The jobs that were made after ``since`` up to ``until`` (aware), by task, chunk, time and queue."""
    query = _READ_ASSIGNED_JOBS.format(
        made=_made(catalogue),
        contents=catalogue.source("jedi_dataset_contents", ("jeditaskid", "datasetid", "fileid", "ramcount")),
    )
    values = {**naive(since, until), "types": list(INPUT_FAMILIES), "analysis": list(ANALYSIS_LABELS)}
    return [Placement(**_aware(row)) for row in connection.execute(sa.text(query), values)]


def read_input(
    connection: sa.Connection, catalogue: TableCatalogue, since: datetime, until: datetime
) -> list[InputBytes]:
    """The input of the jobs that were made after ``since`` up to ``until`` (aware); of no size: 0 bytes."""
    query = _READ_INPUT.format(
        made=_made(catalogue),
        files=catalogue.source("filestable4", FILE_COLUMNS),
        datasets=catalogue.source("jedi_datasets", DATASET_COLUMNS),
    )
    values = {**naive(since, until), "types": list(INPUT_FAMILIES)}
    rows = connection.execute(sa.text(query), values)
    return [InputBytes(**{**row._mapping, "input_bytes": row.input_bytes or 0.0}) for row in rows]


def _made(catalogue: TableCatalogue) -> str:
    """The jobs that JEDI made, and of each the first file of its master dataset."""
    each = (f"SELECT * FROM {catalogue.source(table, JOB_COLUMNS)} AS {table}" for table in _JOB_TABLES)  # noqa: S608
    return _MADE.format(
        jobs=" UNION ALL ".join(each),
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
    values = {**naive(since, until), "analysis": list(ANALYSIS_LABELS)}
    return [Wait(**_aware(row)) for row in connection.execute(sa.text(query), values)]


def naive(since: datetime, until: datetime) -> dict[str, Any]:
    """Columns of PanDA hold UTC without a zone."""
    return {"since": since.astimezone(UTC).replace(tzinfo=None), "until": until.astimezone(UTC).replace(tzinfo=None)}


def _aware(row: sa.Row[Any]) -> dict[str, Any]:
    found: dict[str, Any] = dict(row._mapping)
    return {**found, **{name: found[name].replace(tzinfo=UTC) for name in ("first_at", "at") if name in found}}


def tasks_of(placements: Sequence[Placement], waits: Sequence[Wait]) -> list[int]:
    """The tasks of both, each once, in order."""
    return sorted({one.jeditaskid for one in placements} | {one.jeditaskid for one in waits})
