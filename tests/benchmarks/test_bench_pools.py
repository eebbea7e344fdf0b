"""The pool benchmark runs, and its pools are eligible at some queues but not at all."""

from __future__ import annotations

from benchmarks.bench_pools import measure


def test_the_share_of_eligible_queues_is_realistic_and_reproducible() -> None:
    stats = measure(pool_count=40, queue_count=100, seed=1)
    assert (stats["pools"], stats["queues"]) == (40, 100)
    assert 0.02 < stats["eligible_share"] < 0.8
    assert measure(pool_count=40, queue_count=100, seed=1)["eligible_share"] == stats["eligible_share"]
