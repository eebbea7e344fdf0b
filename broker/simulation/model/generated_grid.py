"""Grids and workloads generated from a few parameters and a seed."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from broker.simulation.model.errors import SimulationError
from broker.simulation.model.job_kinds import KINDS, JobKind
from broker.simulation.model.scenario import Ages, Outage, Queue, Scenario, Site, Task, fits
from broker.simulation.model.scenario_checks import check
from broker.simulation.model.scenario_parts import Pilots
from broker.simulation.model.streams import stream

DAY_S = 86_400.0
USUAL_LOAD = 0.9
Share = tuple[str, float, float, tuple[str, ...]]
#: Leaf shares: target weight, part of the offered core time, and the kinds of jobs that go with each.
SHARES: tuple[Share, ...] = (
    ("MC Production", 60.0, 0.80, ("simul", "digi_reco")),
    ("Derivations", 15.0, 0.10, ("derivation",)),
    ("Reprocessing", 5.0, 0.04, ("reco",)),
    ("Group Production", 5.0, 0.0005, ("merge",)),
    ("User Analysis", 15.0, 0.0595, ("analysis",)),
)


@dataclass(frozen=True)
class GridParameters:
    """Size and mix of a generated grid; all of it is assumed, the defaults follow published figures of real grids.

    Attributes:
        load: offered work over published capacity; None for the usual load of the grid.
        jobs: total jobs of all tasks; None for as many as the load requires.
        median_jobs, spread_jobs, most_jobs: the jobs of a task are LN(median_jobs, spread_jobs), at most most_jobs.
        speed_spread: spread of ln(hidden speed); 0 for a grid that publishes the truth.
        outage_mean_days: mean days between two outages of a queue; 0 for none. They last LN(outage_median_s, 1).
    """

    days: float = 3.0
    queues: int = 200
    cores: int = 100_000
    nuclei: int = 12
    load: float | None = None
    jobs: int | None = None
    median_jobs: float = 50.0
    spread_jobs: float = 1.5
    most_jobs: int = 20_000
    users: int = 300
    speed_spread: float = 0.3
    outage_mean_days: float = 20.0
    outage_median_s: float = 28_800.0
    analysis_amplitude: float = 0.4
    weekend_factor: float = 0.6
    start_weekday: int = 0
    wan_bytes_s: float = 1.25e9
    warm_up_s: float = DAY_S

    @property
    def offered_load(self) -> float:
        """The load, :data:`USUAL_LOAD` if none is given."""
        return USUAL_LOAD if self.load is None else self.load


def generate(
    parameters: GridParameters,
    seed: int,
    ages: Ages | None = None,
    pilots: Pilots | None = None,
    shares: tuple[Share, ...] = SHARES,
) -> Scenario:
    """Generate a scenario; the same arguments give the same scenario.

    Raises:
        SimulationError: the parameters are out of range, or no work fits the grid.
    """
    if parameters.queues < 1 or parameters.cores < parameters.queues or parameters.nuclei < 1:
        raise SimulationError(
            f"{parameters.queues} queues, {parameters.cores} cores, {parameters.nuclei} nuclei",
            "grid parameters",
            "give at least one of each, and a core a queue",
        )
    if not (parameters.offered_load > 0 and parameters.days > 0):
        raise SimulationError(
            f"load {parameters.offered_load}, {parameters.days} days", "grid parameters", "both are positive"
        )
    sites = _sites(parameters, seed)
    queues = _queues(parameters, len(sites), seed)
    tasks = draw_tasks(parameters, queues, sites, seed, shares)
    return check(
        Scenario(
            name=f"generated-{parameters.queues}q",
            days=parameters.days,
            sites=sites,
            queues=queues,
            shares=tuple((name, weight) for name, weight, _, _ in shares),
            tasks=tasks,
            link_bytes_s=_links(parameters, sites, seed),
            default_link_bytes_s=parameters.wan_bytes_s,
            outages=draw_outages(parameters, queues, seed),
            ages=ages or Ages(),
            pilots=pilots or Pilots(),
            warm_up_s=parameters.warm_up_s,
        )
    )


def _sites(parameters: GridParameters, seed: int) -> tuple[Site, ...]:
    count = max(parameters.nuclei, math.ceil(parameters.queues * 0.6))
    sites = []
    for number in range(count):
        random = stream(seed, f"site {number}", "storage")
        nucleus = number < parameters.nuclei
        total = float(random.lognormal(math.log(2e15 if nucleus else 4e14), 0.4))
        rate = float(random.lognormal(math.log(2e10 if nucleus else 5e9), 0.3))
        sites.append(Site(f"SITE-{number:03d}", nucleus, total, 0.6 * total, rate, rate))
    return tuple(sites)


def _queues(parameters: GridParameters, sites: int, seed: int) -> tuple[Queue, ...]:
    """Queues with lognormal sizes, larger at nuclei."""
    weights = np.array(
        [
            stream(seed, f"queue {number}", "size").lognormal(0.8 if number % sites < parameters.nuclei else 0.0, 0.8)
            for number in range(parameters.queues)
        ]
    )
    cores = np.maximum(16, weights / weights.sum() * parameters.cores)
    queues = []
    for number in range(parameters.queues):
        name = f"QUEUE_{number:03d}"
        random = stream(seed, name, "hardware")
        node_cores = 32 if cores[number] >= 32 else 16
        memory = float(random.choice([2.0, 3.0, 4.0], p=[0.3, 0.4, 0.3]))
        queues.append(
            Queue(
                name=name,
                site=number % sites,
                nodes=max(1, round(cores[number] / node_cores)),
                node_cores=node_cores,
                node_memory_gb=memory * node_cores,
                corepower=round(float(random.uniform(8, 16)), 2),
                hidden_speed=float(np.exp(random.normal(0.0, parameters.speed_spread))),
                failure_rate=float(random.beta(2, 38)),
                mode="push" if number % 10 == 9 else "pull",
                max_waiting_pilots=max(5, int(cores[number] / 100)),
            )
        )
    return tuple(queues)


def _links(parameters: GridParameters, sites: tuple[Site, ...], seed: int) -> dict[tuple[int, int], float]:
    """Bandwidth of each pair of sites: lognormal around the parameter, wider with a nucleus."""
    size = len(sites)
    random = stream(seed, "network", "bandwidth")
    rates = parameters.wan_bytes_s * np.exp(random.normal(0.0, 0.6, (size, size)))
    nucleus = np.array([site.is_nucleus for site in sites])
    rates *= np.where(nucleus[:, None] & nucleus[None, :], 4.0, np.where(nucleus[:, None] | nucleus[None, :], 1.0, 0.3))
    return {(a, b): float(rates[a, b]) for a in range(size) for b in range(size) if a != b}


def expected_core_s(kind: JobKind, corepower: float) -> float:
    """Core seconds that a job of the kind takes at a queue of true core power, without waiting for input."""
    half = np.array([0.5])
    work = float(kind.work_hs06s_event.quantile(half)[0]) * kind.events
    efficiency = float(kind.efficiency.quantile(half)[0])
    rate = float(kind.stage_in_mbps.quantile(half)[0]) * 1e6
    return work / (corepower * efficiency) + kind.cores * (140.0 + kind.input_gb * 1e9 / rate)


def draw_tasks(
    parameters: GridParameters,
    queues: tuple[Queue, ...],
    sites: tuple[Site, ...],
    seed: int,
    shares: tuple[Share, ...] = SHARES,
) -> tuple[Task, ...]:
    """Draw tasks until the load is offered: each share has its part of the work, in core time at the mean queue."""
    capacity = sum(queue.cores for queue in queues)
    power = sum(queue.cores * queue.corepower for queue in queues) / capacity
    offered = parameters.offered_load * capacity * parameters.days * DAY_S
    tasks: list[Task] = []
    for share, (name, _, part, kinds) in enumerate(shares):
        usable = [KINDS[kind] for kind in kinds if any(fits(queue, KINDS[kind]) for queue in queues)]
        random = stream(seed, f"share {name}", "arrivals")
        left = offered * part
        while left > 0 and usable:
            kind = usable[int(random.integers(len(usable)))]
            drawn = random.lognormal(math.log(parameters.median_jobs), parameters.spread_jobs)
            cost = expected_core_s(kind, power)
            jobs = max(1, min(int(drawn), parameters.most_jobs, math.ceil(left / cost)))
            left -= jobs * cost
            tasks.append(task_of(parameters, kind, jobs, share, sites, random))
    if parameters.jobs is not None:
        tasks = _scaled(tasks, parameters.jobs)
    ordered = sorted(tasks, key=lambda task: task.arrival_s)
    return tuple(dataclasses.replace(task, number=place + 1) for place, task in enumerate(ordered))


def task_of(
    parameters: GridParameters,
    kind: JobKind,
    jobs: int,
    share: int,
    sites: tuple[Site, ...],
    random: np.random.Generator,
) -> Task:
    """Draw user, sources, arrival and priority of a task of a kind; its number is left at 0."""
    ranks = np.arange(1, parameters.users + 1) ** -1.1
    user = int(random.choice(parameters.users, p=ranks / ranks.sum()))
    weights = np.array([4.0 if site.is_nucleus else 1.0 for site in sites])
    copies = min(int(random.integers(1, 4)), len(sites))
    sources = random.choice(len(sites), size=copies, replace=False, p=weights / weights.sum())
    return Task(
        number=0,
        kind=kind.name,
        jobs=jobs,
        arrival_s=_arrival(parameters, kind.analysis, random),
        share=share,
        user=user,
        priority=float(random.choice([250, 400, 550, 700, 930])) if not kind.analysis else 1000.0 - 10 * (user % 20),
        sources=tuple(sorted(int(site) for site in sources)),
        believed_factor=float(random.lognormal(0.0, 0.15)),
    )


def _arrival(parameters: GridParameters, analysis: bool, random: np.random.Generator) -> float:
    """An instant of a Poisson process with the profile of the day and the week, by thinning; production is flat."""
    while True:
        time_s = float(random.random()) * parameters.days * DAY_S
        if not analysis:
            return time_s
        hour = (time_s % DAY_S) / 3600.0
        rate = 1.0 + parameters.analysis_amplitude * math.cos(2.0 * math.pi * (hour - 15.0) / 24.0)
        weekday = (parameters.start_weekday + int(time_s // DAY_S)) % 7
        rate *= parameters.weekend_factor if weekday >= 5 else 1.0
        if random.random() * (1.0 + parameters.analysis_amplitude) <= rate:
            return time_s


def _scaled(tasks: list[Task], jobs: int) -> list[Task]:
    """The same tasks with about ``jobs`` jobs in all."""
    factor = jobs / sum(task.jobs for task in tasks)
    return [dataclasses.replace(task, jobs=max(1, round(task.jobs * factor))) for task in tasks]


def draw_outages(parameters: GridParameters, queues: tuple[Queue, ...], seed: int) -> tuple[Outage, ...]:
    """Draw outages with exponential times between them and lognormal lengths; half of them are announced."""
    outages = []
    for number, queue in enumerate(queues):
        random = stream(seed, queue.name, "outage")
        start_s = 0.0
        while parameters.outage_mean_days > 0:
            start_s += float(random.exponential(parameters.outage_mean_days * DAY_S))
            if start_s >= parameters.days * DAY_S:
                break
            length = float(random.lognormal(math.log(parameters.outage_median_s), 1.0))
            outages.append(Outage((number,), start_s, start_s + length, announced=bool(random.random() < 0.5)))
            start_s += length
    return tuple(outages)
