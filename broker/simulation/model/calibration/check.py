"""Compare a calibration with figures that it was not fitted to: each measure has a limit, which holds or does not.

Labels have no names here, so cells are matched by the order of their values: the smallest simulated median with the
smallest measured one, and so on. Queues are matched by campaign, site and requested memory, if the fit has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.calibration.fit import Calibration, ClassFit, KindFit
from broker.simulation.model.calibration.links import (
    PROBABILITIES as LINK_PROBABILITIES,
    TransferFigures,
    draw_links,
    drawn_figures,
)
from broker.simulation.model.calibration.profiles import CLASSES, PROBABILITIES, QUANTITIES, Cell, Profiles
from broker.simulation.model.job_kinds import REFERENCE_HS06, draw_jobs, draw_memory_used_mb
from broker.simulation.model.streams import stream

#: Cells with fewer jobs are not used to judge a fit.
FEWEST_JOBS = 300
#: Simulated jobs of each kind, and seeds of links.
SIMULATED_JOBS, SEEDS = 4000, 10
MEDIAN_LIMIT, P90_LIMIT = 0.10, 0.35
DISTANCE_LIMIT, POOLED_LIMIT, MIX_LIMIT = 0.15, 0.10, 0.10
LINK_LIMIT, CONCENTRATION_LIMIT, ASKED_LIMIT = 0.25, 0.10, 0.15
TOP_PARTS = (0.01, 0.05, 0.1)
RESAMPLES = 200
#: Number of random splits for a floor, and minimum cells of each half.
SPLITS, FEWEST_FOR_FLOOR = 100, 5
NAMES = {0.1: "p10", 0.5: "p50", 0.75: "p75", 0.9: "p90"}


@dataclass(frozen=True)
class Measure:
    """One measure of a fit.

    Attributes:
        quantity: quantity that is compared.
        measure: how it is compared.
        value: result, None if nothing can be compared; ``note`` says why.
        limit: largest value that passes.
        cells: number of cells compared.
        low, high: 95 % interval of the value by resampling cells, None if there are too few.
        floor: expected difference of two halves of the real cells, if each were as large as all of them; None if cells
            are matched one by one, or are too few. No fit to another half, however good, can be expected to keep a
            limit below it.
    """

    quantity: str
    measure: str
    value: float | None
    limit: float
    cells: int
    low: float | None = None
    high: float | None = None
    note: str = ""
    floor: float | None = None

    @property
    def below_floor(self) -> bool:
        """Whether the limit is smaller than the difference of true halves."""
        return self.floor is not None and self.limit < self.floor

    @property
    def passes(self) -> bool | None:
        """Whether the value is within the limit; None if it is not known."""
        return None if self.value is None else self.value <= self.limit

    def document(self) -> dict[str, Any]:
        """The measure as ``--json`` prints it."""
        return {
            "kind": "measure", "quantity": self.quantity, "measure": self.measure, "value": self.value,
            "limit": self.limit, "passes": self.passes, "cells": self.cells,
            "interval": None if self.low is None else [self.low, self.high], "note": self.note or None,
            "floor": self.floor, "limit_below_floor": self.below_floor,
        }  # fmt: skip


def check_profiles(calibration: Calibration, profiles: Profiles) -> list[Measure]:
    """All measures of jobs; ``profiles`` come from another half, time or site than the fit."""
    labels = sorted((cell for cell in profiles.labels if cell.jobs >= FEWEST_JOBS), key=lambda cell: -cell.jobs)
    queues = [cell for cell in profiles.queues if cell.jobs >= FEWEST_JOBS]
    kinds = [kind for kind in calibration.kinds if kind.jobs >= FEWEST_JOBS]
    quantiles = [simulated(kind, number) for number, kind in enumerate(kinds)]
    measures = _of_labels(labels, quantiles)
    matched = [(cell, fitted) for cell in queues if (fitted := _class_of(calibration.classes, cell)) is not None]
    missed = [
        f"{cell.campaign} {cell.site} {cell.name}" for cell in queues if cell not in [pair[0] for pair in matched]
    ]
    measures += _of_queues(matched, missed)
    measures += _failures("labels", [c.failure_rate for c in labels], [k.failure_rate for k in kinds],
                          [c.jobs for c in labels], [k.jobs for k in kinds])  # fmt: skip
    measures += _failures("queues", [c.failure_rate for c, _ in matched], [k.failure_rate for _, k in matched],
                          [c.jobs for c, _ in matched], [c.jobs for c, _ in matched])  # fmt: skip
    measures.append(_mix(labels, kinds))
    measures += _requested_memory(matched)
    measures.append(
        Measure("queue time", "p50 and p90 inside the simulated interval", None, 0.0, 0,
                note="profiles hold no queue times, and no calibration says how much work arrives when")
    )  # fmt: skip
    return measures


def simulated(kind: KindFit, number: int) -> dict[str, tuple[float, ...]]:
    """p10, p50, p90 of the simulated jobs of a kind, by quantity."""
    job_kind = kind.kind(f"kind-{number:03d}", next(iter(kind.asked_mb)))
    draws = draw_jobs(job_kind, SIMULATED_JOBS, 0, number + 1, 1)
    wall = draws.work_hs06s / (REFERENCE_HS06 * kind.cores * draws.efficiency)
    columns = {"cpu_s": draws.work_hs06s / REFERENCE_HS06, "wall_s": wall}
    # the efficiency of a source need not be CPU over wall time of the payload: it has a distribution of its own
    uniform = stream(0, number + 1, "efficiency").random(SIMULATED_JOBS)
    columns["cpu_efficiency"] = job_kind.efficiency.quantile(uniform)
    memory = draw_memory_used_mb(job_kind, SIMULATED_JOBS, 0, number + 1)
    if memory is not None:
        columns["max_rss_mb"] = memory
    return {name: tuple(np.quantile(values, PROBABILITIES).tolist()) for name, values in columns.items()}


def _of_labels(labels: Sequence[Cell], simulated_kinds: Sequence[Mapping[str, tuple[float, ...]]]) -> list[Measure]:
    measures, every, rows = [], [], []
    for name in QUANTITIES:
        real = np.array([_three_quantiles(cell, name) for cell in labels if name in cell.quantities]).reshape(-1, 3)
        model = np.array([quantiles[name] for quantiles in simulated_kinds if name in quantiles]).reshape(-1, 3)
        if not len(real) or not len(model):
            measures.append(Measure(f"{name} by label", "median abs ln ratio", None, MEDIAN_LIMIT, 0, note="no cells"))
            continue
        off = in_order(real, model)
        every.append(off)
        measures += _median_and_p90(f"{name} by label", off, halves=[real])
        rows.append(real)
    return measures + (_median_and_p90("all quantities by label", np.concatenate(every), halves=rows) if every else [])


def in_order(real: Floats, model: Floats) -> Floats:
    """(cells, 3) abs(ln simulated/real), with cells matched by the order of each quantile."""
    places = (np.arange(len(real)) + 0.5) / len(real)
    known = (np.arange(len(model)) + 0.5) / len(model)
    columns = []
    for column in range(3):
        ordered = np.interp(places, known, np.sort(np.log(model[:, column])))
        columns.append(np.abs(ordered - np.sort(np.log(real[:, column]))))
    return np.array(columns).T


def _of_queues(matched: Sequence[tuple[Cell, KindFit]], missed: Sequence[str]) -> list[Measure]:
    note = f"not known to the calibration: {', '.join(missed)}" if missed else ""
    quantiles = {id(kind): simulated(kind, 10_000 + number) for number, (_, kind) in enumerate(matched)}
    measures, every = [], []
    for name in QUANTITIES:
        pairs = [
            (_three_quantiles(cell, name), quantiles[id(kind)][name])
            for cell, kind in matched
            if name in cell.quantities and name in quantiles[id(kind)]
        ]
        if not pairs:
            measures.append(Measure(f"{name} by queue", "median abs ln ratio", None, MEDIAN_LIMIT, 0, note=note))
            continue
        off = np.abs(np.log([model for _, model in pairs]) - np.log([real for real, _ in pairs]))
        every.append(off)
        measures += _median_and_p90(f"{name} by queue", off, note)
    return measures + (_median_and_p90("all quantities by queue", np.concatenate(every), note) if every else [])


def _median_and_p90(quantity: str, off: Floats, note: str = "", halves: Sequence[Floats] = ()) -> list[Measure]:
    """The measures of median and p90 of a quantity; ``halves`` are the real cells of each quantity matched by order."""

    def between(part: float, one: Sequence[int], other: Sequence[int]) -> float:
        pairs = [in_order(real[_inside(other, real)], real[_inside(one, real)]) for real in halves]
        return float(np.quantile(np.concatenate(pairs), part))

    cells = min((len(real) for real in halves), default=0)
    return [
        Measure(quantity, f"{word} abs ln ratio of p10, p50, p90", float(np.quantile(off, part)), limit, len(off),
                *_interval_of(off, lambda rows, part=part: float(np.quantile(rows, part))), note=note,
                floor=sampling_floor(cells, partial(between, part)))
        for word, part, limit in (("median", 0.5, MEDIAN_LIMIT), ("p90", 0.9, P90_LIMIT))
    ]  # fmt: skip


def _inside(places: Sequence[int], rows: Floats) -> list[int]:
    return [place for place in places if place < len(rows)]


def sampling_floor(cells: int, off: Callable[[Sequence[int], Sequence[int]], float]) -> float | None:
    """The expected value of a measure for two samples of this many cells that differ by chance alone.

    The cells are split into halves at random, a hundred times; neighbours in order of size are put on different sides,
    as in halves by odd and even rank. The median difference of the halves is that of half the cells: for all of them it
    is smaller by the square root of two.

    Args:
        cells: number of cells, in order of size.
        off: difference of the cells at two lists of positions.

    >>> sampling_floor(4, lambda one, other: 1.0) is None
    True
    >>> round(sampling_floor(40, lambda one, other: float(len(one) == len(other))), 4)
    0.7071
    """
    if cells < 2 * FEWEST_FOR_FLOOR:
        return None
    random = stream(0, "calibration", "halves")
    values = []
    for _ in range(SPLITS):
        turned = random.integers(2, size=(cells + 1) // 2)
        sides: tuple[list[int], list[int]] = ([], [])
        for place in range(cells):
            sides[(place + int(turned[place // 2])) % 2].append(place)
        value = off(*sides)
        if math.isfinite(value):
            values.append(value)
    return float(np.median(values) / math.sqrt(2.0)) if values else None


def _interval_of(rows: Floats, figure: Any) -> tuple[float | None, float | None]:
    """95 % interval of a figure by resampling cells."""
    if len(rows) < 5:
        return None, None
    random = stream(0, "calibration", "check")
    drawn = [figure(rows[random.integers(len(rows), size=len(rows))]) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    return low, high


def _three_quantiles(cell: Cell, name: str) -> tuple[float, float, float]:
    quantiles = cell.quantities[name]
    return quantiles.p10, quantiles.p50, quantiles.p90


def _class_of(classes: Sequence[ClassFit], cell: Cell) -> KindFit | None:
    """The fit of the same queue, else of its class over the sites of its campaign; None for an unknown campaign."""
    same = [one for one in classes if one.campaign == cell.campaign and one.asked_mb == cell.memory_asked_mb]
    here = [one for one in same if one.site == cell.site and (one.asked_mb is not None or one.fitted.jobs == cell.jobs)]
    return next((one.fitted for one in (*here, *(one for one in same if not one.site and cell.site))), None)


def _failures(
    by: str, real: Sequence[float], model: Sequence[float], real_jobs: Sequence[int], model_jobs: Sequence[int]
) -> list[Measure]:
    title = f"failure by {by[:-1]}"
    if not real or not model:
        return [Measure(title, "Kolmogorov distance", None, DISTANCE_LIMIT, 0, note="no cells")]
    rates, model_rates = np.array(real), np.array(model)
    pooled, pooled_model = np.average(rates, weights=real_jobs), np.average(model_rates, weights=model_jobs)
    off = abs(pooled_model / pooled - 1) if pooled > 0 else math.inf
    low, high = _interval_of(rates, lambda rows: kolmogorov(rows, model_rates))
    jobs, some = np.array(real_jobs), 0 if by == "queues" else len(rates)

    def apart(one: Sequence[int], other: Sequence[int]) -> float:
        return kolmogorov(rates[list(one)], rates[list(other)])

    def pooled_off(one: Sequence[int], other: Sequence[int]) -> float:
        sides = [float(np.average(rates[list(side)], weights=jobs[list(side)])) for side in (one, other)]
        return abs(sides[0] / sides[1] - 1) if sides[1] > 0 else math.inf

    return [
        Measure(title, "Kolmogorov distance over cells", kolmogorov(rates, model_rates), DISTANCE_LIMIT, len(rates),
                low, high, floor=sampling_floor(some, apart)),
        Measure(title, "pooled rate, part off", float(off), POOLED_LIMIT, len(rates),
                note=f"real {pooled:.4f}, simulated {pooled_model:.4f}", floor=sampling_floor(some, pooled_off)),
    ]  # fmt: skip


def kolmogorov(one: Floats, other: Floats) -> float:
    """The largest distance between two distribution functions.

    >>> kolmogorov(np.array([1.0, 2.0]), np.array([1.0, 3.0]))
    0.5
    """
    points = np.concatenate([one, other])
    below = [np.searchsorted(np.sort(side), points, side="right") / len(side) for side in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


def _mix(labels: Sequence[Cell], kinds: Sequence[KindFit]) -> Measure:
    real = np.array([float(sum(cell.failures.get(name, 0) for cell in labels)) for name in CLASSES])
    model = np.array([sum(kind.failures.get(name, 0.0) * kind.failed for kind in kinds) for name in CLASSES])
    if not real.sum() or not model.sum():
        return Measure("classes of failure", "total variation", None, MIX_LIMIT, 0, note="no failures with codes")
    parts = (real / real.sum(), model / model.sum())
    note = "; ".join(f"{name} {a:.3f} real {b:.3f} simulated" for name, a, b in zip(CLASSES, *parts, strict=True))
    off = float(np.abs(parts[0] - parts[1]).sum() / 2)
    counts = np.array([[float(cell.failures.get(name, 0)) for name in CLASSES] for cell in labels])

    def between(one: Sequence[int], other: Sequence[int]) -> float:
        sums = [counts[list(side)].sum(axis=0) for side in (one, other)]
        if not all(total.sum() for total in sums):
            return math.nan
        return float(np.abs(sums[0] / sums[0].sum() - sums[1] / sums[1].sum()).sum() / 2)

    floor = sampling_floor(len(labels), between)
    return Measure("classes of failure", "total variation", off, MIX_LIMIT, len(labels), note=note, floor=floor)


def _requested_memory(matched: Sequence[tuple[Cell, KindFit]]) -> list[Measure]:
    """Used over requested memory by class; the request is the same on both sides."""
    rows = []
    for at, word in ((1, "p50"), (2, "p90")):
        off = [
            abs(math.log(kind.quantities["max_rss_mb"].quantile(np.array([PROBABILITIES[at]]))[0]
                         / _three_quantiles(cell, "max_rss_mb")[at]))
            for cell, kind in matched
            if cell.memory_asked_mb and "max_rss_mb" in cell.quantities and "max_rss_mb" in kind.quantities
        ]  # fmt: skip
        value = float(np.max(off)) if off else None
        rows.append(Measure("used over asked memory by class", f"largest abs ln ratio of {word}", value, ASKED_LIMIT,
                            len(off), note="" if off else "no class of memory is known to both"))  # fmt: skip
    return rows


def check_transfers(calibration: Calibration, figures: TransferFigures) -> list[Measure]:
    """The measures of links: the mean over ten seeds against the counted figures."""
    if calibration.links is None:
        return [Measure("links", "failure quantiles", None, LINK_LIMIT, 0, note="the calibration has no links")]
    draws = [drawn_figures(draw_links(calibration.links, seed), TOP_PARTS) for seed in range(1, SEEDS + 1)]
    measures = []
    for part in (0.5, 0.75, 0.9):
        at = LINK_PROBABILITIES.index(part)
        real = figures.error_quantiles[at]
        own = np.array([max(draw.error_quantiles[at], 1e-6) for draw in draws])
        off = abs(float(np.log(own).mean()) - math.log(real)) if real > 0 else None
        measures.append(
            Measure("failures of links of 100 attempts", f"abs ln ratio of {NAMES[part]}", off, LINK_LIMIT, SEEDS,
                    note=f"real {real:.4g}, simulated {math.exp(np.log(own).mean()):.4g}, "
                         f"seeds {own.min():.3g} to {own.max():.3g}")
        )  # fmt: skip
    for top in TOP_PARTS:
        wanted = figures.concentration.get(top)
        mean = float(np.mean([draw.concentration[top] for draw in draws]))
        measures.append(
            Measure(f"bytes of the top {100 * top:g} % of links", "difference of parts",
                    None if wanted is None else abs(mean - wanted), CONCENTRATION_LIMIT, SEEDS,
                    note="not counted" if wanted is None else f"real {wanted:.3f}, simulated {mean:.3f}")
        )  # fmt: skip
    return measures
