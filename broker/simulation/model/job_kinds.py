"""Kinds of jobs, and joint draws of their figures with given rank correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.streams import stream


class Distribution(Protocol):
    """A distribution by its quantile function."""

    def quantile(self, probability: Floats) -> Floats:
        """Return the quantiles at these probabilities."""
        ...


@dataclass(frozen=True)
class Lognormal:
    """ln x is normal around ``ln(median)`` with standard deviation ``s``."""

    median: float
    s: float

    def quantile(self, probability: Floats) -> Floats:
        """Return the quantiles at these probabilities."""
        return np.asarray(self.median * np.exp(self.s * normal_quantile(probability)))


@dataclass(frozen=True)
class Normal:
    """Normal, not below ``lowest``."""

    mean: float
    s: float
    lowest: float = 0.0

    def quantile(self, probability: Floats) -> Floats:
        """Return the quantiles at these probabilities, none below ``lowest``."""
        return np.maximum(self.mean + self.s * normal_quantile(probability), self.lowest)


@dataclass(frozen=True)
class Weibull:
    """Weibull of shape ``k``."""

    k: float
    scale: float

    def quantile(self, probability: Floats) -> Floats:
        """Return the quantiles at these probabilities; those of probability 1 are finite."""
        return np.asarray(self.scale * (-np.log1p(-np.minimum(probability, 1 - 1e-12))) ** (1.0 / self.k))


@dataclass(frozen=True)
class Fixed:
    """Always the same value."""

    value: float

    def quantile(self, probability: Floats) -> Floats:
        """Return ``value`` for each of these probabilities."""
        return np.full(np.shape(probability), self.value)


def normal_quantile(probability: Floats) -> Floats:
    """The quantile function of the standard normal distribution; probabilities are kept off 0 and 1 by 1e-12."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(probability, 1e-12, 1 - 1e-12)))


def correlated_uniforms(rank_correlations: Sequence[Sequence[float]], size: int, random: np.random.Generator) -> Floats:
    """(size, D) uniform draws with Spearman's rank correlations: a Gaussian copula with R_ij = 2 sin(pi rho_ij / 6).

    Raises:
        SimulationError: the correlations contradict each other.
    """
    from scipy.special import ndtr

    rho = np.asarray(rank_correlations, dtype=np.float64)
    pearson = 2.0 * np.sin(np.pi * rho / 6.0)
    np.fill_diagonal(pearson, 1.0)
    try:
        root = np.linalg.cholesky(pearson)
    except np.linalg.LinAlgError as error:
        raise SimulationError(
            "rank correlations that contradict each other", f"{rho.tolist()}", "make the matrix positive definite"
        ) from error
    return np.asarray(ndtr(random.standard_normal((size, len(rho))) @ root.T))


#: Order of the figures that are drawn together.
FIGURES = ("work", "efficiency", "stage_in", "output")
_INDEPENDENT = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))


@dataclass(frozen=True)
class JobKind:
    """What jobs of one kind need.

    Attributes:
        name: name of the kind.
        processingtype: its name in PanDA.
        events: events of a job.
        cores: cores of a job.
        work_hs06s_event: CPU work of an event, HS06 s, drawn within a queue.
        efficiency: CPU time over walltime times cores while the payload runs.
        memory_gb_core: memory that the job holds, GB a core.
        input_gb: input of a job.
        output_gb: output of a job, drawn.
        stage_in_mbps: highest rate of one stage-in, MB/s.
        failure_rate: failure rate of the kind's jobs, in addition to that of the queue.
        analysis: whether its jobs are users' analysis.
        between_queues: spread of ln(efficiency) and ln(rate) between queues.
        correlations: Spearman's rank correlations, in the order of FIGURES.
        starts_up: whether a job spends time before its payload runs.
        memory_used_mb: memory that a job really uses, drawn; None if it uses as much as it holds.
        wall_s: run time of the payload on a core of ``REFERENCE_HS06``, drawn in place of the efficiency; its rank
            correlations are those of the efficiency. Payloads may use more cores than allocated.
    """

    name: str
    processingtype: str
    events: int
    cores: int
    work_hs06s_event: Distribution
    efficiency: Distribution
    memory_gb_core: float
    input_gb: float
    output_gb: Distribution
    stage_in_mbps: Distribution
    failure_rate: float
    analysis: bool = False
    between_queues: tuple[float, float] = (0.12, 0.45)
    correlations: tuple[tuple[float, ...], ...] = _INDEPENDENT
    starts_up: bool = True
    memory_used_mb: Distribution | None = None
    wall_s: Distribution | None = None


def _correlated(
    work_output: float, efficiency_rate: float, work_efficiency: float = 0.0
) -> tuple[tuple[float, ...], ...]:
    return (
        (1.0, work_efficiency, 0.0, work_output),
        (work_efficiency, 1.0, efficiency_rate, 0.0),
        (0.0, efficiency_rate, 1.0, 0.0),
        (work_output, 0.0, 0.0, 1.0),
    )


