"""Sources of snapshots that this distribution offers and no rule of the profile ``seed`` names.

They are read in the cycles of the brokerages of which a rule or step of the profile needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from broker.domain.arrays import Floats
from broker.snapshot.raw import RawSource
from broker.snapshot.readings import seconds
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, TableRead

TASK_RESOURCE_TYPES, GLOBAL_SHARES = "task_resource_types", "global_share_names"
ACTIVE_USER_JOBS, RECENT_STARTS, TASK_QUEUES = "active_user_jobs", "recent_starts", "task_queues"
QUEUED_STATUSES = ("defined", "assigned", "activated", "starting")
#: A resource type counts for a task at a queue from this share of its jobs there. Source: PanDA production brokerage,
#: caps by resource type.
LEAST_PERCENT = 20.0


class TaskResourceTypes(Source):
    """The resource types of the jobs that each task has at each queue."""

    name = TASK_RESOURCE_TYPES
    reads = tuple(
        TableRead(table, ("jeditaskid", "computingsite", "resource_type"), counted=True)
        for table in ("jobsactive4", "jobsdefined4")
    )

    def build(self, raw: RawSource, snapshot: Snapshot) -> Mapping[int, Mapping[str, frozenset[str]]]:
        """By task and queue, the types that make up at least 20 % of its jobs there."""
        jobs: dict[tuple[int, str], dict[str, int]] = {}
        for read in self.reads:
            for row in raw.rows(read.table).records():
                if row["jeditaskid"] is None or row["computingsite"] is None or row["resource_type"] is None:
                    continue
                kinds = jobs.setdefault((int(row["jeditaskid"]), row["computingsite"]), {})
                kinds[row["resource_type"]] = kinds.get(row["resource_type"], 0) + int(row["counted"])
        found: dict[int, dict[str, frozenset[str]]] = {}
        for (task, queue), kinds in jobs.items():
            total = sum(kinds.values())
            often = frozenset(kind for kind, count in kinds.items() if count * 100.0 / total >= LEAST_PERCENT)
            found.setdefault(task, {})[queue] = often
        return found


class GlobalShareNames(Source):
    """The names of the global shares."""

    name = GLOBAL_SHARES
    reads = (TableRead("global_shares", ("name",)),)

    def build(self, raw: RawSource, snapshot: Snapshot) -> Any:
        """A set of names."""
        return frozenset(row["name"] for row in raw.rows("global_shares").records())


@dataclass(frozen=True)
class UserCounts:
    """Active jobs of users, without merge jobs: (queued, running) by label, share, queue and user."""

    jobs: Mapping[tuple[str, str], Mapping[str, Mapping[str, tuple[float, float]]]]

    def of_user(self, label: str, share: str, user: str, queues: list[str]) -> Floats:
        """(5, U): queued and running jobs of the user, whether there are any, users, and running jobs of all.

        NaN stands for the last two where the share has no jobs.
        """
        found = np.zeros((5, len(queues)))
        found[3:] = np.nan
        at = self.jobs.get((label, share), {})
        for index, queue in enumerate(queues):
            users = at.get(queue)
            if users is None:
                continue
            own = users.get(user)
            if own is not None:
                found[:3, index] = (*own, 1.0)
            found[3:, index] = len(users), sum(running for _, running in users.values())
        return found


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
        """By label and share, then by queue and user."""
        found: dict[tuple[str, str], dict[str, dict[str, tuple[float, float]]]] = {}
        for row in raw.rows("jobsactive4").records():
            key = (row["prodsourcelabel"] or "", row["gshare"] or "")
            users = found.setdefault(key, {}).setdefault(row["computingsite"] or "", {})
            queued, running = users.get(row["produsername"] or "", (0.0, 0.0))
            count, status = float(row["counted"]), row["jobstatus"]
            is_queued = status in QUEUED_STATUSES
            users[row["produsername"] or ""] = (queued + count * is_queued, running + count * (status == "running"))
        return UserCounts(found)


class RecentStarts(Source):
    """Jobs by queue that started between 6 hours and 5 minutes ago and are not archived."""

    name = RECENT_STARTS
    reads = tuple(
        TableRead(
            table,
            ("computingsite", "starttime", "jobstatus"),
            where="starttime IS NOT NULL"
            " AND jobstatus IN ('running', 'holding', 'transferring', 'finished', 'cancelled')",
            counted=True,
        )
        for table in ("jobsactive4", "jobsdefined4")
    )

    def build(self, raw: RawSource, snapshot: Snapshot) -> Mapping[str, float]:
        """By queue, the jobs that started in an hour."""
        first, last = (_ten_minutes(snapshot.now_s - ago) for ago in (21600.0, 300.0))
        found: dict[str, float] = {}
        for read in self.reads:
            for row in raw.rows(read.table).records():
                at = row["starttime"]
                if isinstance(at, datetime) and first <= seconds(at, "starttime") < last:
                    queue = row["computingsite"] or ""
                    found[queue] = found.get(queue, 0.0) + float(row["counted"]) / ((last - first) / 3600.0)
        return found


def _ten_minutes(time_s: float) -> float:
    return time_s // 600.0 * 600.0


class TaskQueues(Source):
    """The queues at which the datasets for output and logs of tasks are."""

    name = TASK_QUEUES
    reads = (
        TableRead(
            "jedi_datasets",
            ("jeditaskid", "site", "type"),
            where="type IN ('output', 'log') AND site IS NOT NULL",
            counted=True,
        ),
    )

    def build(self, raw: RawSource, snapshot: Snapshot) -> Mapping[int, frozenset[str]]:
        """By task; a pseudo-queue stands for its unified queue."""
        unified = dict(zip(snapshot.queues.name.tolist(), snapshot.queues.unified_name.tolist(), strict=True))
        found: dict[int, set[str]] = {}
        for row in raw.rows("jedi_datasets").records():
            found.setdefault(int(row["jeditaskid"]), set()).add(str(unified.get(row["site"], row["site"])))
        return {task: frozenset(queues) for task, queues in found.items()}
