"""How many jobs ran and waited at a queue over a day, as the snapshots of the cycles counted them."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

from broker.grid.answers.grid import last_snapshot
from broker.snapshot.raw import RawSource, SnapshotCorruptError, decode
from broker.snapshot.sources.jobs import JOBS, QUEUED_STATUSES
from broker.store.query_context import Answer, Asking, OverTime, known_name
from broker.store.snapshots.stored_snapshots import parts_over_time, read_parts

SHOWN = timedelta(hours=24)
STEPS = 48
KEPT = 4 * STEPS
RUNNING = "running"

Counted = Mapping[str, tuple[int, int]]
"""Running and queued jobs by queue."""
_kept: OrderedDict[str, Counted] = OrderedDict()
_lock = threading.Lock()


class JobsThen(Answer):
    """Jobs of a queue at an instant: those that ran, and those that waited there (``defined`` to ``starting``)."""

    at: datetime
    running: int
    queued: int


class QueueJobs(OverTime):
    """The jobs of a queue in some time before ``now``: the last snapshot of each step of ``step_s`` seconds.

    ``lost``: snapshots whose count of jobs is no longer kept, or is damaged.
    """

    queue: str
    lost: int
    steps: tuple[JobsThen, ...]


def queue_jobs(asking: Asking, name: str, span: timedelta = SHOWN) -> QueueJobs:
    """The jobs of a queue over the last 24 hours, or another span.

    Raises:
        NothingFound: there is no such queue; the nearest names are said.
    """
    snapshot = last_snapshot(asking)
    known = [] if snapshot is None else [str(one) for one in snapshot.unified.name]
    queue = known_name("queue", name, known, "schedconfig_json")
    since, step_s = asking.now - span, span.total_seconds() / STEPS
    parts = parts_over_time(asking.connection, JOBS.name, since, asking.now, step_s)
    counted = _counted(asking, {one.digest for one in parts})
    steps = [_then(one.taken_at, counted[one.digest].get(queue, (0, 0))) for one in parts if one.digest in counted]
    lost = len(parts) - len(steps)
    return QueueJobs(now=asking.now, since=since, step_s=step_s, queue=queue, lost=lost, steps=tuple(steps))


def _then(at: datetime, jobs: tuple[int, int]) -> JobsThen:
    return JobsThen(at=at, running=jobs[0], queued=jobs[1])


def _counted(asking: Asking, digests: set[str]) -> dict[str, Counted]:
    """Sources by digest; what a digest stands for never changes, so the last ones stay at hand."""
    with _lock:
        found = {digest: _kept[digest] for digest in digests if digest in _kept}
    for digest, data in read_parts(asking.connection, digests - found.keys()):
        try:
            found[digest] = jobs_by_queue(decode(digest, data))
        except SnapshotCorruptError:
            continue  # counted among those that are lost
    with _lock:
        for digest in digests & found.keys():
            _kept[digest] = found[digest]
            _kept.move_to_end(digest)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found


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
