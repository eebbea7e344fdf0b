"""A scenario: the grid, the work and the information that a simulation runs on, checked before it starts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, Protocol

from broker.simulation.model.job_kinds import KINDS, JobKind
from broker.simulation.model.right_sizing import Requests
from broker.simulation.model.scenario_parts import Pilots, Tape, TransferFailures, Workers
from broker.simulation.model.scenario_times import check_times, refuse
from broker.snapshot.raw import RawSource

PullOrPush = Literal["pull", "push"]
#: The VO of tasks and shares that name none.
VO = "atlas"
#: Most jobs of a task and cores of a queue: beyond these a simulation would go out of memory.
MOST_JOBS, MOST_CORES = 1_000_000, 10_000_000


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
        name: of the queue; ``site`` where it is.
        nodes: equal nodes of ``node_cores`` cores and ``node_memory_gb``.
        corepower: HS06 a core as published; ``hidden_speed`` is the true one over it, which no policy sees.
        failure_rate: part of the attempts that fail; ``fails_after`` how much of its run a failing attempt lives at
            most: near 0 for a black hole.
        mode: pilots pull jobs, or jobs are pushed into a batch queue.
        max_waiting_pilots: that ask for work while there is none.
        maxtime_s: walltime limit.
        failure_of_kind: part of the attempts that fail beside it, of single kinds of jobs.
        efficiency_of_type: factor of the efficiency of jobs by type of processing, 1 where it is not named.
        published: fields of its description (``schedconfig_json``) that stand in place of the made ones.
        software: its document of ``sw_tags``; None for software that is alike everywhere, empty for none at all.
        vos: that it takes jobs of; none for all.
        worker_wait: median in seconds, and spread of ln, of the time that its workers wait in the batch system before
            they can take a slot; None: as the scenario says.
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
        """Cores of all nodes."""
        return self.nodes * self.node_cores

    def takes(self, vo: str) -> bool:
        """Whether it takes jobs of a VO."""
        return not self.vos or vo in self.vos


@dataclass(frozen=True)
class Outage:
    """Queues that are down from ``start_s`` to ``end_s``; an announced outage drains ``notice_s`` before."""

    queues: tuple[int, ...]
    start_s: float
    end_s: float
    announced: bool = False
    notice_s: float = 21_600.0


@dataclass(frozen=True)
class TransferOutage:
    """Sites whose storage does not answer, and links (source, target) that carry nothing; nobody is told.

    What begins to be read, written or sent there from ``start_s`` to ``end_s`` fails at once.
    """

    start_s: float
    end_s: float
    sites: tuple[int, ...] = ()
    links: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Task:
    """A task: ``jobs`` equal in kind.

    Attributes:
        number: distinct, positive.
        arrival_s: from the start of the simulation; after its parents are done if it has any.
        believed_factor: estimated over true CPU work.
        sources: sites that hold the input.
        parents: tasks whose output it reads.
        work_factor: CPU work of its jobs over that of its kind.
        memory_factor: memory that its jobs use over that of its kind, where kinds say what is used.
        failure_rate: part of the attempts that fail wherever they run, beside those of kind and queue.
        running_at: queue at which all its jobs run from the beginning; -1 for a task that arrives.
        whole: whether these have all of their work left, else a drawn part of it.
        scouted: whether its scouts have run before.
        on_tape: whether its input is read from tape first.
        vo: whose it is; that of its share.
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
    """Further tasks of a scenario, made as they come; none of them has parents."""

    @property
    def users(self) -> int:
        """Their users are below this number."""
        ...

    @property
    def shapes(self) -> tuple[tuple[int, str], ...]:
        """Each share with each kind of job that its tasks may have."""
        ...

    def __iter__(self) -> Iterator[Task]:
        """The tasks in the order of arrival, the same each time."""
        ...


@dataclass(frozen=True)
class Ages:
    """How old what the policy sees is: seconds between two readings of each source.

    PanDA's own periods: statistics of jobs 60 s, queues 200 s, network 30 min at its source, space and pilots 30 min.
    ``own_counters``: what the policy has assigned since the last reading is added to it.
    """

    jobs_s: float = 60.0
    queues_s: float = 200.0
    network_s: float = 1800.0
    storages_s: float = 1800.0
    own_counters: bool = True


