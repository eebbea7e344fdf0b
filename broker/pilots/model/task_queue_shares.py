"""The weight of each task queue in the draw: shares of groups and owners, split by the priorities of their jobs.

A working group has its share as a whole; jobs without one belong to their owners, who divide the share. Source: DIRAC's
task queues, shares and priorities.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from broker.domain.arrays import Floats, Ints

LEAST_WEIGHT = 0.001
#: Task queues with at most this priority are for the background.
BACKGROUND_PRIORITY = 0.1
_LOWEST, _HIGHEST, _HIGH = 1e-5, 1e6, 10

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True)
class Claim:
    """What determines the weight of a task queue.

    Attributes:
        share: the global share of its jobs.
        owner_group: their working group; None: they are their owner's own.
        owner: their owner.
        rest: all else that groups its jobs, except where they may run: task queues that differ only there are for the
            same work, and each has the weight of them all.
        priority: the mean of the real priorities of its jobs.
        job_type: type of its jobs, where types of jobs are drawn before shares: each type has all shares for itself.
            Empty for all types that have no tier: those are drawn together.
    """

    share: str | None
    owner_group: str | None
    owner: str | None
    rest: Hashable
    priority: float
    job_type: str = ""


def real_priorities(priorities: Ints) -> Floats:
    """The weight of a job of each priority within its task queue: 0 and less hardly counts, 10 and more goes before.

    Beyond 10 it goes on rising, as priorities of PanDA do.
    """
    above = _HIGHEST * priorities / _HIGH
    return np.where(priorities <= 0, _LOWEST, np.where(priorities < _HIGH, priorities, above)).astype(np.float64)


def task_queue_weights(claims: Sequence[Claim], share_of: Floats, *, background: bool = False) -> Floats:
    """The weight of each task queue in the draw.

    Args:
        claims: claims of the task queues.
        share_of: value of the share of each.
        background: whether jobs of the least priority get only pilots that no other job wants.
    """
    priority = np.array([claim.priority for claim in claims], dtype=np.float64)
    behind = priority <= BACKGROUND_PRIORITY if background else np.zeros(len(claims), dtype=np.bool_)
    holder = _codes([(claim.job_type, claim.share, claim.owner_group, _owner_of(claim)) for claim in claims])
    value = share_of / _holders_in_share(claims)
    counted = np.where(behind, 0.0, priority)
    total = np.bincount(holder, counted, minlength=1)[holder]
    own = np.divide(value * counted, total, out=np.zeros(len(claims)), where=total > 0)
    works = [(key, claim.owner, claim.rest) for key, claim in zip(holder.tolist(), claims, strict=True)]
    same_work = _codes(works)
    weight = np.bincount(same_work, np.maximum(own, LEAST_WEIGHT), minlength=1)[same_work]
    return np.asarray(np.where(behind, LEAST_WEIGHT, weight), dtype=np.float64)


def _owner_of(claim: Claim) -> str | None:
    return claim.owner if claim.owner_group is None else None


def _holders_in_share(claims: Sequence[Claim]) -> Floats:
    """The number by which each task queue's share is divided: the owners of jobs without a group; 1 for a group."""
    owners: dict[tuple[str, str | None], set[str | None]] = {}
    for claim in claims:
        if claim.owner_group is None:
            owners.setdefault((claim.job_type, claim.share), set()).add(claim.owner)
    divisors = [1 if claim.owner_group is not None else len(owners[claim.job_type, claim.share]) for claim in claims]
    return np.array(divisors, dtype=np.float64)


def _codes(keys: Sequence[KeyT]) -> Ints:
    known: dict[KeyT, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
