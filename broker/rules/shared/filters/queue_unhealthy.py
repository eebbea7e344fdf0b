"""A queue at which jobs of several tasks fail gets no more until probe jobs finish there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.domain.decisions import Observation, Value
from broker.domain.facts import not_single
from broker.domain.queue_health import ANALYSIS, PRODUCTION, HealthLimits, kind_of
from broker.rules.contract import Filter, JobPairs, Reason, TuningView
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.queue_health import QUEUE_HEALTH, LearnedHealth, LearnedQueues, failing_queues

SWITCH, EVIDENCE, MOST_CLOSED = "LEARNED_FAILING_QUEUES", "LEARNED_FAILING_EVIDENCE", "LEARNED_MOST_CLOSED_SHARE"
TRIAL_JOBS = "LEARNED_TRIAL_JOBS"
KINDS = (PRODUCTION, ANALYSIS)
_ALL = 2**62
MINUTE_S = 60.0


@dataclass(frozen=True)
class ClosedQueues:
    """The closed queues of a cycle.

    Attributes:
        closed: (2, Q) by kind, production first: the candidates that get nothing.
        room: (2, Q) how many chunks may send one probe job each; a large number stands for no limit.
        turn: (T,) the position of each chunk in the order of this minute.
        learned: the health of each queue that is not healthy.
    """

    closed: Bools
    room: Ints
    turn: Ints
    learned: LearnedQueues


class QueueUnhealthy(Filter[JobPairs]):
    """Rejects queues that the agent ``outcomes`` found failing for the kind of the chunk, with LEARNED_FAILING_QUEUES.

    At most LEARNED_MOST_CLOSED_SHARE of the online queues is closed at once, those with most evidence: if more fail,
    the queues are not the cause. A queue on probation gets one job each from as many chunks as it may have probe jobs.
    With LEARNED_TRIAL_JOBS a chunk gives one job a cycle to a queue at which fewer finished, or more failed than
    finished. Not for a single pre-assigned queue. Source: E. S. Page, Continuous inspection schemes, 1954.
    """

    name = "queue_unhealthy"
    same_in_passes = True
    reason = Reason(
        code="queue_unhealthy",
        title="Jobs of several tasks do not fail at the queue",
        violation="Jobs of several tasks fail at the queue",
        no_candidate="runs jobs without failing those of several tasks",
        who="wait",
        cure="Wait: the queue gets a few probe jobs after a while, and opens when these finish. `broker outcomes` "
        "names the errors; operators may switch `LEARNED_FAILING_QUEUES` off.",
    )
    kind = "temporary"
    keys = (SWITCH, EVIDENCE, MOST_CLOSED, TRIAL_JOBS)
    sources = (QUEUE_HEALTH,)
    unknown_policy = "keep"
    provenance = "Page, Continuous inspection schemes"

    def needs(self, tuning: TuningView) -> tuple[str, ...]:
        """No sources while the rule is switched off and queues get no trial jobs."""
        return self.sources if tuning.flag(SWITCH) or tuning.number(TRIAL_JOBS) else ()

    def prepare(self, snapshot: Snapshot, work: Any, tuning: TuningView) -> ClosedQueues | None:
        """The closed queues; None if the rule is switched off or none is closed."""
        known: LearnedQueues = snapshot.offered.get(QUEUE_HEALTH, {})
        learned = {place: health for place, health in known.items() if health.state != "healthy"}
        if not learned or not tuning.flag(SWITCH):
            return None
        states = [_states(learned, kind, snapshot, tuning) for kind in KINDS]
        rows = len(work.chunks)
        before = int(snapshot.now_s // MINUTE_S) * HealthLimits().probe_jobs
        unified = snapshot.queues.unified
        return ClosedQueues(
            np.array([closed[unified] for closed, _ in states]).reshape(len(KINDS), -1),
            np.array([room[unified] for _, room in states]).reshape(len(KINDS), -1),
            np.asarray((np.arange(rows) - before) % max(1, rows)),
            learned,
        )

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks without a single pre-assigned queue, if any queue is closed."""
        return np.asarray(not_single(pairs.facts) & (pairs.prepared.get(self.name) is not None))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the queue is open, or the chunk may send a probe job."""
        known: ClosedQueues | None = pairs.prepared.get(self.name)
        if known is None:
            return np.ones((1, 1), dtype=np.bool_)
        kinds = _kinds(pairs)
        closed, room = (of[:, pairs.positions][kinds] for of in (known.closed, known.room))
        return np.asarray(~closed & (known.turn[pairs.rows][:, None] < room))

    def observe(self, pairs: JobPairs) -> Observation:
        """The evidence, with the numbers of failed jobs and tasks and the hours in which they failed."""
        limit = pairs.tuning.number(EVIDENCE)
        known: ClosedQueues | None = pairs.prepared.get(self.name)
        if known is None or bool(self.keep(pairs).item()):
            return Observation(None, "<", limit, "ln", EVIDENCE)
        kind = KINDS[int(_kinds(pairs)[0])]
        health = known.learned[str(pairs.candidates.unified_name.item()), kind]
        return Observation(max(health.statistic, limit), "<", limit, "ln", EVIDENCE, figures(health))


def figures(one: LearnedHealth) -> dict[str, Value]:
    """The grounds for closing the queue: failed and ended jobs, tasks, hours, and the end (s since 1970)."""
    percent = 100.0 * one.failed_jobs / max(1, one.ended_jobs)
    return {
        "state": one.state,
        "failed_jobs": one.failed_jobs,
        "ended_jobs": one.ended_jobs,
        "failed_tasks": one.failed_tasks,
        "within_h": None if math.isnan(one.hours) else round(one.hours, 2),
        "failed_percent": round(percent, 1),
        "limit_percent": round(limit_percent(HealthLimits()), 1),
        "closed_until_s": None if math.isnan(one.until_s) else one.until_s,
        "probe_jobs_ended": one.probes,
        "probe_jobs_there": one.probes_there,
    }


def limit_percent(limits: HealthLimits) -> float:
    """The share of failures above which evidence grows, at the lowest usual rate."""
    usual, failing = limits.usual_least, limits.usual_least + limits.failing_more
    up, down = math.log(failing / usual), math.log((1.0 - usual) / (1.0 - failing))
    return 100.0 * down / (up + down)


def _kinds(pairs: JobPairs) -> Ints:
    return np.array([KINDS.index(kind_of(label)) for label in pairs.chunks.prodsourcelabel[:, 0]], dtype=np.int64)


def _states(learned: LearnedQueues, kind: str, snapshot: Snapshot, tuning: TuningView) -> tuple[Bools, Ints]:
    """(U,) the unified queues closed for a kind of jobs, and how many chunks may send jobs to each of the others."""
    names: list[str] = snapshot.unified.name.tolist()
    online = [name for name, status in zip(names, snapshot.unified.status.tolist(), strict=True) if status == "online"]
    known = {place: health for place, health in learned.items() if place[0] in set(names)}
    failing = set(failing_queues(known, kind, online, tuning.number(EVIDENCE), tuning.number(MOST_CLOSED)))
    room = [learned[name, kind].probe_room if name in failing else _ALL for name in names]
    return np.array([limit == 0 for limit in room], dtype=np.bool_), np.array(room, dtype=np.int64)
