"""Scenarios: the grid, the work and the information of a simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from broker.simulation.model.job_kinds import KINDS, JobKind
from broker.simulation.model.right_sizing import Requests
from broker.simulation.model.scenario_parts import Pilots, Tape, TransferFailures, Workers
from broker.snapshot.raw import RawSource

PullOrPush = Literal["pull", "push"]
#: The VO of tasks and shares that name none.
VO = "atlas"


@dataclass(frozen=True)
class Site:
    """A site with one storage; bandwidths in bytes/s, space in bytes."""

    name: str
    is_nucleus: bool
    storage_total: float
    storage_used: float
    storage_out: float
    storage_in: float


@dataclass(frozen=True)
class Queue:
    """A unified queue.

    Attributes:
        name: name of the queue.
        site: position of its site.
        nodes: number of equal nodes, each with ``node_cores`` cores and ``node_memory_gb``.
        corepower: published HS06 a core.
        hidden_speed: true over published core power, which no policy sees.
        failure_rate: part of the attempts that fail.
        fails_after: largest part of its run that a failing attempt lives: near 0 for a black hole.
        mode: whether pilots pull jobs, or jobs are pushed into a batch queue.
        max_waiting_pilots: pilots that request work while there is none.
        maxtime_s: walltime limit.
        failure_of_kind: part of the attempts that fail in addition, by kind of job.
        efficiency_of_type: factor of the efficiency of jobs by type of processing, 1 for types that are not named.
        published: fields of its description (``schedconfig_json``) that replace the generated ones.
        software: its document of ``sw_tags``; None for the same software everywhere, empty for none at all.
        vos: VOs whose jobs it takes; empty for all.
        worker_wait: median in seconds, and spread of ln, of the time that its workers wait in the batch system before
            they can take a slot; None for the values of the scenario.
    """

    name: str
    site: int
    nodes: int
    node_cores: int
    node_memory_gb: float
    corepower: float
    hidden_speed: float = 1.0
    failure_rate: float = 0.0
    fails_after: float = 1.0
    mode: PullOrPush = "pull"
    max_waiting_pilots: int = 50
    maxtime_s: float = 345_600.0
    failure_of_kind: dict[str, float] = field(default_factory=dict)
    efficiency_of_type: dict[str, float] = field(default_factory=dict)
    published: dict[str, Any] = field(default_factory=dict)
    software: dict[str, Any] | None = None
    worker_wait: tuple[float, float] | None = None
    vos: tuple[str, ...] = ()

    @property
    def cores(self) -> int:
        """Total cores of all nodes."""
        return self.nodes * self.node_cores

    def takes(self, vo: str) -> bool:
        """Whether the queue takes jobs of a VO."""
        return not self.vos or vo in self.vos


@dataclass(frozen=True)
class Outage:
    """Queues that are down from ``start_s`` to ``end_s``; they drain for ``notice_s`` before an announced outage."""

    queues: tuple[int, ...]
    start_s: float
    end_s: float
    announced: bool = False
    notice_s: float = 21_600.0


@dataclass(frozen=True)
class TransferOutage:
    """Sites whose storage does not answer, and links (source, target) that carry nothing; the outage is not announced.

    Reads, writes and transfers that begin there from ``start_s`` to ``end_s`` fail at once.
    """

    start_s: float
    end_s: float
    sites: tuple[int, ...] = ()
    links: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Task:
    """A task of ``jobs`` jobs of the same kind.

    Attributes:
        number: distinct positive number.
        arrival_s: arrival from the start of the simulation; a task with parents also waits until they are done.
        believed_factor: estimated over true CPU work.
        sources: sites that hold the input.
        parents: tasks whose output it reads.
        work_factor: CPU work of its jobs over that of its kind.
        memory_factor: memory that its jobs use over that of its kind, for kinds with a distribution of used memory.
        failure_rate: part of the attempts that fail at any queue, in addition to the rates of kind and queue.
        running_at: queue at which all its jobs run from the beginning; -1 for a task that arrives.
        whole: whether jobs that run from the beginning have all of their work left, or a drawn part of it.
        scouted: whether its scouts have already run.
        on_tape: whether its input is first read from tape.
        vo: VO of the task, the same as that of its share.
    """

    number: int
    kind: str
    jobs: int
    arrival_s: float
    share: int
    user: int
    priority: float
    sources: tuple[int, ...]
    believed_factor: float = 1.0
    parents: tuple[int, ...] = ()
    work_factor: float = 1.0
    memory_factor: float = 1.0
    failure_rate: float = 0.0
    running_at: int = -1
    whole: bool = False
    scouted: bool = False
    on_tape: bool = False
    vo: str = VO


class ComingTasks(Protocol):
    """Further tasks of a scenario, generated as they arrive; none of them has parents."""

    @property
    def users(self) -> int:
        """Upper bound of their users: each user is below this number."""
        ...

    @property
    def shapes(self) -> tuple[tuple[int, str], ...]:
        """Each pair of a share and a kind of job that its tasks may have."""
        ...

    def __iter__(self) -> Iterator[Task]:
        """Iterate over the tasks in the order of arrival; each iteration yields the same tasks."""
        ...


@dataclass(frozen=True)
class Ages:
    """The age of the information that a policy sees: seconds between two readings of each source.

    The defaults are PanDA's own periods: statistics of jobs 60 s, queues 200 s, network 30 min at its source, space and
    pilots 30 min. With ``own_counters``, jobs that the policy has assigned since the last reading are added to it.
    """

    jobs_s: float = 60.0
    queues_s: float = 200.0
    network_s: float = 1800.0
    storages_s: float = 1800.0
    own_counters: bool = True


@dataclass(frozen=True)
class Scenario:
    """Everything that a simulation needs except a policy and a seed.

    Attributes:
        link_bytes_s: bandwidth of each pair of different sites; other pairs have ``default_link_bytes_s``.
        transfers_a_link: concurrent output transfers of a link; further ones wait in the order in which they came.
        shares: leaf shares with their target weights.
        share_vos: VOs of the shares that belong to another VO than ``VO``.
        tasks: tasks in the order of arrival; tasks with parents arrive when these are done.
        closed: whether no further tasks arrive, so that the makespan is defined.
        cycle_s: seconds between two cycles of the job brokerages; ``task_cycle_s`` for the task brokerage.
        job_timeout_s: policies without rules of their own take back a job that waits longer than this at a queue.
        heartbeat_s: time after which a job whose node has vanished counts as lost.
        attempts: attempts of a job before it fails for good.
        output_lifetime_s: age at which a copy of output is deleted.
        drain_after_s: a queue is drained for a job that has fitted no node for this long.
        exclusion_s: time after which a queue that is suddenly down is set offline.
        memory_slack: a job that exceeds its memory by more than this part is killed, and holds twice as much at its
            next attempt; below 0 memory is not enforced.
        enforce_walltime: whether a job is killed at the limit of its queue, with all its time lost.
        transfer_failures: failures of output transfers and of stage-in.
        scouts: jobs of a task that run before the others; 0 for none. A task of which no scout finishes is broken.
        requests: memory that jobs request once some jobs of their task have ended: ``asked``, the original request;
            ``scouts``, what PanDA derives from the scouts; ``learned``, a quantile, at first that of tasks of its kind;
            ``both``, the quantile if it is known, else the scouts. ``prior`` is ``both`` and, before five jobs have
            finished, the memory that jobs of its kind used. It applies only if memory is enforced.
        counts_bad_jobs: whether the analysis brokerage learns how many jobs of a task finished and failed by queue.
        transfer_outages: outages of storages and links.
        tape: how input on tape is read.
        workers: whether jobs need workers, and how these are submitted.
        coming: tasks that arrive in addition to ``tasks`` and are generated as they arrive; None for none.
        known: sources of a stored snapshot that do not change, in place of the generated ones.
    """

    name: str
    days: float
    sites: tuple[Site, ...]
    queues: tuple[Queue, ...]
    shares: tuple[tuple[str, float], ...]
    tasks: tuple[Task, ...]
    link_bytes_s: dict[tuple[int, int], float] = field(default_factory=dict)
    default_link_bytes_s: float = 1.25e9
    outages: tuple[Outage, ...] = ()
    ages: Ages = Ages()
    pilots: Pilots = field(default_factory=Pilots)
    kinds: dict[str, JobKind] = field(default_factory=lambda: dict(KINDS))
    cycle_s: float = 60.0
    task_cycle_s: float = 600.0
    warm_up_s: float = 86_400.0
    closed: bool = False
    transfers_a_link: int = 20
    network_batch_s: float = 1.0
    job_timeout_s: float = 43_200.0
    heartbeat_s: float = 21_600.0
    attempts: int = 3
    output_lifetime_s: float = 172_800.0
    drain_after_s: float = 3600.0
    exclusion_s: float = 1800.0
    memory_slack: float = -1.0
    enforce_walltime: bool = False
    transfer_failures: TransferFailures = field(default_factory=TransferFailures)
    scouts: int = 0
    counts_bad_jobs: bool = False
    transfer_outages: tuple[TransferOutage, ...] = ()
    known: tuple[RawSource, ...] = ()
    requests: Requests = "asked"
    share_vos: dict[str, str] = field(default_factory=dict)
    tape: Tape = field(default_factory=Tape)
    workers: Workers = field(default_factory=Workers)
    coming: ComingTasks | None = None

    @property
    def end_s(self) -> float:
        """The end of the simulated time."""
        return self.days * 86_400.0

    def vo_of(self, share: int) -> str:
        """The VO of a share."""
        return self.share_vos.get(self.shares[share][0], VO)

    @property
    def vos(self) -> tuple[str, ...]:
        """The distinct VOs of all shares, in the order of the shares."""
        return tuple(dict.fromkeys(self.vo_of(share) for share in range(len(self.shares))))


def fits(queue: Queue, kind: JobKind) -> bool:
    """Whether a job of the kind fits a node of the queue."""
    enough = queue.node_memory_gb >= kind.cores * kind.memory_gb_core
    return queue.nodes > 0 and queue.node_cores >= kind.cores and enough
