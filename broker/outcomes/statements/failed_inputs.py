"""Record where input files recently failed, so that their next attempt goes elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from broker.domain.failed_inputs import RETENTION_H
from broker.outcomes.model.record import ArchivedJob, judged
from broker.store.connection.tables import TableCatalogue

_COLUMNS = ("pandaid", "jeditaskid", "datasetid", "fileid", "type")
# a job may read a file twice, and two jobs of a batch the same file
_NOTE = """
    INSERT INTO broker.failed_inputs AS known (jeditaskid, datasetid, fileid, queue, node, failed_at)
    SELECT file.jeditaskid, file.datasetid, file.fileid, job.queue, job.node, max(job.failed_at)
    FROM unnest(CAST(:pandaids AS bigint[]), CAST(:queues AS text[]), CAST(:nodes AS text[]),
        CAST(:times AS timestamptz[])) AS job (pandaid, queue, node, failed_at)
    JOIN {files} AS file USING (pandaid)
    WHERE file.type IN ('input', 'pseudo_input') AND file.jeditaskid IS NOT NULL AND file.datasetid IS NOT NULL
        AND file.fileid IS NOT NULL
    GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (jeditaskid, datasetid, fileid, queue, node)
        DO UPDATE SET failed_at = greatest(known.failed_at, excluded.failed_at)"""
_FORGET = sa.text("DELETE FROM broker.failed_inputs WHERE failed_at < :before")


def note_failed(connection: sa.Connection, catalogue: TableCatalogue, jobs: Iterable[ArchivedJob]) -> int:
    """Record input files of jobs that failed through no fault of the payload, with queue and node; count the rows.

    Jobs that do not count against a queue do not count here either: test jobs, killed and preempted ones.
    """
    failed = [job for job in jobs if (end := judged(job)) is not None and end.end == "failed"]
    if not failed:
        return 0
    statement = _NOTE.format(files=catalogue.source("filestable4", _COLUMNS))
    values = {
        "pandaids": [job.pandaid for job in failed],
        "queues": [job.queue for job in failed],
        "nodes": [job.node for job in failed],
        "times": [datetime.fromtimestamp(job.known_s, UTC) for job in failed],
    }
    return connection.execute(sa.text(statement), values).rowcount


def forget_failed(connection: sa.Connection, now: datetime) -> None:
    """Remove failures that are too old at ``now`` (aware) to be used."""
    connection.execute(_FORGET, {"before": now - timedelta(hours=RETENTION_H)})
