"""Fit profiles: kinds of jobs without names, classes of memory by site, and the spread between them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.calibration.estimate import Checked, Estimate
from broker.simulation.model.calibration.links import LinkFit
from broker.simulation.model.calibration.profiles import QUANTITIES, Cell, Profiles, Quantiles
from broker.simulation.model.calibration.quantile_fits import Fitted, fit
from broker.simulation.model.calibration.site_fit import SiteFit
from broker.simulation.model.job_kinds import REFERENCE_HS06, Fixed, JobKind, Lognormal
from broker.simulation.model.streams import stream

#: Rank correlation of CPU time and wall time within a label, for which no joint figures are known (assumed).
CPU_WALL_RANK = 0.6
#: Ratio of an unknown request to the 90 % quantile of the used memory; the request is rounded up to whole GB.
HEADROOM = 1.3
#: Number of resamples of labels for intervals.
RESAMPLES = 200
#: Quantities that a cell needs to become a kind of jobs.
NEEDED = frozenset({"cpu_s", "wall_s", "cpu_efficiency"})
MB_A_GB = 1024.0
Figure = Callable[[Floats], float]


@dataclass(frozen=True)
class KindFit:
    """Jobs of one label, by rank and without its name.

    Attributes:
        jobs: counted jobs.
        failed: failed jobs among them.
        quantities: fitted quantities by name.
        cores: cores of a job.
        failures: parts of the failed jobs by class.
        asked_mb: part of the jobs by requested memory.
    """

    jobs: int
    failed: int
    quantities: Mapping[str, Fitted]
    cores: int
    failures: Mapping[str, float]
    asked_mb: Mapping[float, float]

    @property
    def failure_rate(self) -> float:
        """Part of the jobs that failed."""
        return self.failed / self.jobs

    def kind(self, name: str, request_mb: float) -> JobKind:
        """The kind of jobs for the simulator, with correlated wall and CPU times from their fits."""
        rank = CPU_WALL_RANK
        return JobKind(
            name, "calibrated", 1, self.cores, ScaledDistribution(self.quantities["cpu_s"], REFERENCE_HS06),
            self.quantities["cpu_efficiency"], request_mb / MB_A_GB / self.cores, 0.0, Fixed(0.0),
            Lognormal(30.0, 0.3), self.failure_rate, between_queues=(0.0, 0.0), starts_up=False,
            correlations=((1.0, rank, 0.0, 0.0), (rank, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)),
            memory_used_mb=self.quantities.get("max_rss_mb"), wall_s=self.quantities["wall_s"],
        )  # fmt: skip


@dataclass(frozen=True)
class ScaledDistribution:
    """A distribution times a factor."""

    of: Fitted
    factor: float

    def quantile(self, probability: Floats) -> Floats:
        """Return the quantiles at these probabilities."""
        return self.factor * self.of.quantile(probability)


@dataclass(frozen=True)
class ClassFit:
    """Jobs of one class of memory of a campaign, at one site or over all its sites (``site`` empty)."""

    campaign: str
    site: str
    asked_mb: float | None
    fitted: KindFit


@dataclass(frozen=True)
class Calibration:
    """The complete fit.

    Attributes:
        origin: origin of the figures.
        kinds: kinds of jobs, the most frequent first.
        classes: classes of memory.
        between: spread of the kinds: medians and s of ln(median) of wall time and memory weighted by jobs, and the
            failures of labels: the part that never fails, and the Beta distribution of the others.
        links: links of transfers, None if there were none.
        left_out: cells that were too small.
        site: queues and arrivals of tasks from a site's own history; None for profiles and records.
        checked: error of a simulation of a later span, None if none was compared.
    """

    origin: str
    kinds: tuple[KindFit, ...]
    classes: tuple[ClassFit, ...]
    between: Mapping[str, Estimate]
    links: LinkFit | None = None
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    site: SiteFit | None = None
    checked: Checked | None = None


def calibrate(profiles: Profiles, links: LinkFit | None = None) -> Calibration:
    """Fit everything to profiles, and to transfers if there are any."""
    requests_mb = {cell.name: cell.memory_asked_mb for cell in profiles.queues if cell.memory_asked_mb}
    usable = [cell for cell in profiles.labels if set(cell.quantities) >= NEEDED]
    ordered = sorted(usable, key=lambda cell: (-cell.jobs, cell.quantities["cpu_s"].p50))
    kinds, notes = _to_queues(
        [_kind(cell, _parts_by_request(cell, requests_mb)) for cell in ordered], usable, profiles.queues
    )
    return Calibration(
        origin=profiles.origin,
        kinds=tuple(kinds),
        classes=tuple(_classes(profiles.queues)),
        between=_between(ordered),
        links=links,
        left_out=profiles.dropped,
        notes=notes,
    )


def _to_queues(
    kinds: list[KindFit], labels: Sequence[Cell], queues: Sequence[Cell]
) -> tuple[list[KindFit], tuple[str, ...]]:
    """The kinds, with failures scaled to the rate of the queues if these count more jobs than the labels do.

    A few large labels dominate the pooled rate of a part of the labels, and say little about the others. Queues with
    known labels count all jobs that ran there, so that their rate is that of all labels.
    """
    known_queues = {queue for cell in labels for queue in (cell.queues or {})}
    campaigns = {cell.campaign for cell in queues if cell.name in known_queues and not cell.site}
    counted = [cell for cell in queues if cell.campaign in campaigns and not cell.site]
    jobs, of_labels = sum(cell.jobs for cell in counted), sum(cell.jobs for cell in labels)
    failed, failed_here = sum(cell.failed for cell in counted), sum(cell.failed for cell in labels)
    if jobs <= of_labels or not failed_here or not failed:
        return kinds, ()
    factor = (failed / jobs) / (failed_here / of_labels)
    scaled = [dataclasses.replace(kind, failed=min(kind.jobs, round(kind.failed * factor))) for kind in kinds]
    return scaled, (f"failures of labels times {factor:.3f}: {jobs} jobs at the queues, {of_labels} of the labels",)


def _kind(cell: Cell, parts_by_request_mb: Mapping[float, float]) -> KindFit:
    total = sum(cell.failures.values())
    return KindFit(
        jobs=cell.jobs,
        failed=cell.failed,
        quantities={name: fit(cell.quantities[name]) for name in QUANTITIES if name in cell.quantities},
        cores=_cores(cell),
        failures={name: count / total for name, count in cell.failures.items()} if total else {},
        asked_mb=parts_by_request_mb,
    )


def _cores(cell: Cell) -> int:
    """Cores that follow from CPU time, wall time and efficiency, if they are at least 3; else 1."""
    cpu, wall, efficiency = (cell.quantities[name].p50 for name in ("cpu_s", "wall_s", "cpu_efficiency"))
    cores = cpu / (wall * efficiency)
    return int(min(64, max(1, round(cores)))) if cores >= 3.0 else 1


def _parts_by_request(cell: Cell, known: Mapping[str, float | None]) -> dict[float, float]:
    """Part of a label's jobs by requested memory; if a queue has no request, the used memory with headroom."""
    used = cell.quantities.get("max_rss_mb")
    guess = math.ceil((used.p90 if used else 2000.0) * HEADROOM / MB_A_GB) * MB_A_GB
    parts: dict[float, float] = {}
    for queue, jobs in (cell.queues or {"": cell.jobs}).items():
        request_mb = float(known.get(queue) or guess)
        parts[request_mb] = parts.get(request_mb, 0.0) + jobs / sum((cell.queues or {"": cell.jobs}).values())
    return dict(sorted(parts.items()))


