"""Queues from which jobs were taken back."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from broker.domain.taken_back import format_taken_back, parse_taken_back
from broker.rules.filters.rebrokered import Rebrokered
from broker.store.database import Database
from broker.store.lifecycle_memory import read_taken_back
from tests.rules.builders import NOW_S, Case, check, kept, rejected

HOUR_S = 3600.0


def taken(hours_ago: float, queue: str = "QUEUE_A") -> str | None:
    """The memory of one taking."""
    return format_taken_back({queue: NOW_S - hours_ago * HOUR_S})


CASES = [
    kept(taken_back=None),
    kept(taken_back=taken(6.0)),
    rejected(taken_back=taken(5.999)),
    kept(taken_back=taken(0.1, "QUEUE_B")),
    rejected(taken_back=taken(0.1), REASSIGN_MEMORY=1),
    kept(taken_back=taken(1.0), REASSIGN_MEMORY=1),
    kept(taken_back=taken(0.0), REASSIGN_MEMORY=0),
    kept(taken_back=taken(0.1), single=True),
    kept(taken_back=taken(0.1), listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_rebrokered(case: Case) -> None:
    check(Rebrokered(), case)


def test_the_memory_as_text() -> None:
    queues = {"B q": 2.5, "A": 1.0}
    assert dict(parse_taken_back(format_taken_back(queues))) == queues
    assert format_taken_back({}) is None
    assert not parse_taken_back(None)


def test_the_memory_is_read_by_task_and_dataset(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO broker.rebrokered_from (jeditaskid, datasetid, queue, rebrokered_at)"
                " VALUES (1, 2, 'A', to_timestamp(100)), (1, 3, 'B', to_timestamp(200)), (9, 2, 'C', to_timestamp(300))"
            )
        )
        assert read_taken_back(connection, [1]) == {(1, 2): {"A": 100.0}, (1, 3): {"B": 200.0}}
