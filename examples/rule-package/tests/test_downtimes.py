"""The source and the rule that uses it: both sides of the notice, and a downtime that is over."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
from example_broker_rules.no_downtime import NoDowntime
from example_broker_rules.site_downtimes import TABLE, SiteDowntimes

from broker.rules.contract import JobPairs
from broker.snapshot.raw import RawSource, Rows

NONE = SimpleNamespace()
NOW = datetime.fromisoformat("2026-08-01T12:00:00")
COLUMNS = ("panda_queue", "starts_at", "ends_at", "written_at")


def snapshot(*downtimes: tuple[str, float, float]) -> Any:
    """A grid of three queues, with downtimes as queue, first and last hour from now."""
    rows = [(queue, NOW + timedelta(hours=first), NOW + timedelta(hours=last), NOW) for queue, first, last in downtimes]
    queues = SimpleNamespace(unified_name=np.array(["A", "B", "C"], dtype=object))
    grid = SimpleNamespace(now_s=1_785_585_600.0, queues=queues)
    raw = RawSource("site_downtimes", {TABLE: Rows(COLUMNS, tuple(rows))})
    grid.offered = {"site_downtimes": SiteDowntimes().build(raw, grid)}
    return grid


def judged(grid: Any) -> list[bool]:
    rule = NoDowntime()
    positions = np.arange(3)
    pairs = JobPairs(NONE, NONE, NONE, NONE, positions, positions, {"no_downtime": rule.prepare(grid, NONE, NONE)})
    kept: list[bool] = rule.keep(pairs).tolist()[0]
    seen = [JobPairs(NONE, NONE, NONE, NONE, positions, positions[[at]], pairs.prepared) for at in range(3)]
    assert [rule.observe(one).value > 12.0 for one in seen] == kept
    return kept


def test_a_downtime_within_the_notice_closes_a_queue() -> None:
    assert judged(snapshot(("A", 12, 20), ("B", 12.01, 20))) == [False, True, True]


def test_one_that_has_begun_closes_it_until_it_ends() -> None:
    assert judged(snapshot(("A", -5, 1), ("B", -5, 0))) == [False, True, True]


def test_the_first_downtime_of_a_queue_counts() -> None:
    assert judged(snapshot(("A", 30, 40), ("A", 2, 3))) == [False, True, True]
