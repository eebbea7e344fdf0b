"""The simulated jobs that timeouts and both rebrokerages take back from their queues, by the broker's own rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import numpy as np

from broker.domain.instants import naive
from broker.gdpconfig import Tuning
from broker.lifecycle.model.analysis_rebrokerage import JobSet, check_job_set
from broker.lifecycle.model.check_job import acting, check_job
from broker.lifecycle.model.fast_rebrokerage import ShareLoad, check_shares
from broker.lifecycle.model.jobs import JEDI, Job, Queue
from broker.lifecycle.model.limits import TimeoutLimits, analysis_limits, fast_limits, timeout_limits
from broker.lifecycle.model.rules import RULES
from broker.simulation.model.information import GridView
from broker.simulation.model.policies.base import WaitingJobs
from broker.simulation.model.real.grid_rows import instant
from broker.simulation.model.real.user_figures import user_name
from broker.simulation.model.scenario import Scenario

_RUNNING = 4
#: Names of the timeouts for jobs that wait for a pilot.
_OF_WAITING = tuple(rule.name for rule in RULES if "activated" in rule.statuses)


class Endings:
    """Takes back jobs that have waited too long.

    Args:
        scenario: scenario of the simulation.
        tuning: tuning with the limits.
    """

    def __init__(self, scenario: Scenario, tuning: Tuning) -> None:
        self._scenario = scenario
        workflows = {_workflow(queue.mode) for queue in scenario.queues}
        self._timeouts = timeout_limits(tuning, workflows)
        self._fast = fast_limits(tuning, [name for name, _ in scenario.shares])
        self._analysis = analysis_limits(tuning, ())

    def overdue(self, view: GridView, waiting: WaitingJobs) -> list[int]:
        """Distinct positions of the jobs to take back."""
        queues = self._queues(view)
        places = self._over_a_limit(queues, waiting, self._timeouts, view.now_s)
        places |= self._without_progress(queues, waiting, view.now_s)
        places |= self._in_excess(view, waiting, places)
        return sorted(places)

    def _queues(self, view: GridView) -> list[Queue]:
        return [
            Queue(
                queue.name,
                status="online" if view.online[number] else "offline",
                workflow=_workflow(queue.mode),
                laststart=None if np.isnan(view.last_start_s[number]) else _naive(float(view.last_start_s[number])),
            )
            for number, queue in enumerate(self._scenario.queues)
        ]

    def _over_a_limit(
        self, queues: list[Queue], waiting: WaitingJobs, limits: TimeoutLimits, view_s: float
    ) -> set[int]:
        """Timeouts: among jobs that differ only in age, the oldest is taken back first, so that few are checked."""
        classes: dict[tuple[int, float, bool], list[int]] = {}
        for place in _older(waiting, view_s, min(limits.seconds[rule] for rule in _OF_WAITING)):
            key = (waiting.queue[place], waiting.priority[place], waiting.task[place].kind.analysis)
            classes.setdefault(key, []).append(place)
        overdue: set[int] = set()
        now = _naive(view_s)
        for (queue, priority, analysis), places in classes.items():
            for place in sorted(places, key=lambda position: waiting.since_s[position]):
                job = _job(priority, analysis, _naive(waiting.since_s[place]))
                if acting(check_job(job, queues[queue], limits, now)) is None:
                    break
                overdue.add(place)
        return overdue

    def _without_progress(self, queues: list[Queue], waiting: WaitingJobs, view_s: float) -> set[int]:
        """Analysis rebrokerage: jobs of a task that came to a queue together form a submission."""
        sets: dict[tuple[int, int, float], list[int]] = {}
        now = _naive(view_s)
        for place in _older(waiting, view_s, self._analysis.least_wait_s):
            state = waiting.task[place]
            if state.kind.analysis:
                key = (state.task.number, waiting.queue[place], waiting.since_s[place])
                sets.setdefault(key, []).append(place)
        stalled: set[int] = set()
        for (number, queue, since_s), places in sets.items():
            state = waiting.task[places[0]]
            active_s = state.active_s.get(queue)
            job_set = JobSet(
                "jobsactive4", number, 0, user_name(state.task.user), queues[queue].name, None,
                _naive(since_s), None if active_s is None else _naive(active_s),
            )  # fmt: skip
            if check_job_set(job_set, queues[queue], self._analysis, now).outcome == "rebrokered":
                stalled.update(places)
        return stalled

    def _in_excess(self, view: GridView, waiting: WaitingJobs, taken_places: Iterable[int]) -> set[int]:
        """Fast rebrokerage: the youngest jobs of a share with too many jobs at a queue."""
        if not self._fast.thresholds:
            return set()
        returned = set(taken_places)
        waiting_places: dict[tuple[str, str], list[int]] = {}
        for place, state in enumerate(waiting.task):
            if place not in returned:
                key = (self._scenario.queues[waiting.queue[place]].name, self._share(state.task.share))
                waiting_places.setdefault(key, []).append(place)
        running = self._running(view)
        loads = [
            ShareLoad(queue, share, len(waiting_places.get((queue, share), ())), running[queue, share])
            for queue, share in sorted({*waiting_places, *running})
        ]
        excess_places: set[int] = set()
        for verdict in check_shares(loads, self._fast, {}):
            if verdict.triggers and verdict.excess:
                places = waiting_places.get((verdict.load.queue, str(verdict.load.gshare)), [])
                youngest = sorted(places, key=lambda position: (-waiting.since_s[position], -position))
                excess_places.update(youngest[: verdict.excess])
        return excess_places

    def _running(self, view: GridView) -> Mapping[tuple[str, str], int]:
        counts = Counter[tuple[str, str]]()
        for number, queue in enumerate(self._scenario.queues):
            for share, (name, _) in enumerate(self._scenario.shares):
                counts[queue.name, name] = int(view.counts[number, share, _RUNNING])
        return counts

    def _share(self, share: int) -> str:
        return self._scenario.shares[share][0]


def _older(waiting: WaitingJobs, now_s: float, age_s: float) -> list[int]:
    """Positions of the jobs that have waited longer than an age; no rule applies to other jobs."""
    return np.flatnonzero(now_s - np.asarray(waiting.since_s) > age_s).tolist()


def _job(priority: float, analysis: bool, since: datetime) -> Job:
    """A job that waits for a pilot, as seen by the timeouts."""
    return Job(
        0, "jobsactive4", "activated", prodsourcelabel="user" if analysis else "managed", currentpriority=int(priority),
        lockedby=JEDI, relocationflag=0, processingtype="simul", eventservice=0, modificationtime=since,
        statechangetime=since, creationtime=since,
    )  # fmt: skip


def _workflow(mode: str) -> str:
    return "pull_ups" if mode == "pull" else "push"


def _naive(time_s: float) -> datetime:
    """A virtual time as stored by PanDA: naive UTC."""
    return naive(instant(time_s))
