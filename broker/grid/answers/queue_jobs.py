"""Running and waiting jobs of a queue over a day, from the snapshots of the cycles."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

from broker.grid.answers.grid import last_snapshot
from broker.snapshot.raw import RawSource, SnapshotCorruptError, decode
from broker.snapshot.sources.jobs import JOBS, QUEUED_STATUSES
from broker.store.query_context import OverTime, QueryContext, ResponseModel, known_name
from broker.store.snapshots.stored_snapshots import parts_over_time, read_parts

SHOWN = timedelta(hours=24)
STEPS = 48
COUNTS_CACHE_SIZE = 4 * STEPS
RUNNING = "running"

Counted = Mapping[str, tuple[int, int]]
"""Running and queued jobs by queue."""
_counts_cache: OrderedDict[str, Counted] = OrderedDict()
_lock = threading.Lock()


class JobsThen(ResponseModel):
    """Running and waiting jobs of a queue at an instant (waiting: ``defined`` to ``starting``)."""

    at: datetime
    running: int
    queued: int


class QueueJobs(OverTime):
    """Jobs of a queue over time until ``now``: the last snapshot of each step of ``step_s`` seconds.

    ``lost``: snapshots whose job counts are deleted or damaged.
    """

    queue: str
    lost: int
    steps: tuple[JobsThen, ...]


def queue_jobs(query: QueryContext, name: str, span: timedelta = SHOWN) -> QueueJobs:
    """The jobs of a queue over the last 24 hours, or another span.

    Raises:
        NothingFound: there is no such queue; the error names the nearest.
    """
    snapshot = last_snapshot(query)
    known = [] if snapshot is None else [str(queue_name) for queue_name in snapshot.unified.name]
    queue = known_name("queue", name, known, "schedconfig_json")
    since, step_s = query.now - span, span.total_seconds() / STEPS
    parts = parts_over_time(query.connection, JOBS.name, since, query.now, step_s)
    counts = _counts_by_digest(query, {part.digest for part in parts})
    steps = [_then(part.taken_at, counts[part.digest].get(queue, (0, 0))) for part in parts if part.digest in counts]
    lost = len(parts) - len(steps)
    return QueueJobs(now=query.now, since=since, step_s=step_s, queue=queue, lost=lost, steps=tuple(steps))


def _then(at: datetime, jobs: tuple[int, int]) -> JobsThen:
    return JobsThen(at=at, running=jobs[0], queued=jobs[1])


def _counts_by_digest(query: QueryContext, digests: set[str]) -> dict[str, Counted]:
    """The counts of sources by digest; the source of a digest never changes, so the last ones are cached."""
    with _lock:
        counts = {digest: _counts_cache[digest] for digest in digests if digest in _counts_cache}
    for digest, data in read_parts(query.connection, digests - counts.keys()):
        try:
            counts[digest] = jobs_by_queue(decode(digest, data))
        except SnapshotCorruptError:
            continue  # counted as lost
    with _lock:
        for digest in digests & counts.keys():
            _counts_cache[digest] = counts[digest]
            _counts_cache.move_to_end(digest)
        while len(_counts_cache) > COUNTS_CACHE_SIZE:
            _counts_cache.popitem(last=False)
    return counts


def jobs_by_queue(source: RawSource) -> Counted:
    """Running and queued jobs by queue, from the rows of the source ``jobs``. Pure."""
    running: defaultdict[str, int] = defaultdict(int)
    queued: defaultdict[str, int] = defaultdict(int)
    for row in source.rows("job_counts").records():
        site, status, number = row["computingsite"], row["jobstatus"], row["njobs"]
        if isinstance(site, str) and isinstance(number, int) and number > 0:
            if status == RUNNING:
                running[site] += number
            elif status in QUEUED_STATUSES:
                queued[site] += number
    return {site: (running[site], queued[site]) for site in running.keys() | queued.keys()}
