"""Grids under stress: floods, old statistics, wrong walltimes, and queues, storages or links that are out.

Each is the calm grid with one fault from two fifths of the time on, so that policies meet it after their warm-up.
"""

from __future__ import annotations

import dataclasses

from broker.simulation.model.generated_grid import GridParameters, expected_core_s, generate, task_of
from broker.simulation.model.job_kinds import KINDS
from broker.simulation.model.scenario import Ages, Outage, Scenario, Task, TransferOutage
from broker.simulation.model.scenario_checks import check
from broker.simulation.model.streams import stream

#: Start of the fault as a part of the time, and the usual load.
BEGINS, USUAL_LOAD = 0.4, 0.6
#: Flood of one user: jobs for each core of the grid, number of tasks, and seconds between two tasks.
FLOOD_JOBS_A_CORE, FLOOD_TASKS, FLOOD_PERIOD_S = 2, 10, 30.0
#: Hours of work that arrive within one hour.
BURST = 10.0
#: Factor by which estimates are off, up or down; age of the statistics of jobs and queues.
WRONG_BY, OLD_S = 3.0, 900.0
ANALYSIS = "User Analysis"
#: Part of the time for which storages and links are out.
OUT_FOR = 0.25
#: VOs, each with one share: target, part of the work, kinds of jobs; and the load, without which there is no excess.
VOS = (("VO 1", 20.0, 0.8, ("simul", "digi_reco")), *((f"VO {n}", 20.0, 0.05, ("simul",)) for n in range(2, 6)))
VO_LOAD = 1.1


def calm(parameters: GridParameters, seed: int) -> Scenario:
    """The generated grid without random outages, at load .6 if none is given."""
    load = USUAL_LOAD if parameters.load is None else parameters.load
    return generate(dataclasses.replace(parameters, load=load, outage_mean_days=0.0), seed)


def flood(parameters: GridParameters, seed: int) -> Scenario:
    """One user sends jobs of one core for twice the grid within minutes, with input at one or two sites."""
    scenario = calm(parameters, seed)
    cores = sum(queue.cores for queue in scenario.queues)
    share = next(place for place, (name, _) in enumerate(scenario.shares) if name == ANALYSIS)
    jobs = FLOOD_JOBS_A_CORE * cores // FLOOD_TASKS
    tasks = []
    for number in range(FLOOD_TASKS):
        random = stream(seed, number, "flood")
        drawn = task_of(parameters, KINDS["analysis"], jobs, share, scenario.sites, random)
        begins_s = BEGINS * scenario.end_s + FLOOD_PERIOD_S * number
        tasks.append(dataclasses.replace(drawn, arrival_s=begins_s, user=0, priority=900.0, sources=drawn.sources[:2]))
    return _with(scenario, tasks)


def burst(parameters: GridParameters, seed: int) -> Scenario:
    """The work of ten hours arrives within one."""
    scenario = calm(parameters, seed)
    random = stream(seed, "burst", "arrivals")
    power = sum(q.cores * q.corepower for q in scenario.queues) / sum(q.cores for q in scenario.queues)
    left = USUAL_LOAD * BURST * 3600.0 * sum(queue.cores for queue in scenario.queues)
    tasks: list[Task] = []
    while left > 0 and scenario.tasks:
        model = scenario.tasks[int(random.integers(len(scenario.tasks)))]
        left -= model.jobs * expected_core_s(KINDS[model.kind], power)
        tasks.append(
            dataclasses.replace(model, arrival_s=BEGINS * scenario.end_s + 3600.0 * float(random.random()), parents=())
        )
    return _with(scenario, tasks)


def old_statistics(parameters: GridParameters, seed: int) -> Scenario:
    """Policies see jobs and queues as of a quarter of an hour ago."""
    return check(dataclasses.replace(calm(parameters, seed), ages=Ages(jobs_s=OLD_S, queues_s=OLD_S)))


def wrong_walltimes(parameters: GridParameters, seed: int) -> Scenario:
    """The work of each task is estimated wrongly by a factor of 3, for half of the tasks too high."""
    scenario = calm(parameters, seed)
    tasks = tuple(
        dataclasses.replace(
            task,
            believed_factor=WRONG_BY if stream(seed, task.number, "wrong walltime").random() < 0.5 else 1 / WRONG_BY,
        )
        for task in scenario.tasks
    )
    return check(dataclasses.replace(scenario, tasks=tasks))


def recovery(parameters: GridParameters, seed: int) -> Scenario:
    """The largest queue is closed at first, and comes back later."""
    scenario = calm(parameters, seed)
    largest = max(range(len(scenario.queues)), key=lambda place: scenario.queues[place].cores)
    outage = Outage((largest,), 0.0, BEGINS * scenario.end_s, announced=True)
    return check(dataclasses.replace(scenario, outages=(outage,)))


def storage_out(parameters: GridParameters, seed: int) -> Scenario:
    """The storage of the site with the most cores does not answer for a quarter of the time: jobs there fail."""
    scenario = calm(parameters, seed)
    cores = [sum(q.cores for q in scenario.queues if q.site == site) for site in range(len(scenario.sites))]
    return _out(scenario, sites=(cores.index(max(cores)),))


def link_out(parameters: GridParameters, seed: int) -> Scenario:
    """No link to or from the nucleus with the largest storage carries anything for a quarter of the time."""
    scenario = calm(parameters, seed)
    nuclei = [place for place, site in enumerate(scenario.sites) if site.is_nucleus]
    cut = max(nuclei, key=lambda place: scenario.sites[place].storage_total)
    others = [place for place in range(len(scenario.sites)) if place != cut]
    return _out(scenario, links=tuple(pair for site in others for pair in ((site, cut), (cut, site))))


def one_vo(parameters: GridParameters, seed: int) -> Scenario:
    """Five VOs have a target of a fifth each, and one sends four fifths of the work, more than the grid can do."""
    load = VO_LOAD if parameters.load is None else parameters.load
    quiet = dataclasses.replace(parameters, load=load, outage_mean_days=0.0)
    scenario = generate(quiet, seed, shares=VOS)
    vos = {name: name for name, _ in scenario.shares}
    tasks = tuple(dataclasses.replace(task, vo=scenario.shares[task.share][0]) for task in scenario.tasks)
    return check(dataclasses.replace(scenario, tasks=tasks, share_vos=vos))


def _out(scenario: Scenario, sites: tuple[int, ...] = (), links: tuple[tuple[int, int], ...] = ()) -> Scenario:
    end_s = scenario.end_s
    out = TransferOutage(BEGINS * end_s, (BEGINS + OUT_FOR) * end_s, sites, links)
    return check(dataclasses.replace(scenario, transfer_outages=(out,)))


def _with(scenario: Scenario, more: list[Task]) -> Scenario:
    """The scenario with further tasks, numbered after its own."""
    first = 1 + max((task.number for task in scenario.tasks), default=0)
    numbered = [dataclasses.replace(task, number=first + place) for place, task in enumerate(more)]
    tasks = sorted((*scenario.tasks, *numbered), key=lambda task: task.arrival_s)
    return check(dataclasses.replace(scenario, tasks=tuple(tasks)))
