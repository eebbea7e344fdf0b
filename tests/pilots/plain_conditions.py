"""Reference for the index: which task queues a pilot may take jobs from, each queue checked separately."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Ints, Texts
from broker.matching.specs.node import Node
from broker.pilots.model.matcher import FIELDS, MATCHES, Pilot, TaskQueueTable, index_of, least_of_class, pool_fits


def match_task_queues(queues: TaskQueueTable, pilot: Pilot, panda_queue: str, mapped: Collection[str]) -> Ints:
    """For each task queue MATCHES, or the index in FIELDS of the first field that does not fit."""
    fits = conditions_of(queues, pilot, panda_queue, mapped)
    reason = np.full(len(queues), MATCHES, dtype=np.int64)
    for index in range(len(fits) - 1, -1, -1):
        reason[~fits[FIELDS[index]]] = index
    return reason


def conditions_of(queues: TaskQueueTable, pilot: Pilot, panda_queue: str, mapped: Collection[str]) -> dict[str, Bools]:
    """For each field except the limit, in their order: an array (K,) of whether the pilot meets it.

    A task queue fits if its class of CPU time may hold a job that fits: each job is checked when it is taken.
    ``mapped`` are the pools of the pilot's queue.
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


def _node_fits(specs: Texts, node: Node | None) -> Bools:
    """Whether a node fits the specs of each task queue; each distinct text is judged once."""
    column = specs.tolist()
    distinct = tuple(dict.fromkeys(text for text in column if text is not None))
    if not distinct or node is None:
        return _each(specs, lambda text: text is None)
    index, texts = index_of(distinct)
    fits = dict(zip(texts, index.fits(node).tolist(), strict=True))
    return np.array([text is None or fits.get(text, False) for text in column], dtype=np.bool_)


def _each(column: Texts, fits: Callable[[Any], bool]) -> Bools:
    return np.array([fits(value) for value in column.tolist()], dtype=np.bool_)


def _same(column: Texts, presented: str | None, form: Callable[[str], str] = str) -> Bools:
    """Whether a field equals the value that the pilot presents; a value that it does not present always fits."""
    if presented is None:
        return np.ones(len(column), dtype=np.bool_)
    expected = form(presented)
    return np.array([value is not None and form(value) == expected for value in column.tolist()], dtype=np.bool_)
