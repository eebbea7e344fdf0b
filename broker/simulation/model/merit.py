"""Figures of merit of a simulated grid, with quantiles of waits of which some are cut off."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.quantiles import censored_quantiles
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
from broker.simulation.model.scenario import Scenario


def survival_quantile(waited_s: Floats, started: Bools, probability: float) -> float:
    """The time by which a part of the jobs has started; infinite if the record does not reach so far, NaN for no job.

    Args:
        waited_s: (N,) how long each job waited, until it started or the record ended.
        started: (N,) false where the record ended first.
        probability: 0.5 for the median.
    """
    return float(censored_quantiles(waited_s, started, np.ones(len(waited_s)), np.array([probability]))[0])


@dataclass(frozen=True)
class Stats:
    """One number each; NaN where there is nothing to measure, infinite where a quantile lies beyond the record.

    Attributes:
        delivered: true CPU work of the jobs that are done, over that of all jobs that arrived in the window.
        finish_mean_s: of tasks that arrived in the window, arrival to last output; those still open count until the
            end of the record.
        wait_mean_s: of jobs that arrived in the window; those not started count until the end of the record.
        use: HS06 of busy slots over HS06 of slots that are up; ``useful_use`` counts CPU of finished jobs only.
        wait_median_s, wait_95_s: from first assignable to first start, jobs not started censored.
        slowdown: mean bounded slowdown of the jobs that started.
        finish_median_s, finish_95_s: of tasks, arrival to last output at the nucleus, open tasks censored.
        tail: mean of (T100 - T95) / T100 over finished tasks.
        makespan_s: of closed scenarios, else NaN.
        share_deviation: mean over samples of half the sum of |use - target|, over shares with demand.
        jain: fairness over users.
        wan_bytes: between sites; ``wan_bytes_job`` for each job that finished.
        transfers_waiting: mean number of output transfers in line.
        failed: part of the runs that failed or were lost; ``timed_out`` jobs taken back for waiting too long.
        rebrokered: moves a job; ``returned``: jobs that came back to a queue they had left, of those rebrokered.
        wasted_hs06s: of runs that failed or were lost.
        drained_core_s: of cores kept idle for a wide job.
        finished: jobs done in the window.
        vo_deviation: as ``share_deviation``, of the shares of each VO together; NaN where there is one VO.
    """

    delivered: float
    finish_mean_s: float
    wait_mean_s: float
    use: float
    useful_use: float
    wait_median_s: float
    wait_95_s: float
    slowdown: float
    finish_median_s: float
    finish_95_s: float
    tail: float
    makespan_s: float
    share_deviation: float
    jain: float
    wan_bytes: float
    wan_bytes_job: float
    transfers_waiting: float
    failed: float
    timed_out: float
    rebrokered: float
    returned: float
    wasted_hs06s: float
    drained_core_s: float
    finished: float
    vo_deviation: float = math.nan

    def as_dict(self) -> dict[str, float]:
        """The figures by name, for tables and JSON."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


def stats(run: Run) -> Stats:
    """The figures of a run between the warm-up and the end of its scenario."""
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
    """The time that figures are of: all of a closed scenario, else what follows the warm-up."""
    return (0.0 if scenario.closed else scenario.warm_up_s, scenario.end_s)


def _corepower(run: Run) -> Floats:
    return np.array([queue.corepower for queue in run.scenario.queues])


def capacity_hs06s(run: Run, window: Window) -> float:
    """HS06 s of the slots that are up during the window."""
    scenario = run.scenario
    total = sum(queue.cores * queue.corepower for queue in scenario.queues) * (window[1] - window[0])
    for number, queue in enumerate(scenario.queues):
        spans = sorted((o.start_s, o.end_s) for o in scenario.outages if number in o.queues)
        reached = window[0]
        for start, end in spans:
            start, end = max(start, reached), min(end, window[1])
            if end > start:
                total -= (end - start) * queue.cores * queue.corepower
                reached = end
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
        waited, begun = waits_of(state, window)
        waits.append(waited)
        started.append(begun)
    return np.concatenate(waits), np.concatenate(started)


def _finishes(run: Run, window: Window) -> tuple[Floats, Bools]:
    found = [one for state in run.tasks if (one := finish_of(state, window)) is not None]
    return np.array([time for time, _ in found]), np.array([done for _, done in found], dtype=np.bool_)


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
    """Half the sum of |part got - target| over the shares with demand, whose targets are scaled to 1; NaN for none."""
    asking = (demand > 0) | (got > 0)
    if not asking.any() or got[asking].sum() <= 0:
        return math.nan
    wanted = targets[asking] / targets[asking].sum()
    return float(np.abs(got[asking] / got[asking].sum() - wanted).sum() / 2)


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
    """The mean over samples, of parts that shares (rows) belong to (columns)."""
    targets = np.array([weight for _, weight in run.scenario.shares]) @ part_of
    rows = zip(run.series.share_hs06[inside] @ part_of, run.series.share_demand[inside] @ part_of, strict=True)
    values = np.array([share_deviation(got, targets, demand) for got, demand in rows])
    return _mean(values[~np.isnan(values)])


def jain(got: Floats) -> float:
    """Jain's index (sum x)^2 / (n sum x^2), 1 where all get the same; (4, 2, 1, 1) gives .727."""
    squares = float((got**2).sum())
    return float(got.sum() ** 2 / (len(got) * squares)) if squares > 0 else math.nan


def _jain(run: Run, parts: RunParts) -> float:
    users = 1 + max((state.task.user for state in run.tasks), default=0)
    got = np.bincount(run.runs.user, weights=parts.busy_hs06s, minlength=users).astype(np.float64)
    asked = np.zeros(users)
    for state in run.tasks:
        asked[state.task.user] += float(state.draws.work_hs06s.sum())
    return jain_of(got, asked)


def jain_of(got: Floats, asked: Floats) -> float:
    """Over users with demand: HS06 s got over the smaller of what was asked and the fair part."""
    fair = fair_parts(asked, float(got.sum()))
    demanding = fair > 0
    return jain(np.minimum(got[demanding] / fair[demanding], 1.0))


def fair_parts(asked: Floats, total: float) -> Floats:
    """Each user's max-min fair part of a total: all get the same, nobody more than asked."""
    parts = np.zeros(len(asked))
    left, order = total, np.argsort(asked, kind="stable")
    for place, user in enumerate(order):
        parts[user] = min(float(asked[user]), left / (len(order) - place))
        left -= parts[user]
    return parts
