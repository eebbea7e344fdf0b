"""Scenarios with a site's own queues, and with recorded tasks or tasks drawn at recorded rates."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from broker.simulation.model.calibration.estimate import Estimate
from broker.simulation.model.calibration.fit import ScaledDistribution
from broker.simulation.model.calibration.quantile_fits import TwoPiece
from broker.simulation.model.calibration.site_fit import (
    FEWEST_WAITS,
    HOUR_S,
    HOURS_OF_WEEK,
    Z90,
    SiteFit,
    SiteQueue,
    spread_of,
)
from broker.simulation.model.calibration.trace import Trace, TraceTask
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.job_kinds import REFERENCE_HS06, Fixed, JobKind, Lognormal
from broker.simulation.model.scenario import Queue, Scenario, Site, Task
from broker.simulation.model.scenario_checks import check
from broker.simulation.model.scenario_parts import Pilots
from broker.simulation.model.streams import stream

#: Cores of a node (assumed, as for generated grids): the largest size that matches the cores of a queue within 3 %.
NODE_CORES, NODES_OFF_BY = (32, 16, 8), 0.03
#: Half-width of the central 95 % of the standard normal distribution.
Z975 = 1.959963984540054
#: Minimum spread of ln(wall time) of a task (assumed for equal quantiles).
LEAST_S = 0.01
#: Rank correlation of CPU and wall time of a job (assumed, as for calibrated kinds).
CPU_WALL_RANK = 0.6
#: Space and rate of a site's storages and links: large enough to delay no job, as nothing is known of them.
SPACE, RATE = 1e18, 1e12


def traced_scenario(fit: SiteFit, trace: Trace, parameters: GridParameters, name: str, seed: int) -> Scenario:
    """The tasks of a trace on the site's queues; figures of queues with an interval are drawn by seed.

    Raises:
        SimulationError: no task fits any queue, or none arrives in time.
    """
    end_s = parameters.days * 86_400.0
    tasks = [task for task in trace.tasks if task.arrival_s < end_s]
    kinds = {f"task-{number:05d}": kind_of(task, f"task-{number:05d}") for number, task in enumerate(tasks)}
    shares = _shares(tasks)
    places = {share: place for place, (share, _) in enumerate(shares)}
    scenario_tasks = tuple(
        Task(number + 1, kind, task.jobs, task.arrival_s, places[task.share], task.user, task.priority, ())
        for number, (kind, task) in enumerate(zip(kinds, tasks, strict=True))
    )
    return site_scenario(fit, parameters, name, seed, kinds, shares, scenario_tasks)


def site_scenario(
    fit: SiteFit,
    parameters: GridParameters,
    name: str,
    seed: int,
    kinds: Mapping[str, JobKind],
    shares: tuple[tuple[str, float], ...],
    tasks: tuple[Task, ...],
) -> Scenario:
    """Any tasks on the site's queues, each at a site of its own, without outages."""
    sites = tuple(
        Site(queue.name, place < max(1, parameters.nuclei), SPACE, 0.0, RATE, RATE)
        for place, queue in enumerate(fit.queues)
    )
    widest = max((kind.cores for kind in kinds.values()), default=1)
    memory = max([2.0, *(kind.memory_gb_core for kind in kinds.values())])
    queues = tuple(_queue(queue, place, widest, memory, seed) for place, queue in enumerate(fit.queues))
    return check(
        Scenario(
            name=name, days=parameters.days, sites=sites, queues=queues, shares=shares, tasks=tasks, kinds=dict(kinds),
            default_link_bytes_s=RATE, warm_up_s=parameters.warm_up_s, pilots=_pilots(fit),
            workers=fit.workers, tape=fit.read_tape,
        )
    )  # fmt: skip


def node_cores(cores: int, widest: int) -> int:
    """Cores of a node of a queue, large enough for the widest job.

    >>> [node_cores(cores, 8) for cores in (255, 96, 48, 40, 20)], node_cores(96, 64)
    ([32, 32, 16, 8, 8], 64)
    """
    sizes = [size for size in NODE_CORES if size >= widest] or [widest]
    return next((size for size in sizes if abs(round(cores / size) * size - cores) <= NODES_OFF_BY * cores), sizes[-1])


