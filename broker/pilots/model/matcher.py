"""Which task queues a pilot may take jobs from, and in which order they are tried.

Every condition is strict: what jobs ask for, the pilot must present; a silent pilot gets only jobs that do not ask.
Source: DIRAC RFC 7, matching by SubmitPool; DIRAC's task queues, choice in proportion to priority.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from broker.domain.arrays import Floats, Ints, Texts
from broker.matching.specs.index import SpecIndex
from broker.matching.specs.node import Node
from broker.matching.specs.spec import JobSpecs, NotCanonical, parse_canonical

#: Jobs are grouped by the least of these that is not less than what they need; 0 needs nothing.
CPUTIME_CLASSES_S = (
    360, 1800, 3600, 21600, 43200, 86400, 172800, 259200, 345600, 518400, 691200, 864000, 1080000,
)  # fmt: skip

FIELDS = (
    "vo", "queue", "resource_type", "owner", "owner_group", "site", "banned_site", "platform", "cpu_time",
    "submit_pool", "node", "running_limit",
)  # fmt: skip
"""Fields that are compared, in this order; the first that does not fit is the reason. Taking a job checks the limit."""

MATCHES = -1
NOTHING_WAITS, TAKEN_BY_OTHERS = "nothing_waits", "taken_by_others"


@dataclass(frozen=True)
class Pilot:
    """What a pilot presents.

    Attributes:
        site: where it runs, with ``ce`` and ``queue``.
        ce: CE of the queue.
        queue: queue of the CE.
        vo: VO that it works for; None: any.
        platforms: platforms that it can run.
        cputime_s: normalised CPU seconds that it has left.
        resource_type: resource type of its slot; None: any.
        owner: owner whose jobs it takes; None: anybody's.
        owner_group: group whose jobs it takes; None: any group's.
        node: node that it runs on; None: not reported, so that it gets only jobs that ask nothing of a node.
        host: name of its node, without a slot; None: not reported.
    """

    site: str
    ce: str
    queue: str
    vo: str | None = None
    platforms: tuple[str, ...] = ()
    cputime_s: int | None = None
    resource_type: str | None = None
    owner: str | None = None
    owner_group: str | None = None
    node: Node | None = None
    host: str | None = None


def host_of(node: str | None) -> str | None:
    """The host of a node as a pilot names it, ``slot@host`` or ``host``; None where it names none.

    >>> host_of("slot1_2@n1"), host_of(" ")
    ('n1', None)
    """
    return (node or "").rpartition("@")[2].strip() or None


@dataclass(frozen=True)
class TaskQueueTable:
    """Task queues as columns (length K); lists are tuples, NULL is None. ``weight`` is the share of the draw.

    ``specs`` is the canonical text of what the jobs ask of a node. ``job_type`` is None for a task queue of an earlier
    release, which holds jobs of all types. The tier and the weight of the type are those of the tuning.
    """

    id: Ints
    vo: Texts
    owner: Texts
    owner_group: Texts
    panda_queue: Texts
    resource_type: Texts
    sites: Texts
    banned_sites: Texts
    platforms: Texts
    cputime_class_s: Ints
    pool: Texts
    specs: Texts
    weight: Floats
    job_type: Texts
    tier: Ints
    type_weight: Floats

    def __len__(self) -> int:
        return len(self.id)

    def at(self, positions: Ints) -> TaskQueueTable:
        """The task queues at these positions, in their order."""
        return TaskQueueTable(*(getattr(self, column.name)[positions] for column in fields(self)))

    @classmethod
    def joined(cls, tables: Sequence[TaskQueueTable]) -> TaskQueueTable:
        """All task queues of at least one table."""
        return cls(*(np.concatenate([getattr(one, column.name) for one in tables]) for column in fields(cls)))


def pool_fits(pool: str | None, presented: Collection[str] | None, mapped: Collection[str] | None = None) -> bool:
    """Whether jobs of a pool may go to a pilot: a pool is a name like any other, there is no "any".

    Args:
        pool: pool of the jobs; None: they require nothing.
        presented: identifiers that the pilot brought; None or none: it knows of none.
        mapped: identifiers mapped to its queue now. Where they are known, what the pilot brought does not count.
    """
    return pool is None or pool in (mapped if mapped is not None else presented or ())


def no_match(reasons: Ints) -> tuple[str, dict[str, int]]:
    """Why a pilot got nothing: the reason nearest to a match, and how many task queues failed at each field."""
    if not len(reasons):
        return NOTHING_WAITS, {}
    counts = Counter(reasons.tolist())
    failed = {field: counts[index] for index, field in enumerate(FIELDS) if counts[index]}
    return TAKEN_BY_OTHERS if counts[MATCHES] else list(failed)[-1], failed


@lru_cache(maxsize=256)
def index_of(texts: tuple[str, ...]) -> tuple[SpecIndex, tuple[str, ...]]:
    """The index over what canonical texts ask for, and the readable ones; places with the same texts share it.

    Texts that a later version of the broker wrote cannot be read: they fit no node here.
    """
    by_text = {}
    for text in texts:
        try:
            by_text[text] = specs_of(text)
        except NotCanonical:
            continue
    return SpecIndex(tuple(by_text.values())), tuple(by_text)


@lru_cache(maxsize=65_536)
def specs_of(text: str) -> JobSpecs:
    """What a canonical text asks for.

    Raises:
        NotCanonical: this version did not write it.
    """
    return parse_canonical(text)


def least_of_class(classes_s: Ints) -> Ints:
    """(K,) the least need that a job of each class can have."""
    below = np.array((0, *CPUTIME_CLASSES_S), dtype=np.int64)
    place = np.searchsorted(below, classes_s)
    return np.where(classes_s > 0, below[np.maximum(place - 1, 0)] + 1, 0)
