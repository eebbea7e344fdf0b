from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.simulation.model.errors import SimulationError
from broker.simulation.model.events import EventQueue
from broker.simulation.model.fair_rates import fair_rates
from broker.simulation.model.network import Network

A, B, C = 0, 1, 2


def rates_of(uses: Sequence[Sequence[int]], capacity: list[float], caps: Sequence[float]) -> list[float]:
    width = max(map(len, uses))
    padded = [[*used, *[len(capacity)] * (width - len(used))] for used in uses]
    padded_uses = np.array(padded, dtype=np.int64).reshape(len(uses), width)
    way = np.arange(len(uses), dtype=np.int64)
    return fair_rates(way, padded_uses, np.array(capacity), np.array(caps)).tolist()


def test_the_worked_example() -> None:
    uses = [(A,), (A, C), (A, B), (B,)]
    assert rates_of(uses, [10.0, 4.0, 20.0], [math.inf] * 4) == [4.0, 4.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("caps", "rates"),
    [
        ((math.inf, math.inf), (5.0, 5.0)),
        ((4.0, math.inf), (4.0, 6.0)),
        ((5.0, math.inf), (5.0, 5.0)),
        ((4.0, 4.0), (4.0, 4.0)),
        ((1.0, 5.5), (1.0, 5.5)),
    ],
)
def test_a_cap_leaves_the_rest_to_the_others(caps: tuple[float, float], rates: tuple[float, float]) -> None:
    assert rates_of([(A,), (A,)], [10.0], caps) == pytest.approx(rates)


uses_of = st.lists(st.sets(st.integers(0, 5)).map(lambda s: tuple(sorted(s))), min_size=1, max_size=13)


@pytest.mark.slow
@given(
    uses_of,
    st.lists(st.floats(0.5, 50), min_size=6, max_size=6),
    st.lists(st.floats(0.1, 40), min_size=13, max_size=13),
)
def test_rates_are_max_min_fair(uses: list[tuple[int, ...]], widths: list[float], limits: list[float]) -> None:
    capacity, caps, flows = widths, limits[: len(uses)], range(len(uses))
    rates = rates_of(uses, capacity, caps)
    load = [sum(rates[flow] for flow in flows if r in uses[flow]) for r in range(len(capacity))]
    assert all(load[r] <= capacity[r] * (1 + 1e-9) for r in range(len(capacity)))
    for flow, rate in enumerate(rates):
        assert rate <= caps[flow] * (1 + 1e-9)
        # at its cap, or at a full resource where nobody has more
        full = [r for r in uses[flow] if load[r] >= capacity[r] * (1 - 1e-9)]
        highest = [max(rates[other] for other in flows if r in uses[other]) for r in full]
        assert rate >= caps[flow] * (1 - 1e-9) or any(rate >= top * (1 - 1e-9) for top in highest)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.1, 0.5, 1.0, 3.0, math.inf])), max_size=30),
    st.lists(st.floats(0.5, 50), min_size=4, max_size=4),
)
def test_flows_of_one_way_get_the_rates_they_get_one_by_one(
    flows: list[tuple[int, float]], capacity: list[float]
) -> None:
    uses = np.array([[0, 1, 2], [0, 3, 4], [2, 3, 4], [1, 4, 4]], dtype=np.int64)
    way = np.array([number for number, _ in flows], dtype=np.int64)
    cap, widths = np.array([most for _, most in flows]), np.array(capacity)
    own_way = np.arange(len(flows), dtype=np.int64)
    together, one_by_one = fair_rates(way, uses, widths, cap), fair_rates(own_way, uses[way], widths, cap)
    assert together.tolist() == one_by_one.tolist()


def ends(sizes: list[float], width: float, cap: float = 1e12) -> list[float]:
    events = EventQueue()
    network = Network(events, np.array([width]), batch_s=0.0)
    found: list[float] = []
    for size in sizes:
        network.start((0,), size, cap, lambda: found.append(events.now))
    events.run(1e9)
    assert network.totals.started == network.totals.arrived == sum(sizes)
    return found


def test_equal_transfers_end_together_and_others_by_size() -> None:
    assert ends([1e9] * 4, 1e9) == pytest.approx([4.0] * 4)
    assert ends([1e9, 2e9, 3e9], 1e9) == pytest.approx([3.0, 5.0, 6.0])


def test_a_transfer_is_never_faster_than_its_cap() -> None:
    assert ends([1e9], 1e9, cap=1e8) == pytest.approx([10.0])


def test_a_cancelled_transfer_loses_what_it_sent_and_frees_the_link() -> None:
    events = EventQueue()
    network = Network(events, np.array([10.0]), batch_s=0.0)
    found: list[float] = []
    first = network.start((0,), 100.0, 100.0, lambda: found.append(-1.0))
    network.start((0,), 100.0, 100.0, lambda: found.append(events.now))
    events.at(4.0, network.cancel, first)
    events.run(1000.0)
    # 5 B/s for 4 s, then 80 B at 10 B/s
    assert found == pytest.approx([12.0])
    totals = network.totals
    assert (totals.lost, totals.arrived) == pytest.approx((20.0, 100.0))
    assert totals.started == pytest.approx(totals.arrived + totals.lost)
    network.cancel(first)


@pytest.mark.parametrize("width", [0.0, -1.0, math.nan])
def test_a_link_without_bandwidth_is_refused(width: float) -> None:
    with pytest.raises(SimulationError, match="bandwidth"):
        Network(EventQueue(), np.array([width]))


def test_an_event_in_the_past_is_refused_and_a_circle_of_events_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.simulation.model.events.MOST_EVENTS_AT_ONE_INSTANT", 1000)
    events = EventQueue(5.0)
    for time_s in (4.9, math.nan):
        with pytest.raises(SimulationError, match="planned"):
            events.at(time_s, print)

    def again() -> None:
        events.after(0.0, again)

    again()
    with pytest.raises(SimulationError, match="stands still"):
        events.run(6.0)
