"""A grid with the jobs, failures and limits of a calibration and the size of its parameters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from broker.simulation.model.calibration.fit import Calibration
from broker.simulation.model.calibration.site_fit import SiteFit
from broker.simulation.model.calibration.site_grid import arrival_of, site_scenario, traced_scenario
from broker.simulation.model.calibration.trace import Trace
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import DAY_S, GridParameters, generate, task_of
from broker.simulation.model.job_kinds import JobKind
from broker.simulation.model.scenario import Ages, Queue, Scenario, Site, Task, fits
from broker.simulation.model.scenario_checks import check
from broker.simulation.model.streams import stream

#: Minimum part of a label's jobs for a class of memory to be included.
LEAST_PART = 0.02
#: Beta distribution of failures of queues for any job; parts of the pairs of queue and kind that fail often, and mostly
#: (assumed).
QUEUE_FAILURES, BAD_PAIRS, BROKEN_PAIRS = (1.0, 200.0), 0.02, 0.005
#: A job that exceeds its request by more than this part is killed: finished jobs have reached 1.4 times (assumed).
MEMORY_SLACK = 0.5
SHARE = "Production"


@dataclass(frozen=True)
class CalibratedChoice:
    """A calibrated grid of a size; calling it with a seed makes the scenario.

    Attributes:
        changes: fields of the scenario that are set afterwards; for parts such as ``tape``, only the entries that are
            set, while the others stay as fitted.
    """

    calibration: Calibration
    parameters: GridParameters
    name: str
    ages: Ages = field(default_factory=Ages)
    trace: Trace | None = None
    changes: tuple[tuple[str, Any], ...] = ()

    def __call__(self, seed: int) -> Scenario:
        """Make the scenario of a seed.

        Raises:
            SimulationError: no work fits the grid of the parameters, or a trace has no queues to run at.
        """
        site = self.calibration.site
        if site is None and self.trace is not None:
            raise SimulationError(
                "a trace needs the site's own queues", self.name, "calibrate with --since, or --from and --to"
            )
        if site is None:
            scenario = calibrated_scenario(self.calibration, self.parameters, self.name, seed)
        elif self.trace is None:
            scenario = own_scenario(self.calibration, site, self.parameters, self.name, seed)
        else:
            scenario = traced_scenario(site, self.trace, self.parameters, self.name, seed)
        scenario = dataclasses.replace(scenario, ages=self.ages)
        changed = {
            key: dataclasses.replace(getattr(scenario, key), **value) if isinstance(value, dict) else value
            for key, value in self.changes
        }
        return check(dataclasses.replace(scenario, **changed)) if changed else scenario


def own_scenario(calibration: Calibration, site: SiteFit, parameters: GridParameters, name: str, seed: int) -> Scenario:
    """The site's own queues with tasks of calibrated kinds until the load is reached, at the hours when tasks came.

    The default load is the use of the site's queues. Failure rates of kinds exclude the mean failure rate of queues,
    which is added where jobs run.
    """
    mean = sum(queue.failure.value * queue.jobs for queue in site.queues) / max(1, sum(q.jobs for q in site.queues))
    kinds = {
        name: (dataclasses.replace(kind, failure_rate=max(0.0, kind.failure_rate - mean)), part)
        for name, (kind, part) in _kinds(calibration).items()
    }
    load = site.use if parameters.load is None else parameters.load
    empty = site_scenario(
        site, parameters, name, seed, {key: kind for key, (kind, _) in kinds.items()}, ((SHARE, 1.0),), ()
    )
    drawn = _tasks(dataclasses.replace(parameters, load=max(load, 1e-6)), kinds, empty.queues, empty.sites, seed)
    random = stream(seed, "site", "arrivals")
    tasks = sorted(
        (dataclasses.replace(one, arrival_s=arrival_of(site, False, parameters.days, random)) for one in drawn),
        key=lambda one: one.arrival_s,
    )
    numbered = tuple(dataclasses.replace(one, number=place) for place, one in enumerate(tasks, start=1))
    return check(dataclasses.replace(empty, tasks=numbered))


def calibrated_scenario(calibration: Calibration, parameters: GridParameters, name: str, seed: int) -> Scenario:
    """A scenario of generated queues, sites and links, with calibrated jobs in tasks that differ.

    Raises:
        SimulationError: no work fits the grid of the parameters.
    """
    base = generate(dataclasses.replace(parameters, load=1e-6, jobs=None), seed)
    kinds = _kinds(calibration)
    queues = tuple(_failing(queue, sorted(kinds), seed) for queue in _roomy(base.queues, kinds, seed))
    usable = {name: entry for name, entry in kinds.items() if any(fits(queue, entry[0]) for queue in queues)}
    return check(
        dataclasses.replace(
            base,
            name=name,
            queues=queues,
            shares=((SHARE, 1.0),),
            kinds={name: kind for name, (kind, _) in usable.items()},
            tasks=_tasks(parameters, usable, queues, base.sites, seed),
            memory_slack=MEMORY_SLACK,
            enforce_walltime=True,
        )
    )


def _kinds(calibration: Calibration) -> dict[str, tuple[JobKind, float]]:
    """Each kind and class of memory with its part of all jobs; the failure rates exclude kills for memory."""
    whole = sum(kind.jobs for kind in calibration.kinds)
    kinds = {}
    for rank, kind in enumerate(calibration.kinds):
        for request_mb, part in kind.asked_mb.items():
            if part >= LEAST_PART:
                name = f"kind-{rank:03d}-{request_mb:.0f}"
                rate = kind.failure_rate * (1.0 - kind.failures.get("memory", 0.0))
                job_kind = dataclasses.replace(kind.kind(name, request_mb), failure_rate=rate)
                kinds[name] = (job_kind, part * kind.jobs / whole)
    return kinds


def _roomy(queues: Sequence[Queue], kinds: dict[str, tuple[JobKind, float]], seed: int) -> list[Queue]:
    """The queues with memory per core drawn from the requests of the classes by jobs; the last one has the maximum."""
    gb = np.array([kind.memory_gb_core for kind, _ in kinds.values()])
    parts = np.array([part for _, part in kinds.values()])
    drawn = [float(stream(seed, queue.name, "memory").choice(gb, p=parts / parts.sum())) for queue in queues]
    drawn[-1] = float(gb.max())
    return [
        dataclasses.replace(
            queue, node_memory_gb=queue.node_cores * max(memory, queue.node_memory_gb / queue.node_cores)
        )
        for queue, memory in zip(queues, drawn, strict=True)
    ]


def _failing(queue: Queue, kinds: Sequence[str], seed: int) -> Queue:
    """The queue with drawn failures: most queues hardly fail, and a few fail with single kinds."""
    rate = float(stream(seed, queue.name, "queue failure").beta(*QUEUE_FAILURES))
    pairs = {}
    for kind in kinds:
        random = stream(seed, queue.name, f"pair failure {kind}")
        drawn, height = float(random.random()), float(random.random())
        if drawn < BROKEN_PAIRS:
            pairs[kind] = 0.5 + 0.5 * height
        elif drawn < BROKEN_PAIRS + BAD_PAIRS:
            pairs[kind] = 0.03 + 0.47 * height
    return dataclasses.replace(queue, failure_rate=rate, failure_of_kind=pairs)


def _tasks(
    parameters: GridParameters,
    kinds: dict[str, tuple[JobKind, float]],
    queues: tuple[Queue, ...],
    sites: tuple[Site, ...],
    seed: int,
) -> tuple[Task, ...]:
    """Draw numbered tasks until the load is offered, with kinds in proportion to their parts of all jobs."""
    random = stream(seed, "calibrated", "arrivals")
    names, parts = list(kinds), np.array([part for _, part in kinds.values()])
    cost = {name: _core_s(kind) for name, (kind, _) in kinds.items()}
    left = parameters.offered_load * sum(queue.cores for queue in queues) * parameters.days * DAY_S
    tasks: list[Task] = []
    while left > 0:
        name = str(random.choice(names, p=parts / parts.sum()))
        drawn = int(random.lognormal(math.log(parameters.median_jobs), parameters.spread_jobs))
        jobs = max(1, min(drawn, parameters.most_jobs, math.ceil(left / cost[name])))
        left -= jobs * cost[name]
        tasks.append(task_of(parameters, kinds[name][0], jobs, 0, sites, random))
    ordered = sorted(tasks, key=lambda task: task.arrival_s)
    return tuple(dataclasses.replace(task, number=place + 1) for place, task in enumerate(ordered))


def _core_s(kind: JobKind) -> float:
    """Mean core seconds of a job."""
    if kind.wall_s is None:
        return 1.0
    return kind.cores * float(kind.wall_s.quantile((np.arange(200) + 0.5) / 200).mean())
