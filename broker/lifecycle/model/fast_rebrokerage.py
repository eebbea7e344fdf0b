"""Fast rebrokerage: which queues hold too many waiting jobs of a share, and how many of them to take back. Pure.

Figures are compared exactly, as the decimal numbers that operators wrote: 29 of 100 jobs are not more than 0.29 of
them.
Source: ATLAS Production Job Brokerage, Timeout Rules, fast rebrokerage.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

RULE = "fast_rebrokerage"
DRY_THRESHOLD = 10
"""The threshold in queued jobs that is assumed for a share without one, which is only reported."""
SLOTS = "harvester_slots"
SETTLING = "settling"
UNKNOWN_QUEUE = "unknown_queue"


@dataclass(frozen=True)
class ShareLoad:
    """The jobs of a share at a queue.

    Attributes:
        queue: the queue.
        gshare: the share; None for jobs without one.
        nqueue: defined, assigned, activated and starting jobs.
        nrunning: running jobs.
    """

    queue: str
    gshare: str | None
    nqueue: int
    nrunning: int


@dataclass(frozen=True)
class FastLimits:
    """The limits in force.

    Attributes:
        ratio: of queued to running jobs.
        fraction: of the queued jobs of the share.
        thresholds: queued jobs, by share; a share that is missing is only reported.
    """

    ratio: float
    fraction: float
    thresholds: Mapping[str | None, float]


@dataclass(frozen=True)
class FastVerdict:
    """The verdict on a share at a queue.

    Attributes:
        load: its jobs.
        nqueue_total: queued jobs of the share at all queues that are counted.
        threshold: the threshold that was applied.
        triggers: whether the share has a threshold of its own; otherwise nothing is moved.
        over_ratio: more queued jobs than ``ratio`` times the running ones.
        over_threshold: more queued jobs than the threshold.
        over_fraction: more than ``fraction`` of the queued jobs of the share.
        exempt: why the queue is left alone all the same; None when it is not.
        excess: how many jobs to take back; 0 unless all conditions hold.
    """

    load: ShareLoad
    nqueue_total: int
    threshold: float
    triggers: bool
    over_ratio: bool
    over_threshold: bool
    over_fraction: bool
    exempt: str | None
    excess: int


def check_shares(
    loads: Iterable[ShareLoad],
    limits: FastLimits,
    exempt: Mapping[str, str],
    settling: Collection[str | None] = frozenset(),
) -> list[FastVerdict]:
    """Judge every share at every queue, by queue and share.

    Queues with published slots hold many waiting jobs on purpose: they are left alone, and their jobs are in no total.
    Queues that are exempt for another reason are left alone, but what waits there is part of the share. Jobs that were
    just taken back wait nowhere until they are brokered again: until then the total of their share is too small.

    Args:
        loads: one for each queue and share.
        limits: the limits in force.
        exempt: why a queue is left alone, by queue.
        settling: shares of which jobs were taken back just now; they are left alone everywhere.
    """
    ordered = sorted(loads, key=lambda load: (load.queue, load.gshare or "", load.gshare is None))
    totals: dict[str | None, int] = {}
    for load in ordered:
        if exempt.get(load.queue) != SLOTS:
            totals[load.gshare] = totals.get(load.gshare, 0) + load.nqueue
    verdicts = []
    for load in ordered:
        why = exempt.get(load.queue) or (SETTLING if load.gshare in settling else None)
        verdicts.append(_judge(load, totals.get(load.gshare, 0), limits, why))
    return verdicts


def _judge(load: ShareLoad, total: int, limits: FastLimits, exempt: str | None) -> FastVerdict:
    own = limits.thresholds.get(load.gshare)
    threshold = DRY_THRESHOLD if own is None else own
    margins = (
        load.nqueue - load.nrunning * _exact(limits.ratio),
        load.nqueue - _exact(threshold),
        load.nqueue - total * _exact(limits.fraction),
    )
    excess = math.ceil(min(margins)) if exempt is None and min(margins) > 0 else 0
    exceeded = [margin > 0 for margin in margins]
    return FastVerdict(load, total, threshold, own is not None, exceeded[0], exceeded[1], exceeded[2], exempt, excess)


def _exact(value: float) -> Fraction:
    """The decimal number that prints as ``value``."""
    return Fraction(repr(value))
