"""Bounds of delivered work and of waits for any policy, with start-up, stage-in, failures and outages.

Both bounds relax the problem: jobs may go to the fastest queue that they fit, compete there only with jobs that arrive
in the window, and are divisible between cores. Their minimum needs stay: start-up, input at the highest rate, CPU work
at full efficiency of the best queue. A job that fails at each attempt wherever it fits is never delivered. The bound of
waits is 0 where any job may be cut short: by enforced memory, a failed stage-in, a lost worker or a sudden outage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.simulation.model.arriving import task_draws
from broker.simulation.model.bounds import up_core_s
from broker.simulation.model.scenario import Scenario, Task, fits
from broker.simulation.model.transfers import MOST_BYTES_S

#: Seconds of a slot of time, and groups of jobs by run time: more of them give tighter bounds, more slowly.
SLOT_S, GROUPS = 900.0, 12


@dataclass(frozen=True)
class _Jobs:
    """The jobs that arrive in the window, as columns.

    Attributes:
        arrival_s: arrival of the task.
        run_s: minimum run time once the job has a slot.
        cores: cores of the job.
        work_hs06s: CPU work.
        delivered: false for a job that fails at each attempt.
        whole: whether the first run does not fail; it may still be cut short, see :func:`_cuts_short`.
        most_efficient: CPU time over core seconds of the best job, at least 1.
    """

    arrival_s: Floats
    run_s: Floats
    cores: Floats
    work_hs06s: Floats
    delivered: Bools
    whole: Bools
    most_efficient: float


def delivered_bound(scenario: Scenario, seed: int) -> float:
    """Upper bound of the part of the work arriving in the window that can be done by its end; NaN without any work.

    Work of jobs that cannot end in time, or never finish, does not count; the rest is limited by the capacity of all
    cores from each slot of time on, at the speed of the fastest queue.
    """
    jobs = _jobs(scenario, seed)
    whole = float(jobs.work_hs06s.sum())
    if whole <= 0:
        return float("nan")
    in_time = jobs.delivered & (jobs.arrival_s + jobs.run_s <= scenario.end_s)
    speed = max(queue.corepower * queue.hidden_speed for queue in scenario.queues if queue.cores)
    speed *= jobs.most_efficient
    starts, up = _slots(scenario)
    left = np.cumsum((up * speed)[::-1])[::-1]
    # compare the work that arrives from each slot on with the capacity from then on: the largest excess cannot be done
    arrives = np.array([float(jobs.work_hs06s[in_time & (jobs.arrival_s >= start)].sum()) for start in starts])
    possible = float(jobs.work_hs06s[in_time].sum()) - max(0.0, float((arrives - left).max(initial=0.0)))
    return min(1.0, possible / whole)


def mean_wait_bound_s(scenario: Scenario, seed: int) -> float:
    """Lower bound of the mean wait, in seconds, of the jobs that arrive in the window; NaN without any jobs.

    It solves a linear program over slots of time. Jobs of a group start after they arrive. Jobs that start and must end
    within an interval take no more core seconds than it has, and at no time more cores than are up. A job that has
    arrived by the end of a slot and has not started by the end of the next one waits for all of the latter: up to two
    slots of each wait are missed.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    jobs = _jobs(scenario, seed)
    if not len(jobs.run_s):
        return float("nan")
    if scenario.tape.part > 0 or any(task.on_tape for task in scenario.tasks):
        return 0.0  # waits begin when the input has been read, which spreads the jobs
    if _cuts_short(scenario):
        return 0.0  # no job is sure to hold a slot
    starts, up = _slots(scenario)
    slots, group = len(starts), _groups(jobs)
    count = int(group.max()) + 1
    arrival_slot = np.clip(((jobs.arrival_s - starts[0]) // SLOT_S).astype(np.int64), 0, slots - 1)
    arrived = np.zeros((count, slots))
    np.add.at(arrived, (group, arrival_slot), 1.0)
    core_s = np.array([float(_held(jobs)[group == number].min()) for number in range(count)])
    lasts = np.array([int(np.ceil(float(jobs.run_s[group == number].max()) / SLOT_S)) for number in range(count)])
    rows, limits = _rows(arrived, core_s, lasts, up)
    rows += _at_once(jobs, group, slots, len(limits))
    limits += (up / SLOT_S).tolist()
    row, column, value = (np.array(part) for part in zip(*rows, strict=True))
    matrix = coo_array((value, (row, column)), shape=(len(limits), 2 * count * slots)).tocsr()
    cost = np.concatenate([np.zeros(count * slots), np.full(count * slots, SLOT_S)])
    solution = linprog(cost, A_ub=matrix, b_ub=np.array(limits), method="highs")
    return float(solution.fun) / len(jobs.run_s) if solution.status == 0 else 0.0


def _at_once(jobs: _Jobs, group: Ints, slots: int, first_row: int) -> list[tuple[int, int, float]]:
    """A row for each slot of time: the cores of the jobs that started before it and must run beyond it."""
    rows = []
    for number in range(int(group.max()) + 1):
        own = group == number
        whole = int(float((jobs.run_s * jobs.whole)[own].min()) // SLOT_S) - 1
        cores = float(jobs.cores[own].min())
        rows += [
            (first_row + slot, number * slots + start, cores)
            for start in range(slots)
            for slot in range(start + 1, min(slots, start + 1 + whole))
        ]
    return rows


def _rows(arrived: Floats, core_s: Floats, lasts: Ints, up: Floats) -> tuple[list[tuple[int, int, float]], list[float]]:
    """The entries (row, column, value) of the program and its limits.

    Columns are the starts by group and slot, then the jobs that wait throughout a slot by group and slot.

    Args:
        arrived: (groups, slots) arriving jobs.
        core_s: (groups,) minimum core seconds of a job.
        lasts: (groups,) slots after which a job has taken them.
        up: (slots,) available core seconds.
    """
    count, slots = arrived.shape
    rows: list[tuple[int, int, float]] = []
    limits: list[float] = []
    total = arrived.cumsum(axis=1)
    for group in range(count):
        for slot in range(slots):
            rows += [(len(limits), group * slots + before, 1.0) for before in range(slot + 1)]
            limits.append(float(total[group, slot]))
            if slot:
                rows += [(len(limits), group * slots + before, -1.0) for before in range(slot + 1)]
                rows.append((len(limits), (count + group) * slots + slot, -1.0))
                limits.append(-float(total[group, slot - 1]))
    capacity = np.concatenate([[0.0], up.cumsum()])
    for first in range(slots):
        for last in range(first, slots):
            inside = [
                (len(limits), group * slots + slot, float(core_s[group]))
                for group in range(count)
                for slot in range(first, last + 1 - int(lasts[group]))
            ]
            if inside:
                rows += inside
                limits.append(float(capacity[last + 1] - capacity[first]))
    return rows, limits


def _window(scenario: Scenario) -> tuple[float, float]:
    return (0.0 if scenario.closed else scenario.warm_up_s, scenario.end_s)


def _slots(scenario: Scenario) -> tuple[Floats, Floats]:
    """The starts of the slots of the window, and the available core seconds of each."""
    first, end = _window(scenario)
    starts = np.arange(first, end, SLOT_S)
    return starts, np.sum(
        [up_core_s(scenario, number, starts, SLOT_S) for number in range(len(scenario.queues))], axis=0
    )


def _held(jobs: _Jobs) -> Floats:
    """(N,) minimum core seconds of each job once it has started."""
    return np.asarray(jobs.run_s * jobs.cores * jobs.whole, dtype=np.float64)


def _groups(jobs: _Jobs) -> Ints:
    """(N,) the group of each job: groups of equal size by minimum core seconds."""
    order = np.argsort(_held(jobs), kind="stable")
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.arange(len(order)) * min(GROUPS, len(order)) // len(order)
    return group


def _jobs(scenario: Scenario, seed: int) -> _Jobs:
    first, end = _window(scenario)
    parts = [
        _of_task(scenario, seed, task) for task in scenario.tasks if first <= task.arrival_s < end and not task.parents
    ]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.zeros(0)] * 7
    arrival_s, run_s, cores, work, delivered, whole, efficiency = columns
    best = max(1.0, float(efficiency.max(initial=1.0)))
    return _Jobs(arrival_s, run_s, cores, work, delivered.astype(np.bool_), whole.astype(np.bool_), best)


def _of_task(scenario: Scenario, seed: int, task: Task) -> tuple[Floats, ...]:
    kind, draws = scenario.kinds[task.kind], task_draws(scenario, seed, task)
    queues = [queue for queue in scenario.queues if fits(queue, kind)]
    speed = max(queue.corepower * queue.hidden_speed for queue in queues)
    best = max(1.0, *(queue.efficiency_of_type.get(kind.processingtype, 1.0) for queue in queues))
    most = draws.efficiency * best if kind.wall_s is not None else np.minimum(draws.efficiency * best, 1.0)
    run_s = draws.work_hs06s / (kind.cores * speed * np.maximum(most, 1e-4))
    run_s = run_s + kind.input_gb * 1e9 / MOST_BYTES_S
    if kind.starts_up:
        run_s = run_s + draws.start_up_s + draws.stage_in_overhead_s
    rates = [queue.failure_rate + queue.failure_of_kind.get(kind.name, 0.0) for queue in queues]
    anywhere = kind.failure_rate + task.failure_rate
    delivered = np.any(draws.fails >= anywhere + min(rates), axis=1)
    whole = draws.fails[:, 0] >= anywhere + max(rates)
    ones = np.ones(task.jobs)
    columns = (ones * task.arrival_s, run_s, ones * kind.cores, draws.work_hs06s, delivered, whole, most)
    return tuple(np.asarray(column, dtype=np.float64) for column in columns)


def _cuts_short(scenario: Scenario) -> bool:
    """Whether jobs may end early for reasons not drawn per job: memory, stage-in, workers, a sudden outage."""
    sudden = any(not outage.announced for outage in scenario.outages) or bool(scenario.transfer_outages)
    return sudden or scenario.workers.enabled or scenario.memory_slack >= 0 or scenario.transfer_failures.stage_in > 0
