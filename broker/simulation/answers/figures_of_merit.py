"""Presentation of the figures of merit of simulations: titles, units, directions, cells of tables, sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from broker.simulation.model.comparing import SMALLEST_EFFECT, Comparison
from broker.simulation.model.intervals import Interval

Verdict = Literal["better", "worse", "no_difference", "not_known"]
PrimaryVerdict = Literal["better", "worse", "no difference", "not told", "not known"]
BEYOND = "beyond the run"
"""Text for a quantile that lies beyond the end of the run for some seed."""


@dataclass(frozen=True)
class Figure:
    """The presentation of a figure.

    Attributes:
        title: heading of a column, with the unit.
        meaning: text in a row of its own, with the unit.
        unit: divisor of the stored value.
        high_is_better: whether a higher value is better.
    """

    title: str
    meaning: str
    unit: float
    high_is_better: bool = False


FIGURES: Mapping[str, Figure] = {
    "delivered": Figure("delivered %", "true work delivered of what arrived, %", 0.01, high_is_better=True),
    "finish_mean_s": Figure("task h", "time to finish of tasks, mean, open ones cut at the end, h", 3600.0),
    "wait_mean_s": Figure("wait min", "wait of jobs, mean, those not started cut at the end, min", 60.0),
    "use": Figure("use %", "use of slots that are up, %", 0.01, high_is_better=True),
    "useful_use": Figure("useful %", "useful use: CPU time of finished jobs, %", 0.01, high_is_better=True),
    "wait_median_s": Figure("median min", "wait of jobs, median, min", 60.0),
    "wait_95_s": Figure("95 % min", "wait of jobs, 95 %, min", 60.0),
    "slowdown": Figure("slowdown", "bounded slowdown, mean", 1.0),
    "finish_median_s": Figure("median h", "time to finish of tasks, median, h", 3600.0),
    "finish_95_s": Figure("95 % h", "time to finish of tasks, 95 %, h", 3600.0),
    "tail": Figure("tail %", "tail: the last 5 % of a task, part of its time, %", 0.01),
    "makespan_s": Figure("makespan h", "makespan of a closed scenario, h", 3600.0),
    "share_deviation": Figure("share dev %", "deviation of shares from their targets, %", 0.01),
    "jain": Figure("Jain %", "fairness over users (Jain), %", 0.01, high_is_better=True),
    "wan_bytes": Figure("WAN TB", "bytes between sites, TB", 1e12),
    "wan_bytes_job": Figure("GB/job", "bytes between sites for each finished job, GB", 1e9),
    "transfers_waiting": Figure("in line", "output transfers in line, mean", 1.0),
    "failed": Figure("failed %", "runs that failed or were lost, %", 0.01),
    "timed_out": Figure("timed out", "jobs taken back for waiting too long", 1.0),
    "rebrokered": Figure("moved %", "jobs that were moved, of those assigned, %", 0.01),
    "returned": Figure("returned %", "jobs that came back to a queue, of those moved, %", 0.01),
    "wasted_hs06s": Figure("wasted HS06 h", "work of runs that failed or were lost, HS06 h", 3600.0),
    "drained_core_s": Figure("drained core h", "cores kept idle for wide jobs, core h", 3600.0),
    "finished": Figure("finished", "jobs finished", 1.0, high_is_better=True),
    "vo_deviation": Figure("VO dev %", "deviation of VOs from their targets, %", 0.01),
}
"""All figures, in the order of tables."""


def cell(name: str, mean: float | None, half_width: float | None) -> str:
    """Format a mean with the half-width of its interval in the unit of the figure; a dash for None."""
    if mean is None or math.isnan(mean):
        return "–"  # noqa: RUF001
    if math.isinf(mean):
        return BEYOND
    unit = FIGURES[name].unit
    width = "" if half_width is None or math.isnan(half_width) else f" +- {_written(half_width / unit)}"
    return f"{_written(mean / unit)}{width}"


def _written(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def verdict(name: str, mean: float | None, half_width: float | None) -> Verdict:
    """The verdict of a difference to the first policy, by its 95 % interval; ``not_known`` without an interval."""
    if mean is None or half_width is None or math.isnan(mean) or math.isnan(half_width):
        return "not_known"
    if abs(mean) <= half_width:
        return "no_difference"
    return "better" if (mean > 0) == FIGURES[name].high_is_better else "worse"


def primary_verdict(name: str, difference: Interval, mean: float) -> PrimaryVerdict:
    """The verdict of a difference in a primary figure.

    It is ``no difference`` if the whole interval lies within the smallest effect of interest, and ``not told`` for a
    wider interval around 0.

    Args:
        name: name of the figure.
        difference: the difference to the first policy, paired by seed.
        mean: mean of the first policy; the smallest effect of interest is a part of it.
    """
    word = verdict(name, difference.mean, difference.half_width)
    if word == "no_difference":
        within = abs(difference.mean) + difference.half_width <= SMALLEST_EFFECT * abs(mean)
        return "no difference" if within else "not told"
    return "not known" if word == "not_known" else word


def sentence(one: Comparison, first: Comparison) -> str:
    """A comparison in words: the verdicts of the primary figures, or the number of seeds that would decide.

    Differences are parts of the mean of the first policy: ``flow delivers 3.1 % +- 1.2 more``; the difference of waits
    is in minutes: ``14 min longer wait``.
    """
    parts = []
    for name, verb, more, less in (
        ("delivered", "delivers", "more", "less"),
        ("finish_mean_s", "finishes tasks", "later", "sooner"),
    ):
        mean, difference = first.means[name].mean, one.differences[name]
        word = primary_verdict(name, difference, mean)
        if word == "no difference":
            parts.append(f"{verb}: no difference from {first.label}")
        elif word == "not known" or not (math.isfinite(mean) and mean):
            parts.append(f"{verb}: not known")
        elif word != "not told":
            part, width = 100 * difference.mean / mean, 100 * difference.half_width / mean
            parts.append(f"{verb} {abs(part):.1f} % +- {width:.1f} {more if part > 0 else less}")
        else:
            parts.append(f"{verb}: not told from {first.label} ({one.seeds_needed.get(name, 0)} seeds would find 2 %)")
    waits = one.differences["wait_mean_s"].mean / 60.0
    if "wait_mean_s" in one.significant:
        parts.append(f"{abs(waits):.0f} min {'longer' if waits > 0 else 'shorter'} wait")
    return f"{one.label}, against {first.label}: {'; '.join(parts)}"
