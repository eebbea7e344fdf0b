from __future__ import annotations

from broker.domain.work import WayToRun
from broker.store.connection.database import Database
from broker.store.reads import task_alternatives


def test_ways_to_run_are_read_in_order_of_preference(database: Database) -> None:
    ways = (WayToRun(16, 16), WayToRun(4, None, (8.0,), 2000, 10, 3600), WayToRun())
    with database.begin() as connection:
        task_alternatives.add(connection, 7, ways)
        task_alternatives.add(connection, 8, ())
        assert task_alternatives.read(connection, [7, 8, 9]) == {7: ways}
        assert task_alternatives.read(connection, []) == {}
