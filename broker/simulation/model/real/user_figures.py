"""The figures of users for the analysis brokerage, from the readings of a simulation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisGrid, AnalysisWork, OwnerJobs, UserQueue
from broker.domain.arrays import Ints, texts
from broker.simulation.model.information import GridView
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.scenario import Scenario
from broker.simulation.model.users import UserReading
from broker.snapshot.sources.active_user_jobs import ACTIVE_USER_JOBS, UserCounts
from broker.snapshot.sources.recent_starts import RECENT_STARTS

LABEL = "user"


def user_name(user: int) -> str:
    """The name of a user of analysis."""
    return f"user{user:03d}"


def analysis_grid(scenario: Scenario, view: GridView, order: Ints, users: Sequence[int]) -> AnalysisGrid:
    """Jobs of these users and of all users by queue, in the order of the snapshot.

    A simulation has no classes of queues and users and no quotas: they count as not known.

    Args:
        scenario: scenario of the simulation.
        view: view of the grid.
        order: (U,) queue in the scenario of each unified queue.
        users: users whose own figures are needed.
    """
    reading = view.users
    jobs = np.take(reading.jobs, order, axis=2)
    shares = [scenario.shares[share][0] for share, _ in reading.groups]
    total = jobs.sum(axis=0)
    there = jobs[..., 0] + jobs[..., 1] > 0
    grid: dict[str, Any] = {name: {} for name in ("users", "users_running", "present", "by_user", "by_type", "of_user")}
    for share in dict.fromkeys(shares):
        own = [place for place, name in enumerate(shares) if name == share]
        anywhere = there[:, own].any(axis=1)
        running = total[own][:, :, 1].sum(axis=0).astype(np.float64)
        grid["users"][share] = anywhere.sum(axis=0).astype(np.float64)
        grid["users_running"][share, LABEL] = np.where(anywhere.any(axis=0), running, np.nan)
        for user in users:
            queues = np.flatnonzero(anywhere[user])
            waits, runs = jobs[user, own][:, queues].sum(axis=0).T.astype(np.float64)
            grid["present"][user_name(user), share] = queues
            grid["by_user"][user_name(user), share, LABEL] = UserQueue(queues, waits, runs)
    for place, (share, (_, several)) in enumerate(zip(shares, reading.groups, strict=True)):
        grid["by_type"][share, "MCORE" if several else "SCORE"] = total[place].T.astype(np.float64)
    for user in users:
        waits, runs = (float(count) for count in jobs[user].sum(axis=(0, 1)))
        grid["of_user"][user_name(user)] = OwnerJobs(runs, waits, runs, waits)
    return AnalysisGrid(starts=reading.starts[order], share_usage=share_usage(scenario, view), **grid)


def share_usage(scenario: Scenario, view: GridView) -> dict[str, float]:
    """Running part over target of each share, as last read."""
    total = view.share_hs06.sum()
    if not total > 0:
        return {}
    part = view.share_hs06 / total / view.targets
    return {name: float(usage) for (name, _), usage in zip(scenario.shares, part, strict=True)}


def outside_values(scenario: Scenario, reading: UserReading) -> dict[str, Any]:
    """The sources about users and starts that some profiles need in addition to the tables of the snapshot."""
    names = [queue.name for queue in scenario.queues]
    counts: dict[tuple[str, str], dict[str, dict[str, tuple[float, float]]]] = {}
    for user, group, queue in zip(*np.nonzero(reading.jobs.sum(axis=3)), strict=True):
        share = scenario.shares[reading.groups[group][0]][0]
        by_user = counts.setdefault((LABEL, share), {}).setdefault(names[queue], {})
        waits, runs = by_user.get(user_name(int(user)), (0.0, 0.0))
        more = reading.jobs[user, group, queue]
        by_user[user_name(int(user))] = (waits + float(more[0]), runs + float(more[1]))
    starts = dict(zip(names, reading.starts_an_hour.tolist(), strict=True))
    return {ACTIVE_USER_JOBS: UserCounts(counts), RECENT_STARTS: starts}


def _bad_jobs(state: TaskState) -> str | None:
    """Finished, failed and closed jobs of a task by queue; None if no attempt has ended, or none are counted."""
    return json.dumps({queue: [*jobs, 0] for queue, jobs in state.ended.items()}) if state.ended else None


def analysis_request(states: Sequence[TaskState]) -> AnalysisWork:
    """The requirements of users' tasks (none beyond their input), and their outcomes so far."""
    count = len(states)
    no, none = np.zeros(count, dtype=np.bool_), texts(None for _ in states)
    return AnalysisWork(
        transuses=none,
        included_sites=none,
        excluded_sites=none,
        avoid_vp=no,
        allow_incomplete=no,
        gb_per_job=np.zeros(count),
        task_class=np.full(count, np.nan),
        bad_jobs=texts(_bad_jobs(state) for state in states),
        jobs_estimate=np.ones(count),
        sites_per_job=np.ones(count, dtype=np.int64),
    )
