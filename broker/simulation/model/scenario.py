"""Scenarios: the grid, the work and the information of a simulation, checked before it starts."""

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
#: Maximum jobs of a task and cores of a queue: beyond these a simulation would run out of memory.
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


def check(scenario: Scenario) -> Scenario:
    """Return the scenario if it can be simulated.

    Raises:
        SimulationError: it cannot be simulated; the message names the entry and what to change.
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
    for outage in scenario.transfer_outages:
        if {*outage.sites, *(site for link in outage.links for site in link)} - set(known):
            refuse("an outage of a storage or link that does not exist", scenario.name, "name sites by position")
        if not 0 <= outage.start_s < outage.end_s:
            refuse(f"an outage from {outage.start_s} to {outage.end_s} s", scenario.name, "it ends after it starts")
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
    """Return the task if it can be simulated in the scenario; its number and parents are not checked.

    Raises:
        SimulationError: it cannot be simulated.
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
            taking_vo = "" if vo == VO else f" that takes VO {vo}"
            needs = f"{kind.cores} cores and {kind.cores * kind.memory_gb_core:g} GB"
            refuse(
                f"jobs of kind {name} fit no queue{taking_vo}: {needs}",
                scenario.name,
                "give a queue a node of that size, or remove the tasks of that kind",
            )


def fits(queue: Queue, kind: JobKind) -> bool:
    """Whether a job of the kind fits a node of the queue."""
    enough = queue.node_memory_gb >= kind.cores * kind.memory_gb_core
    return queue.nodes > 0 and queue.node_cores >= kind.cores and enough
