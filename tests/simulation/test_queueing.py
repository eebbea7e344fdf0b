"""Parts of the model agree with queueing theory within the interval of ten seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from broker.simulation.model.events import EventQueue
from broker.simulation.model.intervals import Interval, interval
from broker.simulation.model.network import Network
from broker.simulation.model.slots import Nodes, SlotQueue

SEEDS = range(10)


class Customer:
    """A job of one core."""

    cores, memory_gb, share = 1, 0.0, 0

    def __init__(self, service_s: float, arrived_s: float, priority: float = 0.0) -> None:
        self.service_s, self.arrived_s, self.priority = service_s, arrived_s, priority


def erlang_wait(servers: int, load: float) -> tuple[float, float]:
    """Erlang C and the mean wait for a mean service of 1."""
    last = math.exp(servers * math.log(load) - math.lgamma(servers + 1)) * servers / (servers - load)
    others = sum(math.exp(k * math.log(load) - math.lgamma(k + 1)) for k in range(servers))
    waits = last / (others + last)
    return waits, waits / (servers - load)


def serve(servers: int, gaps: np.ndarray, services: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Waits and stays of customers at a slot queue, the number waiting integrated over time, and the measured time."""
    events = EventQueue()
    queue: SlotQueue[Customer] = SlotQueue(Nodes(1, servers, 0.0))
    waits, stays = [], []
    area = [0.0, 0.0]

    def count() -> None:
        area[0] += queue.waiting * (events.now - area[1])
        area[1] = events.now

    def start() -> None:
        for job, node in queue.starts(events.now):
            waits.append(events.now - job.arrived_s)
            events.after(job.service_s, leave, job, node)

    def leave(job: Customer, node: int) -> None:
        count()
        queue.release(job, node)
        stays.append(events.now - job.arrived_s)
        start()

    def arrive(number: int) -> None:
        count()
        queue.add(Customer(float(services[number]), events.now))
        start()
        if number + 1 < len(gaps):
            events.after(float(gaps[number + 1]), arrive, number + 1)

    events.at(float(gaps[0]), arrive, 0)
    events.run(1e12)
    return np.array(waits), np.array(stays), area[0], area[1]


def test_erlang_c_of_the_table() -> None:
    table = {
        (1, 0.5): (0.5, 1.0),
        (2, 1.5): (0.64286, 1.28571),
        (4, 3): (0.50943, 0.50943),
        (10, 8): (0.40918, 0.20459),
    }
    table |= {(10, 9): (0.66873, 0.66873), (50, 45): (0.36386, 0.07277), (100, 95): (0.50646, 0.10129)}
    for (servers, load), expected in table.items():
        assert erlang_wait(servers, load) == pytest.approx(expected, abs=6e-6)


def within(estimate: Interval, expected: float) -> bool:
    """Whether the estimate is within twice the half-width: a case fails by chance once in tens of thousands of runs."""
    return estimate.enough_seeds and abs(estimate.mean - expected) < 2 * estimate.half_width


@pytest.mark.validation
@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (2, 1.5), (4, 3.0), (10, 8.0), (50, 45.0)])
def test_waits_of_m_m_c(servers: int, load: float) -> None:
    means = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        waits, _, _, _ = serve(servers, random.exponential(1 / load, 8_000), random.exponential(1.0, 8_000))
        means.append(float(waits[1000:].mean()))
    estimate, expected = interval(means), erlang_wait(servers, load)[1]
    assert within(estimate, expected), (estimate, expected)
    assert estimate.half_width < 0.5 * expected


@pytest.mark.validation
def test_the_tail_of_the_wait_at_ten_servers() -> None:
    tails = []
    for seed in SEEDS:
        random = np.random.default_rng(100 + seed)
        waits, _, _, _ = serve(10, random.exponential(1 / 9, 12_000), random.exponential(1.0, 12_000))
        tails.append(float(np.quantile(waits[1000:], 0.95)))
    assert within(interval(tails), 2.5934), tails


@pytest.mark.validation
@pytest.mark.parametrize(
    ("name", "expected"), [("fixed", 2.0), ("lognormal .5", 2.56805), ("exponential", 4.0), ("lognormal 1", 5.43656)]
)
def test_waits_of_m_g_1(name: str, expected: float) -> None:
    means = []
    for seed in SEEDS:
        random, size = np.random.default_rng(seed), 12_000
        s = float(name.split()[1]) if " " in name else 0.0
        samples = {"fixed": np.ones(size), "exponential": random.exponential(1.0, size)}
        services = samples.get(name, np.exp(random.normal(-s * s / 2, s, size)))
        waits, _, _, _ = serve(1, random.exponential(1 / 0.8, size), services)
        means.append(float(waits[1000:].mean()))
    assert within(interval(means), expected), (interval(means), expected)


@pytest.mark.slow
def test_littles_law() -> None:
    random = np.random.default_rng(3)
    waits, _, area, until = serve(10, random.exponential(1 / 9, 60_000), random.exponential(1.0, 60_000))
    assert area / until == pytest.approx(len(waits) / until * waits.mean(), rel=0.01)


def mean_stay_over_size(seed: int) -> float:
    """The mean stay of transfers that share one link at load .5, over their mean size."""
    random, events = np.random.default_rng(seed), EventQueue()
    network = Network(events, np.array([1.0]), batch_s=0.0)
    sizes, stays = random.lognormal(-0.5, 1.0, 1500), np.zeros(1500)
    arrivals = np.cumsum(random.exponential(2.0, 1500))

    def begin(number: int) -> None:
        network.start((0,), float(sizes[number]), 1e9, lambda: end(number))

    def end(number: int) -> None:
        stays[number] = events.now - arrivals[number]

    for number in range(1500):
        events.at(float(arrivals[number]), begin, number)
    events.run(1e9)
    return float(stays.mean() / sizes.mean())


@pytest.mark.slow
def test_a_link_is_a_processor_sharing_queue() -> None:
    # T(x) = x / (1 - rho), whatever the distribution of sizes
    assert within(interval([mean_stay_over_size(seed) for seed in SEEDS]), 2.0)


def test_priorities_start_first_and_wide_jobs_drain() -> None:
    queue: SlotQueue[Customer] = SlotQueue(Nodes(1, 2, 0.0), drain_after_s=10.0)
    low, high, wide = Customer(1, 0), Customer(1, 0, 5.0), Customer(1, 0, 9.0)
    wide.cores = 2  # type: ignore[misc]
    queue.add(low)
    queue.add(high)
    assert [job for job, _ in queue.starts(0.0)] == [high, low]
    small = Customer(1, 0)
    queue.add(wide)
    queue.release(low, 0)
    queue.add(small)
    # the wide job does not fit: a smaller one passes, until the wide one has waited for 10 s at the head
    assert [job for job, _ in queue.starts(1.0)] == [small]
    queue.release(small, 0)
    queue.add(Customer(1, 0))
    assert list(queue.starts(11.0)) == []
    queue.release(high, 0)
    assert [job for job, _ in queue.starts(21.0)] == [wide]
    assert queue.drained_core_s == 2 * 10.0