def _classes(queues: Sequence[Cell]) -> list[ClassFit]:
    """Each queue, and each class of a campaign over its sites; sites have equal weight, as a new site is one more."""
    usable = [cell for cell in queues if set(cell.quantities) >= NEEDED]
    classes = [ClassFit(cell.campaign, cell.site, cell.memory_asked_mb, _fit_class(cell)) for cell in usable]
    groups: dict[tuple[str, float], list[Cell]] = {}
    for cell in usable:
        if cell.site and cell.memory_asked_mb is not None:
            groups.setdefault((cell.campaign, cell.memory_asked_mb), []).append(cell)
    for (campaign, request_mb), cells in sorted(groups.items()):
        classes.append(ClassFit(campaign, "", request_mb, _fit_class(_over_sites(cells))))
    return classes


def _fit_class(cell: Cell) -> KindFit:
    return _kind(cell, {cell.memory_asked_mb: 1.0} if cell.memory_asked_mb else _parts_by_request(cell, {}))


def _over_sites(cells: Sequence[Cell]) -> Cell:
    names = set.intersection(*(set(cell.quantities) for cell in cells))
    failures = {name: sum(cell.failures.get(name, 0) for cell in cells) for cell in cells for name in cell.failures}
    return dataclasses.replace(
        cells[0],
        jobs=sum(cell.jobs for cell in cells),
        failed=sum(cell.failed for cell in cells),
        failures=failures,
        quantities={name: _geometric([cell.quantities[name] for cell in cells]) for name in names},
        site="",
    )


