"""Bounds that no policy can beat: linear programs that know every job, the true speeds and all outages.

Each simplification is a relaxation: jobs are divisible, run at the best efficiency of their kind, need neither start-up
nor input, and may use the whole slot of time in which they arrive; queues of a class have the values of its best. So
the bounds hold for the useful part of use and for the makespan; nothing is claimed for waits.
"""

from __future__ import annotations

import math

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.arriving import task_draws
from broker.simulation.model.job_kinds import JobDraws
from broker.simulation.model.outages import spans_down
from broker.simulation.model.scenario import Scenario, Task, fits

SLOT_S = 3600.0
#: Number of classes of queues by true speed.
CLASSES = 12


def _draws(scenario: Scenario, seed: int, task: Task) -> JobDraws:
    return task_draws(scenario, seed, task)


def makespan_bound_s(scenario: Scenario, seed: int) -> float:
    """Minimum seconds of a closed scenario: all work over all capacity, or its longest job."""
    speed = np.array([queue.corepower * queue.hidden_speed for queue in scenario.queues])
    cores = np.array([queue.cores for queue in scenario.queues])
    work, longest = 0.0, 0.0
    for task in scenario.tasks:
        kind = scenario.kinds[task.kind]
        drawn = _draws(scenario, seed, task)
        best = max(speed[number] for number, queue in enumerate(scenario.queues) if fits(queue, kind))
        work += float(drawn.work_hs06s.sum())
        longest = max(
            longest, float((drawn.work_hs06s / np.minimum(drawn.efficiency, 1.0)).max()) / (kind.cores * best)
        )
    return max(work / float((cores * speed).sum()), longest)


def useful_use_bound(scenario: Scenario, seed: int) -> float:
    """Maximum part of the published capacity between warm-up and end that useful CPU time can fill.

    Variables are the core seconds of CPU that a kind gets in a class of queues in a slot of time; by the end of a slot,
    a kind has done no more work than has arrived, and a class has used no more cores than are up.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    classes = _classes(scenario)
    slots = math.ceil(scenario.end_s / SLOT_S)
    capacity = _capacity(scenario, classes, slots)
    names = sorted({task.kind for task in scenario.tasks})
    arrived, efficiency = _arrivals(scenario, seed, names, slots)
    first = 0 if scenario.closed else int(scenario.warm_up_s // SLOT_S)
    columns = [
        (kind, group, slot)
        for kind, name in enumerate(names)
        for group, members in enumerate(classes)
        if any(fits(scenario.queues[number], scenario.kinds[name]) for number in members)
        for slot in range(slots)
    ]
    power = np.array([max(scenario.queues[n].corepower for n in members) for members in classes])
    speed = np.array([min(_true_speed(scenario, n) for n in members) for members in classes])
    gain = np.array([-power[group] * (slot >= first) for _, group, slot in columns])
    rows: list[int] = []
    cells: list[int] = []
    values: list[float] = []
    for place, (kind, group, slot) in enumerate(columns):
        rows.append(group * slots + slot)
        cells.append(place)
        values.append(1.0 / efficiency[kind])
        for later in range(slot, slots):
            rows.append(len(classes) * slots + kind * slots + later)
            cells.append(place)
            values.append(float(speed[group]))
    limits = np.concatenate([capacity.reshape(-1), arrived.reshape(-1)])
    matrix = coo_array((values, (rows, cells)), shape=(len(limits), len(columns))).tocsr()
    solution = linprog(gain, A_ub=matrix, b_ub=limits, method="highs")
    up = capacity[:, first:].sum(axis=1)
    whole = sum(float(up[group]) * _mean_power(scenario, members) for group, members in enumerate(classes))
    return min(1.0, -float(solution.fun) / whole) if solution.status == 0 and whole > 0 else 1.0


def _true_speed(scenario: Scenario, number: int) -> float:
    queue = scenario.queues[number]
    return queue.corepower * queue.hidden_speed


def _mean_power(scenario: Scenario, members: list[int]) -> float:
    cores = [scenario.queues[number].cores for number in members]
    return float(np.average([scenario.queues[number].corepower for number in members], weights=cores))


def _classes(scenario: Scenario) -> list[list[int]]:
    """Classes of the queues with cores, by true speed."""
    order = sorted((n for n, q in enumerate(scenario.queues) if q.cores > 0), key=lambda n: _true_speed(scenario, n))
    return [part.tolist() for part in np.array_split(np.array(order), min(CLASSES, len(order)))]


def _capacity(scenario: Scenario, classes: list[list[int]], slots: int) -> Floats:
    """(classes, slots) available core seconds."""
    starts = SLOT_S * np.arange(slots, dtype=np.float64)
    rows = [np.sum([up_core_s(scenario, number, starts, SLOT_S) for number in members], axis=0) for members in classes]
    return np.array(rows).reshape(len(classes), slots)


def up_core_s(scenario: Scenario, number: int, starts: Floats, length_s: float) -> Floats:
    """(slots,) available core seconds of a queue in slots of time that begin at ``starts``."""
    down = np.zeros(len(starts))
    for start_s, end_s in spans_down(scenario, number):
        inside = np.minimum(starts + length_s, end_s) - np.maximum(starts, start_s)
        down += np.maximum(inside, 0.0)
    return np.asarray(scenario.queues[number].cores * np.maximum(length_s - down, 0.0), dtype=np.float64)


def _arrivals(scenario: Scenario, seed: int, names: list[str], slots: int) -> tuple[Floats, Floats]:
    """(kinds, slots) work in HS06 s that has arrived by the end of each slot, and the best efficiency of each kind."""
    arrived, efficiency = np.zeros((len(names), slots)), np.full(len(names), 1e-3)
    for task in scenario.tasks:
        kind = names.index(task.kind)
        drawn = _draws(scenario, seed, task)
        arrived[kind, min(slots - 1, int(task.arrival_s // SLOT_S)) :] += drawn.work_hs06s.sum()
        efficiency[kind] = max(efficiency[kind], min(1.0, float(drawn.efficiency.max())))
    return arrived, efficiency
