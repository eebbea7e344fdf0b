"""Stored chunks that ask for less: how far one figure of the task has to go down until a queue is left."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.brokerages.job.brokerage import StoredChunks
from broker.domain.requests import REQUESTS, Request

#: So many times the interval is halved: the figure is found to a hundredth of what the task asks for.
HALVINGS = 7
SIGNIFICANT = 2


@dataclass(frozen=True)
class TaskChange:
    """One figure of a stored chunk: as it is, or lowered."""

    request: Request
    name: str
    value: float
    unit: str
    batch: StoredChunks

    def at(self, value: float) -> TaskChange:
        """The same with another value."""
        work = self.batch.stored.work
        columns = {name: np.full(len(work.chunks), value) for name in self.request.columns}
        chunks = dataclasses.replace(work.chunks, **columns)
        stored = dataclasses.replace(self.batch.stored, work=dataclasses.replace(work, chunks=chunks))
        return dataclasses.replace(self, value=value, batch=dataclasses.replace(self.batch, stored=stored))


def task_changes(batch: Any, compared: Collection[Request]) -> Iterator[TaskChange]:
    """The figures of a single stored chunk that are ``compared`` by rules; none of other work."""
    if not isinstance(batch, StoredChunks):
        return
    chunks = batch.stored.work.chunks
    for request in REQUESTS:
        if request not in compared:
            continue
        value = max(float(np.nan_to_num(getattr(chunks, name)[0])) for name in request.columns)
        if value > 0:
            unit = getattr(chunks, request.unit)[0] if hasattr(chunks, request.unit) else request.unit
            yield TaskChange(request, request.name, value, str(unit or "-"), batch)


def lowered(change: TaskChange, passing: Callable[[TaskChange], list[str]]) -> tuple[float, list[str]] | None:
    """The largest round value at which candidates are left, with their names; None if there are none even near 0."""
    low, high = 0.0, change.value
    if not passing(change.at(change.value / 2**HALVINGS)):
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if passing(change.at(middle)) else (low, middle)
    value = _rounded_down(low)
    names = passing(change.at(value))
    return (value, names) if names else None


def _rounded_down(value: float) -> float:
    step = 10.0 ** (math.floor(math.log10(value)) - SIGNIFICANT + 1) if value > 0 else 1.0
    return math.floor(value / step) * step
