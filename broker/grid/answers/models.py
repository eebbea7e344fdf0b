"""The answers about the grid: queues, nuclei, links, shares."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from broker.domain.decisions import Observation
from broker.domain.words import Figure
from broker.feeds.statements.queue_pins import HeldField
from broker.outcomes.answers.outcomes import PlaceHealth
from broker.store.query_context import ResponseModel


class JobNumbers(ResponseModel):
    """Jobs by status in the last snapshot."""

    defined: int
    assigned: int
    activated: int
    starting: int
    running: int
    transferring: int


class QueueFilters(ResponseModel):
    """Filters of queues: ``status`` as in CRIC; ``idle``: only queues that got no jobs in the last cycle."""

    status: str | None = None
    site: str | None = None
    idle: bool = False


class QueueLine(ResponseModel):
    """A summary of a queue: jobs received in 24 hours, number of decisions, and the most frequent rejection."""

    queue: str
    site: str
    status: str
    type: str
    pseudo_queues: int
    jobs: JobNumbers
    pilots: float
    considered: int
    chosen: int
    placed: int
    main_code: str | None


class OfSnapshot(ResponseModel):
    """Data from one snapshot of the grid; null if there is none."""

    now: datetime
    snapshot: str | None
    taken_at: datetime | None


class Queues(OfSnapshot):
    """All queues, by name."""

    queues: tuple[QueueLine, ...]


class RejectedThere(ResponseModel):
    """How often a rule rejected the queue or nucleus.

    Attributes:
        code: code of the rule.
        decisions: number of such decisions in the previous 24 hours.
        waiting: number of such chunks among those that wait now and were examined.
        such_as: some of their tasks.
    """

    code: str
    decisions: int
    waiting: int
    such_as: tuple[int, ...] = ()


class NearMiss(ResponseModel):
    """Jobs that the queue would get with one limit changed, found by evaluating those chunks again.

    Attributes:
        field: field of the limit, such as ``queue.maxrss``.
        pseudo_queue: pseudo-queue whose field is changed.
        now: current value.
        to: value used in the evaluation.
        chunks: chunks that would have the queue as a candidate.
        jobs: approximate number of jobs from these chunks.
        such_as: some of their tasks.
    """

    code: str
    field: str
    pseudo_queue: str
    now: Figure
    to: Figure
    unit: str
    chunks: int
    jobs: int
    such_as: tuple[int, ...] = ()


class RequestLimit(ResponseModel):
    """A limit of the queue compared with the requests of the chunks of the last cycle.

    ``chunks_beyond`` of ``chunks`` request more than the limit (or less than the minimum).
    """

    field: str
    pseudo_queue: str
    limit: Figure
    unit: str
    chunks: int
    chunks_beyond: int
    median: float | None
    largest: float | None


class LinkLine(ResponseModel):
    """A link from the site of a storage to a nucleus: queued files and their cap; null if unknown."""

    source: str
    nucleus: str
    queued_files: float | None
    cap_files: float | None
    full: bool | None
    closeness: float | None
    mbps_1h: float | None
    mbps_1d: float | None
    mbps_1w: float | None


class NotACandidate(ResponseModel):
    """Why a queue was not a candidate of a brokerage, and since when."""

    brokerage: str
    code: str
    compared: Observation | None
    since: datetime | None


class BrokerageAtQueue(ResponseModel):
    """Decisions of one brokerage about the queue in 24 hours.

    Attributes:
        decided_at: time of its last decision about anything.
        decisions: number of decisions about all chunks.
        considered: number of decisions in which the queue was chosen or rejected by a rule.
        chosen: number of decisions in which the queue was a candidate.
        jobs_placed: jobs that it placed at the queue.
        waiting: number of chunks that wait now.
        looked_at: number of these whose decision was read for ``waiting`` of the rejections and for near misses.
        rejected: rejections by rule; the decisions add up to considered minus chosen.
        near_misses: jobs that the queue would get with another limit.
    """

    brokerage: str
    decided_at: datetime | None
    decisions: int
    considered: int
    chosen: int
    jobs_placed: int
    waiting: int
    looked_at: int
    rejected: tuple[RejectedThere, ...]
    near_misses: tuple[NearMiss, ...]


class QueueAnswer(ResponseModel):
    """Why a queue gets the jobs it gets. ``rejected`` of a brokerage adds up to considered minus chosen."""

    now: datetime
    snapshot: str | None
    taken_at: datetime | None
    queue: str
    site: str
    cloud: str | None
    status: str
    type: str
    pseudo_queues: tuple[str, ...]
    jobs: JobNumbers
    pilots: float
    workers: float
    last_start_at: datetime | None
    brokerages: tuple[BrokerageAtQueue, ...]
    not_a_candidate: tuple[NotACandidate, ...]
    limits: tuple[RequestLimit, ...]
    links: tuple[LinkLine, ...]
    pins: tuple[HeldField, ...]
    failing: bool = False
    failed_jobs: int = 0
    finished_jobs: int = 0
    unhealthy: tuple[PlaceHealth, ...] = ()


class TaskAtNucleus(ResponseModel):
    """A task that the nucleus collects, or for which it was a candidate."""

    jeditaskid: int
    decided_at: datetime
    drawn: bool
    weight: float
    probability: float


class NucleusLine(ResponseModel):
    """A summary of a nucleus; ``collected``, ``candidate`` and ``considered``: decisions of the previous 24 hours."""

    nucleus: str
    role: Literal["nucleus", "satellite"]
    state: str
    output_endpoint: str | None
    free_gb: float | None
    total_gb: float | None
    collected: int
    candidate: int
    considered: int


class NucleusAnswer(ResponseModel):
    """A nucleus: its state and space, what was drawn there, and what rejected it."""

    now: datetime
    snapshot: str | None
    taken_at: datetime | None
    line: NucleusLine
    rejected: tuple[RejectedThere, ...]
    tasks: tuple[TaskAtNucleus, ...]
    links: tuple[LinkLine, ...]
    queues: tuple[str, ...]


class Nuclei(OfSnapshot):
    """All nuclei and satellites, by name."""

    nuclei: tuple[NucleusLine, ...]


class LinkFilters(ResponseModel):
    """Filters of links: by source, by nucleus, or only full links; ``after``: cursor from the previous page."""

    source: str | None = None
    nucleus: str | None = None
    full: bool = False
    limit: int = Field(default=10_000, ge=1)
    after: str | None = None


class Links(ResponseModel):
    """Links with known data, those with most files relative to their cap first; ``total`` over all pages."""

    now: datetime
    snapshot: str | None
    taken_at: datetime | None
    cap_key: str
    total: int
    links: tuple[LinkLine, ...]
    next_after: str | None = None


class ShareLine(ResponseModel):
    """A global share: target and actual use, in per cent of all; children add up to their parent.

    ``running_hs06`` and ``queued_hs06``: HS06 of running and waiting jobs.
    """

    gshare: str
    parent: str | None
    depth: int
    value: float | None
    target_percent: float | None
    running_percent: float | None
    running_hs06: float
    queued_hs06: float
    running_jobs: int
    queued_jobs: int
    usage_of_target_percent: float | None


class Shares(ResponseModel):
    """The tree of global shares, parents before their children."""

    now: datetime
    counted_at: datetime | None
    shares: tuple[ShareLine, ...]