KINDS: dict[str, JobKind] = {
    kind.name: kind
    for kind in (
        JobKind(
            "simul", "simul", 1000, 8, Lognormal(534, 0.18), Weibull(38, 0.936), 2.0, 0.424,
            Lognormal(1.21, 0.01), Lognormal(30.3, 0.28), 0.004, between_queues=(0.05, 0.44),
        ),
        JobKind(
            "digi_reco", "pile", 1000, 8, Lognormal(708, 0.15), Weibull(17.9, 0.863), 2.4, 2.78,
            Lognormal(0.895, 0.06), Normal(29.9, 8.4, 3.0), 0.044, between_queues=(0.07, 0.51),
            correlations=_correlated(0.67, 0.48),
        ),
        JobKind(
            "derivation", "deriv", 100_000, 8, Lognormal(2.01, 0.09), Weibull(5.2, 0.727), 1.5, 20.6,
            Lognormal(0.020, 0.05), Weibull(3.0, 107), 0.01, correlations=_correlated(0.0, 0.57, -0.3),
        ),
        JobKind(
            "reco", "recon", 20_000, 1, Lognormal(7.9, 0.10), Weibull(59, 0.935), 2.4, 14.3,
            Lognormal(2.89, 0.05), Lognormal(19.7, 0.6), 0.175,
        ),
        JobKind(
            "merge", "merge", 10_000, 1, Lognormal(0.092, 0.24), Weibull(6.8, 0.598), 0.5, 0.336,
            Lognormal(0.334, 0.05), Lognormal(6.0, 0.6), 0.004,
        ),
        # assumed: short, small, one core
        JobKind(
            "analysis", "panda-client-1.5", 20_000, 1, Lognormal(3.0, 0.8), Weibull(5.2, 0.727), 2.0, 4.0,
            Lognormal(0.1, 0.8), Lognormal(20.0, 0.5), 0.10, analysis=True,
        ),
    )
}  # fmt: skip

#: Assumed core power of the unknown machines behind the CPU seconds and wall times of calibrated kinds.
REFERENCE_HS06 = 10.0
#: Start-up and wind-up of a job; seconds before the first byte of a stage-in; rate of a stage-out.
START_UP_S = Lognormal(115.0, 0.30)
STAGE_IN_OVERHEAD_S = (10.0, 40.0)
STAGE_OUT_MBPS = Lognormal(45.0, 0.5)


@dataclass(frozen=True)
class JobDraws:
    """Figures of the jobs of one task (length n), before the factors of the queue where they run.

    ``fails`` (n, A) are uniform draws for each attempt; ``life`` is the part of its run that a failing attempt lives.
    """

    work_hs06s: Floats
    efficiency: Floats
    stage_in_bytes_s: Floats
    output_bytes: Floats
    start_up_s: Floats
    stage_in_overhead_s: Floats
    stage_out_bytes_s: Floats
    fails: Floats
    life: Floats

    @cached_property
    def _rows(self) -> list[tuple[float, float, float, float, float]]:
        columns = (self.work_hs06s, self.efficiency, self.stage_in_bytes_s, self.start_up_s, self.stage_in_overhead_s)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def of_job(self, index: int) -> tuple[float, float, float, float, float]:
        """Work, efficiency, rate of the stage-in, and seconds of start-up and overhead of one job."""
        return self._rows[index]


def draw_jobs(kind: JobKind, jobs: int, seed: int, task: int, attempts: int) -> JobDraws:
    """The figures of the jobs of one task; the same for every policy.

    One failing job in five fails at the very end, the others anywhere in their run (assumed).
    """
    random = stream(seed, task, "jobs")
    uniform = correlated_uniforms(kind.correlations, jobs, random)
    life = random.random((jobs, attempts))
    at_end = random.random((jobs, attempts)) < 0.2
    work = kind.work_hs06s_event.quantile(uniform[:, 0]) * kind.events
    if kind.wall_s is None:
        efficiency = kind.efficiency.quantile(uniform[:, 1])
    else:
        efficiency = work / (REFERENCE_HS06 * kind.cores * kind.wall_s.quantile(uniform[:, 1]))
    return JobDraws(
        work_hs06s=work,
        efficiency=efficiency,
        stage_in_bytes_s=kind.stage_in_mbps.quantile(uniform[:, 2]) * 1e6,
        output_bytes=kind.output_gb.quantile(uniform[:, 3]) * 1e9,
        start_up_s=START_UP_S.quantile(random.random(jobs)),
        stage_in_overhead_s=random.uniform(*STAGE_IN_OVERHEAD_S, jobs),
        stage_out_bytes_s=STAGE_OUT_MBPS.quantile(random.random(jobs)) * 1e6,
        fails=random.random((jobs, attempts)),
        life=np.where(at_end, 1.0, life),
    )


def draw_memory_used_mb(kind: JobKind, jobs: int, seed: int, task: int) -> Floats | None:
    """(n,) memory that the jobs of a task really use, from a separate stream; None if they use what they hold."""
    if kind.memory_used_mb is None:
        return None
    return kind.memory_used_mb.quantile(stream(seed, task, "memory used").random(jobs))


def queue_factors(kind: JobKind, queue: str, seed: int) -> tuple[float, float]:
    """The factors of efficiency and stage-in rate for jobs of a kind at a queue."""
    random = stream(seed, queue, f"kind {kind.name}")
    return (
        float(np.exp(-abs(random.normal(0.0, kind.between_queues[0])))),
        float(np.exp(random.normal(0.0, kind.between_queues[1]))),
    )


def fixed_kind(name: str, cores: int, work_hs06s: Distribution, memory_gb_core: float = 0.0) -> JobKind:
    """A kind without input, output, spread or failures, for closed scenarios."""
    nothing = Fixed(0.0)
    return JobKind(
        name, "simul", 1, cores, work_hs06s, Fixed(1.0), memory_gb_core, 0.0, nothing, Fixed(100.0), 0.0,
        between_queues=(0.0, 0.0), starts_up=False,
    )  # fmt: skip
