"""Fit the failure rates of links and the uneven distribution of bytes over links to counts of transfers.

Source: the logit of the failure rate of a link is normal, the sum of parts of the source, the destination and the link.
The bytes of a link follow a gravity model between the bytes that its source sends and those that its destination
receives, with a lognormal deviation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.streams import stream

#: Probabilities of the quantiles in the document.
PROBABILITIES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
#: Links with fewer attempts are not used for rates.
FEWEST_ATTEMPTS = 100
#: Default standard deviations of the logit: source, destination, link.
USUAL_SD = (1.22, 2.19, 1.38)
FILE_MB = (700.0, 0.7)
#: Rounds in which the flows are scaled to the sums of the sites.
BALANCING = 50
SiteBytes = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class LinkFit:
    """Failures and bytes of links.

    Attributes:
        mean_logit, sd_source, sd_destination, sd_link: parameters of the logit of the failure rate.
        links: number of links that carried anything.
        bytes: bytes of all links.
        mean_file_mb: mean size of all files.
        site_bytes: bytes out of and into each site, the largest first; sites that lack either are left out.
        gravity_s: spread of ln bytes of a link around the gravity model; sources and destinations keep their sums.
        n: number of links behind the rates.
    """

    mean_logit: float
    sd_source: float
    sd_destination: float
    sd_link: float
    links: int
    bytes: float
    mean_file_mb: float
    site_bytes: SiteBytes
    gravity_s: float
    n: int


@dataclass(frozen=True)
class TransferFigures:
    """Figures of links: failed parts at :data:`PROBABILITIES`, and the part of all bytes on the top links."""

    error_quantiles: tuple[float, ...]
    concentration: Mapping[float, float]


def is_transfers(document: Any) -> bool:
    """Whether a document is one of transfers."""
    return isinstance(document, Mapping) and "error_part_of_links_with_100_files" in document


def transfer_figures(document: Mapping[str, Any], where: str) -> TransferFigures:
    """Read the figures that a fit is compared with.

    Raises:
        SimulationError: a figure is missing, or is no number.
    """
    try:
        quantiles = tuple(float(one) for one in document["error_part_of_links_with_100_files"])
        parts = {float(one["top_part"]): float(one["part_of_bytes"]) for one in document["concentration"]}
    except (KeyError, TypeError, ValueError) as error:
        raise SimulationError(
            f"{type(error).__name__}: {error}", where,
            "give error_part_of_links_with_100_files (eight quantiles) and concentration (top_part, part_of_bytes)",
        ) from error  # fmt: skip
    if len(quantiles) != len(PROBABILITIES):
        raise SimulationError(f"{len(quantiles)} quantiles", where, f"give those at {PROBABILITIES}")
    return TransferFigures(quantiles, parts)


def fit_links(document: Mapping[str, Any], where: str) -> LinkFit:
    """Fit the links of a document.

    Raises:
        SimulationError: the document lacks a figure.
    """
    figures = transfer_figures(document, where)
    mean, sd = _logit_normal(figures.error_quantiles, where)
    components = document.get("error_components") or {}
    parts = [float(components.get(f"sd_{name}", usual)) for name, usual in zip(_PARTS, USUAL_SD, strict=True)]
    scale = sd / math.sqrt(sum(value**2 for value in parts))
    try:
        rows, totals = document["sites"]["rows"], document["totals"]
        sites_bytes = [(float(row[1]), float(row[4])) for row in rows]
        count = (int(totals["links"]), float(totals["bytes"]), float(totals["mean_file_mb"]))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise SimulationError(f"{type(error).__name__}: {error}", where, "give sites and totals of links") from error
    site_bytes_known = tuple(sorted((value for value in sites_bytes if min(value) > 0), reverse=True))
    if len(site_bytes_known) < 2:
        raise SimulationError("fewer than two sites sent and received", where, "count more sites")
    return LinkFit(
        mean_logit=mean,
        sd_source=scale * parts[0],
        sd_destination=scale * parts[1],
        sd_link=scale * parts[2],
        links=count[0],
        bytes=count[1],
        mean_file_mb=count[2],
        site_bytes=site_bytes_known,
        gravity_s=_gravity_s(site_bytes_known, count[0], figures.concentration),
        n=int(components.get("links", count[0])),
    )


_PARTS = ("source", "destination", "link")


def _logit_normal(quantiles: Sequence[float], where: str) -> tuple[float, float]:
    """Mean and s of the logit by least squares over the quantiles above 0: those at 0 rest on too few attempts."""
    from scipy.special import logit, ndtri

    known = [(p, q) for p, q in zip(PROBABILITIES, quantiles, strict=True) if 0 < q < 1]
    if len(known) < 2:
        raise SimulationError("fewer than two error quantiles between 0 and 1", where, "count more links")
    z, y = ndtri([p for p, _ in known]), logit([q for _, q in known])
    slope, middle = np.polyfit(z, y, 1)
    return float(middle), float(slope)


def _gravity_s(site_bytes: SiteBytes, links: int, wanted: Mapping[float, float]) -> float:
    """The spread whose drawn top links best match the measured ones."""

    def off(s: float) -> float:
        moved = _flows(site_bytes, s, stream(0, "links", "gravity"))[~np.eye(len(site_bytes), dtype=np.bool_)]
        ordered = np.sort(moved)[::-1][:links]
        top_parts = [ordered[: max(1, round(part * len(ordered)))].sum() / ordered.sum() for part in wanted]
        return float(np.square(np.array(top_parts) - list(wanted.values())).sum())

    return min((round(0.1 * step, 1) for step in range(21)), key=off)


def _flows(site_bytes: SiteBytes, s: float, random: np.random.Generator) -> Floats:
    """(sites, sites) bytes, drawn around out times into and scaled until each site sends and receives its sum."""
    out, into = np.array(site_bytes).T
    into = into * out.sum() / into.sum()
    flows = out[:, None] * into[None, :] * np.exp(s * random.standard_normal((len(out), len(out))))
    np.fill_diagonal(flows, 0.0)
    for _ in range(BALANCING):
        flows *= (out / flows.sum(axis=1))[:, None]
        flows *= (into / flows.sum(axis=0))[None, :]
    return np.asarray(flows)


@dataclass(frozen=True)
class DrawnLinks:
    """Drawn links: bytes, attempts, and the failed part of the attempts."""

    bytes: Floats
    attempts: Floats
    failed_part: Floats


def draw_links(fitted: LinkFit, seed: int) -> DrawnLinks:
    """Draw the links of a grid: of all pairs of sites by gravity, those with the most bytes are kept."""
    from scipy.special import expit

    random = stream(seed, "links", "gravity")
    sites = len(fitted.site_bytes)
    size = (sites, sites)
    moved = _flows(fitted.site_bytes, fitted.gravity_s, random)
    failing = stream(seed, "links", "transfer failure")
    logits = (
        fitted.mean_logit
        + fitted.sd_source * failing.standard_normal(sites)[:, None]
        + fitted.sd_destination * failing.standard_normal(sites)[None, :]
        + fitted.sd_link * failing.standard_normal(size)
    )
    pairs = ~np.eye(sites, dtype=np.bool_)
    moved, rates = moved[pairs], expit(logits[pairs])
    largest = np.argsort(-moved, kind="stable")[: fitted.links]
    moved = moved[largest] * fitted.bytes / moved[largest].sum()
    file_bytes = 1e6 * FILE_MB[0] * np.exp(FILE_MB[1] * random.standard_normal(len(largest)))
    files = np.maximum(1.0, np.rint(moved / file_bytes))
    attempts = np.rint(files / np.maximum(1.0 - rates[largest], 0.01))
    failed = failing.binomial(attempts.astype(np.int64), rates[largest])
    return DrawnLinks(moved, attempts, failed / attempts)


def drawn_figures(drawn: DrawnLinks, parts: Sequence[float]) -> TransferFigures:
    """The figures of drawn links; ``parts`` are the parts of the top links whose bytes are needed."""
    failed_parts = drawn.failed_part[drawn.attempts >= FEWEST_ATTEMPTS]
    ordered = np.sort(drawn.bytes)[::-1]
    whole = ordered.sum()
    tops = {part: float(ordered[: max(1, round(part * len(ordered)))].sum() / whole) for part in parts}
    return TransferFigures(tuple(np.quantile(failed_parts, PROBABILITIES).tolist()), tops)