def _geometric(quantiles: Sequence[Quantiles]) -> Quantiles:
    logs = np.log([dataclasses.astuple(one) for one in quantiles])
    return Quantiles(*np.exp(logs.mean(axis=0)).tolist())


def _between(cells: Sequence[Cell]) -> dict[str, Estimate]:
    estimates = {}
    for name in ("wall_s", "max_rss_mb"):
        own = [cell for cell in cells if name in cell.quantities]
        if len(own) >= 2:
            rows = np.array([[math.log(cell.quantities[name].p50), cell.jobs] for cell in own])
            estimates[f"{name}_median"] = _estimate(rows, lambda x: math.exp(_weighted_median(x)))
            estimates[f"{name}_s"] = _estimate(rows, _weighted_spread)
    rates = np.array([[cell.failure_rate, cell.jobs] for cell in cells if cell.jobs >= 300])
    if len(rates) >= 2:
        estimates["failure_none"] = _estimate(rates, lambda x: float((x[:, 0] == 0).mean()))
        estimates["failure_alpha"] = _estimate(rates, lambda x: _beta(x)[0])
        estimates["failure_beta"] = _estimate(rates, lambda x: _beta(x)[1])
    return estimates


def _estimate(rows: Floats, figure: Figure) -> Estimate:
    random = stream(0, "calibration", "resample")
    drawn = [figure(rows[random.integers(len(rows), size=len(rows))]) for _ in range(RESAMPLES)]
    known = [value for value in drawn if math.isfinite(value)] or [math.nan]
    low, high = np.quantile(known, [0.025, 0.975]).tolist()
    return Estimate(figure(rows), low, high, len(rows))


def _weighted_median(rows: Floats) -> float:
    order = np.argsort(rows[:, 0])
    weights = np.cumsum(rows[order, 1])
    return float(rows[order[int(np.searchsorted(weights, weights[-1] / 2))], 0])


def _weighted_spread(rows: Floats) -> float:
    middle = np.average(rows[:, 0], weights=rows[:, 1])
    return float(math.sqrt(np.average((rows[:, 0] - middle) ** 2, weights=rows[:, 1])))


def _beta(rows: Floats) -> tuple[float, float]:
    """The Beta distribution of the rates that are not 0, by mean and variance; NaN where there are too few."""
    rates = rows[rows[:, 0] > 0, 0]
    if len(rates) < 2 or rates.var() <= 0:
        return math.nan, math.nan
    mean, spread = float(rates.mean()), float(rates.var(ddof=1))
    both = mean * (1 - mean) / spread - 1
    return max(0.05, mean * both), max(0.05, (1 - mean) * both)
