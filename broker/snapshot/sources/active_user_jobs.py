"""The source ``active_user_jobs``: queued and running jobs of each user, by queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, TableRead

ACTIVE_USER_JOBS = "active_user_jobs"
QUEUED_STATUSES = ("defined", "assigned", "activated", "starting")


@dataclass(frozen=True)
class UserCounts:
    """Active jobs of users, without merge jobs: (queued, running) by label, share, queue and user."""

    jobs: Mapping[tuple[str, str], Mapping[str, Mapping[str, tuple[float, float]]]]

    def of_user(self, label: str, share: str, user: str, queues: list[str]) -> Floats:
        """(5, U): the user's queued and running jobs, whether there are any, number of users, and running jobs of all.

        The last two are NaN where the share has no jobs.
        """
        figures = np.zeros((5, len(queues)))
        figures[3:] = np.nan
        by_queue = self.jobs.get((label, share), {})
        for index, queue in enumerate(queues):
            users = by_queue.get(queue)
            if users is None:
                continue
            own = users.get(user)
            if own is not None:
                figures[:3, index] = (*own, 1.0)
            figures[3:, index] = len(users), sum(running for _, running in users.values())
        return figures


class ActiveUserJobs(Source):
    """Jobs of users in the table of active jobs."""

    name = ACTIVE_USER_JOBS
    reads = (
        TableRead(
            "jobsactive4",
            ("computingsite", "gshare", "produsername", "prodsourcelabel", "jobstatus", "processingtype"),
            where="processingtype <> 'pmerge'",
            counted=True,
        ),
    )

    def build(self, raw: RawSource, snapshot: Snapshot) -> UserCounts:
        """Build job counts by label and share, then by queue and user."""
        jobs: dict[tuple[str, str], dict[str, dict[str, tuple[float, float]]]] = {}
        for row in raw.rows("jobsactive4").records():
            key = (row["prodsourcelabel"] or "", row["gshare"] or "")
            users = jobs.setdefault(key, {}).setdefault(row["computingsite"] or "", {})
            queued, running = users.get(row["produsername"] or "", (0.0, 0.0))
            count, status = float(row["counted"]), row["jobstatus"]
            is_queued = status in QUEUED_STATUSES
            users[row["produsername"] or ""] = (queued + count * is_queued, running + count * (status == "running"))
        return UserCounts(jobs)
