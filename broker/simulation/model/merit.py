"""Figures of merit of a simulated grid, with quantiles of censored waits."""

from __future__ import annotations

import math

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.quantiles import censored_quantiles
from broker.simulation.model.figures import Stats
from broker.simulation.model.loop import Run
from broker.simulation.model.merit_parts import (
    RunParts,
    Window,
    finish_of,
    run_parts,
    slowdowns_of,
    tail_of,
    waits_of,
    work_of,
)
from broker.simulation.model.outages import spans_down
from broker.simulation.model.scenario import Scenario


def survival_quantile(waited_s: Floats, started: Bools, probability: float) -> float:
    """The time by which a part of the jobs has started; infinite if it lies beyond the record, NaN for no job.

    Args:
        waited_s: (N,) wait of each job, until it started or the record ended.
        started: (N,) false if the record ended first.
        probability: 0.5 for the median.
    """
    return float(censored_quantiles(waited_s, started, np.ones(len(waited_s)), np.array([probability]))[0])


def stats(run: Run) -> Stats:
    """Compute the figures of a run between the warm-up and the end of its scenario."""
    if run.figures is not None:
        return run.figures.stats(run)
    window = window_of(run.scenario)
    runs, tally = run.runs, run.tally
    parts = run_parts(runs, _corepower(run), window)
    use, useful = _use(run, parts, window)
    waited, started = _waits(run, window)
    finish, done = _finishes(run, window)
    finished, failed = int((parts.ended & parts.good).sum()), int((parts.ended & parts.bad).sum())
    sent = np.array(tally.wan_bytes)[np.array(tally.wan_end_s) >= window[0]].sum() if len(tally.wan_bytes) else 0.0
    inside = (run.series.time_s >= window[0]) & (run.series.time_s <= window[1])
    return Stats(
        delivered=_delivered(run, window),
        finish_mean_s=_mean(finish),
        wait_mean_s=_mean(waited),
        use=use,
        useful_use=useful,
        wait_median_s=survival_quantile(waited, started, 0.5),
        wait_95_s=survival_quantile(waited, started, 0.95),
        slowdown=_mean(np.concatenate([np.empty(0), *(slowdowns_of(state, window) for state in run.tasks)])),
        finish_median_s=survival_quantile(finish, done, 0.5),
        finish_95_s=survival_quantile(finish, done, 0.95),
        tail=_mean(np.array([tail for state in run.tasks if (tail := tail_of(state, window)) is not None])),
        makespan_s=_makespan(run),
        share_deviation=mean_share_deviation(run, inside),
        jain=_jain(run, parts),
        wan_bytes=float(sent),
        wan_bytes_job=float(sent) / finished if finished else math.nan,
        transfers_waiting=_mean(run.series.transfers_waiting[inside]),
        failed=failed / (finished + failed) if finished + failed else math.nan,
        timed_out=float(tally.timed_out),
        rebrokered=tally.rebrokered / tally.assigned_jobs if tally.assigned_jobs else math.nan,
        returned=tally.returned / tally.rebrokered if tally.rebrokered else 0.0,
        wasted_hs06s=float(parts.busy_hs06s[parts.bad].sum()),
        drained_core_s=run.drained_core_s,
        finished=float(finished),
        vo_deviation=mean_vo_deviation(run, inside),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def window_of(scenario: Scenario) -> Window:
    """The time that figures cover: all of a closed scenario, else the time after the warm-up."""
    return (0.0 if scenario.closed else scenario.warm_up_s, scenario.end_s)


def _corepower(run: Run) -> Floats:
    return np.array([queue.corepower for queue in run.scenario.queues])


def capacity_hs06s(run: Run, window: Window) -> float:
    """HS06 s of the slots that are up during the window."""
    scenario = run.scenario
    total = sum(queue.cores * queue.corepower for queue in scenario.queues) * (window[1] - window[0])
    for number, queue in enumerate(scenario.queues):
        for start_s, end_s in spans_down(scenario, number):
            inside_s = min(end_s, window[1]) - max(start_s, window[0])
            if inside_s > 0:
                total -= inside_s * queue.cores * queue.corepower
    return total


def _use(run: Run, parts: RunParts, window: Window) -> tuple[float, float]:
    capacity = capacity_hs06s(run, window)
    if capacity <= 0 or not len(run.runs):
        return (0.0 if capacity > 0 else math.nan,) * 2
    useful = parts.useful_hs06s[run.runs.of("finished")]
    return float(parts.busy_hs06s.sum() / capacity), float(useful.sum() / capacity)


def _delivered(run: Run, window: Window) -> float:
    work = [work_of(state, window) for state in run.tasks]
    arrived, done = math.fsum(one for one, _ in work), math.fsum(one for _, one in work)
    return done / arrived if arrived > 0 else math.nan


def _waits(run: Run, window: Window) -> tuple[Floats, Bools]:
    waits, started = [np.empty(0)], [np.empty(0, dtype=np.bool_)]
    for state in run.tasks:
        task_waits, task_started = waits_of(state, window)
        waits.append(task_waits)
        started.append(task_started)
    return np.concatenate(waits), np.concatenate(started)


def _finishes(run: Run, window: Window) -> tuple[Floats, Bools]:
    finishes = [finish for state in run.tasks if (finish := finish_of(state, window)) is not None]
    return np.array([time for time, _ in finishes]), np.array([done for _, done in finishes], dtype=np.bool_)


def _makespan(run: Run) -> float:
    if (
        not run.scenario.closed
        or any(state.open_jobs for state in run.tasks)
        or len(run.tasks) < len(run.scenario.tasks)
    ):
        return math.nan
    ends = [float(state.done_s[np.isfinite(state.done_s)].max(initial=0.0)) for state in run.tasks]
    return max(ends, default=math.nan) - min((task.arrival_s for task in run.scenario.tasks), default=0.0)


def share_deviation(got: Floats, targets: Floats, demand: Floats) -> float:
    """Half the sum of |received part - target| over the shares with demand, with targets scaled to 1; NaN for none."""
    counted = (demand > 0) | (got > 0)
    if not counted.any() or got[counted].sum() <= 0:
        return math.nan
    wanted = targets[counted] / targets[counted].sum()
    return float(np.abs(got[counted] / got[counted].sum() - wanted).sum() / 2)


def mean_share_deviation(run: Run, inside: Bools) -> float:
    """Mean deviation over the samples of a run that are ``inside``."""
    return _mean_deviation(run, inside, np.eye(len(run.scenario.shares)))


def mean_vo_deviation(run: Run, inside: Bools) -> float:
    """Mean deviation of VOs, whose shares count together, over the samples that are ``inside``; NaN for one VO."""
    scenario = run.scenario
    if len(scenario.vos) < 2:
        return math.nan
    of_vo = [[float(scenario.vo_of(share) == vo) for vo in scenario.vos] for share in range(len(scenario.shares))]
    return _mean_deviation(run, inside, np.array(of_vo))


def _mean_deviation(run: Run, inside: Bools, part_of: Floats) -> float:
    """Mean deviation over samples, of the groups (columns) that shares (rows) belong to."""
    targets = np.array([weight for _, weight in run.scenario.shares]) @ part_of
    rows = zip(run.series.share_hs06[inside] @ part_of, run.series.share_demand[inside] @ part_of, strict=True)
    values = np.array([share_deviation(got, targets, demand) for got, demand in rows])
    return _mean(values[~np.isnan(values)])


def jain(got: Floats) -> float:
    """Jain's index (sum x)^2 / (n sum x^2), 1 if all get the same; (4, 2, 1, 1) gives .727."""
    squares = float((got**2).sum())
    return float(got.sum() ** 2 / (len(got) * squares)) if squares > 0 else math.nan


def _jain(run: Run, parts: RunParts) -> float:
    users = 1 + max((state.task.user for state in run.tasks), default=0)
    got = np.bincount(run.runs.user, weights=parts.busy_hs06s, minlength=users).astype(np.float64)
    demand = np.zeros(users)
    for state in run.tasks:
        demand[state.task.user] += float(state.draws.work_hs06s.sum())
    return jain_of(got, demand)


def jain_of(got: Floats, demand: Floats) -> float:
    """Jain's index over users with demand, of received HS06 s over the smaller of the request and the fair part."""
    fair = fair_parts(demand, float(got.sum()))
    demanding = fair > 0
    return jain(np.minimum(got[demanding] / fair[demanding], 1.0))


def fair_parts(demand: Floats, total: float) -> Floats:
    """Each user's max-min fair part of a total: all get the same, but nobody more than requested."""
    parts = np.zeros(len(demand))
    left, order = total, np.argsort(demand, kind="stable")
    for place, user in enumerate(order):
        parts[user] = min(float(demand[user]), left / (len(order) - place))
        left -= parts[user]
    return parts
