"""Which task queues fit what a pilot presents, field by field.

A single task queue is checked when a pilot draws it. The answers for all of them are bit sets, cached by the part of
the pilot that a field depends on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Ints, Texts
from broker.domain.bounded_cache import BoundedCache
from broker.matching.specs.condition import Bits, packed
from broker.matching.specs.node import Node
from broker.pilots.model.matcher import Pilot, TaskQueueTable, index_of, least_of_class

CACHE_BYTES = 8 << 20
"""Size of the answers that a field caches; when it is reached, all are forgotten at once."""


@dataclass(frozen=True)
class PilotRequest:
    """A pilot at its place: PanDA queue, the pools that are mapped to it, and its node with the tags of the place."""

    pilot: Pilot
    panda_queue: str
    pools: frozenset[str]
    node: Node | None


class Field:
    """One condition on all task queues.

    Args:
        part: what the condition depends on, rounded to what it can tell apart.
        holds: (K,) whether the condition holds for each task queue.
        presented: the value of the pilot that decides about a single task queue.
        fits: whether the condition holds for what is presented and the task queue at a position.
        values: number of distinct values that task queues ask for.
        none_fits: whether a pilot that presents nothing fits all.
    """

    def __init__(
        self,
        part: Callable[[PilotRequest], Hashable],
        holds: Callable[[PilotRequest], Bools],
        presented: Callable[[PilotRequest], Any],
        fits: Callable[[Any, int], bool],
        values: int,
        *,
        none_fits: bool = False,
    ) -> None:
        self.part, self._holds = part, holds
        self.presented, self.fits, self.values, self.none_fits = presented, fits, values, none_fits
        self._cache = BoundedCache[Bits](CACHE_BYTES)

    def bits(self, request: PilotRequest, part: Hashable) -> Bits:
        """A bit for each task queue that fits; ``part``: of the pilot, for this field."""
        bits = self._cache.get(part)
        if bits is None:
            bits = packed(self._holds(request))
            self._cache.keep(part, bits, bits.nbytes + 200)
        return bits


def fields_of(queues: TaskQueueTable) -> dict[str, Field]:
    """The conditions, in their order, for these task queues; the limit is checked when a job is taken."""
    return {
        "vo": _same(
            queues.vo, lambda request: None if request.pilot.vo is None else request.pilot.vo.lower(), str.lower
        ),
        "queue": _alike(queues.panda_queue, lambda request: request.panda_queue, _none_or_same),
        "resource_type": _alike(queues.resource_type, lambda request: request.pilot.resource_type, _unless_other),
        "owner": _same(queues.owner, lambda request: request.pilot.owner),
        "owner_group": _same(queues.owner_group, lambda request: request.pilot.owner_group),
        "site": _alike(_sets(queues.sites), _site, lambda sites, site: not sites or site in sites),
        "banned_site": _alike(_sets(queues.banned_sites), _site, lambda sites, site: site not in sites),
        "platform": _alike(
            queues.platforms,
            lambda request: frozenset(request.pilot.platforms),
            lambda names, has: not names or not has.isdisjoint(names),
        ),
        "cpu_time": _of_class(queues.cputime_class_s),
        "submit_pool": _of_pool(queues.pool),
        "node": _of_node(queues.specs),
    }


def _site(request: PilotRequest) -> str:
    return request.pilot.site


def _sets(column: Texts) -> Texts:
    """A column of lists as sets, with equal sets shared: thousands of task queues name hundreds of sites."""
    known: dict[Any, frozenset[Any]] = {}
    sets = np.empty(len(column), dtype=np.object_)
    sets[:] = [known.get(names) or known.setdefault(names, frozenset(names)) for names in column.tolist()]
    return sets


def _none_or_same(name: str | None, place: str) -> bool:
    return name is None or name == place


def _unless_other(kind: str | None, presented: str | None) -> bool:
    return None in (kind, presented) or kind == presented


def _codes(column: Texts) -> tuple[list[Any], Ints]:
    """The distinct values of a column, and which of them each row has."""
    number: dict[Any, int] = {}
    codes = np.array([number.setdefault(value, len(number)) for value in column.tolist()], dtype=np.int64)
    return list(number), codes


def _alike(
    column: Texts, part: Callable[[PilotRequest], Any], fits: Callable[[Any, Any], bool], *, none_fits: bool = False
) -> Field:
    """A condition that is evaluated once for each distinct value of a column."""
    values, codes = _codes(column)

    def holds(request: PilotRequest) -> Bools:
        presented = part(request)
        return np.array([fits(value, presented) for value in values], dtype=np.bool_)[codes]

    of_position = [values[code] for code in codes.tolist()]
    return Field(
        part, holds, part, lambda presented, position: fits(of_position[position], presented), len(values),
        none_fits=none_fits,
    )  # fmt: skip


def _same(column: Texts, part: Callable[[PilotRequest], str | None], form: Callable[[str], str] = str) -> Field:
    """A field must equal what the pilot presents; one that it does not present does not count."""

    def fits(value: str | None, wanted: str | None) -> bool:
        return wanted is None or (value is not None and form(value) == wanted)

    return _alike(column, part, fits, none_fits=True)


def _of_class(classes_s: Ints) -> Field:
    """A task queue fits if some of its jobs need no more CPU time: each job is checked when it is taken."""
    least_s = least_of_class(classes_s)
    bounds, of_position = np.unique(least_s).tolist(), least_s.tolist()

    def presented(request: PilotRequest) -> int:
        return request.pilot.cputime_s or 0

    return Field(
        lambda request: bisect_right(bounds, presented(request)),
        lambda request: least_s <= presented(request),
        presented,
        lambda cputime_s, position: bool(of_position[position] <= cputime_s),
        len(bounds),
    )


def _of_pool(column: Texts) -> Field:
    known = frozenset(pool for pool in column.tolist() if pool is not None)
    return _alike(column, lambda request: request.pools & known, lambda pool, mapped: pool is None or pool in mapped)


def _of_node(column: Texts) -> Field:
    """What jobs ask of a node: each distinct text is evaluated once, whatever the number of its task queues."""
    texts, codes = _codes(column)
    index, known = index_of(tuple(text for text in texts if text is not None))
    place = {text: number for number, text in enumerate(known)}
    # after the readable texts: False for those that cannot be read, and True for jobs that ask for nothing
    of_text = np.array(
        [len(known) + 1 if text is None else place.get(text, len(known)) for text in texts], dtype=np.int64
    )
    of_row = of_text[codes] if len(codes) else codes

    def holds(request: PilotRequest) -> Bools:
        fits = index.fits(request.node) if request.node is not None else np.zeros(len(known), np.bool_)
        return np.concatenate((fits, [False, True]))[of_row]

    def part(request: PilotRequest) -> Hashable:
        return None if request.node is None else index.signature(request.node)

    never, always = len(known), len(known) + 1
    of_position = of_row.tolist()

    def fits(node: Node | None, position: int) -> bool:
        number = of_position[position]
        return number == always or (number != never and node is not None and index.suits(node, number))

    return Field(part, holds, lambda request: request.node, fits, len(texts))
