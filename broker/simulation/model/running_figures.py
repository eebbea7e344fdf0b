"""Figures of merit as running sums: a month needs no more memory than a day.

Sums equal those over kept tasks and runs, except for the order of the additions. A quantile is within 1 % of that of
kept tasks and runs, or within a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.simulation.model.figures import Stats
from broker.simulation.model.grid import Grid
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.loop import Run
from broker.simulation.model.merit import capacity_hs06s, jain_of, mean_share_deviation, mean_vo_deviation, window_of
from broker.simulation.model.merit_parts import finish_of, run_parts, slowdowns_of, tail_of, waits_of, work_of
from broker.simulation.model.records import RunColumns
from broker.simulation.model.scenario import Scenario

#: Bins of times: one below a second, then each wider than the one before by this ratio, up to about 30 years.
RATIO, BINS = 1.01, 2100


class Sum:
    """A sum and its number of values, with compensated rounding errors (Neumaier)."""

    def __init__(self) -> None:
        self._high, self._low, self.count = 0.0, 0.0, 0

    def add(self, values: Floats) -> None:
        """Add values to the count and, with compensated rounding, to the sum."""
        self.count += len(values)
        more = math.fsum(values.tolist())
        total = self._high + more
        larger, smaller = (self._high, more) if abs(self._high) >= abs(more) else (more, self._high)
        self._low += (larger - total) + smaller
        self._high = total

    @property
    def total(self) -> float:
        """Return the sum of all added values, in their unit."""
        return self._high + self._low

    @property
    def mean(self) -> float:
        """The mean; NaN without values."""
        return self.total / self.count if self.count else math.nan


class TimeSketch:
    """Counts of times, some of them censored, in bins of 1 %."""

    def __init__(self) -> None:
        self.sum = Sum()
        self._counts = np.zeros((2, BINS), dtype=np.int64)

    def add(self, times_s: Floats, ended: Bools) -> None:
        """Count times; a time that has not ended is censored."""
        self.sum.add(times_s)
        bins = np.ceil(np.log(np.maximum(times_s, 1.0)) / math.log(RATIO)).astype(np.int64)
        np.add.at(self._counts, (ended.astype(np.int64), np.minimum(bins, BINS - 1)), 1)

    def quantile(self, probability: float) -> float:
        """The time by which a part has ended; infinite if it lies beyond the record, NaN without times.

        It is the estimate of Kaplan and Meier, with all ends of a bin before its censored times.
        """
        censored, ended = self._counts
        counts = censored + ended
        if not counts.any():
            return math.nan
        at_risk = counts[::-1].cumsum()[::-1]
        surviving = np.cumprod(1.0 - ended / np.maximum(at_risk, 1))
        reached = np.flatnonzero(surviving <= 1.0 - probability + 1e-12)
        return float(RATIO ** (reached[0] - 0.5)) if len(reached) else math.inf


class SummedFigures:
    """The figures of merit of one simulation, accumulated task by task and run by run.

    Args:
        scenario: scenario of the simulation.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._window = window_of(scenario)
        self._corepower = np.array([queue.corepower for queue in scenario.queues])
        names = ("arrived", "done", "slowdown", "tail", "busy", "useful", "wasted", "wan")
        self._sums = {name: Sum() for name in names}
        self._waits, self._finishes = TimeSketch(), TimeSketch()
        self._got, self._demand = np.zeros(0), np.zeros(0)
        self._finished = self._failed = self._next_run = 0
        self._sent = Sum()
        self._sent_by_sample: list[float] = []

    def task_ended(self, state: TaskState) -> None:
        """Add the work, waits, slowdowns, tail and finish of an ended task."""
        window, sums = self._window, self._sums
        arrived, done = work_of(state, window)
        sums["arrived"].add(np.array([arrived]))
        sums["done"].add(np.array([done]))
        self._waits.add(*waits_of(state, window))
        sums["slowdown"].add(slowdowns_of(state, window))
        tail, finish = tail_of(state, window), finish_of(state, window)
        if tail is not None:
            sums["tail"].add(np.array([tail]))
        if finish is not None:
            self._finishes.add(np.array([finish[0]]), np.array([finish[1]]))
        user = state.task.user
        self._demand = _grown(self._demand, user + 1)
        self._demand[user] += float(state.draws.work_hs06s.sum())

    def sample(self, grid: Grid) -> int:
        """Add the newly ended runs and the bytes sent, and clear the latter. Returns the number of the next run."""
        first, self._next_run = self._next_run, len(grid.log)
        self._take_runs(grid.log.columns(first))
        tally = grid.tally
        ends, sizes = np.array(tally.wan_end_s), np.array(tally.wan_bytes)
        self._sums["wan"].add(sizes[ends >= self._window[0]])
        self._sent.add(sizes)
        self._sent_by_sample.append(self._sent.total)
        del tally.wan_end_s[:], tally.wan_bytes[:]
        return self._next_run

    def _take_runs(self, runs: RunColumns) -> None:
        if not len(runs):
            return
        parts = run_parts(runs, self._corepower, self._window)
        self._sums["busy"].add(parts.busy_hs06s)
        self._sums["useful"].add(parts.useful_hs06s)
        self._sums["wasted"].add(parts.busy_hs06s[parts.bad])
        self._finished += int((parts.ended & parts.good).sum())
        self._failed += int((parts.ended & parts.bad).sum())
        got = np.bincount(runs.user, weights=parts.busy_hs06s)
        self._got = _grown(self._got, len(got))
        self._got[: len(got)] += got

    def sent_bytes(self) -> Sequence[float]:
        """Cumulative bytes sent between sites at each sample."""
        return self._sent_by_sample

    def stats(self, run: Run) -> Stats:
        """The figures of an ended run; the makespan of a closed scenario is not available (NaN)."""
        sums, tally = self._sums, run.tally
        inside = (run.series.time_s >= self._window[0]) & (run.series.time_s <= self._window[1])
        transfers = run.series.transfers_waiting[inside]
        capacity = capacity_hs06s(run, self._window)
        ended, sent = self._finished + self._failed, sums["wan"].total
        return Stats(
            delivered=_over(sums["done"].total, sums["arrived"].total),
            finish_mean_s=self._finishes.sum.mean,
            wait_mean_s=self._waits.sum.mean,
            use=_over(sums["busy"].total, capacity),
            useful_use=_over(sums["useful"].total, capacity),
            wait_median_s=self._waits.quantile(0.5),
            wait_95_s=self._waits.quantile(0.95),
            slowdown=sums["slowdown"].mean,
            finish_median_s=self._finishes.quantile(0.5),
            finish_95_s=self._finishes.quantile(0.95),
            tail=sums["tail"].mean,
            makespan_s=math.nan,
            share_deviation=mean_share_deviation(run, inside),
            jain=self._jain(),
            wan_bytes=sent,
            wan_bytes_job=_over(sent, self._finished),
            transfers_waiting=float(transfers.mean()) if len(transfers) else math.nan,
            failed=_over(self._failed, ended),
            timed_out=float(tally.timed_out),
            rebrokered=_over(tally.rebrokered, tally.assigned_jobs),
            returned=tally.returned / tally.rebrokered if tally.rebrokered else 0.0,
            wasted_hs06s=sums["wasted"].total,
            drained_core_s=run.drained_core_s,
            finished=float(self._finished),
            vo_deviation=mean_vo_deviation(run, inside),
        )

    def _jain(self) -> float:
        users = max(len(self._got), len(self._demand))
        return jain_of(_grown(self._got, users), _grown(self._demand, users)) if users else math.nan


def _over(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def _grown(values: Floats, size: int) -> Floats:
    return values if len(values) >= size else np.concatenate([values, np.zeros(size - len(values))])