def _queue(queue: SiteQueue, site: int, widest: int, memory_gb_core: float, seed: int) -> Queue:
    size = node_cores(queue.cores, widest)
    speed = math.exp(_drawn(queue.speed, math.log, queue.name, "calibrated speed", seed))
    of_kind = {
        kind: math.exp(_drawn(own, math.log, queue.name, f"calibrated speed {kind}", seed)) / speed
        for kind, own in queue.speed_of_kind.items()
    }
    power = queue.corepower or REFERENCE_HS06
    return Queue(
        name=queue.name,
        site=site,
        nodes=max(1, round(queue.cores / size)),
        node_cores=size,
        node_memory_gb=size * memory_gb_core,
        corepower=power,
        hidden_speed=speed * REFERENCE_HS06 / power,
        efficiency_of_type=of_kind,
        failure_rate=min(1.0, max(0.0, _drawn(queue.failure, float, queue.name, "calibrated failure", seed))),
        max_waiting_pilots=max(5, queue.cores // 100),
        worker_wait=_worker_wait(queue),
    )


def _worker_wait(queue: SiteQueue) -> tuple[float, float] | None:
    """Median and spread of the waits of a queue's workers; None if too few are known."""
    delay = queue.worker_delay_s
    return (delay.p50, spread_of(delay)) if delay and delay.n >= FEWEST_WAITS and delay.p50 > 0 else None


def _drawn(of: Estimate, scale: Callable[[float], float], queue: str, purpose: str, seed: int) -> float:
    """A value drawn from the interval of a figure, normal on the given scale."""
    s = (scale(of.high) - scale(of.low)) / (2 * Z975)
    return float(scale(of.value) + s * stream(seed, queue, purpose).standard_normal())


def _pilots(fit: SiteFit) -> Pilots:
    """Start delays of workers if any are known; else the defaults of every grid."""
    delays = [queue.worker_delay_s for queue in fit.queues if queue.worker_delay_s and queue.worker_delay_s.p50 > 0]
    if not delays:
        return Pilots()
    median = float(np.median([delay.p50 for delay in delays]))
    spread = float(np.median([spread_of(delay) for delay in delays]))
    return dataclasses.replace(Pilots(), start_median_s=median, start_s=spread)


def kind_of(task: TraceTask, name: str) -> JobKind:
    """The kind of a task's jobs; its wall times include stage-in and stage-out, so no input is transferred."""
    pieces = [math.log(task.wall_p50_s / task.wall_p10_s) / Z90, math.log(task.wall_p90_s / task.wall_p50_s) / Z90]
    below, above = (max(LEAST_S, piece) for piece in pieces)
    cpu = TwoPiece(task.cpu_p50_s, below, above)
    rank = CPU_WALL_RANK
    return JobKind(
        name, task.kind, 1, task.cores, ScaledDistribution(cpu, REFERENCE_HS06), Fixed(1.0),
        task.asked_mb / 1024.0 / task.cores, 0.0, Fixed(0.0), Lognormal(30.0, 0.3), min(1.0, task.failure),
        analysis=task.analysis, between_queues=(0.0, 0.0), starts_up=False,
        correlations=((1.0, rank, 0.0, 0.0), (rank, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)),
        wall_s=TwoPiece(task.wall_p50_s, below, above),
    )  # fmt: skip


def _shares(tasks: Sequence[TraceTask]) -> tuple[tuple[str, float], ...]:
    """Shares with their work as targets, as no table of jobs holds the targets of a site."""
    work: dict[str, float] = {}
    for task in tasks:
        work[task.share] = work.get(task.share, 0.0) + task.jobs * task.cores * task.wall_p50_s
    return tuple((share, max(1e-9, amount)) for share, amount in sorted(work.items()))


def arrival_of(fit: SiteFit, analysis: bool, days: float, random: np.random.Generator) -> float:
    """Draw an instant from Monday 0 h on, by the recorded arrivals per hour of the week; uniformly without any."""
    counts = np.array(fit.arrivals_analysis if analysis else fit.arrivals_production, dtype=np.float64)
    hours = np.arange(max(1, math.ceil(days * 24)))
    weights = counts[hours % HOURS_OF_WEEK]
    if weights.sum() <= 0:
        return float(random.random()) * days * 24 * HOUR_S
    hour = int(random.choice(hours, p=weights / weights.sum()))
    return min((hour + float(random.random())) * HOUR_S, days * 24 * HOUR_S - 1.0)
