"""Real against simulated: figures of queues in a span next to those of simulations of its tasks, with intervals.

A cell is one figure of one queue. Its interval holds the next value with a probability of 80 %. The interval combines
the spread of the seeds, each of which draws the jobs and the unknowns of the queues anew, with the error of the same
simulations on the day before: a model is never the site, and seeds alone do not show by how much it differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.simulation.model.calibration.estimate import Checked
from broker.simulation.model.calibration.site_history import QueueRecord, SampleQuantiles, counted
from broker.simulation.model.loop import Run
from broker.simulation.model.records import OUTCOMES

#: Cells of fewer jobs are shown, but do not count.
FEWEST_JOBS = 200
#: Minimum jobs of a cell of the earlier span to count for the error of the simulation.
FEWEST_BEFORE = 100
#: Probability that an interval holds the value.
INSIDE = 0.80
#: Shorter waits count as a minute: below it they only reflect the period of cycles and pilots.
LEAST_WAIT_S = 60.0
FIGURES = {
    "wall_p10_s": "walltime p10 s", "wall_p50_s": "walltime p50 s", "wall_p90_s": "walltime p90 s",
    "wait_p50_s": "wait p50 s", "wait_p90_s": "wait p90 s", "use": "use", "failed": "failed",
}  # fmt: skip
#: Figures whose error is a difference; the error of the others is a difference of logarithms.
PARTS = frozenset({"use", "failed"})


@dataclass(frozen=True)
class Forecast:
    """One cell.

    Attributes:
        queue: name of the queue.
        figure: one of :data:`FIGURES`.
        jobs: jobs behind the measured value.
        measured: measured value.
        simulated: central value of the simulations.
        low, high: 80 % interval of the next value.
    """

    queue: str
    figure: str
    jobs: int
    measured: float
    simulated: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether the measured value lies in the interval."""
        return self.low <= self.measured <= self.high

    @property
    def counts(self) -> bool:
        """Whether the cell has enough jobs to count."""
        return self.jobs >= FEWEST_JOBS

    @property
    def error(self) -> float:
        """Error of the simulated value: the difference to the measured one for parts, else ln of the ratio."""
        if self.figure in PARTS:
            return self.simulated - self.measured
        return math.log(_floor(self.figure, self.simulated) / _floor(self.figure, self.measured))

    def document(self) -> dict[str, Any]:
        """The cell as ``--json`` prints it."""
        return {
            "kind": "forecast", "queue": self.queue, "figure": self.figure, "jobs": self.jobs,
            "measured": self.measured, "simulated": self.simulated, "interval": [self.low, self.high],
            "inside": self.inside, "counts": self.counts, "error": self.error,
        }  # fmt: skip


def queue_records(run: Run, since_s: float, until_s: float) -> list[QueueRecord]:
    """The records of the queues of a simulation between two instants, counted like a site's tables."""
    runs, records = run.runs, []
    finished, failed = (runs.outcome == OUTCOMES.index(name) for name in ("finished", "failed"))
    ended = (runs.end_s >= since_s) & (runs.end_s < until_s)
    started = (runs.start_s >= since_s) & (runs.start_s < until_s)
    core_s = np.maximum(0.0, np.minimum(runs.end_s, until_s) - np.maximum(runs.start_s, since_s)) * runs.cores
    for number, queue in enumerate(run.scenario.queues):
        own = runs.queue == number
        good = own & ended & finished
        records.append(
            QueueRecord(
                queue.name,
                int((own & ended & (finished | failed)).sum()),
                int((own & ended & failed).sum()),
                float(core_s[own].sum()),
                float(queue.cores),
                _counted(runs.end_s - runs.start_s, good),
                _counted(runs.start_s - runs.assigned_s, own & started),
            )
        )
    return records


def _counted(values: Floats, of: Bools) -> SampleQuantiles | None:
    return counted(int(of.sum()), np.quantile(values[of], [0.1, 0.5, 0.9]).tolist()) if of.any() else None


def figures_of(queue: QueueRecord, cores: float, length_s: float) -> dict[str, tuple[float, int]]:
    """The figures of a queue with this many cores, each with the number of jobs behind it."""
    figures: dict[str, tuple[float, int]] = {}
    if queue.wall_s is not None:
        figures |= {f"wall_{name}_s": (getattr(queue.wall_s, name), queue.wall_s.n) for name in ("p10", "p50", "p90")}
    if queue.wait_s is not None:
        figures |= {f"wait_{name}_s": (getattr(queue.wait_s, name), queue.wait_s.n) for name in ("p50", "p90")}
    if cores > 0:
        figures["use"] = (queue.core_s / (cores * length_s), queue.jobs)
    if queue.jobs:
        figures["failed"] = (queue.failed / queue.jobs, queue.jobs)
    return figures


