"""Contributions of single tasks and runs to the figures of merit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.records import RunColumns

Window = tuple[float, float]
"""From the end of the warm-up to the end of the scenario, in s."""

BOUNDED_RUN_S = 600.0
#: Minimum jobs of a task to have a tail, so that 5 % of them are at least one job.
FEWEST_WITH_TAIL = 20


def work_of(state: TaskState, window: Window) -> tuple[float, float]:
    """CPU work of a task that arrived in the window, and of its finished jobs; 0 for other tasks.

    The work of a job is the same wherever it runs: a slow queue does not deliver more.
    """
    if not window[0] <= state.assignable_s < window[1]:
        return 0.0, 0.0
    work = state.draws.work_hs06s
    return float(work.sum()), float(work[state.done_s <= window[1]].sum())


def waits_of(state: TaskState, window: Window) -> tuple[Floats, Bools]:
    """Waiting times of jobs that became assignable in the window, and whether they started."""
    if not window[0] <= state.assignable_s < window[1]:
        return np.empty(0), np.empty(0, dtype=np.bool_)
    started = ~np.isnan(state.first_start_s)
    return np.where(started, state.first_start_s, window[1]) - state.assignable_s, started


def slowdowns_of(state: TaskState, window: Window) -> Floats:
    """Bounded slowdowns of finished jobs; the length of a run is from the first start to the output."""
    known = np.isfinite(state.done_s) & (state.assignable_s >= window[0])
    length = (state.done_s - state.first_start_s)[known]
    wait = (state.first_start_s - state.assignable_s)[known]
    return np.asarray(np.maximum(1.0, (wait + length) / np.maximum(length, BOUNDED_RUN_S)), dtype=np.float64)


def finish_of(state: TaskState, window: Window) -> tuple[float, bool] | None:
    """Seconds from the arrival of a task to its last output, and whether it is finished; None outside the window."""
    if not window[0] <= state.task.arrival_s < window[1]:
        return None
    ready = state.open_jobs == 0
    ends = state.done_s[np.isfinite(state.done_s)] if ready else state.done_s[:0]
    last = float(ends.max()) if len(ends) else window[1]
    return last - state.task.arrival_s, bool(ready and len(ends))


def tail_of(state: TaskState, window: Window) -> float | None:
    """(T100 - T95) / T100 of a finished task; None for a small task or one outside the window."""
    ends = np.sort(state.done_s[np.isfinite(state.done_s)]) - state.assignable_s
    if state.open_jobs or len(ends) < FEWEST_WITH_TAIL or state.assignable_s < window[0]:
        return None
    reached = ends[math.ceil(0.95 * len(ends)) - 1]
    return float((ends[-1] - reached) / ends[-1]) if ends[-1] > 0 else 0.0


@dataclass(frozen=True)
class RunParts:
    """The contributions of each of R runs.

    Attributes:
        busy_hs06s: (R,) HS06 s held inside the window.
        useful_hs06s: (R,) CPU time of finished runs, as HS06 s; 0 for others.
        good: (R,) whether the run finished.
        bad: (R,) whether the run failed or was lost.
        ended: (R,) whether the run ended inside the window.
    """

    busy_hs06s: Floats
    useful_hs06s: Floats
    good: Bools
    bad: Bools
    ended: Bools


def run_parts(runs: RunColumns, corepower: Floats, window: Window) -> RunParts:
    """Compute the contributions of runs.

    Args:
        runs: runs of jobs.
        corepower: (U,) published core power.
        window: window of the figures.
    """
    inside = np.maximum(0.0, np.minimum(runs.end_s, window[1]) - np.maximum(runs.start_s, window[0]))
    hs06 = runs.cores * corepower[runs.queue]
    good, bad = np.zeros(len(runs), dtype=np.bool_), np.zeros(len(runs), dtype=np.bool_)
    good[runs.of("finished")], bad[runs.of("failed", "lost")] = True, True
    length = np.maximum(runs.end_s - runs.start_s, 1e-9)
    cpu = inside / length * np.minimum(runs.execution_s, length) * runs.efficiency * hs06
    ended = (runs.end_s >= window[0]) & (runs.end_s < window[1])
    return RunParts(inside * hs06, np.where(good, cpu, 0.0), good, bad, ended)
