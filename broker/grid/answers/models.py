"""The answers about the grid: queues, nuclei, links, shares."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from broker.decisions.answers.decision_model import Figure
from broker.domain.decisions import Observation
from broker.feeds.statements.queue_pins import HeldField
from broker.outcomes.answers.outcomes import PlaceHealth
from broker.store.query_context import Answer


class JobNumbers(Answer):
    """Jobs by status, as the last snapshot shows them."""

    defined: int
    assigned: int
    activated: int
    starting: int
    running: int
    transferring: int


class QueueFilters(Answer):
    """Which queues: ``status`` in CRIC's words, ``idle``: that got no jobs in the last cycle."""

    status: str | None = None
    site: str | None = None
    idle: bool = False


class QueueLine(Answer):
    """A queue in short: what it got in 24 hours, in how many decisions, and what rejected it most often."""

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


class OfSnapshot(Answer):
    """What is read from one snapshot of the grid; None where there is none."""

    now: datetime
    snapshot: str | None
    taken_at: datetime | None


class Queues(OfSnapshot):
    """All queues, by name."""

    queues: tuple[QueueLine, ...]


class RejectedThere(Answer):
    """How often one rule rejected the queue or nucleus.

    Attributes:
        code: of the rule.
        decisions: in so many decisions of the 24 hours before.
        waiting: for so many of the chunks that wait now and were looked at.
        such_as: some of their tasks.
    """

    code: str
    decisions: int
    waiting: int
    such_as: tuple[int, ...] = ()


class NearMiss(Answer):
    """What the queue would get with one of its limits changed, by evaluating those chunks again.

    Attributes:
        field: ``queue.maxrss`` and so on.
        pseudo_queue: the one whose field is changed.
        now: its value.
        to: the value with which they were evaluated.
        chunks: that would have the queue among their candidates.
        jobs: that these chunks make, about.
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


class RequestLimit(Answer):
    """A limit of the queue against what the chunks of the last cycle ask for.

    ``chunks_beyond`` of ``chunks`` ask for more than the limit (or less than the least).
    """

    field: str
    pseudo_queue: str
    limit: Figure
    unit: str
    chunks: int
    chunks_beyond: int
    median: float | None
    largest: float | None


class LinkLine(Answer):
    """A link from the site of a storage to a nucleus: files that queue on it against the cap; None: not known."""

    source: str
    nucleus: str
    queued_files: float | None
    cap_files: float | None
    full: bool | None
    closeness: float | None
    mbps_1h: float | None
    mbps_1d: float | None
    mbps_1w: float | None


class NotACandidate(Answer):
    """Why a queue was no candidate of a brokerage at all, and since when."""

    brokerage: str
    code: str
    compared: Observation | None
    since: datetime | None


class BrokerageAtQueue(Answer):
    """What one brokerage decided about the queue in 24 hours.

    Attributes:
        decided_at: when it last decided about anything.
        decisions: about all chunks.
        considered: decisions in which the queue was chosen or rejected by a rule.
        chosen: decisions in which it was among the candidates.
        jobs_placed: that it got.
        waiting: chunks that wait now.
        looked_at: of so many of them the decision was read for ``waiting`` of the rejections and for near misses.
        rejected: by rule; its decisions add up to considered minus chosen.
        near_misses: what the queue would get with another limit.
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


class QueueAnswer(Answer):
    """Why a queue gets what it gets. ``rejected`` of a brokerage adds up to considered minus chosen."""

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


class TaskAtNucleus(Answer):
    """A task that the nucleus collects, or for which it was a candidate."""

    jeditaskid: int
    decided_at: datetime
    drawn: bool
    weight: float
    probability: float


class NucleusLine(Answer):
    """A nucleus in short; ``collected``, ``candidate`` and ``considered`` are decisions of the 24 hours before."""

    nucleus: str
    role: Literal["nucleus", "satellite"]
    state: str
    output_endpoint: str | None
    free_gb: float | None
    total_gb: float | None
    collected: int
    candidate: int
    considered: int


class NucleusAnswer(Answer):
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


class LinkFilters(Answer):
    """Which links: by source, nucleus, or only those that are full; ``after``: behind the page that said so."""

    source: str | None = None
    nucleus: str | None = None
    full: bool = False
    limit: int = Field(default=10_000, ge=1)
    after: str | None = None


class Links(Answer):
    """Links with anything known about them, those with most files against their cap first; ``total`` of all pages."""

    now: datetime
    snapshot: str | None
    taken_at: datetime | None
    cap_key: str
    total: int
    links: tuple[LinkLine, ...]
    next_after: str | None = None


class ShareLine(Answer):
    """A global share: its target and what it has, in per cent of all; children add up to their parent.

    ``running_hs06`` and ``queued_hs06``: HS06 of jobs that run and that wait.
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


class Shares(Answer):
    """The tree of global shares, parents before their children."""

    now: datetime
    counted_at: datetime | None
    shares: tuple[ShareLine, ...]
