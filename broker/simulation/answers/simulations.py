"""Simulations stored by ``broker simulate --store``: their settings, the figures by policy, and curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from broker.errors import NotFound
from broker.simulation.answers.figures_of_merit import FIGURES, Verdict, verdict
from broker.store.query_context import ResponseModel
from broker.whatif.statements.runs import Run

KIND = "simulation"
"""Kind of the run under which a simulation is stored."""


class NoSuchSimulation(NotFound):
    """No simulation has this number."""


class SimulationAsked(ResponseModel):
    """The request of a simulation.

    Attributes:
        grid: name of a grid, file of a scenario, or name of a snapshot, as given.
        policies: policies in the order given; the others are compared with the first.
        seeds: number of seeds of each policy.
        parameters: parameters of the scenario of the first seed, such as ``days``, ``queues``, ``cores`` and ``ages``.
        version: version of the broker.
    """

    grid: str
    policies: tuple[str, ...]
    seeds: int
    parameters: dict[str, Any]
    version: str


class SimulationLine(ResponseModel):
    """A summary of a simulation: its request, author, start and end."""

    id: int
    subject: str
    started_at: datetime | None
    ended_at: datetime | None
    asked: SimulationAsked


class FigureInterval(ResponseModel):
    """The mean of a figure over seeds with the half-width of its 95 % interval; null if unknown.

    Attributes:
        mean: mean in the unit of the name: ``_s`` seconds, ``_bytes`` bytes, ``_hs06s`` HS06 s; shares are fractions of
            1.
        half_width: null for fewer than two seeds, or if a value lies beyond the record.
        values: number of seeds in which it is known. If there are some and the mean is null, it lies beyond the end of
            a run.
        enough_seeds: whether there are at least ten.
    """

    mean: float | None
    half_width: float | None
    values: int
    enough_seeds: bool

    @property
    def mean_or_beyond(self) -> float | None:
        """The mean; infinite if it lies beyond the end of a run."""
        return math.inf if self.mean is None and self.values else self.mean


class FigureDifference(FigureInterval):
    """The difference of a figure from that of the first policy, paired by seed, and its meaning."""

    verdict: Verdict


class PolicyFigures(ResponseModel):
    """The figures of one policy by name; differences are empty for the first.

    Attributes:
        policy: label of the policy.
        seeds: seeds common to all policies.
        figures: figures by name.
        differences: differences from the first policy, by name.
        told: figures whose difference is significant: the deciding ones by their own interval, the others after Holm's
            correction over all of them.
        seeds_needed: number of seeds that would detect a difference of 2 %, for each deciding figure.
        events: number of events in all its simulations.
        decide_s: total decision time of its simulations, in seconds.
        total_s: total duration of its simulations, in seconds.
    """

    policy: str
    seeds: tuple[int, ...]
    figures: dict[str, FigureInterval]
    differences: dict[str, FigureDifference]
    told: tuple[str, ...] = ()
    seeds_needed: dict[str, int] = Field(default_factory=dict)
    events: int
    decide_s: float
    total_s: float


class PolicyCurve(ResponseModel):
    """One curve of one policy: mean, minimum and maximum over seeds, at each of the hours."""

    policy: str
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class Curve(ResponseModel):
    """A quantity over the hours of virtual time: use, waiting jobs, transfers, bytes, shares; one line per policy."""

    name: str
    hours: tuple[float, ...]
    lines: tuple[PolicyCurve, ...]


class SimulationAnswer(SimulationLine):
    """A simulation with its figures and curves."""

    policies: tuple[PolicyFigures, ...]
    curves: tuple[Curve, ...]


def simulation_lines(runs: Iterable[Run]) -> list[SimulationLine]:
    """Summaries of stored simulations."""
    return [SimulationLine(**_line(run)) for run in runs]


def simulation_answer(run: Run | None, number: int) -> SimulationAnswer:
    """A stored simulation, with the verdicts of its differences.

    Raises:
        NoSuchSimulation: the run does not exist, or is no simulation.
    """
    if run is None or run.kind != KIND or not isinstance(run.result, Mapping):
        raise NoSuchSimulation(f"there is no simulation {number}", "broker.runs", "see GET /api/v1/simulations")
    return SimulationAnswer(
        **_line(run),
        policies=tuple(_policy(one) for one in run.result["policies"]),
        curves=tuple(Curve.model_validate(one) for one in run.result["curves"]),
    )


def _line(run: Run) -> dict[str, Any]:
    request = SimulationAsked.model_validate(run.asked)
    return {
        "id": run.id, "subject": run.subject, "started_at": run.started_at, "ended_at": run.ended_at, "asked": request,
    }  # fmt: skip


def _policy(document: Mapping[str, Any]) -> PolicyFigures:
    differences = {
        name: FigureDifference(**difference, verdict=verdict(name, difference["mean"], difference["half_width"]))
        for name, difference in document["differences"].items()
        if name in FIGURES
    }
    fields = {name: value for name, value in document.items() if name not in ("kind", "differences")}
    return PolicyFigures(**fields, differences=differences)


def thinned(count: int, most: int) -> list[int]:
    """At most ``most`` (2 or more) evenly spaced positions of ``count``, including the first and the last."""
    if count <= most:
        return list(range(count))
    return [round(place * (count - 1) / (most - 1)) for place in range(most)]
