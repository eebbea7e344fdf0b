"""The Analysis Stabilizer compared with a table computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.domain.analysis import KEYS, StabilizerLoad, stabilize, stats
from broker.gdpconfig import Tuning

NUMBER = Tuning.defaults().only(KEYS).number


def load(**changes: float) -> StabilizerLoad:
    values = dict(queued=0.0, running=0.0, to_running_rate=0.0, user_queued=0.0, user_running=0.0, users=1.0) | changes
    return StabilizerLoad(**{name: np.array([[value]]) for name, value in values.items()})


@pytest.mark.parametrize(
    ("changes", "throttled"),
    [
        ({"queued": 99}, False),
        ({"queued": 100}, True),
        ({"queued": 159, "to_running_rate": 20}, False),
        ({"queued": 160, "to_running_rate": 20}, True),
        ({"queued": 100, "to_running_rate": 0}, True),
    ],
)
def test_throttling_thresholds(changes: dict[str, float], throttled: bool) -> None:
    assert bool(stabilize(load(**changes), NUMBER).can_be_throttled.item()) is throttled


@pytest.mark.parametrize(
    ("changes", "nq_max", "percentage", "max_q_len"),
    [
        # nothing runs: the minimum length, for one of four users
        ({"users": 4}, 100, 0.25, 25),
        # nR = 0 and no users at all
        ({"users": 0}, 100, 1.0, 100),
        # 2 x 300 running exceeds the minimum length; the user runs 30 of 300, less than the share of one of 5 users
        ({"running": 300, "user_running": 30, "users": 5}, 600, 0.2, 120),
        # the user runs half of the jobs
        ({"running": 300, "user_running": 150, "users": 5}, 600, 0.5, 300),
        # 12 h x 100 jobs an hour; one of 100 users
        ({"running": 200, "to_running_rate": 100, "users": 100}, 1200, 0.01, 12),
        # 5 % of the running jobs exceed the share of one of many users
        ({"running": 1000, "users": 1000}, 2000, 0.001, 50),
        # the minimum length per user exceeds both
        ({"running": 10, "users": 1000}, 100, 0.001, 5),
    ],
)
def test_the_maximum_queue_length(
    changes: dict[str, float], nq_max: float, percentage: float, max_q_len: float
) -> None:
    decision = stabilize(load(**changes), NUMBER)
    figures = (decision.nq_max.item(), decision.percentage.item(), decision.max_q_len.item())
    assert figures == pytest.approx((nq_max, percentage, max_q_len))


def test_every_figure_is_shown() -> None:
    some_load = load(queued=7, running=3, to_running_rate=1.5, user_queued=2, user_running=1, users=2)
    assert stats(some_load, stabilize(some_load, NUMBER)) == {
        "nQ": 7,
        "nR": 3,
        "trr": 1.5,
        "nQ_user": 2,
        "nR_user": 1,
        "nUsers": 2,
        "can_be_throttled": False,
        "nQ_max": 100,
        "percentage": 0.5,
        "max_q_len": 50,
    }


_COUNTS = st.floats(0, 1e6)


@given(st.fixed_dictionaries({name: _COUNTS for name in ("queued", "running", "to_running_rate", "users")}), _COUNTS)
def test_a_user_may_always_queue_jobs_and_more_with_running_jobs(values: dict[str, Any], running: float) -> None:
    with_running = stabilize(load(**values, user_running=min(running, values["running"])), NUMBER)
    without_running = stabilize(load(**values), NUMBER)
    assert np.isfinite(with_running.max_q_len).all()
    assert with_running.max_q_len.item() >= without_running.max_q_len.item() >= 5
