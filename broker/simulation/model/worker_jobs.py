"""Jobs that wait at a queue for workers, in groups of equal requirements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from broker.pilots.model.pilot_demand import WaitingJobs
from broker.simulation.model.job_states import Job
from broker.simulation.model.real.grid_rows import RESOURCE_TYPES
from broker.simulation.model.slots import Nodes, SlotQueue
from broker.snapshot.snapshot import ResourceType
from broker.work.cut_jobs import RAM_COMPENSATION, resource_type

_TYPES = [ResourceType(name, *(np.nan if one is None else float(one) for one in row)) for name, *row in RESOURCE_TYPES]
_MB_A_GB = 1000.0
#: Type of a job that matches no resource type.
UNDEFINED = "Undefined"
Key = tuple[int, float, int, float, float]


@dataclass
class JobGroup:
    """Jobs of one share and priority with the requirements of ``sample``, in starting order, with their tickets."""

    sample: Job
    resource_type: str
    jobs: dict[Job, int] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Number of its waiting jobs."""
        return len(self.jobs)


class WorkerJobs(SlotQueue[Job]):
    """The jobs of a queue whose slots are held by workers: workers take jobs, and no job takes a node by itself.

    Args:
        nodes: nodes of the queue.
        claim: returns the claim of a share; shares with the highest claim start first.
    """

    def __init__(self, nodes: Nodes, claim: Callable[[int], float]) -> None:
        super().__init__(nodes, claim)
        self._groups: dict[Key, JobGroup] = {}

    def add(self, job: Job) -> int:
        """Add a waiting job. Returns its ticket."""
        self._arrived += 1
        key = _key(job)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = JobGroup(job, type_of(job.cores, job.memory_gb))
        group.jobs[job] = self._arrived
        self.waiting += 1
        self.waiting_cores += job.cores
        return self._arrived

    def withdraw(self, ticket: int, job: Job) -> None:
        """Remove a waiting job from its group, and its cores from the waiting ones."""
        key = _key(job)
        group = self._groups[key]
        del group.jobs[job]
        if not group.jobs:
            del self._groups[key]
        self.waiting -= 1
        self.waiting_cores -= job.cores

    def take(self, kind: str, cores: int, memory_gb: float, left_s: float) -> Job | None:
        """Take the first job of a resource type for a worker with these cores, GB and seconds; None if none fits."""
        fitting = [
            (-self._claim(group.sample.share), -group.sample.priority, next(iter(group.jobs.values())), group)
            for group in self._groups.values()
            if group.resource_type == kind
            and group.sample.cores <= cores
            and group.sample.memory_gb <= memory_gb + 1e-9
            and group.sample.believed_s <= left_s
        ]
        if not fitting:
            return None
        job = next(iter(min(fitting, key=lambda entry: entry[:3])[3].jobs))
        self.withdraw(job.ticket, job)
        self.busy_cores += job.cores
        return job

    def release(self, job: Job, node: int) -> None:
        """Remove the cores of a job from the count; its worker still holds the node."""
        self.busy_cores -= job.cores

    def groups(self) -> list[JobGroup]:
        """Return the groups of waiting jobs that are alike."""
        return list(self._groups.values())

    def groups_in(self, claims: list[float]) -> list[JobGroup]:
        """The waiting groups, ordered by claim of the share, highest first, then by priority and arrival."""
        return sorted(
            self._groups.values(),
            key=lambda group: (-claims[group.sample.share], -group.sample.priority, next(iter(group.jobs.values()))),
        )

    def columns(self, claims: list[float]) -> WaitingJobs:
        """The columns from which the demand for pilots is computed, in the order of :meth:`groups_in`."""
        groups = self.groups_in(claims)
        ranks = {
            share: place for place, share in enumerate(sorted(range(len(claims)), key=lambda group: -claims[group]))
        }
        nothing = np.full(len(groups), "", dtype=np.object_)
        return WaitingJobs(
            resource_type=np.array([group.resource_type for group in groups], dtype=np.object_),
            share_rank=np.array([ranks[group.sample.share] for group in groups], dtype=np.int64),
            priority=np.array([round(group.sample.priority) for group in groups], dtype=np.int64),
            cores=np.array([group.sample.cores for group in groups], dtype=np.int64),
            memory_mb=np.array([int(group.sample.memory_gb * 1024.0) for group in groups], dtype=np.int64),
            walltime_s=np.array([int(group.sample.believed_s) for group in groups], dtype=np.int64),
            disk_mb=np.zeros(len(groups), dtype=np.int64),
            lacks=nothing,
            number=np.array([group.number for group in groups], dtype=np.int64),
        )


def type_of(cores: int, memory_gb: float) -> str:
    """The resource type of a job, by the memory that the broker assigns to it.

    >>> type_of(1, 2.0), type_of(8, 19.2)
    ('SCORE', 'MCORE_HIMEM')
    """
    return resource_type(_TYPES, cores, RAM_COMPENSATION * _MB_A_GB * memory_gb) or UNDEFINED


def _key(job: Job) -> Key:
    return (job.share, job.priority, job.cores, job.memory_gb, job.believed_s)
