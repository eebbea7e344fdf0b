"""The slots of a queue: nodes with cores and memory, waiting jobs, and the order in which they start.

Jobs of one kind of slot start in the order of their share's claim, then priority, then arrival. A job that fits no
node yet lets smaller ones pass, until it has waited at the head for ``drain_after_s``: then the queue drains for it,
and its idle cores are counted meanwhile.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class WaitingJob(Protocol):
    """The properties of a job that a queue needs."""

    cores: int
    memory_gb: float
    priority: float
    share: int


J = TypeVar("J", bound=WaitingJob)


@dataclass(frozen=True)
class Nodes:
    """The ``count`` equal nodes of a queue."""

    count: int
    cores: int
    memory_gb: float

    @property
    def total_cores(self) -> int:
        """Total cores of all nodes."""
        return self.count * self.cores


class SlotQueue(Generic[J]):
    """Jobs that wait and run at one queue.

    Args:
        nodes: nodes of the queue.
        claim: returns the claim of a share; shares with the highest claim start first.
        drain_after_s: wait at the head after which the queue drains for a job.
    """

    def __init__(
        self, nodes: Nodes, claim: Callable[[int], float] = lambda share: 0.0, drain_after_s: float = 3600.0
    ) -> None:
        self.nodes = nodes
        self._claim, self._drain_after_s = claim, drain_after_s
        self._free = [nodes.cores] * nodes.count
        self._free_memory_gb = [nodes.memory_gb] * nodes.count
        #: Nodes with a free core, in order: a busy queue has few of them.
        self._open = list(range(nodes.count)) if nodes.cores > 0 else []
        self._waiting: dict[tuple[int, int], list[tuple[float, int, J]]] = {}
        self._withdrawn: set[int] = set()
        self._arrived = 0
        self._blocked: tuple[J, float] | None = None
        self.waiting = 0
        self.waiting_cores = 0
        self.busy_cores = 0
        self.drained_core_s = 0.0
        self._draining_since: float | None = None

    def add(self, job: J) -> int:
        """Add a waiting job. Returns its ticket."""
        self._arrived += 1
        kind = (job.share, job.cores)
        heapq.heappush(self._waiting.setdefault(kind, []), (-job.priority, self._arrived, job))
        self.waiting += 1
        self.waiting_cores += job.cores
        return self._arrived

    def withdraw(self, ticket: int, job: J) -> None:
        """Remove a waiting job."""
        self._withdrawn.add(ticket)
        self.waiting -= 1
        self.waiting_cores -= job.cores

    def release(self, job: J, node: int) -> None:
        """Free the cores and memory of a job at a node."""
        if not self._free[node]:
            insort(self._open, node)
        self._free[node] += job.cores
        self._free_memory_gb[node] += job.memory_gb
        self.busy_cores -= job.cores

    def starts(self, now_s: float) -> Iterator[tuple[J, int]]:
        """The jobs that start now, each with its node."""
        while self.waiting and self.busy_cores < self.nodes.total_cores:
            start = self._next(now_s)
            if start is None:
                return
            kind, node = start
            _, _, job = heapq.heappop(self._waiting[kind])
            self._take(job, node, now_s)
            yield job, node

    def _next(self, now_s: float) -> tuple[tuple[int, int], int] | None:
        """The kind of slot whose first job starts now, and its node; None if no job starts."""
        for place, kind in enumerate(self._heads()):
            job = self._waiting[kind][0][2]
            node = self._node_for(job)
            if node >= 0:
                return kind, node
            if place == 0 and self._drains_for(job, now_s):
                return None
        return None

    def _heads(self) -> list[tuple[int, int]]:
        """The kinds of slots with waiting jobs, in the order in which they start."""
        kinds, withdrawn, claim = [], self._withdrawn, self._claim
        for kind, heap in self._waiting.items():
            if withdrawn:
                while heap and heap[0][1] in withdrawn:
                    withdrawn.discard(heapq.heappop(heap)[1])
            if heap:
                priority, ticket, _ = heap[0]
                kinds.append((-claim(kind[0]), priority, ticket, kind))
        kinds.sort()
        return [entry[3] for entry in kinds]

    def _node_for(self, job: J) -> int:
        """The first node that a job fits, -1 for none."""
        free, free_gb, cores, least_gb = self._free, self._free_memory_gb, job.cores, job.memory_gb - 1e-9
        for node in self._open if cores > 0 else range(len(free)):
            if free[node] >= cores and free_gb[node] >= least_gb:
                return node
        return -1

    def _drains_for(self, job: J, now_s: float) -> bool:
        if self._blocked is None or self._blocked[0] is not job:
            self._blocked = (job, now_s)
        drains = now_s - self._blocked[1] >= self._drain_after_s
        if drains and self._draining_since is None:
            self._draining_since = now_s
        return drains

    def _take(self, job: J, node: int, now_s: float) -> None:
        if self._blocked is not None and self._blocked[0] is job:
            if self._draining_since is not None:
                idle = self.nodes.total_cores - self.busy_cores
                self.drained_core_s += idle * (now_s - self._draining_since)
                self._draining_since = None
            self._blocked = None
        self._free[node] -= job.cores
        self._free_memory_gb[node] -= job.memory_gb
        if not self._free[node]:
            self._open.remove(node)
        self.busy_cores += job.cores
        self.waiting -= 1
        self.waiting_cores -= job.cores
