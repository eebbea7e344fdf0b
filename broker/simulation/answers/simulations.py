"""Simulations that were run with ``broker simulate --store``: what was asked, the figures by policy, and curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from broker.errors import NotFound
from broker.simulation.answers.figures_of_merit import FIGURES, Verdict, verdict
from broker.store.query_context import Answer
from broker.whatif.statements.runs import Run

KIND = "simulation"
"""Of the run under which a simulation is kept."""


class NoSuchSimulation(NotFound):
    """There is no simulation of the number."""


class SimulationAsked(Answer):
    """What was simulated.

    Attributes:
        grid: name of a grid, file of a scenario, or name of a snapshot, as it was given.
        policies: in the order in which they were named; the others are compared with the first.
        seeds: of each policy.
        parameters: of the scenario of the first seed, such as ``days``, ``queues``, ``cores`` and ``ages``.
        version: of the broker.
    """

    grid: str
    policies: tuple[str, ...]
    seeds: int
    parameters: dict[str, Any]
    version: str


class SimulationLine(Answer):
    """A simulation in short: what was asked, by whom, when it began and ended."""

    id: int
    subject: str
    started_at: datetime | None
    ended_at: datetime | None
    asked: SimulationAsked


class FigureInterval(Answer):
    """The mean of a figure over seeds with the half-width of its 95 % interval; null where it is not known.

    Attributes:
        mean: in the unit of the name: ``_s`` seconds, ``_bytes`` bytes, ``_hs06s`` HS06 s; parts are of 1.
        half_width: null for fewer than two seeds, and where a value lies beyond the record.
        values: seeds in which it is known. Where there are some and the mean is null, it lies behind the end of a run.
        enough_seeds: whether these are at least ten.
    """

    mean: float | None
    half_width: float | None
    values: int
    enough_seeds: bool

    @property
    def mean_or_beyond(self) -> float | None:
        """The mean; infinite where it lies behind the end of a run."""
        return math.inf if self.mean is None and self.values else self.mean


class FigureDifference(FigureInterval):
    """The difference of a figure to that of the first policy, paired by seed, and what it says."""

    verdict: Verdict


class PolicyFigures(Answer):
    """The figures of one policy by name; differences are empty for the first.

    Attributes:
        policy: its label.
        seeds: that all policies have in common.
        figures: by name.
        differences: to the first policy, by name.
        told: the figures whose difference is told from chance: those that decide by their own interval, the others
            after Holm over all of them.
        seeds_needed: for each figure that decides, how many seeds would find a difference of 2 %.
        events: of all its simulations.
        decide_s: seconds it decided for, over all its simulations.
        total_s: seconds its simulations took.
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


class PolicyCurve(Answer):
    """One curve of one policy: mean, lowest and highest over seeds, at each of the hours."""

    policy: str
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class Curve(Answer):
    """What moves over the hours of virtual time: use, waiting jobs, transfers, bytes, shares; a line a policy."""

    name: str
    hours: tuple[float, ...]
    lines: tuple[PolicyCurve, ...]


class SimulationAnswer(SimulationLine):
    """A simulation with its figures and curves."""

    policies: tuple[PolicyFigures, ...]
    curves: tuple[Curve, ...]


def simulation_lines(found: Iterable[Run]) -> list[SimulationLine]:
    """Stored simulations in short."""
    return [SimulationLine(**_line(run)) for run in found]


def simulation_answer(found: Run | None, number: int) -> SimulationAnswer:
    """A stored simulation, with what its differences say.

    Raises:
        NoSuchSimulation: the run is none, or is not there.
    """
    if found is None or found.kind != KIND or not isinstance(found.result, Mapping):
        raise NoSuchSimulation(f"there is no simulation {number}", "broker.runs", "see GET /api/v1/simulations")
    return SimulationAnswer(
        **_line(found),
        policies=tuple(_policy(one) for one in found.result["policies"]),
        curves=tuple(Curve.model_validate(one) for one in found.result["curves"]),
    )


def _line(run: Run) -> dict[str, Any]:
    asked = SimulationAsked.model_validate(run.asked)
    return {
        "id": run.id, "subject": run.subject, "started_at": run.started_at, "ended_at": run.ended_at, "asked": asked,
    }  # fmt: skip


def _policy(document: Mapping[str, Any]) -> PolicyFigures:
    differences = {
        name: FigureDifference(**found, verdict=verdict(name, found["mean"], found["half_width"]))
        for name, found in document["differences"].items()
        if name in FIGURES
    }
    kept = {name: value for name, value in document.items() if name not in ("kind", "differences")}
    return PolicyFigures(**kept, differences=differences)


def thinned(count: int, most: int) -> list[int]:
    """At most ``most`` (2 or more) places of ``count``, evenly apart, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [round(place * (count - 1) / (most - 1)) for place in range(most)]
