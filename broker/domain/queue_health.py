"""How healthy a queue or one of its nodes is, from the way jobs end there: a sequential test, and release by probes.

Ends are folded one by one in their order. Of each queue and kind of jobs, and of each node, a small state is kept: a
CUSUM of the log-likelihood ratio between the usual and a failing rate, what it was counted from, and whether jobs are
sent there. The state after a list of ends is the same however the list is cut. Nothing here reads a clock.

Source: E. S. Page, Continuous inspection schemes, Biometrika 41 (1954): the test; HashiCorp Nomad, plan
rejection tracker: the share of nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from broker.domain.instants import HOUR_S
from broker.domain.task_failures import EVIDENCE, fails_here

HealthState = Literal["healthy", "suspected", "excluded", "probation"]
End = Literal["finished", "failed", "payload_failed"]
#: Kinds of jobs that are judged apart, by the brokerage that places them.
PRODUCTION, ANALYSIS = "production", "analysis"
ANALYSIS_LABELS = frozenset({"user", "panda"})
DAY_S = 86_400.0
#: Ends of the long memory that count, at most, for whether jobs finish at a queue.
LATELY = 20
#: Failed jobs that are named as evidence.
NAMED_JOBS = 10
#: Tasks that are told apart in the evidence.
NAMED_TASKS = 100


def kind_of(prodsourcelabel: str | None) -> str:
    """The kind of jobs with this label, after the brokerage that places them."""
    return ANALYSIS if prodsourcelabel in ANALYSIS_LABELS else PRODUCTION


@dataclass(frozen=True)
class HealthLimits:
    """The constants of the test and of the release.

    Attributes:
        evidence: logarithm of the likelihood ratio at which a queue is closed; ``node_evidence``: a node.
        usual_least, usual_most: bounds of the usual rate of failures that the test compares with.
        usual_times: the usual rate is so many times the mean of the long memory.
        failing_more, failing_most: the failing rate lies so far above the usual one, but not above that.
        memory_s: time constant of the long memory; ``memory_least``: ends below which it says nothing.
        run_of_task: outcomes of one task in a row that count in full; the k-th after them counts 1/k.
        tasks: failures of so many tasks are wanted; of ``control_tasks`` where at least the share ``control_finished``
            of their jobs finished at other queues within ``control_s``; ``node_tasks`` at a node.
        task_evidence: a task with so much against it here counts no more against the queue while no other task fails.
        forgotten_s: evidence is dropped after so long without an end.
        probe_jobs, probe_finished: jobs of a probation, and how many of them must finish.
        first_s, longest_s: for how long a queue is closed at first, doubled with each failed probation, and at most.
        half_s: for how long a queue that is back counts as suspected.
        node_share: part of a queue's nodes that are closed at once; one always may be.
    """

    evidence: float = 10.0
    node_evidence: float = 8.0
    usual_least: float = 0.2
    usual_most: float = 0.4
    usual_times: float = 1.5
    failing_more: float = 0.5
    failing_most: float = 0.9
    memory_s: float = 30 * DAY_S
    memory_least: float = 300.0
    run_of_task: int = 3
    tasks: int = 3
    control_tasks: int = 2
    control_finished: float = 0.9
    control_s: float = 6 * HOUR_S
    node_tasks: int = 2
    task_evidence: float = EVIDENCE
    forgotten_s: float = DAY_S
    probe_jobs: int = 5
    probe_finished: int = 4
    first_s: float = 1800.0
    longest_s: float = DAY_S
    half_s: float = HOUR_S
    node_share: float = 0.1


@dataclass(frozen=True)
class EndedJob:
    """How a job ended.

    ``payload_failed``: the error says that the payload is at fault, so it counts against a queue only where jobs of the
    task finish elsewhere. ``started_s`` is NaN for a job that never started.
    """

    ended_s: float
    pandaid: int
    queue: str
    kind: str
    jeditaskid: int
    end: End
    started_s: float = math.nan
    node: str = ""


@dataclass
class QueueHealth:
    """The state of a queue for one kind of jobs, or of one of its nodes.

    Attributes:
        state: ``healthy``; ``suspected``: half of the evidence is there, or it has just come back; ``excluded``: it
            gets nothing; ``probation``: it gets a few probe jobs.
        statistic: the evidence, from 0.
        since_s: first of the ends that make it up; NaN without any.
        ended, failed: what was counted since; ``tasks`` that failed; ``evidence`` the failed jobs, the last ones.
        changed_s: since when the state holds; ``until_s`` when it ends by itself, NaN where it does not.
        times: exclusions one after another without a passed probation.
        memory_ended, memory_failed: ends of the long memory, which fade; ``last_s`` the last end.
        last_task, run: task of the last end, and how many in a row were of it.
        probes_ended, probes_finished: jobs of the probation.
    """

    queue: str
    kind: str
    node: str = ""
    state: HealthState = "healthy"
    statistic: float = 0.0
    since_s: float = math.nan
    ended: int = 0
    failed: int = 0
    tasks: tuple[int, ...] = ()
    evidence: tuple[int, ...] = ()
    changed_s: float = math.nan
    until_s: float = math.nan
    times: int = 0
    memory_ended: float = 0.0
    memory_failed: float = 0.0
    last_s: float = math.nan
    last_task: int = 0
    run: int = 0
    probes_ended: int = 0
    probes_finished: int = 0

    def usual_rate(self, limits: HealthLimits) -> float:
        """The rate of failures that is usual here, as the test takes it; the lowest while the memory is short."""
        if self.memory_ended < limits.memory_least:
            return limits.usual_least
        mean = self.memory_failed / self.memory_ended
        return min(max(limits.usual_times * mean, limits.usual_least), limits.usual_most)

    def lately(self) -> tuple[int, int]:
        """Finished and failed jobs of the long memory, in the proportion in which they ended, of LATELY at most.

        >>> QueueHealth("Q", PRODUCTION, memory_ended=200.0, memory_failed=50.0).lately()
        (15, 5)
        """
        scale = min(1.0, LATELY / max(self.memory_ended, 1.0))
        return round(scale * (self.memory_ended - self.memory_failed)), round(scale * self.memory_failed)

    def advance(self, now_s: float, limits: HealthLimits) -> None:
        """What time alone changes until ``now_s``: the end of an exclusion, and of the hour after a probation."""
        if self.state == "excluded" and self.until_s <= now_s:
            self.state, self.changed_s, self.until_s = "probation", self.until_s, math.nan
            self.probes_ended = self.probes_finished = 0
        elif self.state == "suspected" and self.until_s <= now_s:
            self.changed_s, self.until_s = self.until_s, math.nan
            if self.statistic < 0.5 * self._wanted(limits):
                self.state = "healthy"

    def _wanted(self, limits: HealthLimits) -> float:
        return limits.node_evidence if self.node else limits.evidence

    def _forget(self) -> None:
        self.statistic, self.since_s, self.ended, self.failed = 0.0, math.nan, 0, 0
        self.tasks = self.evidence = ()

    def add(self, job: EndedJob, limits: HealthLimits, *, counts: bool) -> bool:
        """Count an end; whether the evidence suffices, as far as this state can tell.

        Args:
            job: that ended here.
            limits: of the test.
            counts: whether a failure is held against the place.
        """
        self.advance(job.ended_s, limits)
        if self.state == "excluded":
            return False
        failed = job.end != "finished"
        if failed and not counts:
            return False
        if self.state == "probation":
            self._probe(job, limits, failed=failed)
            return False
        if job.ended_s - self.last_s > limits.forgotten_s:
            self._forget()
        self._remember(job, limits, failed=failed)
        return self._test(job, limits, failed=failed)

    def _remember(self, job: EndedJob, limits: HealthLimits, *, failed: bool) -> None:
        """Add to the long memory, in which all fades with its time constant."""
        if not math.isnan(self.last_s) and job.ended_s > self.last_s:
            fades = math.exp((self.last_s - job.ended_s) / limits.memory_s)
            self.memory_ended *= fades
            self.memory_failed *= fades
        self.memory_ended += 1.0
        self.memory_failed += float(failed)
        self.last_s = job.ended_s if math.isnan(self.last_s) else max(self.last_s, job.ended_s)

    def _test(self, job: EndedJob, limits: HealthLimits, *, failed: bool) -> bool:
        self.run = self.run + 1 if job.jeditaskid == self.last_task else 1
        self.last_task = job.jeditaskid
        weight = 1.0 if self.run <= limits.run_of_task else 1.0 / self.run
        usual = self.usual_rate(limits)
        failing = min(limits.failing_most, usual + limits.failing_more)
        gain = math.log(failing / usual) if failed else -math.log((1.0 - usual) / (1.0 - failing))
        wanted = self._wanted(limits)
        self.statistic = min(self.statistic + weight * gain, 2.0 * wanted)
        if self.statistic <= 0.0:
            self._forget()
        else:
            self.since_s = job.ended_s if math.isnan(self.since_s) else self.since_s
            self.ended, self.failed = self.ended + 1, self.failed + failed
            if failed:
                self.evidence = (*self.evidence, job.pandaid)[-NAMED_JOBS:]
                if job.jeditaskid not in self.tasks and len(self.tasks) < NAMED_TASKS:
                    self.tasks = (*self.tasks, job.jeditaskid)
        if self.state == "healthy" and self.statistic >= 0.5 * wanted:
            self.state, self.changed_s = "suspected", job.ended_s
        elif self.state == "suspected" and math.isnan(self.until_s) and self.statistic < 0.5 * wanted:
            self.state, self.changed_s = "healthy", job.ended_s
        return failed and self.statistic >= wanted

    def _probe(self, job: EndedJob, limits: HealthLimits, *, failed: bool) -> None:
        """Count a job that was started in the probation; others say nothing about how it is now."""
        if not job.started_s >= self.changed_s:
            return
        self.last_s = job.ended_s
        self.probes_ended += 1
        self.probes_finished += not failed
        if self.probes_finished >= limits.probe_finished:
            self._forget()
            self.state, self.changed_s, self.until_s = "suspected", job.ended_s, job.ended_s + limits.half_s
            self.times = 0
        elif self.probes_ended - self.probes_finished > limits.probe_jobs - limits.probe_finished:
            self.exclude(job.ended_s, limits)

    def exclude(self, now_s: float, limits: HealthLimits) -> None:
        """Send nothing there for a while."""
        closed_s = min(limits.first_s * 2.0 ** min(self.times, 60), limits.longest_s)
        self.state, self.changed_s, self.until_s = "excluded", now_s, now_s + closed_s
        self.times += 1


@dataclass
class HealthFold:
    """The states of all places, and what is needed to judge the next end.

    Attributes:
        limits: of the test.
        places: by queue, kind and node; a node of "" is the queue.
        task_hours: finished and failed jobs by task, queue and hour (number of hours since 1970).
        touched: places that have changed since it was made.
    """

    limits: HealthLimits = HealthLimits()
    places: dict[tuple[str, str, str], QueueHealth] = field(default_factory=dict)
    task_hours: dict[int, dict[tuple[str, int], tuple[int, int]]] = field(default_factory=dict)
    touched: set[tuple[str, str, str]] = field(default_factory=set)
    _nodes: dict[tuple[str, str], set[str]] | None = None

    def add_all(self, jobs: Iterable[EndedJob]) -> None:
        """Fold ends, in their order."""
        for job in jobs:
            self.add(job)

    def add(self, job: EndedJob) -> None:
        """Fold one end."""
        counts = job.end == "failed" or (job.end == "payload_failed" and self._finishes_elsewhere(job.jeditaskid, job))
        hours = self.task_hours.get(job.jeditaskid, {})
        alone = counts and fails_here(hours, job.queue, job.ended_s, self.limits.task_evidence)
        self._count_task(job)
        self._at(job, "", counts=counts, alone=alone)
        if job.node:
            self._at(job, job.node, counts=counts, alone=alone)

    def advance(self, now_s: float) -> None:
        """Let time pass at all places."""
        for key, place in self.places.items():
            before = place.state, place.changed_s
            place.advance(now_s, self.limits)
            if (place.state, place.changed_s) != before:
                self.touched.add(key)

    def _at(self, job: EndedJob, node: str, *, counts: bool, alone: bool) -> None:
        """Count an end at a queue or node; a task that fails here is known, and says no more while no other does."""
        key = (job.queue, job.kind, node)
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = QueueHealth(*key)
            if node and self._nodes is not None:
                self._nodes.setdefault(key[:2], set()).add(node)
        self.touched.add(key)
        counts = counts and not (alone and {*place.tasks} <= {job.jeditaskid})
        found = place.add(job, self.limits, counts=counts) and self._tasks_suffice(place, job)
        if found and (not node or self._node_may_go(job)):
            place.exclude(job.ended_s, self.limits)

    def _tasks_suffice(self, place: QueueHealth, job: EndedJob) -> bool:
        """Failures of one task say nothing of a queue; those of two do where both finish elsewhere."""
        if place.node:
            return len(place.tasks) >= self.limits.node_tasks
        if len(place.tasks) >= self.limits.tasks:
            return True
        elsewhere = [self._finishes_elsewhere(task, job) for task in place.tasks]
        return sum(elsewhere) >= self.limits.control_tasks

    def _finishes_elsewhere(self, task: int, job: EndedJob) -> bool:
        first = math.floor((job.ended_s - self.limits.control_s) / HOUR_S)
        finished = failed = 0
        for (queue, hour), (ok, bad) in self.task_hours.get(task, {}).items():
            if queue != job.queue and hour >= first:
                finished, failed = finished + ok, failed + bad
        return finished > 0 and finished >= self.limits.control_finished * (finished + failed)

    def _count_task(self, job: EndedJob) -> None:
        at = (job.queue, math.floor(job.ended_s / HOUR_S))
        hours = self.task_hours.setdefault(job.jeditaskid, {})
        finished, failed = hours.get(at, (0, 0))
        done = job.end == "finished"
        hours[at] = (finished + done, failed + (not done))

    def forget_tasks(self, now_s: float) -> None:
        """Drop the hours of tasks that no judgement looks at any more."""
        first = math.floor((now_s - self.limits.control_s) / HOUR_S) - 1
        for task in list(self.task_hours):
            kept = {at: counts for at, counts in self.task_hours[task].items() if at[1] >= first}
            if kept:
                self.task_hours[task] = kept
            else:
                del self.task_hours[task]

    def _node_may_go(self, job: EndedJob) -> bool:
        """At most a part of a queue's nodes is closed at once: where more fail, it is the queue."""
        if self._nodes is None:
            self._nodes = {}
            for queue, kind, node in self.places:
                if node:
                    self._nodes.setdefault((queue, kind), set()).add(node)
        nodes = self._nodes[job.queue, job.kind]
        closed = sum(self.places[job.queue, job.kind, node].state in ("excluded", "probation") for node in nodes)
        return closed < max(1.0, self.limits.node_share * len(nodes))
