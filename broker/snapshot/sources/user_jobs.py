"""The source ``user_jobs``: jobs of users and groups, counted live, and starts of jobs.

Source: PanDA analysis brokerage, inputs per rule and counting rules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from broker.domain.analysis import OwnerJobs, UserQueue
from broker.domain.arrays import Floats, Ints
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import RawSource, add_guarded, not_negative, text
from broker.snapshot.source import StatementRead
from broker.snapshot.sources.queues import QUEUES

_JOB_COLUMNS = (
    "pandaid", "computingsite", "gshare", "produsername", "workinggroup", "prodsourcelabel", "processingtype",
    "jobstatus", "corecount", "starttime",
)  # fmt: skip
COUNT_COLUMNS = (
    "computingsite", "gshare", "produsername", "workinggroup", "prodsourcelabel", "is_merge", "is_defined",
    "running_jobs", "throttled_jobs", "queued_jobs", "running_cores", "queued_cores",
)  # fmt: skip
_COUNT_BY_OWNER = """
SELECT computingsite, gshare, produsername, workinggroup, prodsourcelabel,
       coalesce(processingtype = 'pmerge', false) AS is_merge, is_defined,
       count(*) FILTER (WHERE jobstatus = 'running'),
       count(*) FILTER (WHERE jobstatus = 'throttled'),
       count(*) FILTER (WHERE jobstatus IN ('defined', 'assigned', 'activated', 'starting')),
       coalesce(sum(corecount) FILTER (WHERE jobstatus = 'running'), 0)::bigint,
       coalesce(sum(corecount) FILTER (
           WHERE jobstatus IN ('defined', 'assigned', 'activated', 'starting', 'throttled')), 0)::bigint
FROM (
    SELECT a.*, false AS is_defined FROM {active} AS a UNION ALL
    SELECT d.*, true FROM {defined} AS d WHERE NOT EXISTS (SELECT FROM {active} AS a WHERE a.pandaid = d.pandaid)
) AS jobs
GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7
"""
_COUNT_STARTS = """
SELECT computingsite, count(*) FROM (
    SELECT * FROM {active} AS a UNION ALL SELECT * FROM {archived} AS f) AS jobs
WHERE computingsite IS NOT NULL AND starttime >= :since AND starttime <= :now
GROUP BY 1 ORDER BY 1
"""


@dataclass(frozen=True)
class CountedUsers:
    """Jobs of users, groups and shares, as in the fields of the same names in ``AnalysisGrid``."""

    starts: Floats
    users: Mapping[str, Floats]
    users_running: Mapping[tuple[str, str], Floats]
    present: Mapping[tuple[str, str], Ints]
    by_user: Mapping[tuple[str, str, str], UserQueue]
    of_user: Mapping[str, OwnerJobs]
    of_group: Mapping[str, OwnerJobs]


class UserJobs(GridSource[CountedUsers]):
    """Analysis jobs and groups, counted live."""

    name = "user_jobs"
    reads = (
        StatementRead(
            "user_job_counts",
            COUNT_COLUMNS,
            _COUNT_BY_OWNER,
            {"active": ("jobsactive4", _JOB_COLUMNS), "defined": ("jobsdefined4", _JOB_COLUMNS)},
        ),
        StatementRead(
            "job_starts",
            ("computingsite", "njobs"),
            _COUNT_STARTS,
            {"active": ("jobsactive4", _JOB_COLUMNS), "archived": ("jobsarchived4", _JOB_COLUMNS)},
            window=timedelta(hours=6),
        ),
    )
    for_analysis = True

    def build(self, raw: RawSource, draft: Draft) -> CountedUsers:
        """Build the counts at known queues, and those of owners everywhere."""
        unified = draft.of(QUEUES).rows
        jobs = _UserJobs(unified)
        for row in raw.rows("user_job_counts").records():
            add_guarded(jobs.add, row, self.name, str(row["produsername"]), draft.dropped_rows)
        starts = np.zeros(len(unified))
        for row in raw.rows("job_starts").records():
            if row["computingsite"] in unified:
                starts[unified[row["computingsite"]]] += not_negative(row["njobs"], "njobs")
        return CountedUsers(
            starts=starts,
            users=jobs.users(),
            users_running=jobs.running,
            present=jobs.present(),
            by_user=jobs.by_user(),
            of_user=_owners(jobs.of_user),
            of_group=_owners(jobs.of_group),
        )


USER_JOBS = UserJobs()


def _owners(totals: Mapping[str, list[float]]) -> dict[str, OwnerJobs]:
    return {owner: OwnerJobs(*stats) for owner, stats in totals.items()}


class _UserJobs:
    """Adds up the rows of users' jobs."""

    def __init__(self, unified: dict[str, int]) -> None:
        self._unified = unified
        self._at: dict[tuple[str, str, str], dict[int, list[float]]] = {}
        self._present: dict[tuple[str, str], set[int]] = {}
        self.running: dict[tuple[str, str], Floats] = {}
        self.of_user: dict[str, list[float]] = {}
        self.of_group: dict[str, list[float]] = {}

    def add(self, row: dict[str, Any]) -> None:
        user = text(row["produsername"], "produsername") or ""
        group, share = text(row["workinggroup"], "workinggroup"), text(row["gshare"], "gshare") or ""
        keys = ("running_jobs", "throttled_jobs", "queued_jobs", "running_cores", "queued_cores")
        numbers = {key: not_negative(row[key], key) for key in keys}
        counted = {key: 0.0 if math.isnan(value) else value for key, value in numbers.items()}
        waiting = counted["queued_jobs"] + counted["throttled_jobs"]
        stats = (counted["running_jobs"], waiting, counted["running_cores"], counted["queued_cores"])
        if group:
            _add(self.of_group, group, stats)
        # PanDA considers the group of a job only once the job is active
        if user and (not group or row["is_defined"]):
            _add(self.of_user, user, stats)
        queue = self._unified.get(row["computingsite"])
        if queue is None:
            return
        if user:
            self._present.setdefault((user, share), set()).add(queue)
        if row["is_merge"]:
            return
        label = text(row["prodsourcelabel"], "prodsourcelabel") or ""
        everybody = self.running.setdefault((share, label), np.full(len(self._unified), np.nan))
        everybody[queue] = np.nan_to_num(everybody[queue]) + counted["running_jobs"]
        own = self._at.setdefault((user, share, label), {}).setdefault(queue, [0.0, 0.0])
        own[0] += counted["queued_jobs"]
        own[1] += counted["running_jobs"]

    def users(self) -> dict[str, Floats]:
        by_share: dict[str, Floats] = {}
        for (_, share), queues in self._present.items():
            counts = by_share.setdefault(share, np.zeros(len(self._unified)))
            counts[list(queues)] += 1
        return by_share

    def present(self) -> dict[tuple[str, str], Ints]:
        return {key: np.array(sorted(queues), dtype=np.int64) for key, queues in self._present.items()}

    def by_user(self) -> dict[tuple[str, str, str], UserQueue]:
        return {key: _user_queue(queues) for key, queues in self._at.items()}


def _add(totals: dict[str, list[float]], owner: str, stats: tuple[float, ...]) -> None:
    own = totals.setdefault(owner, [0.0] * len(stats))
    for index, value in enumerate(stats):
        own[index] += value


def _user_queue(queues: Mapping[int, list[float]]) -> UserQueue:
    stats = np.array(list(queues.values()), dtype=np.float64).reshape(-1, 2)
    return UserQueue(np.array(list(queues), dtype=np.int64), stats[:, 0], stats[:, 1])
