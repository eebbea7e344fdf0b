"""The grid 2026: the grid of 2018 with further properties of real grids, from public profiles and transfers.

Tasks of a kind differ, requests are wrong by factors and limits are enforced, queues and tasks have unequal failure
rates, transfers fail, scouts run first, and slots are in use when the simulation begins. The grid of 2018 is unchanged.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.generated_grid import GridParameters, draw_tasks, expected_core_s, generate
from broker.simulation.model.job_kinds import JobKind, Lognormal
from broker.simulation.model.scenario import Queue, Scenario, Site, Task, fits
from broker.simulation.model.scenario_checks import check
from broker.simulation.model.scenario_parts import TransferFailures
from broker.simulation.model.streams import stream

#: Spread of ln(work of a job) between tasks of a kind, with a mean of 1 (assumed: labels of one site spread by 1.3).
WORK_S = 0.8
#: Spread of ln(estimated over true work) before scouts have run: half of the requests are off by more than 1.6.
BELIEVED_S = 0.7
#: Used over requested memory: median, spread between tasks, spread within a task; slack above which jobs are killed.
MEMORY_USED, MEMORY_TASK_S, MEMORY_S, MEMORY_SLACK = 0.6, 0.35, 0.14, 0.5
#: Failure rates of tasks: 0 for a quarter, Beta for the others. Source: 33 labels of at least 300 jobs.
TASK_NEVER, TASK_FAILURES = 0.25, (0.3, 3.75)
#: Logit of the failure rate of a queue for any job: half of the queues are below 1.1 %, one in ten above 9 %.
QUEUE_LOGIT, QUEUE_LOGIT_S, QUEUE_MOST = -4.5, 1.7, 0.9
#: Parts of the pairs of queue and kind that fail often, and mostly (assumed).
BAD_PAIRS, BROKEN_PAIRS = 0.02, 0.005
#: Walltime limits of queues in hours with their parts (assumed).
LIMITS_H, LIMIT_PARTS = (12.0, 24.0, 48.0, 96.0), (0.1, 0.3, 0.3, 0.3)
#: Logit of the failure rate of a link: the mean, and the spread by source, destination and link. Source: fitted to the
#: quantiles of 6,208 links of 2019 with at least 100 attempts (p50 1.9, p75 8.6, p90 32 %).
LINK_LOGIT, LINK_SD = -3.96, (1.03, 1.86, 1.17)
#: Failures of a stage-in by a pilot (assumed: no public figures).
STAGE_IN_FAILURE = 0.01
#: Inequality of input over sites: spread of ln(weight), in addition to a factor of four for a nucleus.
SOURCES_S = 1.0
#: Offset of the seeds of tasks that arrived before the beginning.
BEFORE_SEEDS = 1_000_000
#: Number of scouts of a task.
SCOUTS = 10
#: Maximum part of the slots in use at the beginning; days before the beginning whose tasks are half done by then.
WARM, BEFORE_DAYS = 0.95, 0.25


def generate_2026(parameters: GridParameters, seed: int) -> Scenario:
    """Generate a scenario of the grid 2026; the same arguments give the same scenario.

    Raises:
        SimulationError: no work fits the grid of the parameters.
    """
    base = generate(parameters, seed)
    kinds = {name: _kind(kind) for name, kind in base.kinds.items()}
    queues = tuple(_queue(queue, sorted(kinds), seed) for queue in base.queues)
    tasks = tuple(task_2026(task, base.sites, seed) for task in base.tasks)
    first = 1 + max((task.number for task in tasks), default=0)
    before = _half_done(parameters, queues, base.sites, first, seed)
    running = _already_running(parameters, queues, kinds, tasks, first + len(before), seed)
    return check(
        dataclasses.replace(
            base,
            name=f"2026-{parameters.queues}q",
            queues=queues,
            kinds=kinds,
            tasks=(*running, *before, *tasks),
            transfer_failures=_transfer_failures(base.sites, seed),
            scouts=SCOUTS,
            memory_slack=MEMORY_SLACK,
            enforce_walltime=True,
            counts_bad_jobs=True,
        )
    )


def _kind(kind: JobKind) -> JobKind:
    """The kind with its request unchanged, drawn memory use, and failures left to its tasks."""
    requested_mb = 1024.0 * kind.cores * kind.memory_gb_core
    return dataclasses.replace(kind, memory_used_mb=Lognormal(MEMORY_USED * requested_mb, MEMORY_S), failure_rate=0.0)


def _queue(queue: Queue, kinds: list[str], seed: int) -> Queue:
    random = stream(seed, queue.name, "queue failure")
    rate = 1.0 / (1.0 + math.exp(-random.normal(QUEUE_LOGIT, QUEUE_LOGIT_S)))
    limit_h = float(stream(seed, queue.name, "walltime limit").choice(LIMITS_H, p=LIMIT_PARTS))
    return dataclasses.replace(
        queue,
        failure_rate=min(QUEUE_MOST, rate),
        failure_of_kind=failing_pairs(queue.name, kinds, seed),
        maxtime_s=3600.0 * limit_h,
    )


def failing_pairs(queue: str, kinds: list[str], seed: int) -> dict[str, float]:
    """The failure rates of kinds of jobs that fail at this queue in particular: few fail often, fewer fail mostly."""
    rates = {}
    for kind in kinds:
        random = stream(seed, queue, f"pair failure {kind}")
        drawn, height = float(random.random()), float(random.random())
        if drawn < BROKEN_PAIRS:
            rates[kind] = 0.5 + 0.5 * height
        elif drawn < BROKEN_PAIRS + BAD_PAIRS:
            rates[kind] = 0.03 + 0.47 * height
    return rates


def task_2026(task: Task, sites: tuple[Site, ...], seed: int) -> Task:
    """The task with drawn figures that differ between tasks of a kind."""
    random = stream(seed, task.number, "task figures")
    work, believed, memory = random.standard_normal(3).tolist()
    never, rate = float(random.random()) < TASK_NEVER, float(random.beta(*TASK_FAILURES))
    return dataclasses.replace(
        task,
        work_factor=math.exp(WORK_S * work - WORK_S**2 / 2.0),
        believed_factor=math.exp(BELIEVED_S * believed),
        memory_factor=math.exp(MEMORY_TASK_S * memory),
        failure_rate=0.0 if never else rate,
        sources=_sources(len(task.sources), task.number, sites, seed),
    )


def _sources(copies: int, number: int, sites: tuple[Site, ...], seed: int) -> tuple[int, ...]:
    """Draw the sources of a task; few sites hold most of the input, so that links carry unequal amounts."""
    spread = [float(stream(seed, site.name, "input").standard_normal()) for site in sites]
    weights = np.exp(SOURCES_S * np.array(spread)) * np.array([4.0 if site.is_nucleus else 1.0 for site in sites])
    chosen = stream(seed, number, "sources").choice(len(sites), copies, replace=False, p=weights / weights.sum())
    return tuple(sorted(int(site) for site in chosen))


def _transfer_failures(sites: tuple[Site, ...], seed: int) -> TransferFailures:
    source, destination, link = LINK_SD
    out = np.array([float(stream(seed, site.name, "fails as source").standard_normal()) for site in sites])
    into = np.array([float(stream(seed, site.name, "fails as destination").standard_normal()) for site in sites])
    single: Floats = stream(seed, "links", "transfer failure").standard_normal((len(sites), len(sites)))
    logits = LINK_LOGIT + source * out[:, None] + destination * into[None, :] + link * single
    rates = 1.0 / (1.0 + np.exp(-logits))
    pairs = {(a, b): float(rates[a, b]) for a in range(len(sites)) for b in range(len(sites)) if a != b}
    return TransferFailures(pairs, STAGE_IN_FAILURE)


def _half_done(
    parameters: GridParameters, queues: tuple[Queue, ...], sites: tuple[Site, ...], first: int, seed: int
) -> tuple[Task, ...]:
    """Tasks that arrived shortly before the start: a uniform part of their jobs is left, and their scouts have run."""
    length = dataclasses.replace(parameters, days=BEFORE_DAYS, jobs=None)
    drawn = draw_tasks(length, queues, sites, seed + BEFORE_SEEDS)
    left = stream(seed, "grid 2026", "jobs left").random(len(drawn))
    return tuple(
        dataclasses.replace(
            task_2026(dataclasses.replace(task, number=first + place), sites, seed),
            jobs=max(1, round(task.jobs * float(left[place]))),
            arrival_s=0.0,
            scouted=True,
            believed_factor=1.0,
        )
        for place, task in enumerate(drawn)
    )


def _already_running(
    parameters: GridParameters,
    queues: tuple[Queue, ...],
    kinds: Mapping[str, JobKind],
    tasks: tuple[Task, ...],
    first: int,
    seed: int,
) -> tuple[Task, ...]:
    """Tasks whose jobs run from the beginning, at one queue each; they are drawn from the tasks by core time."""
    if not tasks:
        return ()
    power = float(np.average([queue.corepower for queue in queues], weights=[queue.cores for queue in queues]))
    cost = np.array([task.jobs * task.work_factor * expected_core_s(kinds[task.kind], power) for task in tasks])
    running: list[Task] = []
    for place, queue in enumerate(queues):
        random = stream(seed, queue.name, "running at first")
        left = int(min(WARM, parameters.offered_load) * queue.cores)
        for _ in range(8):
            model = tasks[int(random.choice(len(tasks), p=cost / cost.sum()))]
            kind = kinds[model.kind]
            jobs = min(left // kind.cores, max(1, queue.cores // (4 * kind.cores)))
            if jobs < 1 or not fits(queue, kind):
                continue
            left -= jobs * kind.cores
            running.append(
                dataclasses.replace(
                    model, number=first + len(running), jobs=jobs, arrival_s=0.0, parents=(), running_at=place
                )
            )
    return tuple(running)
