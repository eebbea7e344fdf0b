"""The benchmark of pools runs, and its pools are neither eligible everywhere nor nowhere."""

from __future__ import annotations

from benchmarks.bench_pools import measure


def test_the_figures() -> None:
    stats = measure(pool_count=40, queue_count=100, seed=1)
    assert (stats["pools"], stats["queues"]) == (40, 100)
    assert 0.02 < stats["eligible_share"] < 0.8
    assert measure(pool_count=40, queue_count=100, seed=1)["eligible_share"] == stats["eligible_share"]
