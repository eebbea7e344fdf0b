"""Keeping where input files failed lately, so that their next attempt goes elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from broker.domain.failed_inputs import KEPT_H
from broker.outcomes.model.record import ArchivedJob, judged
from broker.store.connection.tables import TableCatalogue

_COLUMNS = ("pandaid", "jeditaskid", "datasetid", "fileid", "type")
# A job may read a file twice, and two jobs of a batch the same file.
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
    """Keep the input files of the jobs that failed for no fault of the payload, with queue and node; how many rows.

    What is not held against a queue is not held against it here either: test jobs, killed and preempted ones.
    """
    failed = [one for one in jobs if (end := judged(one)) is not None and end.end == "failed"]
    if not failed:
        return 0
    statement = _NOTE.format(files=catalogue.source("filestable4", _COLUMNS))
    values = {
        "pandaids": [one.pandaid for one in failed],
        "queues": [one.queue for one in failed],
        "nodes": [one.node for one in failed],
        "times": [datetime.fromtimestamp(one.known_s, UTC) for one in failed],
    }
    return connection.execute(sa.text(statement), values).rowcount


def forget_failed(connection: sa.Connection, now: datetime) -> None:
    """Remove what failed longer ago than anybody looks back from ``now`` (aware)."""
    connection.execute(_FORGET, {"before": now - timedelta(hours=KEPT_H)})
