"""Pseudo-queues: one candidate for each resource type that a unified queue can serve.

Source: PanDA data model, unified queues to pseudo-queues.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from broker.snapshot.queue_rows import QueueRecord


@dataclass(frozen=True)
class ResourceType:
    """A resource type: cores and MB per core of the jobs that belong to it; NaN is an open bound."""

    name: str
    mincore: float
    maxcore: float
    minrampercore_mb: float
    maxrampercore_mb: float


@dataclass(frozen=True)
class PseudoQueue:
    """Own fields of a pseudo-queue; all others are its parent's."""

    name: str
    resource_type: str
    cores: float
    maxrss_mb: float
    minrss_mb: float


def _least(*values: float) -> float:
    known = [value for value in values if not math.isnan(value)]
    return min(known) if known else math.nan


def _greatest(*values: float) -> float:
    known = [value for value in values if not math.isnan(value)]
    return max(known) if known else math.nan


def pseudo_queues(queue: QueueRecord, resource_types: list[ResourceType]) -> list[PseudoQueue]:
    """The pseudo-queues of a unified queue, one for each resource type whose least cores it has.

    A memory limit that the queue does not publish is left to the resource type; with neither there is no limit. Where
    the resource type leaves a bound open, the slot's limit counts in proportion to the cores.
    """
    parent_cores = max(1.0, queue.cores)
    derived = []
    for kind in resource_types:
        if not math.isnan(kind.mincore) and parent_cores < kind.mincore:
            continue
        cores = _greatest(_least(parent_cores, kind.maxcore), kind.mincore)
        share = cores / parent_cores
        if math.isnan(kind.minrampercore_mb):
            minrss = queue.minrss_mb * share
        else:
            minrss = _greatest(cores * kind.minrampercore_mb - cores + 1, queue.minrss_mb * share)
        if math.isnan(kind.maxrampercore_mb):
            maxrss = _least(queue.maxrss_mb * share, queue.maxrss_mb)
        else:
            maxrss = _least(cores * kind.maxrampercore_mb, queue.maxrss_mb * share)
        derived.append(PseudoQueue(f"{queue.name}/{kind.name}", kind.name, cores, maxrss, minrss))
    return derived
