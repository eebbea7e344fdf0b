"""Grids under stress: floods, old statistics, wrong walltimes, and queues, storages or links that are out.

Each is the calm grid with one thing wrong from two fifths of the time on, so that policies meet it warmed up.
"""

from __future__ import annotations

import dataclasses

from broker.simulation.model.generated_grid import GridParameters, expected_core_s, generate, task_of
from broker.simulation.model.job_kinds import KINDS
from broker.simulation.model.scenario import Ages, Outage, Scenario, Task, TransferOutage, check
from broker.simulation.model.streams import stream

#: When it begins, as a part of the time, and the usual load.
BEGINS, USUAL_LOAD = 0.4, 0.6
#: Jobs of the user who floods for each core of the grid, in so many tasks, half a minute apart.
FLOOD_JOBS_A_CORE, FLOOD_TASKS, FLOOD_PERIOD_S = 2, 10, 30.0
#: Work of so many hours comes within one.
BURST = 10.0
#: Estimates are off by this factor, up or down; statistics of jobs and queues are so old.
WRONG_BY, OLD_S = 3.0, 900.0
ANALYSIS = "User Analysis"
#: Storages and links are out for this part of the time.
OUT_FOR = 0.25
#: VOs, each a share: target, part of the work, kinds of jobs; and the load, as there is no excess without it.
VOS = (("VO 1", 20.0, 0.8, ("simul", "digi_reco")), *((f"VO {n}", 20.0, 0.05, ("simul",)) for n in range(2, 6)))
VO_LOAD = 1.1


def calm(parameters: GridParameters, seed: int) -> Scenario:
    """The generated grid without random outages, at load .6 where none is given."""
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
    """The work of ten hours comes within one."""
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
    """What policies see of jobs and queues is a quarter of an hour old."""
    return check(dataclasses.replace(calm(parameters, seed), ages=Ages(jobs_s=OLD_S, queues_s=OLD_S)))


def wrong_walltimes(parameters: GridParameters, seed: int) -> Scenario:
    """Each task's work is estimated wrongly by a factor of 3, half of them too high."""
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
    """The largest queue is closed at first, and comes back."""
    scenario = calm(parameters, seed)
    largest = max(range(len(scenario.queues)), key=lambda place: scenario.queues[place].cores)
    outage = Outage((largest,), 0.0, BEGINS * scenario.end_s, announced=True)
    return check(dataclasses.replace(scenario, outages=(outage,)))


def storage_out(parameters: GridParameters, seed: int) -> Scenario:
    """The storage of the site with most cores does not answer for a quarter of the time: jobs there fail."""
    scenario = calm(parameters, seed)
    cores = [sum(q.cores for q in scenario.queues if q.site == site) for site in range(len(scenario.sites))]
    return _out(scenario, sites=(cores.index(max(cores)),))


def link_out(parameters: GridParameters, seed: int) -> Scenario:
    """No link to or from the nucleus with the largest storage carries anything for a quarter of the time."""
    scenario = calm(parameters, seed)
    nuclei = [place for place, site in enumerate(scenario.sites) if site.is_nucleus]
    cut = max(nuclei, key=lambda place: scenario.sites[place].storage_total)
    others = [place for place in range(len(scenario.sites)) if place != cut]
    return _out(scenario, links=tuple(pair for one in others for pair in ((one, cut), (cut, one))))


def one_vo(parameters: GridParameters, seed: int) -> Scenario:
    """Five VOs are each to have a fifth, and one sends four fifths of the work, more than the grid can do."""
    load = VO_LOAD if parameters.load is None else parameters.load
    quiet = dataclasses.replace(parameters, load=load, outage_mean_days=0.0)
    made = generate(quiet, seed, shares=VOS)
    vos = {name: name for name, _ in made.shares}
    tasks = tuple(dataclasses.replace(task, vo=made.shares[task.share][0]) for task in made.tasks)
    return check(dataclasses.replace(made, tasks=tasks, share_vos=vos))


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