def forecasts(
    measured: Sequence[QueueRecord],
    simulated: Sequence[Sequence[QueueRecord]],
    length_s: float,
    model_s: Mapping[str, float] | None = None,
) -> list[Forecast]:
    """Each cell that was measured and is present in at least two simulations.

    Args:
        measured: measured queues.
        simulated: queues of each simulation.
        length_s: length of the span.
        model_s: error spread of the simulation in addition to that of its seeds, by figure (:func:`model_spread`).
    """
    model_s = model_s or {}
    cores = {queue.name: queue.most_cores for queue in simulated[0]} if simulated else {}
    figures = [{queue.name: figures_of(queue, cores[queue.name], length_s) for queue in run} for run in simulated]
    cells = []
    for queue in measured:
        if queue.name not in cores:
            continue
        for figure, (value, jobs) in figures_of(queue, cores[queue.name], length_s).items():
            values = [run[queue.name][figure][0] for run in figures if figure in run[queue.name]]
            if len(values) >= 2:
                interval = _interval(figure, np.array(values), model_s.get(figure, 0.0))
                cells.append(Forecast(queue.name, figure, jobs, value, *interval))
    return cells


def model_spread(cells: Sequence[Forecast]) -> dict[str, float]:
    """Error of a simulation in an earlier span beyond the spread of its seeds, as root mean square by figure.

    Args:
        cells: cells of the earlier span, computed without any such spread.
    """
    spreads = {}
    reach = _reach_in_s()
    for figure in FIGURES:
        own = [cell for cell in cells if cell.figure == figure and cell.jobs >= FEWEST_BEFORE]
        if own:
            seeds = [_half_width(cell) / reach for cell in own]
            square = float(np.mean([cell.error**2 for cell in own])) - float(np.mean(np.square(seeds)))
            spreads[figure] = math.sqrt(max(0.0, square))
    return spreads


def _reach_in_s() -> float:
    """Half-width of the 80 % interval of a normal distribution, in standard deviations."""
    from scipy.special import ndtri

    return float(ndtri((1 + INSIDE) / 2))


def _half_width(cell: Forecast) -> float:
    """Upper half-width of an interval, in the scale of errors: the lower half may be cut off by floors."""
    if cell.figure in PARTS:
        return cell.high - cell.simulated
    return math.log(_floor(cell.figure, cell.high) / _floor(cell.figure, cell.simulated))


def _interval(figure: str, values: Floats, model_s: float) -> tuple[float, float, float]:
    """Middle, low and high of the next value by Student's t, on logarithms except for parts."""
    from scipy.stats import t

    logs = figure not in PARTS
    scaled = np.log([_floor(figure, value) for value in values.tolist()]) if logs else values
    seeds_s = float(scaled.std(ddof=1)) * math.sqrt(1 + 1 / len(values))
    reach = float(t.ppf((1 + INSIDE) / 2, len(values) - 1)) * math.hypot(seeds_s, model_s)
    middle = float(scaled.mean())
    low, high = middle - reach, middle + reach
    if not logs:
        return middle, max(0.0, low), min(1.0, high)
    # values below the floor count as the floor
    least = 0.0 if low <= math.log(_floor(figure, 0.0)) + 1e-9 else math.exp(low)
    return math.exp(middle), least, math.exp(high)


def _floor(figure: str, value: float) -> float:
    return max(value, LEAST_WAIT_S if figure.startswith("wait") else 1e-3)


def checked(cells: Sequence[Forecast], span: str, policy: str, seeds: int) -> Checked:
    """Summarise the cells with enough jobs; NaN if there is none."""
    own = [cell for cell in cells if cell.counts]
    return Checked(
        span, policy, seeds, len(own), float(np.mean([cell.inside for cell in own])) if own else math.nan,
        {name: _median([abs(cell.error) for cell in own if cell.figure == name]) for name in FIGURES},
        {
            name: _median([abs(cell.error) for cell in own if cell.queue == name])
            for name in dict.fromkeys(cell.queue for cell in own)
        },
        {name: _median([_half_width(cell) for cell in own if cell.figure == name]) for name in FIGURES},
    )  # fmt: skip


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if values else math.nan
