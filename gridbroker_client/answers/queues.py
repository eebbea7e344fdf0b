"""Answers about queues, from the description of the API; `make reference` writes this file."""

from __future__ import annotations

from typing import TypedDict

from gridbroker_client.answers.decisions import HeldField, Observation
from gridbroker_client.answers.grid import JobNumbers, LinkLine, RejectedThere


class QueueAnswer(TypedDict):
    """Why a queue gets the jobs it gets. ``rejected`` of a brokerage adds up to considered minus chosen."""

    now: str
    snapshot: str | None
    taken_at: str | None
    queue: str
    site: str
    cloud: str | None
    status: str
    type: str
    pseudo_queues: list[str]
    jobs: JobNumbers
    pilots: float
    workers: float
    last_start_at: str | None
    brokerages: list[BrokerageAtQueue]
    not_a_candidate: list[NotACandidate]
    limits: list[RequestLimit]
    links: list[LinkLine]
    pins: list[HeldField]
    failing: bool
    failed_jobs: int
    finished_jobs: int
    unhealthy: list[PlaceHealth]


class BrokerageAtQueue(TypedDict):
    """Decisions of one brokerage about the queue in 24 hours."""

    brokerage: str
    decided_at: str | None
    decisions: int
    considered: int
    chosen: int
    jobs_placed: int
    waiting: int
    looked_at: int
    rejected: list[RejectedThere]
    near_misses: list[NearMiss]


class NotACandidate(TypedDict):
    """Why a queue was not a candidate of a brokerage, and since when."""

    brokerage: str
    code: str
    compared: Observation | None
    since: str | None


class RequestLimit(TypedDict):
    """A limit of the queue compared with the requests of the chunks of the last cycle."""

    field: str
    pseudo_queue: str
    limit: float | int | str | bool | None
    unit: str
    chunks: int
    chunks_beyond: int
    median: float | None
    largest: float | None


class PlaceHealth(TypedDict):
    """A queue, or one of its nodes, that is unhealthy for a kind of jobs."""

    queue: str
    kind: str
    node: str
    state: str
    statistic: float
    failed: int
    ended: int
    tasks: int
    jobs: list[int]
    since: str | None
    changed: str | None
    until: str | None
    probes_finished: int
    probes_ended: int
    sentence: str


class NearMiss(TypedDict):
    """Jobs that the queue would get with one limit changed, found by evaluating those chunks again."""

    code: str
    field: str
    pseudo_queue: str
    now: float | int | str | bool | None
    to: float | int | str | bool | None
    unit: str
    chunks: int
    jobs: int
    such_as: list[int]
