"""Records of queues: how jobs waited and ended, how long they ran there, and what data is next to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.store.connection.array_transfer import array_of_texts
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_reads import ANALYSIS_LABELS
from broker.work.input_files import scope_and_name

RECORD_COLUMNS = (
    "computingsite",
    "prodsourcelabel",
    "jobstatus",
    "corecount",
    "creationtime",
    "starttime",
    "endtime",
    "modificationtime",
)
#: Jobs that never started have no waiting time; closed and cancelled ones did not fail.
_READ_ENDED = """
    SELECT CASE WHEN prodsourcelabel = ANY(:analysis) THEN 'analysis_job' ELSE 'production_job' END AS brokerage,
           split_part(computingsite, '/', 1) AS queue,
           count(*) FILTER (WHERE jobstatus = 'finished') AS finished,
           count(*) FILTER (WHERE jobstatus = 'failed') AS failed,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM starttime - creationtime))
               FILTER (WHERE starttime >= creationtime) AS waiting_s,
           avg(greatest(coalesce(corecount, 1), 1) * extract(epoch FROM endtime - starttime) / 3600)
               FILTER (WHERE endtime >= starttime) AS core_hours
    FROM {archive} AS j
    WHERE modificationtime > :since AND modificationtime <= :until AND computingsite IS NOT NULL
    GROUP BY 1, 2 ORDER BY 1, 2"""
#: Datasets themselves, and as containers of others; a relation that only writes holds nothing to be read.
_READ_LOCAL = """
    WITH asked AS (
        SELECT * FROM unnest(CAST(:names AS text[]), CAST(:scopes AS text[]), CAST(:plain AS text[]))
            AS a (dataset, scope, name)
    ), part AS (
        SELECT dataset, scope, name FROM asked
        UNION SELECT a.dataset, c.child_scope, c.child_name FROM asked AS a
        JOIN broker.container_contents AS c ON c.scope = a.scope AND rtrim(c.name, '/') = a.name
    ), near AS (
        SELECT DISTINCT split_part(panda_site_name, '/', 1) AS queue, ddm_endpoint_name
        FROM {relations} AS r WHERE coalesce(is_local, 'Y') <> 'N' AND roles LIKE '%read_lan%'
    ), here AS (
        SELECT part.dataset, part.scope, part.name, near.queue,
               max(CASE WHEN r.total_files > 0 THEN least(1.0, coalesce(r.available_files, 0)::float8 / r.total_files)
                   ELSE 1.0 END) AS whole
        FROM part JOIN broker.dataset_replicas AS r ON r.scope = part.scope AND r.name = part.name
        LEFT JOIN near ON near.ddm_endpoint_name = r.rse
        WHERE NOT coalesce(r.is_tape, false)
        GROUP BY 1, 2, 3, 4
    ), parts AS (SELECT dataset, count(DISTINCT (scope, name)) AS number FROM here GROUP BY 1)
    SELECT dataset, queue, sum(whole) / max(number) AS whole FROM here JOIN parts USING (dataset) GROUP BY 1, 2"""


@dataclass(frozen=True)
class QueueRecord:
    """How jobs fared at a queue.

    Attributes:
        finished: jobs that finished.
        failed: jobs that failed.
        waiting_s: median time from creation to start; None if none started.
        core_hours: mean of a job, cores times hours; None if none ran.
    """

    finished: int
    failed: int
    waiting_s: float | None
    core_hours: float | None


def queue_records(
    connection: sa.Connection, catalogue: TableCatalogue, since: datetime, until: datetime
) -> dict[tuple[str, str], QueueRecord]:
    """The jobs that ended after ``since`` up to ``until`` (aware), by brokerage and unified queue."""
    query = sa.text(_READ_ENDED.format(archive=catalogue.source("jobsarchived4", RECORD_COLUMNS)))
    rows = connection.execute(query, {"since": naive(since), "until": naive(until), "analysis": list(ANALYSIS_LABELS)})
    return {
        (row.brokerage, row.queue): QueueRecord(
            row.finished,
            row.failed,
            None if row.waiting_s is None else float(row.waiting_s),
            None if row.core_hours is None else float(row.core_hours),
        )
        for row in rows
    }


def local_parts(
    connection: sa.Connection, catalogue: TableCatalogue, datasets: Sequence[str]
) -> dict[str, Mapping[str, float]]:
    """For each dataset with a replica on disk, the fraction of its files next to each queue, between 0 and 1."""
    dids = [scope_and_name(name) for name in datasets]
    query = _READ_LOCAL.format(
        relations=catalogue.source("panda_ddm_relation", ("panda_site_name", "ddm_endpoint_name", "is_local", "roles"))
    )
    values = {
        "names": array_of_texts(list(datasets)),
        "scopes": array_of_texts([scope for scope, _ in dids]),
        "plain": array_of_texts([name.rstrip("/") for _, name in dids]),
    }
    parts: dict[str, dict[str, float]] = defaultdict(dict)
    for row in connection.execute(sa.text(query), values):
        by_queue = parts[row.dataset]
        if row.queue is not None:
            by_queue[row.queue] = float(row.whole)
    return dict(parts)
