"""The record of queues: hourly sums over the jobs that ended there, by kind. Pure.

Ends are added one by one, in order, so that the sums do not depend on how the list of ends is split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from broker.domain import queue_health
from broker.domain.instants import HOUR_S
from broker.domain.queue_health import End, EndedJob

TEST = "test"
TEST_LABELS = frozenset({"test", "ptest", "prod_test", "rc_test", "rc_test2", "rc_alrb", "install"})
#: Waits of less than 1 min, 2 min, 4 min ... 16384 min, and longer ones.
WAIT_CELLS = 16
#: Error classes of jobs that stopped reporting.
LOST_CLASSES = frozenset({"lost", "vanished"})
#: Faults that count against a queue. Data faults show where the data were read; an unknown code may be anything.
AGAINST_QUEUE = frozenset({"site", "data", "unknown"})


def kind_of(prodsourcelabel: str | None) -> str:
    """The kind of jobs with this label: named after the brokerage that places them, or ``test``."""
    return TEST if prodsourcelabel in TEST_LABELS else queue_health.kind_of(prodsourcelabel)


@dataclass(frozen=True)
class ArchivedJob:
    """A job that has ended; times are seconds since 1970 UTC, NaN where unknown.

    Attributes:
        known_s: when its end was written; ends are folded in this order.
        expected_s: expected walltime.
        host: where it ran, as named by its pilot: ``slot1@node.example.org``.
        error_class, fault: error class and fault of a failed job, by ``error_classes.yaml``.
    """

    pandaid: int
    attemptnr: int
    jeditaskid: int
    queue: str
    jobstatus: str
    prodsourcelabel: str | None
    processingtype: str
    resource_type: str
    cores: float
    known_s: float
    created_s: float = math.nan
    started_s: float = math.nan
    ended_s: float = math.nan
    expected_s: float = math.nan
    host: str | None = None
    error_class: str = ""
    fault: str = ""

    @property
    def kind(self) -> str:
        """The kind of the job."""
        return kind_of(self.prodsourcelabel)

    @property
    def walltime_s(self) -> float:
        """How long it ran; NaN if it did not."""
        ended_s = self.known_s if math.isnan(self.ended_s) else self.ended_s
        return max(0.0, ended_s - self.started_s)

    @property
    def node(self) -> str:
        """The node without the slot; empty if the job did not run or no node is named."""
        return "" if self.host is None or math.isnan(self.started_s) else self.host.rsplit("@", 1)[-1].strip()


def judged(job: ArchivedJob) -> EndedJob | None:
    """Convert the end for the health test; None if it says nothing about the queue.

    Jobs that were killed, reassigned, preempted or requested too little say nothing; neither do test jobs.
    """
    if job.kind == TEST or job.jobstatus not in ("finished", "failed"):
        return None
    end: End = "finished"
    if job.jobstatus == "failed":
        if job.fault not in AGAINST_QUEUE and job.fault != "payload":
            return None
        end = "payload_failed" if job.fault == "payload" else "failed"
    return EndedJob(job.known_s, job.pandaid, job.queue, job.kind, job.jeditaskid, end, job.started_s, job.node)


@dataclass
class RecordCell:
    """Sums over the jobs of a kind that ended at a queue within an hour.

    Attributes:
        closed: closed or cancelled jobs; ``lost``: failed jobs that stopped reporting.
        core_s: cores x walltime of all jobs that ran; ``failed_core_s``: of the failed ones.
        ratio_jobs: finished jobs with an expected walltime; ``ratio_ln_sum`` and ``ratio_ln_square_sum``: sums over
            them of the logarithm of real over expected walltime, and of its square.
        waits: (WAIT_CELLS,) jobs by time from creation to start.
    """

    finished: int = 0
    failed: int = 0
    closed: int = 0
    lost: int = 0
    core_s: float = 0.0
    failed_core_s: float = 0.0
    ratio_jobs: int = 0
    ratio_ln_sum: float = 0.0
    ratio_ln_square_sum: float = 0.0
    waits: list[int] = field(default_factory=lambda: [0] * WAIT_CELLS)

    def add(self, job: ArchivedJob) -> None:
        """Add an ended job to the counts, core-seconds and ratio of actual to expected walltime."""
        failed, finished = job.jobstatus == "failed", job.jobstatus == "finished"
        self.finished += finished
        self.failed += failed
        self.closed += not (finished or failed)
        self.lost += failed and job.error_class in LOST_CLASSES
        if math.isnan(job.started_s):
            return
        core_s = job.walltime_s * job.cores
        self.core_s += core_s
        self.failed_core_s += core_s if failed else 0.0
        if finished and job.expected_s > 0 and job.walltime_s > 0:
            ratio = math.log(job.walltime_s / job.expected_s)
            self.ratio_jobs += 1
            self.ratio_ln_sum += ratio
            self.ratio_ln_square_sum += ratio * ratio
        if job.started_s >= job.created_s:
            self.waits[wait_cell(job.started_s - job.created_s)] += 1


def wait_cell(wait_s: float) -> int:
    """The cell of a wait: 0 below a minute, then one for each doubling."""
    minutes = wait_s / 60.0
    return 0 if minutes < 1.0 else min(WAIT_CELLS - 1, math.floor(math.log2(minutes)) + 1)


def wait_quantile_min(waits: list[int], part: float) -> float | None:
    """The upper edge, in minutes, of the cell with a quantile; None without waits, infinite in the last cell."""
    total = sum(waits)
    if not total:
        return None
    seen = 0
    for cell, jobs in enumerate(waits):
        seen += jobs
        if seen >= part * total:
            return math.inf if cell == WAIT_CELLS - 1 else 2.0**cell
    return math.inf


CellKey = tuple[float, str, str, str, str]
FailureKey = tuple[float, str, str, str, str]


@dataclass
class RecordFold:
    """Cells by hour (seconds since 1970), queue, kind, processing and resource type; failures by class and fault."""

    cells: dict[CellKey, RecordCell] = field(default_factory=dict)
    failures: dict[FailureKey, int] = field(default_factory=dict)

    def add(self, job: ArchivedJob) -> None:
        """Add an ended job to the cell of its hour, queue and kind, and a failed one to its error class."""
        hour_s = math.floor(job.known_s / HOUR_S) * HOUR_S
        key = (hour_s, job.queue, job.kind, job.processingtype, job.resource_type)
        cell = self.cells.get(key)
        if cell is None:
            cell = self.cells[key] = RecordCell()
        cell.add(job)
        if job.jobstatus == "failed":
            of_class = (hour_s, job.queue, job.kind, job.error_class, job.fault)
            self.failures[of_class] = self.failures.get(of_class, 0) + 1
