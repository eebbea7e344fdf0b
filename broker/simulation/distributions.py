"""Distributions of the figures of jobs, and joint draws with given rank correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.errors import SimulationError


class Distribution(Protocol):
    """A distribution by its quantile function."""

    def quantile(self, probability: Floats) -> Floats:
        """The values below which a draw lies with these probabilities."""
        ...


@dataclass(frozen=True)
class Lognormal:
    """ln x is normal around ``ln(median)`` with standard deviation ``s``."""

    median: float
    s: float

    def quantile(self, probability: Floats) -> Floats:
        """See :class:`Distribution`."""
        return np.asarray(self.median * np.exp(self.s * normal_quantile(probability)))


@dataclass(frozen=True)
class Normal:
    """Normal, not below ``lowest``."""

    mean: float
    s: float
    lowest: float = 0.0

    def quantile(self, probability: Floats) -> Floats:
        """See :class:`Distribution`."""
        return np.maximum(self.mean + self.s * normal_quantile(probability), self.lowest)


@dataclass(frozen=True)
class Weibull:
    """Weibull of shape ``k``."""

    k: float
    scale: float

    def quantile(self, probability: Floats) -> Floats:
        """See :class:`Distribution`."""
        return np.asarray(self.scale * (-np.log1p(-np.minimum(probability, 1 - 1e-12))) ** (1.0 / self.k))


@dataclass(frozen=True)
class Fixed:
    """Always the same value."""

    value: float

    def quantile(self, probability: Floats) -> Floats:
        """See :class:`Distribution`."""
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
