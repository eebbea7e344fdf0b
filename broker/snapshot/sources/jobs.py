"""The source ``jobs``: jobs counted by queue, share, type and status, from job rows or from PanDA's statistics.

Source: PanDA data model, job statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.grid import COUNTED_STATUSES, JobCounts
from broker.snapshot.build_nuclei import nuclei_of
from broker.snapshot.counted_rows import COUNTED_BY, NUMBER_COLUMNS, Columns, CountedRows, read_columns, usable_counts
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import RawSource
from broker.snapshot.source import JobStatistics, Read, SourceLimit, StatementRead
from broker.snapshot.sources.queues import QUEUES
from broker.snapshot.sources.work_queues import WORK_QUEUES

QUEUED_STATUSES = frozenset({"defined", "assigned", "activated", "starting"})
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
#: Statuses for which more than jobs is counted: cores, cores, and the destination of the output.
_STATUSES_APART = ("running", "starting", "transferring")
#: The position of each status in :func:`jobs_by_type`.
_PLACES = {**dict.fromkeys(QUEUED_STATUSES, 0), "running": 1}
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
    """Job counts from PanDA's statistics, or counted live and then without an age."""

    name = "jobs"
    reads = (_COUNTED,)
    limit = SourceLimit(max_age_s=3600.0)

    def reads_with(self, statistics: JobStatistics) -> tuple[Read, ...]:
        """The tables of jobs, or PanDA's statistics about them."""
        return (_STATISTICS,) if statistics == "panda" else self.reads

    def build(self, raw: RawSource, draft: Draft) -> CountedJobs:
        """Build the counts at known queues; transferring jobs are counted by nucleus."""
        unified = draft.of(QUEUES).rows
        nuclei = {str(name): index for index, name in enumerate(nuclei_of(draft).name)}
        columns = read_columns(raw.rows("job_counts"))
        rows = usable_counts(columns, unified, draft.dropped_rows)
        special = draft.of(WORK_QUEUES)
        counts, diskio = build_jobs(rows, len(unified), nuclei, special)
        return CountedJobs(counts, diskio, jobs_by_type(columns, unified, special))


JOBS = Jobs()


def build_jobs(
    rows: CountedRows, queues: int, nuclei: Mapping[str, int], special: frozenset[int]
) -> tuple[JobCounts, Floats]:
    """Job counts, and the average disk IO in kB/s per core of the running jobs at each of the unified queues."""
    read = rows.read
    shares = {share or "" for share in read.coded("gshare")[0]}
    tags = {name: at for at, name in enumerate(sorted(shares | {f"#{queue}" for queue in special}))}
    vo_labels, pair = read.pairs("vo", "prodsourcelabel")
    keys = sorted(vo_labels, key=str)
    by_accounting_key = np.zeros((queues, len(tags), len(COUNTED_STATUSES)))
    total = np.zeros((queues, len(COUNTED_STATUSES)))
    transferring = np.zeros((queues, len(nuclei)))
    diskio = np.zeros((queues, 2))

    queue, njobs = rows.unified, rows.numbers["njobs"]
    tag = read.each("gshare", lambda share: tags["" if share is None else share])
    own = read.each("workqueue_id", lambda one: tags.get(f"#{int(one)}", -1) if one in special else -1)
    status = read.each("jobstatus", lambda name: COUNTED_STATUSES.index(name) if name in COUNTED_STATUSES else -1)
    running, starting, moving = (status == COUNTED_STATUSES.index(one) for one in _STATUSES_APART)
    for place, selected in ((tag, status >= 0), (own, (status >= 0) & (own >= 0))):
        np.add.at(by_accounting_key, (queue[selected], place[selected], status[selected]), njobs[selected])
    np.add.at(total, (queue[status >= 0], status[status >= 0]), njobs[status >= 0])
    nucleus = read.each("nucleus", lambda name: nuclei.get(name, -1))
    moving &= nucleus >= 0
    np.add.at(transferring, (queue[moving], nucleus[moving]), njobs[moving])
    key = np.array([keys.index(one) for one in vo_labels], dtype=np.int64)[pair]
    cores = [_cores(rows, key, of, (queues, len(keys))) for of in (running, starting)]
    busy = running & (rows.numbers["diskio_jobs"] != 0)
    for at, name in enumerate(("diskio_per_core", "diskio_jobs")):
        np.add.at(diskio[:, at], queue[busy], rows.numbers[name][busy])
    with np.errstate(invalid="ignore"):
        average = np.where(diskio[:, 1] > 0, diskio[:, 0] / diskio[:, 1], 0.0)
    counts = JobCounts(
        tuple(tags), by_accounting_key, total, transferring, cores[0], tuple(keys), special, cores[1], rows
    )
    return counts, average


def _cores(rows: CountedRows, key: Ints, of: Bools, shape: tuple[int, int]) -> Floats:
    """(U, K): cores of the rows ``of`` by queue and key."""
    table = np.zeros(shape)
    np.add.at(table, (rows.unified[of], key[of]), rows.numbers["ncores"][of])
    return table


def jobs_by_type(
    read: Columns, unified: Mapping[str, int], special: frozenset[int] = frozenset()
) -> dict[tuple[str, str], Floats]:
    """Queued and running jobs (2, U) by share and resource type; other jobs are reported elsewhere.

    Jobs of the work queues ``special``, those of function Resource, do not count for a share; jobs without a work queue
    do. Source: PanDA analysis brokerage, queued against running.
    """
    queue = read.each("computingsite", lambda name: unified.get(name, -1))
    njobs = np.array([one if isinstance(one, int | float) else np.nan for one in read.values("njobs")], np.float64)
    place = read.each("jobstatus", lambda status: _PLACES.get(status, -1))
    of_share = read.each("workqueue_id", lambda one: one not in special).astype(np.bool_)
    used = np.flatnonzero((queue >= 0) & (place >= 0) & (njobs >= 0) & of_share)
    pairs, pair = read.pairs("gshare", "resource_type")
    names = [(share or "", kind or "") for share, kind in pairs]
    by_type = {names[at]: np.zeros((2, len(unified))) for at in dict.fromkeys(pair[used].tolist())}
    if by_type:
        at_name = {name: at for at, name in enumerate(by_type)}
        tables = np.zeros((len(by_type), 2, len(unified)))
        # a pair that is missing has no used row
        table = np.array([at_name.get(name, -1) for name in names], dtype=np.int64)[pair[used]]
        np.add.at(tables, (table, place[used], queue[used]), njobs[used])
        by_type = dict(zip(by_type, tables, strict=True))
    return by_type
