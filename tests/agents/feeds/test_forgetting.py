"""Rows that are too old go, but not by a wrong clock, and never most of a table at once."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from agents.feeds.importing import held_back
from agents.feeds.network import NetworkAgent, NetworkOptions
from agents.service.clock import ClockFault
from broker.simulation.model.demo.grid_documents import GridSize, network_metrics, queue_name
from broker.store.connection.database import Database
from tests.agents.feeds.running import PROCESS, Feeding
from tests.feeds.documents import NOW

FAULT = ClockFault("database_jumped", 30 * 86_400.0, 30.0)


@pytest.fixture
def feeding(database: Database, tmp_path: Path) -> Feeding:
    feeds = Feeding(database, tmp_path)
    feeds.grid(20)
    return feeds


@pytest.mark.parametrize(
    ("due", "total", "faults", "why"),
    [
        (0, 100, (FAULT,), ""),
        (1, 100, (), ""),
        (1, 100, (FAULT,), "clocks contradict one another: database_jumped by +2592000 s"),
        (50, 100, (), ""),
        (51, 100, (), "more than 50% at once"),
        (9, 9, (), ""),
        (10, 10, (), "more than 50% at once"),
    ],
)
def test_reasons_to_hold_old_rows_back(due: int, total: int, faults: tuple[ClockFault, ...], why: str) -> None:
    reason = held_back(due, total, 0.5, faults)
    assert reason.startswith(why) and bool(reason) == bool(why)


@pytest.mark.parametrize("faults", [(), (FAULT,)])
def test_a_queue_that_is_no_longer_listed_goes_if_the_clocks_agree(
    feeding: Feeding, faults: tuple[ClockFault, ...]
) -> None:
    documents = feeding.grid(20)
    del documents["queues"][queue_name(3)]
    later = NOW + timedelta(days=30)
    agent = feeding.cric_agent({"queues": documents["queues"]})
    report = feeding.run(agent, later, clock_faults=faults)
    assert feeding.count("schedconfig_json") == 19 + len(faults)
    why = f"too old and stay: clocks contradict one another: {FAULT.code} by +2592000 s"
    assert [note for note in report.notes if "too old" in note][:1] == [
        f"1 of 20 rows of schedconfig_json are {why}" for _ in faults
    ]


@pytest.mark.parametrize(("allow_shrink", "left"), [(False, 100), (True, 0)])
def test_all_links_do_not_go_at_once(feeding: Feeding, allow_shrink: bool, left: int) -> None:
    later = NOW + timedelta(days=30)
    address = feeding.write("net", network_metrics(GridSize(20), NOW))
    report = feeding.run(NetworkAgent(NetworkOptions(address=address, allow_shrink=allow_shrink), PROCESS), later)
    assert feeding.count("network_matrix_kv") == left
    assert (
        any("100 of 100 rows of network_matrix_kv are too old and stay" in note for note in report.notes)
        != allow_shrink
    )
