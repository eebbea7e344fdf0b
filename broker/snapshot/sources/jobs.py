"""The source ``jobs``: jobs counted by queue, share, type and status, from the jobs or from PanDA's statistics.

Source: PanDA data model, job statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.grid import COUNTED_STATUSES, JobCounts
from broker.domain.work import DroppedRow
from broker.snapshot.build_nuclei import nuclei_of
from broker.snapshot.draft import Draft
from broker.snapshot.job_rows import COUNTED_BY
from broker.snapshot.raw import RawSource
from broker.snapshot.readings import BadValueError, not_negative, text, zero_if_null
from broker.snapshot.source import GridSource, JobStatistics, Read, SourceLimit, StatementRead
from broker.snapshot.sources.queues import QUEUES
from broker.snapshot.sources.work_queues import WORK_QUEUES

QUEUED_STATUSES = frozenset({"defined", "assigned", "activated", "starting"})
NUMBER_COLUMNS = ("njobs", "ncores", "diskio_jobs", "diskio_per_core")
COUNT_COLUMNS = (*COUNTED_BY, *NUMBER_COLUMNS)
_JOB_COLUMNS = (*COUNTED_BY, "actualcorecount", "corecount", "diskio")
_STATISTICS_COLUMNS = (*COUNTED_BY[:7], "njobs", "prorated_diskio_avg", "ts")
_CORE_COLUMNS = ("computingsite", "jobstatus", "vo", "prodsourcelabel", "num_of_cores")

_COUNT_JOBS = """
SELECT computingsite, gshare, workqueue_id, jobstatus, resource_type, nucleus, vo, prodsourcelabel,
       count(*) AS njobs,
       coalesce(sum(coalesce(actualcorecount, corecount)), 0)::bigint AS ncores,
       count(diskio) AS diskio_jobs,
       coalesce(sum(diskio::float8 / greatest(coalesce(corecount, 1), 1)), 0) AS diskio_per_core
FROM (SELECT * FROM {active} AS a UNION ALL SELECT * FROM {defined} AS d) AS jobs
WHERE computingsite IS NOT NULL
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
"""
_ADD_UP_STATISTICS = """
SELECT computingsite, gshare, workqueue_id, jobstatus, resource_type, nucleus, vo, NULL AS prodsourcelabel,
       sum(njobs)::bigint AS njobs, 0 AS ncores,
       (sum(njobs) FILTER (WHERE prorated_diskio_avg IS NOT NULL))::bigint AS diskio_jobs,
       sum(prorated_diskio_avg * njobs)::float8 AS diskio_per_core
FROM (SELECT * FROM {active} AS a UNION ALL SELECT * FROM {defined} AS d) AS jobs
GROUP BY 1, 2, 3, 4, 5, 6, 7
UNION ALL
SELECT computingsite, NULL, NULL, jobstatus, NULL, NULL, vo, prodsourcelabel, 0, sum(num_of_cores)::bigint, 0, 0
FROM {cores} AS c WHERE jobstatus IN ('running', 'starting')
GROUP BY computingsite, jobstatus, vo, prodsourcelabel
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
"""
_COUNTED = StatementRead(
    "job_counts",
    COUNT_COLUMNS,
    _COUNT_JOBS,
    {"active": ("jobsactive4", _JOB_COLUMNS), "defined": ("jobsdefined4", _JOB_COLUMNS)},
)
_STATISTICS = StatementRead(
    "job_counts",
    COUNT_COLUMNS,
    _ADD_UP_STATISTICS,
    {
        "active": ("jobs_share_stats", _STATISTICS_COLUMNS),
        "defined": ("jobsdefined_share_stats", _STATISTICS_COLUMNS),
        "cores": ("mv_jobsactive4_stats", _CORE_COLUMNS),
    },
    newest="SELECT max(ts) FROM {active} AS a",
)


@dataclass(frozen=True)
class CountedJobs:
    """Job counts, the average disk IO of running jobs in kB/s per core (U,), and :func:`jobs_by_type`."""

    counts: JobCounts
    average_diskio_kbps: Floats
    by_type: Mapping[tuple[str, str], Floats]


class Jobs(GridSource[CountedJobs]):
    """PanDA's statistics; counted live, they have no age."""

    name = "jobs"
    reads = (_COUNTED,)
    limit = SourceLimit(max_age_s=3600.0)

    def reads_with(self, statistics: JobStatistics) -> tuple[Read, ...]:
        """The tables of jobs, or PanDA's statistics of them."""
        return (_STATISTICS,) if statistics == "panda" else self.reads

    def build(self, raw: RawSource, draft: Draft) -> CountedJobs:
        """Counts at known queues; jobs on their way to a nucleus by the nucleus."""
        unified = draft.of(QUEUES).rows
        nuclei = {str(name): index for index, name in enumerate(nuclei_of(draft).name)}
        counts, diskio = build_jobs(raw, unified, nuclei, draft.of(WORK_QUEUES), draft.dropped_rows)
        return CountedJobs(counts, diskio, jobs_by_type(raw, unified))


