"""Outputs on their way to Rucio as operators see them, and what they do about files that were refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.store.connection.plain_rows import tuples

_READ_DATASETS = """
SELECT known.jeditaskid, known.scope || ':' || known.name AS dataset, nullif(known.site, '') AS site, known.state,
    coalesce(files.queued, 0) AS queued, coalesce(files.registered, 0) AS registered,
    coalesce(files.refused, 0) AS refused, coalesce(files.left_out, 0) AS left_out,
    coalesce(files.bytes, 0)::bigint AS bytes, files.oldest_queued, files.first_refused,
    known.reason_code, known.reason, known.failures, CASE WHEN known.failures > 0 THEN known.next_try_at END AS next_try
FROM broker.rucio_datasets AS known
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE file.state = 'queued') AS queued,
        count(*) FILTER (WHERE file.state = 'registered') AS registered,
        count(*) FILTER (WHERE file.state = 'refused') AS refused,
        count(*) FILTER (WHERE file.state = 'left_out') AS left_out,
        sum(file.fsize) FILTER (WHERE file.state = 'registered') AS bytes,
        min(file.queued_at) FILTER (WHERE file.state = 'queued') AS oldest_queued,
        min(file.reason) FILTER (WHERE file.state = 'refused') AS first_refused
    FROM broker.rucio_files AS file
    WHERE file.jeditaskid = known.jeditaskid AND file.datasetid = known.datasetid AND file.site = known.site
) AS files ON true
WHERE WHICH
ORDER BY known.jeditaskid, known.datasetid, known.site"""
_OF_TASK = "known.jeditaskid = :task AND (known.state <> 'template' OR files.queued + files.refused > 0)"
# The datasets that need attention, found by the partial indexes.
_IN_TROUBLE = """
(known.jeditaskid, known.datasetid) IN (
    SELECT jeditaskid, datasetid FROM broker.rucio_datasets WHERE state IN ('planned', 'open') AND failures > 0
    UNION SELECT jeditaskid, datasetid FROM broker.rucio_files WHERE state = 'refused'
    UNION SELECT jeditaskid, datasetid FROM broker.rucio_files WHERE state = 'queued')
AND (files.queued + files.refused > 0 OR known.failures > 0)"""
_READ_REFUSED = """
SELECT jeditaskid, scope || ':' || lfn AS file, pandaid, reason_code, reason, done_at FROM broker.rucio_files
WHERE jeditaskid = :task AND state = 'refused' ORDER BY datasetid, fileid LIMIT :most"""
# The queue's endpoint may have been wrong or missing at the time: the agent looks it up again.
_TRY_AGAIN = """
DELETE FROM broker.rucio_files WHERE jeditaskid = :task AND state = 'refused'
  AND (CAST(:files AS text[]) IS NULL OR lfn = ANY(CAST(:files AS text[])))
RETURNING datasetid"""
_LEAVE_OUT = """
UPDATE broker.rucio_files SET state = 'left_out', reason_code = 'left_out', reason = :reason, done_at = :now
WHERE jeditaskid = :task AND state = 'refused' AND lfn = ANY(CAST(:files AS text[]))"""
_DUE = """
UPDATE broker.rucio_datasets SET next_try_at = least(next_try_at, :now)
WHERE jeditaskid = :task AND state <> 'template'"""


@dataclass(frozen=True)
class OutputDataset:
    """A dataset at Rucio, with its files by state.

    Attributes:
        jeditaskid: its task.
        dataset: scope and name.
        site: the site whose files it holds; None: the files of all sites.
        state: planned, open, closed or empty.
        queued: files that wait to be registered; likewise registered, refused, left_out.
        bytes: the size of the registered files.
        oldest_queued: since when the oldest one waits (aware).
        first_refused: why one was refused.
        reason_code: why the last try failed, for machines; None if it succeeded.
        reason: the same for people.
        failures: tries in a row that failed.
        next_try: when it is tried again after a failure (aware).
    """

    jeditaskid: int
    dataset: str
    site: str | None
    state: str
    queued: int
    registered: int
    refused: int
    left_out: int
    bytes: int
    oldest_queued: datetime | None
    first_refused: str | None
    reason_code: str | None
    reason: str | None
    failures: int
    next_try: datetime | None


@dataclass(frozen=True)
class RefusedFile:
    """A file that is not registered, and why."""

    jeditaskid: int
    file: str
    pandaid: int | None
    reason_code: str
    reason: str
    at: datetime


def read_datasets(connection: sa.Connection, task: int | None = None) -> list[OutputDataset]:
    """The datasets of a task; without one, those of all tasks in which something waits, failed or was refused."""
    which = _IN_TROUBLE if task is None else _OF_TASK
    query = sa.text(_READ_DATASETS.replace("WHICH", which))
    return [OutputDataset(*row) for row in tuples(connection, query, {} if task is None else {"task": task})]


def read_refused(connection: sa.Connection, task: int, most: int = 100) -> list[RefusedFile]:
    """Files of a task that were refused."""
    return [RefusedFile(*row) for row in connection.execute(sa.text(_READ_REFUSED), {"task": task, "most": most})]


def try_again(connection: sa.Connection, task: int, files: Sequence[str] | None) -> list[int]:
    """Forget refusals; returns the dataset of each file, for the caller to queue again."""
    values = {"task": task, "files": None if files is None else list(files)}
    return list(connection.execute(sa.text(_TRY_AGAIN), values).scalars())


def leave_out(connection: sa.Connection, task: int, files: Sequence[str], reason: str, now: datetime) -> int:
    """Leave out refused files, so that their dataset can be closed; returns their number."""
    values = {"task": task, "files": list(files), "reason": reason, "now": now}
    return connection.execute(sa.text(_LEAVE_OUT), values).rowcount


def make_due(connection: sa.Connection, task: int, now: datetime) -> None:
    """Have the datasets of a task tried in the next cycle."""
    connection.execute(sa.text(_DUE), {"task": task, "now": now})