@dataclass(frozen=True)
class Scenario:
    """All that a simulation needs beside a policy and a seed.

    Attributes:
        link_bytes_s: bandwidth of each pair of different sites; ``default_link_bytes_s`` where it is not named.
        transfers_a_link: output transfers at one time; more wait in the order in which they came.
        shares: leaf shares with their target weights; ``share_vos`` the VO of those of another one than ``VO``.
        tasks: in the order of arrival; those with parents arrive when these are done.
        closed: no further tasks arrive, so that the makespan is defined.
        cycle_s: between two cycles of the job brokerages; ``task_cycle_s`` of the task brokerage.
        job_timeout_s: a job that waits longer at a queue is taken back, by policies without rules of their own.
        heartbeat_s: after it a job whose node has vanished counts as lost.
        attempts: of a job before it fails for good.
        output_lifetime_s: age at which a copy of output is deleted.
        drain_after_s: a job that fits no node for so long has the queue drained for it.
        exclusion_s: after it a queue that is suddenly down is set offline.
        memory_slack: a job that uses more than it holds by this part is killed, and holds twice as much when it is
            tried again; below 0 memory is not enforced.
        enforce_walltime: whether a job is killed at the limit of its queue, with all its time lost.
        transfer_failures: of output and of stage-in.
        scouts: jobs of a task that run before the others; 0 for none. A task of which no scout finishes is broken.
        requests: what jobs ask of memory when some of their task have ended: what they ``asked`` for, what PanDA makes
            of its ``scouts``, a ``learned`` quantile, before that of tasks of its kind, or ``both``: the quantile where
            it is known, else its scouts. With ``prior`` these and, before five jobs have finished, what jobs of its
            kind used. Only where memory is enforced.
        counts_bad_jobs: whether the brokerage of analysis learns how many jobs of a task finished and failed by queue.
        transfer_outages: of storages and links.
        tape: how input on tape is read.
        workers: whether jobs need workers, and how these come.
        coming: tasks that arrive beside ``tasks`` and are made as they come; None for none.
        known: sources of a stored snapshot that do not move, in place of the made ones.
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
        """The VOs of all shares, in the order of these."""
        return tuple(dict.fromkeys(self.vo_of(share) for share in range(len(self.shares))))


def check(scenario: Scenario) -> Scenario:
    """The scenario, if it can be simulated.

    Raises:
        SimulationError: it cannot; the message names the entry and what to change.
    """
    check_times(scenario)
    _check_sites(scenario)
    _check_queues(scenario)
    _check_tasks(scenario)
    return scenario


def _check_sites(scenario: Scenario) -> None:
    if not scenario.sites or not any(site.is_nucleus for site in scenario.sites):
        refuse("no site is a nucleus", scenario.name, "output needs somewhere to go: make one a nucleus")
    for site in scenario.sites:
        if not (site.storage_out > 0 and site.storage_in > 0):
            refuse("a storage without bandwidth", f"site {site.name}", "give positive bytes/s in and out")
        if not 0 <= site.storage_used <= site.storage_total:
            refuse("used space is not between 0 and the total", f"site {site.name}", "correct the space")
    if not scenario.default_link_bytes_s > 0:
        refuse("a link without bandwidth", "default_link_bytes_s", "give positive bytes/s")
    known = range(len(scenario.sites))
    for broken in scenario.transfer_outages:
        if {*broken.sites, *(site for link in broken.links for site in link)} - set(known):
            refuse("an outage of a storage or link that does not exist", scenario.name, "name sites by position")
        if not 0 <= broken.start_s < broken.end_s:
            refuse(f"an outage from {broken.start_s} to {broken.end_s} s", scenario.name, "it ends after it starts")
    for (source, target), value in scenario.link_bytes_s.items():
        if source not in known or target not in known:
            refuse(f"a link from site {source} to site {target}", scenario.name, "name sites of the scenario")
        if not value > 0:
            names = f"link {scenario.sites[source].name} to {scenario.sites[target].name}"
            refuse("a link without bandwidth", names, "give positive bytes/s")


def _check_queues(scenario: Scenario) -> None:
    if sum(queue.cores for queue in scenario.queues) <= 0:
        refuse("no queue has any cores", scenario.name, "a grid without capacity cannot run work")
    for queue in scenario.queues:
        where = f"queue {queue.name}"
        if queue.nodes < 0 or queue.node_cores < 0 or queue.node_memory_gb < 0:
            refuse("negative capacity", where, "correct nodes, cores and memory")
        if queue.cores > MOST_CORES:
            refuse(f"{queue.cores} cores", where, f"a queue has at most {MOST_CORES}")
        if not (0 < queue.corepower < math.inf and 0 < queue.hidden_speed < math.inf):
            refuse("core power or speed is not positive", where, "give HS06 a core, such as 10")
        if not (0 <= queue.failure_rate <= 1 and 0 < queue.fails_after <= 1):
            refuse("failure_rate or fails_after is no probability", where, "give numbers from 0 to 1")
        if not all(0 < factor < math.inf for factor in queue.efficiency_of_type.values()):
            refuse("efficiency_of_type is not positive", where, "give factors such as 0.9")
        if not 0 <= queue.site < len(scenario.sites):
            refuse(f"there is no site {queue.site}", where, "name a site of the scenario")
    for outage in scenario.outages:
        if set(outage.queues) - set(range(len(scenario.queues))):
            refuse("an outage of a queue that does not exist", scenario.name, "name queues by position, from 0")
        if not 0 <= outage.start_s < outage.end_s:
            refuse(f"an outage from {outage.start_s} to {outage.end_s} s", scenario.name, "it ends after it starts")


def _check_tasks(scenario: Scenario) -> None:
    numbers = {task.number for task in scenario.tasks}
    if len(numbers) != len(scenario.tasks):
        refuse("two tasks have the same number", scenario.name, "number them distinctly")
    for task in scenario.tasks:
        check_task(scenario, task)
        if set(task.parents) - numbers:
            refuse("a parent that does not exist", f"task {task.number}", "name tasks of the scenario")
    try:
        list(TopologicalSorter({task.number: task.parents for task in scenario.tasks}).static_order())
    except CycleError as error:
        chain = " -> ".join(str(number) for number in error.args[1])
        refuse("a full chain that waits for itself", f"tasks {chain}", "remove one of these parents")
    _check_fit(scenario)


def check_task(scenario: Scenario, task: Task) -> Task:
    """The task, if it can be simulated in the scenario; its number and parents are not looked at.

    Raises:
        SimulationError: it cannot.
    """
    where = f"task {task.number}"
    if task.kind not in scenario.kinds:
        refuse(f"no kind of job is called {task.kind}", where, f"take one of {', '.join(scenario.kinds)}")
    if task.jobs > MOST_JOBS:
        refuse(f"{task.jobs} jobs", where, f"a task has at most {MOST_JOBS}: make several")
    if set(task.sources) - set(range(len(scenario.sites))):
        refuse("input at a site that does not exist", where, "name sites by position, from 0")
    if not 0 < task.believed_factor < math.inf or not math.isfinite(task.priority) or task.user < 0:
        refuse("believed_factor, priority or user", where, "give a positive factor, a number, a user from 0 on")
    if task.jobs < 1 or not task.arrival_s >= 0:
        refuse(f"{task.jobs} jobs at {task.arrival_s} s", where, "give at least one job and a time not below 0")
    if not 0 <= task.share < len(scenario.shares):
        refuse(f"there is no share {task.share}", where, "name a share of the scenario")
    if task.vo != scenario.vo_of(task.share):
        name = scenario.shares[task.share][0]
        refuse(
            f"VO {task.vo}, and share {name} of VO {scenario.vo_of(task.share)}", where, "give share_vos, or another"
        )
    if not (0 < task.work_factor < math.inf and 0 < task.memory_factor < math.inf and 0 <= task.failure_rate <= 1):
        refuse("work_factor, memory_factor or failure_rate", where, "give positive factors, a rate from 0 to 1")
    if not -1 <= task.running_at < len(scenario.queues):
        refuse(f"there is no queue {task.running_at}", where, "name a queue by position, from 0")
    if task.running_at >= 0 and not scenario.queues[task.running_at].takes(task.vo):
        refuse(f"queue {scenario.queues[task.running_at].name} takes no jobs of {task.vo}", where, "name another")
    return task


def _check_fit(scenario: Scenario) -> None:
    for name, vo in sorted({(task.kind, task.vo) for task in scenario.tasks}):
        kind = scenario.kinds[name]
        if not any(fits(queue, kind) and queue.takes(vo) for queue in scenario.queues):
            whose = "" if vo == VO else f" that takes VO {vo}"
            needs = f"{kind.cores} cores and {kind.cores * kind.memory_gb_core:g} GB"
            refuse(
                f"jobs of kind {name} fit no queue{whose}: {needs}",
                scenario.name,
                "give a queue a node of that size, or remove the tasks of that kind",
            )


def fits(queue: Queue, kind: JobKind) -> bool:
    """Whether a job of the kind fits a node of the queue."""
    enough = queue.node_memory_gb >= kind.cores * kind.memory_gb_core
    return queue.nodes > 0 and queue.node_cores >= kind.cores and enough
