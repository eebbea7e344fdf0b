"""Which task queues a pilot may take jobs from, and in which order it asks them.

Every condition is strict: what jobs ask for, the pilot must present; one that is silent gets only jobs that do not ask.
Source: DIRAC RFC 7, matching by SubmitPool; DIRAC's task queues, choice in proportion to priority.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, Texts
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
"""What is compared, in this order; the first that does not fit is the reason. A limit is looked at by who takes."""

MATCHES = -1
NOTHING_WAITS, TAKEN_BY_OTHERS = "nothing_waits", "taken_by_others"


@dataclass(frozen=True)
class Pilot:
    """What a pilot presents.

    Attributes:
        site: where it runs, with ``ce`` and ``queue``.
        ce: of the queue.
        queue: of the CE.
        vo: it works for; None: any.
        platforms: that it can run.
        cputime_s: normalised CPU seconds that it has left.
        resource_type: of its slot; None: any.
        owner: whose jobs it takes; None: anybody's.
        owner_group: whose jobs it takes; None: any group's.
        node: where it is; None: it does not tell, and gets only jobs that ask nothing of a node.
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
        """All task queues of some tables, one at least."""
        return cls(*(np.concatenate([getattr(one, column.name) for one in tables]) for column in fields(cls)))


def pool_fits(pool: str | None, presented: Collection[str] | None, mapped: Collection[str] | None = None) -> bool:
    """Whether jobs of a pool may go to a pilot: a pool is a name like any other, there is no "any".

    Args:
        pool: of the jobs; None: they require nothing.
        presented: identifiers that the pilot brought; None or none: it knows of none.
        mapped: those that are mapped to its queue now. Where they are known, what the pilot brought does not count.
    """
    return pool is None or pool in (mapped if mapped is not None else presented or ())


def match_task_queues(queues: TaskQueueTable, pilot: Pilot, panda_queue: str, mapped: Collection[str]) -> Ints:
    """For each task queue MATCHES, or the index in FIELDS of the first field that does not fit."""
    fits = conditions_of(queues, pilot, panda_queue, mapped)
    reason = np.full(len(queues), MATCHES, dtype=np.int64)
    for index in range(len(fits) - 1, -1, -1):
        reason[~fits[FIELDS[index]]] = index
    return reason


def conditions_of(queues: TaskQueueTable, pilot: Pilot, panda_queue: str, mapped: Collection[str]) -> dict[str, Bools]:
    """For each field but the limit, in their order, (K,) whether the pilot meets it.

    A task queue whose class of CPU time holds jobs that fit and jobs that do not fits: each job is asked when it is
    taken. ``mapped`` are the pools of the pilot's queue.
    """
    return {
        "vo": _same(queues.vo, pilot.vo, lambda vo: vo.lower()),
        "queue": _each(queues.panda_queue, lambda name: name is None or name == panda_queue),
        "resource_type": _each(
            queues.resource_type, lambda kind: None in (kind, pilot.resource_type) or kind == pilot.resource_type
        ),
        "owner": _same(queues.owner, pilot.owner),
        "owner_group": _same(queues.owner_group, pilot.owner_group),
        "site": _each(queues.sites, lambda sites: not sites or pilot.site in sites),
        "banned_site": _each(queues.banned_sites, lambda sites: pilot.site not in sites),
        "platform": _each(queues.platforms, lambda names: not names or not set(names).isdisjoint(pilot.platforms)),
        "cpu_time": least_of_class(queues.cputime_class_s) <= (pilot.cputime_s or 0),
        "submit_pool": _each(queues.pool, lambda pool: pool_fits(pool, None, mapped)),
        "node": _node_fits(queues.specs, pilot.node),
    }


def no_match(reasons: Ints) -> tuple[str, dict[str, int]]:
    """Why a pilot got nothing: the reason nearest to a match, and how many task queues failed at each field."""
    if not len(reasons):
        return NOTHING_WAITS, {}
    counts = Counter(reasons.tolist())
    failed = {field: counts[index] for index, field in enumerate(FIELDS) if counts[index]}
    return TAKEN_BY_OTHERS if counts[MATCHES] else list(failed)[-1], failed


def _node_fits(specs: Texts, node: Node | None) -> Bools:
    """Whether a node is what the jobs of each task queue ask for; each distinct text is looked at once."""
    asked = specs.tolist()
    known = tuple(dict.fromkeys(text for text in asked if text is not None))
    if not known or node is None:
        return _each(specs, lambda text: text is None)
    index, texts = index_of(known)
    fits = dict(zip(texts, index.fits(node).tolist(), strict=True))
    return np.array([text is None or fits.get(text, False) for text in asked], dtype=np.bool_)


@lru_cache(maxsize=256)
def index_of(texts: tuple[str, ...]) -> tuple[SpecIndex, tuple[str, ...]]:
    """The index over what canonical texts ask for, and those that can be read; places with the same share it.

    What a later version of the broker wrote cannot be read: it fits no node here.
    """
    found = {}
    for text in texts:
        try:
            found[text] = specs_of(text)
        except NotCanonical:
            continue
    return SpecIndex(tuple(found.values())), tuple(found)


@lru_cache(maxsize=65_536)
def specs_of(text: str) -> JobSpecs:
    """What a canonical text asks for.

    Raises:
        NotCanonical: nobody here wrote it.
    """
    return parse_canonical(text)


def _each(column: Texts, fits: Callable[[Any], bool]) -> Bools:
    return np.array([fits(value) for value in column.tolist()], dtype=np.bool_)


def _same(column: Texts, presented: str | None, form: Callable[[str], str] = str) -> Bools:
    """Whether a field is what the pilot presents; one that it does not present does not count."""
    if presented is None:
        return np.ones(len(column), dtype=np.bool_)
    wanted = form(presented)
    return np.array([value is not None and form(value) == wanted for value in column.tolist()], dtype=np.bool_)


def least_of_class(classes_s: Ints) -> Ints:
    """(K,) the least need that a job of each class can have."""
    below = np.array((0, *CPUTIME_CLASSES_S), dtype=np.int64)
    place = np.searchsorted(below, classes_s)
    return np.where(classes_s > 0, below[np.maximum(place - 1, 0)] + 1, 0)
