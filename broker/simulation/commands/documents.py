"""A comparison of policies as plain documents, for ``--json`` and ``--store``. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from broker import __version__
from broker.simulation.answers.simulations import SimulationAsked, thinned
from broker.simulation.model.comparing import CaseResult, Comparison
from broker.simulation.model.intervals import Interval
from broker.simulation.model.scenario import Scenario

MOST_INSTANTS = 120
"""Maximum instants of a stored curve: more than a picture on a page can show."""


def simulation_request(
    scenario: Scenario, grid: str, policies: Sequence[str], seeds: int, through_database: bool
) -> SimulationAsked:
    """The settings of a simulation: the scenario of the first seed, with the given name of the grid."""
    parameters = {
        "scenario": scenario.name,
        "days": scenario.days,
        "warm_up_s": scenario.warm_up_s,
        "cycle_s": scenario.cycle_s,
        "closed": scenario.closed,
        "sites": len(scenario.sites),
        "queues": len(scenario.queues),
        "cores": sum(queue.cores for queue in scenario.queues),
        "shares": [name for name, _ in scenario.shares],
        "through_database": through_database,
        "ages": dataclasses.asdict(scenario.ages),
    }
    return SimulationAsked(grid=grid, policies=tuple(policies), seeds=seeds, parameters=parameters, version=__version__)


def policy_document(one: Comparison, results: Sequence[CaseResult]) -> dict[str, Any]:
    """The figures of a policy, and the cost of its simulations; ``results`` are of all policies."""
    own = [result for result in results if result.label == one.label]
    return {
        "kind": "policy",
        "policy": one.label,
        "seeds": list(one.seeds),
        "figures": {name: _interval(interval) for name, interval in one.means.items()},
        "differences": {name: _interval(interval) for name, interval in one.differences.items()},
        "told": sorted(one.significant),
        "seeds_needed": one.seeds_needed,
        "events": sum(result.events for result in own),
        "decide_s": sum(result.decide_s for result in own),
        "total_s": sum(result.total_s for result in own),
    }


def _interval(interval: Interval) -> dict[str, Any]:
    return {
        "mean": _finite(interval.mean),
        "half_width": _finite(interval.half_width),
        "values": interval.values,
        "enough_seeds": interval.enough_seeds,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def curve_documents(results: Sequence[CaseResult], most: int = MOST_INSTANTS) -> list[dict[str, Any]]:
    """Each curve: its hours, and mean, lowest and highest over seeds for each policy, at ``most`` instants at most.

    Runs of a closed scenario may have different lengths: curves end with the shortest.
    """
    count = min((len(result.hours) for result in results), default=0)
    if count == 0:
        return []
    places = list(thinned(count, most))
    labels = list(dict.fromkeys(result.label for result in results))
    return [
        {
            "name": name,
            "hours": [_short(results[0].hours[place]) for place in places],
            "lines": [_line(name, label, results, places) for label in labels],
        }
        for name in results[0].curves
    ]


def _line(name: str, label: str, results: Sequence[CaseResult], places: Sequence[int]) -> dict[str, Any]:
    own = [[result.curves[name][place] for place in places] for result in results if result.label == label]
    values = np.array(own)
    sides = {"mean": values.mean(axis=0), "low": values.min(axis=0), "high": values.max(axis=0)}
    return {"policy": label} | {side: [_short(value) for value in points.tolist()] for side, points in sides.items()}


def _short(value: float) -> float:
    """Round to four significant digits, more than a picture shows."""
    return float(f"{value:.4g}")
