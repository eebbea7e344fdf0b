"""Answers about a stored simulation: cells of figures, verdicts on differences, points of curves."""

from __future__ import annotations

import math

import pytest

from broker.simulation.answers.figures_of_merit import FIGURES, cell, verdict
from broker.simulation.answers.simulations import NoSuchSimulation, simulation_answer, thinned
from broker.simulation.commands.documents import curve_documents
from broker.simulation.model.comparing import CaseResult
from broker.simulation.model.figures import Stats


@pytest.mark.parametrize(
    ("name", "mean", "half_width", "text"),
    [
        ("use", 0.8234, 0.012, "82.3 +- 1.2"),
        ("wait_median_s", 90.0, None, "1.5"),
        ("wan_bytes", 4.3e18, 1e15, "4,300,000 +- 1,000"),
        ("makespan_s", None, None, "–"),  # noqa: RUF001
        ("makespan_s", math.nan, math.nan, "–"),  # noqa: RUF001
        ("wait_95_s", math.inf, math.nan, "beyond the run"),
    ],
)
def test_a_figure_is_written_in_its_unit(name: str, mean: float | None, half_width: float | None, text: str) -> None:
    assert cell(name, mean, half_width) == text


@pytest.mark.parametrize(
    ("name", "mean", "half_width", "expected"),
    [
        ("use", 0.02, 0.01, "better"),
        ("use", -0.02, 0.01, "worse"),
        ("wait_95_s", -30.0, 10.0, "better"),
        ("wait_95_s", 30.0, 10.0, "worse"),
        ("wait_95_s", 10.0, 10.0, "no_difference"),
        ("failed", 0.0, 0.0, "no_difference"),
        ("use", 0.02, None, "not_known"),
        ("use", 0.02, math.nan, "not_known"),
        ("use", None, None, "not_known"),
    ],
)
def test_a_difference_counts_when_its_interval_excludes_zero(
    name: str, mean: float | None, half_width: float | None, expected: str
) -> None:
    assert verdict(name, mean, half_width) == expected


def test_every_figure_of_merit_has_a_title() -> None:
    assert list(FIGURES) == list(Stats.__dataclass_fields__)


@pytest.mark.parametrize(
    ("count", "limit", "places"), [(0, 5, []), (3, 5, [0, 1, 2]), (9, 3, [0, 4, 8]), (100, 2, [0, 99])]
)
def test_thinned_places_are_evenly_spaced(count: int, limit: int, places: list[int]) -> None:
    assert thinned(count, limit) == places


def result(label: str, seed: int, values: tuple[float, ...]) -> CaseResult:
    stats = Stats(**dict.fromkeys(FIGURES, 0.0))
    hours = tuple(float(at) for at in range(len(values)))
    return CaseResult(label, seed, stats, hours, {"use": values}, 1, 0.0, 0.0)


def test_curves_cover_all_seeds_and_end_with_the_shortest() -> None:
    results = [
        result("a", 1, (0.0, 1.0, 2.0, 9.0)),
        result("a", 2, (2.0, 3.0, 4.0)),
        result("b", 1, (1.0, 1.0, 1.00004)),
    ]
    (curve,) = curve_documents(results, 2)
    assert curve["hours"] == [0.0, 2.0]
    assert curve["lines"] == [
        {"policy": "a", "mean": [1.0, 3.0], "low": [0.0, 2.0], "high": [2.0, 4.0]},
        {"policy": "b", "mean": [1.0, 1.0], "low": [1.0, 1.0], "high": [1.0, 1.0]},
    ]
    assert curve_documents([]) == [] == curve_documents([result("a", 1, ())])


def test_an_unknown_simulation() -> None:
    with pytest.raises(NoSuchSimulation, match="no simulation 7"):
        simulation_answer(None, 7)
