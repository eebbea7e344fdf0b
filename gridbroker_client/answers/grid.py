"""Answers about grid, from the description of the API; `make reference` writes this file."""

from __future__ import annotations

from typing import Literal, TypedDict


class Queues(TypedDict):
    """All queues, by name."""

    now: str
    snapshot: str | None
    taken_at: str | None
    queues: list[QueueLine]


class Nuclei(TypedDict):
    """All nuclei and satellites, by name."""

    now: str
    snapshot: str | None
    taken_at: str | None
    nuclei: list[NucleusLine]


class NucleusAnswer(TypedDict):
    """A nucleus: its state and space, what was drawn there, and what rejected it."""

    now: str
    snapshot: str | None
    taken_at: str | None
    line: NucleusLine
    rejected: list[RejectedThere]
    tasks: list[TaskAtNucleus]
    links: list[LinkLine]
    queues: list[str]


class Links(TypedDict):
    """Links with known data, those with most files relative to their cap first; ``total`` over all pages."""

    now: str
    snapshot: str | None
    taken_at: str | None
    cap_key: str
    total: int
    links: list[LinkLine]
    next_after: str | None


class Shares(TypedDict):
    """The tree of global shares, parents before their children."""

    now: str
    counted_at: str | None
    shares: list[ShareLine]


class QueueLine(TypedDict):
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


class NucleusLine(TypedDict):
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


class RejectedThere(TypedDict):
    """How often a rule rejected the queue or nucleus."""

    code: str
    decisions: int
    waiting: int
    such_as: list[int]


class TaskAtNucleus(TypedDict):
    """A task that the nucleus collects, or for which it was a candidate."""

    jeditaskid: int
    decided_at: str
    drawn: bool
    weight: float
    probability: float


class LinkLine(TypedDict):
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


class ShareLine(TypedDict):
    """A global share: target and actual use, in per cent of all; children add up to their parent."""

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


class JobNumbers(TypedDict):
    """Jobs by status in the last snapshot."""

    defined: int
    assigned: int
    activated: int
    starting: int
    running: int
    transferring: int
