"""Single changes that would help: needed values, round figures, and figures in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.decisions.answers.decision_model import gap_percent
from broker.decisions.answers.phrases import comparison, throttle
from broker.decisions.answers.remedies import TaskChange, lowered
from broker.domain.decisions import REQUESTS, Observation
from broker.domain.instants import length
from broker.domain.words import size, with_unit
from broker.engine.analysis.throttle import Throttle
from broker.errors import nearest
from broker.grid.answers.misses_at_queue import needed_value
from broker.store.query_context import NothingFound, known_name


def observe(value: Any, operator: str, limit: Any, unit: str = "MB", key: str = "queue.maxrss") -> Observation:
    return Observation(value=value, operator=operator, limit=limit, unit=unit, key=key)


@pytest.mark.parametrize(
    ("observation", "value"),
    [
        (observe(31774.0, "<=", 24000.0), 32000.0),
        (observe(32000.0, "<=", 24000.0), 32000.0),
        (observe(32000.0, "<", 24000.0), 33000.0),
        (observe(7400.0, ">=", 8001.0, key="queue.minrss"), 7000.0),
        (observe(7000.0, ">", 8001.0, key="queue.minrss"), 6000.0),
        (observe(400.0, ">=", 8001.0, key="queue.minrss"), 0.0),
        (observe(90_000.0, "<=", 86_400.0, "s", "queue.maxtime"), 90_000.0),
        (observe("paused", "==", "online", "-", "queue.status"), "online"),
        (observe(True, "==", False), None),
        (observe(None, "<=", 3.0), None),
    ],
)
def test_needed_value_is_the_nearest_round_value_that_passes(observation: Observation, value: Any) -> None:
    assert needed_value(observation) == value


@given(
    st.floats(0, 1e9, allow_subnormal=False),
    st.sampled_from(("<", "<=", ">", ">=")),
    st.sampled_from(("MB", "s", "jobs", "cores")),
)
def test_the_needed_limit_lets_the_value_pass(value: float, operator: str, unit: str) -> None:
    needed = needed_value(observe(value, operator, 0.0, unit))
    assert isinstance(needed, float)
    passes = {"<": value < needed, "<=": value <= needed, ">": value > needed, ">=": value >= needed}
    assert passes[operator] or (needed == 0.0 and value == 0.0)


@pytest.mark.parametrize(
    ("observation", "gap"),
    [
        (Observation(150.0, "<=", 100.0, "MB", "k"), 50.0),
        (Observation(50.0, ">=", 100.0, "MB", "k"), 50.0),
        (Observation(100.0, "<=", 100.0, "MB", "k"), 0.0),
        (Observation(1.0, "<=", 0.0, "MB", "k"), None),
        (Observation("a", "==", "b", "-", "k"), None),
        (None, None),
    ],
)
def test_gap_between_a_value_and_its_limit(observation: Observation | None, gap: float | None) -> None:
    assert gap_percent(observation) == gap


def change(value: float) -> TaskChange:
    """A change whose batch stays the same at every value."""

    class ConstantBatchChange(TaskChange):
        def at(self, value: float) -> TaskChange:
            return change(value)

    return ConstantBatchChange(REQUESTS[0], "ramcount", value, "MB", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("limit", "largest"), [(6600.0, 6500.0), (40_000.0, 39_000.0), (10.0, None)])
def test_the_largest_round_figure_with_a_candidate(limit: float, largest: float | None) -> None:
    result = lowered(change(40_000.0), lambda attempt: ["Q"] if attempt.value <= limit else [])
    assert (None if result is None else result[0]) == largest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (with_unit(288900.0, "MB"), "288,900 MB"),
        (with_unit(86_400.0, "s"), "24 h"),
        (with_unit(None, "MB"), "nothing"),
        (with_unit(float("inf"), "jobs"), "no limit jobs"),
        (length(-5.0), "0 s"),
        (length(119.0), "119 s"),
        (length(120.0), "2 min"),
        (length(1_000_000.0), "11.6 d"),
        (size(3 * 1024.0**4), "3 TB"),
        (size(1023.0), "1.02e+03 B"),
        (comparison(observe(9.0, "<=", 3.0)), "requires 9 MB, limit 3 MB (queue.maxrss)"),
        (
            comparison(
                Observation(
                    value=0.0,
                    operator=">",
                    limit=0.0,
                    unit="queues",
                    key="rule",
                    inputs={"queues": 4.0, "rejected": "cpucore 2, unknown_pilots 2"},
                )
            ),
            "0 queues, limit above 0 queues (rule), rejected: cpucore 2, unknown_pilots 2",
        ),
        (
            throttle(Throttle(condition="share_usage", figure=97.5, cap=90.0, unit="%", key="rule")),
            "usage of the share 97.5 %, cap 90 % (rule)",
        ),
        (
            throttle(Throttle(condition="quota_unknown", figure=0, cap=0, unit="-", key="config")),
            "the quota cannot be read, and until it can no jobs are made",
        ),
    ],
)
def test_figures_in_words(text: str, expected: str) -> None:
    assert text == expected


def test_names_match_in_any_case_and_the_nearest_is_suggested() -> None:
    names = ["BNL", "BNL_ARM", "RAL-LCG2"]
    assert known_name("queue", "bnl", names, "here") == "BNL"
    assert nearest("bnlx", names)[0] == "BNL"
    assert nearest("ral", names) == ("RAL-LCG2",) and nearest("", names) == ()
    with pytest.raises(NothingFound) as error:
        known_name("queue", "zzz", names, "here")
    assert (error.value.exit_status, error.value.nearest, error.value.kind) == (4, (), "queue")