JOBS = Jobs()


def _usable_counts(source: RawSource, unified: dict[str, int], dropped_rows: list[DroppedRow]) -> list[dict[str, Any]]:
    """The rows of job counts at queues on record, their numbers checked; NULL counts nothing."""
    rows = []
    for row in source.rows("job_counts").records():
        if row["computingsite"] not in unified:
            continue
        try:
            numbers = {key: zero_if_null(not_negative(row[key], key)) for key in NUMBER_COLUMNS}
            text(row["gshare"], "gshare")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("jobs", str(row["computingsite"])[:80], bad.code, str(bad)))
            continue
        rows.append({**row, **numbers})
    return rows


def build_jobs(
    source: RawSource,
    unified: dict[str, int],
    nuclei: dict[str, int],
    special: frozenset[int],
    dropped_rows: list[DroppedRow],
) -> tuple[JobCounts, Floats]:
    """Job counts, and the average disk IO in kB/s per core of the running jobs of each unified queue."""
    statuses = {status: index for index, status in enumerate(COUNTED_STATUSES)}
    rows = _usable_counts(source, unified, dropped_rows)
    accounting_keys = sorted({row["gshare"] or "" for row in rows} | {f"#{queue}" for queue in special})
    accounting_index = {accounting_key: index for index, accounting_key in enumerate(accounting_keys)}
    keys = sorted({(row["vo"], row["prodsourcelabel"]) for row in rows}, key=str)
    key_index = {key: index for index, key in enumerate(keys)}
    by_accounting_key = np.zeros((len(unified), len(accounting_keys), len(COUNTED_STATUSES)))
    total = np.zeros((len(unified), len(COUNTED_STATUSES)))
    transferring = np.zeros((len(unified), len(nuclei)))
    cores = {status: np.zeros((len(unified), len(keys))) for status in ("running", "starting")}
    diskio = np.zeros((len(unified), 2))
    for row in rows:
        queue, status, njobs = unified[row["computingsite"]], row["jobstatus"], row["njobs"]
        if status in statuses:
            by_accounting_key[queue, accounting_index[row["gshare"] or ""], statuses[status]] += njobs
            total[queue, statuses[status]] += njobs
            if row["workqueue_id"] in special:
                by_accounting_key[queue, accounting_index[f"#{row['workqueue_id']}"], statuses[status]] += njobs
        if status == "transferring" and row["nucleus"] in nuclei:
            transferring[queue, nuclei[row["nucleus"]]] += njobs
        row["unified"] = queue
        if status in cores:
            cores[status][queue, key_index[(row["vo"], row["prodsourcelabel"])]] += row["ncores"]
        if status == "running" and row["diskio_jobs"]:
            diskio[queue] += (row["diskio_per_core"], row["diskio_jobs"])
    with np.errstate(invalid="ignore"):
        average = np.where(diskio[:, 1] > 0, diskio[:, 0] / diskio[:, 1], 0.0)
    counts = JobCounts(
        tuple(accounting_keys),
        by_accounting_key,
        total,
        transferring,
        cores["running"],
        tuple(keys),
        special,
        cores["starting"],
        tuple(sorted(rows, key=_place)),
    )
    return counts, average


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The order of counted rows, whatever the order of reading."""
    texts_of = (
        row[name] or "" for name in ("jobstatus", "gshare", "resource_type", "prodsourcelabel", "vo", "nucleus")
    )
    return row["unified"], row["workqueue_id"] or 0, *texts_of, row["njobs"]


def jobs_by_type(source: RawSource, unified: dict[str, int]) -> dict[tuple[str, str], Floats]:
    """By share and resource type the queued and running jobs (2, U); others are reported elsewhere."""
    found: dict[tuple[str, str], Floats] = {}
    for row in source.rows("job_counts").records():
        queue, njobs, status = unified.get(row["computingsite"]), row["njobs"], row["jobstatus"]
        place = 1 if status == "running" else 0 if status in QUEUED_STATUSES else -1
        if queue is None or place < 0 or not isinstance(njobs, int | float) or not njobs >= 0:
            continue
        key = (row["gshare"] or "", row["resource_type"] or "")
        if key not in found:
            found[key] = np.zeros((2, len(unified)))
        found[key][place, queue] += njobs
    return found
