"""Health of queues and their nodes, judged by how jobs end there: a sequential test, and release by probes.

Job ends are folded one by one, in order. Each queue and kind of jobs, and each node, has a small state: a CUSUM of the
log-likelihood ratio between the usual and a failing rate, the ends it was counted from, and whether jobs are sent
there. The state after a list of ends does not depend on how the list is split. Nothing here reads a clock.

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
#: Kinds of jobs that are judged separately, by the brokerage that places them.
PRODUCTION, ANALYSIS = "production", "analysis"
ANALYSIS_LABELS = frozenset({"user", "panda"})
DAY_S = 86_400.0
#: Most ends of the long memory that count towards whether jobs finish at a queue.
LATELY = 20
#: Most failed jobs named as evidence.
NAMED_JOBS = 10
#: Most tasks distinguished in the evidence.
NAMED_TASKS = 100


def kind_of(prodsourcelabel: str | None) -> str:
    """The kind of jobs with this label, named after the brokerage that places them."""
    return ANALYSIS if prodsourcelabel in ANALYSIS_LABELS else PRODUCTION


@dataclass(frozen=True)
class HealthLimits:
    """The constants of the test and of the release.

    Attributes:
        evidence: logarithm of the likelihood ratio at which a queue is closed; ``node_evidence``: a node.
        usual_least, usual_most: bounds of the usual failure rate that the test compares with.
        usual_times: the usual rate is the mean of the long memory times this factor.
        failing_more, failing_most: distance of the failing rate above the usual one, and its upper bound.
        memory_s: time constant of the long memory; ``memory_least``: ends below which it is not used.
        run_of_task: consecutive outcomes of one task that count in full; the k-th in a row after them counts 1/k.
        tasks: number of tasks that must fail; ``control_tasks`` suffice where at least the fraction
            ``control_finished`` of their jobs finished at other queues within ``control_s``; ``node_tasks`` at a node.
        task_evidence: evidence against a task at which it stops counting against the queue while no other task fails.
        forgotten_s: evidence is dropped after this time without an end.
        probe_jobs, probe_finished: jobs of a probation, and how many of them must finish.
        first_s, longest_s: how long a queue is closed at first, doubled with each failed probation, and at most.
        half_s: how long a queue that has come back counts as suspected.
        node_share: largest fraction of a queue's nodes closed at once; one node may always be closed.
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

    ``payload_failed``: the error blames the payload, so the end counts against a queue only where jobs of the task
    finish elsewhere. ``started_s`` is NaN for a job that never started.
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
        state: ``healthy``; ``suspected``: half of the required evidence exists, or it has just come back;
            ``excluded``: it gets no jobs; ``probation``: it gets a few probe jobs.
        statistic: the evidence, at least 0.
        since_s: time of the first end in the evidence; NaN without any.
        ended, failed: ends counted since; ``tasks``: the tasks that failed; ``evidence``: the latest failed jobs.
        changed_s: since when the state holds; ``until_s``: when it ends by itself, NaN if it does not.
        times: consecutive exclusions without a passed probation.
        memory_ended, memory_failed: ends of the long memory, which fade; ``last_s``: the last end.
        last_task, run: task of the last end, and how many ends in a row were of that task.
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
        """The usual failure rate here, as used by the test; the lower bound while the memory is short."""
        if self.memory_ended < limits.memory_least:
            return limits.usual_least
        mean = self.memory_failed / self.memory_ended
        return min(max(limits.usual_times * mean, limits.usual_least), limits.usual_most)

    def lately(self) -> tuple[int, int]:
        """Finished and failed jobs of the long memory, scaled down to at most LATELY jobs in the same proportion.

        >>> QueueHealth("Q", PRODUCTION, memory_ended=200.0, memory_failed=50.0).lately()
        (15, 5)
        """
        scale = min(1.0, LATELY / max(self.memory_ended, 1.0))
        return round(scale * (self.memory_ended - self.memory_failed)), round(scale * self.memory_failed)

    def advance(self, now_s: float, limits: HealthLimits) -> None:
        """Apply what time alone changes up to ``now_s``: the end of an exclusion, and of the hour after a probation."""
        if self.state == "excluded" and self.until_s <= now_s:
            self.state, self.changed_s, self.until_s = "probation", self.until_s, math.nan
            self.probes_ended = self.probes_finished = 0
        elif self.state == "suspected" and self.until_s <= now_s:
            self.changed_s, self.until_s = self.until_s, math.nan
            if self.statistic < 0.5 * self._required_evidence(limits):
                self.state = "healthy"

    def _required_evidence(self, limits: HealthLimits) -> float:
        return limits.node_evidence if self.node else limits.evidence

    def _forget(self) -> None:
        self.statistic, self.since_s, self.ended, self.failed = 0.0, math.nan, 0, 0
        self.tasks = self.evidence = ()

    def add(self, job: EndedJob, limits: HealthLimits, *, counts: bool) -> bool:
        """Count an end; return whether the evidence suffices, as far as this state can tell.

        Args:
            job: a job that ended here.
            limits: the limits of the test.
            counts: whether a failure counts against the place.
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
        """Add to the long memory, whose contents fade with its time constant."""
        if not math.isnan(self.last_s) and job.ended_s > self.last_s:
            fading = math.exp((self.last_s - job.ended_s) / limits.memory_s)
            self.memory_ended *= fading
            self.memory_failed *= fading
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
        required = self._required_evidence(limits)
        self.statistic = min(self.statistic + weight * gain, 2.0 * required)
        if self.statistic <= 0.0:
            self._forget()
        else:
            self.since_s = job.ended_s if math.isnan(self.since_s) else self.since_s
            self.ended, self.failed = self.ended + 1, self.failed + failed
            if failed:
                self.evidence = (*self.evidence, job.pandaid)[-NAMED_JOBS:]
                if job.jeditaskid not in self.tasks and len(self.tasks) < NAMED_TASKS:
                    self.tasks = (*self.tasks, job.jeditaskid)
        if self.state == "healthy" and self.statistic >= 0.5 * required:
            self.state, self.changed_s = "suspected", job.ended_s
        elif self.state == "suspected" and math.isnan(self.until_s) and self.statistic < 0.5 * required:
            self.state, self.changed_s = "healthy", job.ended_s
        return failed and self.statistic >= required

    def _probe(self, job: EndedJob, limits: HealthLimits, *, failed: bool) -> None:
        """Count a job that was started during the probation; others say nothing about the present health."""
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
        """Close the place for a while."""
        closed_s = min(limits.first_s * 2.0 ** min(self.times, 60), limits.longest_s)
        self.state, self.changed_s, self.until_s = "excluded", now_s, now_s + closed_s
        self.times += 1


@dataclass
class HealthFold:
    """The states of all places, and the data needed to judge the next end.

    Attributes:
        limits: the limits of the test.
        places: states by queue, kind and node; the node "" stands for the queue.
        task_hours: finished and failed jobs by task, queue and hour (number of hours since 1970).
        touched: places that have changed since the fold was created.
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
        """Add an ended job to the counts of its task, queue and node."""
        counts = job.end == "failed" or (job.end == "payload_failed" and self._finishes_elsewhere(job.jeditaskid, job))
        hours = self.task_hours.get(job.jeditaskid, {})
        alone = counts and fails_here(hours, job.queue, job.ended_s, self.limits.task_evidence)
        self._count_task(job)
        self._count_at(job, "", counts=counts, alone=alone)
        if job.node:
            self._count_at(job, job.node, counts=counts, alone=alone)

    def advance(self, now_s: float) -> None:
        """Apply the changes due to time at all places."""
        for key, place in self.places.items():
            before = place.state, place.changed_s
            place.advance(now_s, self.limits)
            if (place.state, place.changed_s) != before:
                self.touched.add(key)

    def _count_at(self, job: EndedJob, node: str, *, counts: bool, alone: bool) -> None:
        """Count an end at a queue or node; a task known to fail here does not count while no other task fails."""
        key = (job.queue, job.kind, node)
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = QueueHealth(*key)
            if node and self._nodes is not None:
                self._nodes.setdefault(key[:2], set()).add(node)
        self.touched.add(key)
        counts = counts and not (alone and {*place.tasks} <= {job.jeditaskid})
        is_failing = place.add(job, self.limits, counts=counts) and self._tasks_suffice(place, job)
        if is_failing and (not node or self._node_may_go(job)):
            place.exclude(job.ended_s, self.limits)

    def _tasks_suffice(self, place: QueueHealth, job: EndedJob) -> bool:
        """Whether enough tasks fail: one task says nothing about a queue; two suffice where both finish elsewhere."""
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
        cell = (job.queue, math.floor(job.ended_s / HOUR_S))
        hours = self.task_hours.setdefault(job.jeditaskid, {})
        finished, failed = hours.get(cell, (0, 0))
        done = job.end == "finished"
        hours[cell] = (finished + done, failed + (not done))

    def forget_tasks(self, now_s: float) -> None:
        """Drop the hours of tasks that no judgement uses any more."""
        first = math.floor((now_s - self.limits.control_s) / HOUR_S) - 1
        for task in list(self.task_hours):
            recent = {cell: counts for cell, counts in self.task_hours[task].items() if cell[1] >= first}
            if recent:
                self.task_hours[task] = recent
            else:
                del self.task_hours[task]

    def _node_may_go(self, job: EndedJob) -> bool:
        """Whether another node may be closed: where more than a fraction of the nodes fail, the queue is at fault."""
        if self._nodes is None:
            self._nodes = {}
            for queue, kind, node in self.places:
                if node:
                    self._nodes.setdefault((queue, kind), set()).add(node)
        nodes = self._nodes[job.queue, job.kind]
        closed = sum(self.places[job.queue, job.kind, node].state in ("excluded", "probation") for node in nodes)
        return closed < max(1.0, self.limits.node_share * len(nodes))
