"""Queues from which jobs were rebrokered are avoided for some hours."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from broker.domain.work import RebrokeredFrom
from broker.rules.shared.filters.rebrokered import Rebrokered
from broker.store.connection.database import Database
from broker.store.reads.chunk_loading import read_rebrokered_from
from tests.rules.builders import NOW_S, Case, check, kept, rejected

HOUR_S = 3600.0


def rebrokered(hours_ago: float, queue: str = "QUEUE_A") -> RebrokeredFrom | None:
    """Make the history of one rebrokerage."""
    return RebrokeredFrom.of({queue: NOW_S - hours_ago * HOUR_S})


CASES = [
    kept(rebrokered_from=None),
    kept(rebrokered_from=rebrokered(6.0)),
    rejected(rebrokered_from=rebrokered(5.999)),
    kept(rebrokered_from=rebrokered(0.1, "QUEUE_B")),
    rejected(rebrokered_from=rebrokered(0.1), REASSIGN_MEMORY=1),
    kept(rebrokered_from=rebrokered(1.0), REASSIGN_MEMORY=1),
    kept(rebrokered_from=rebrokered(0.0), REASSIGN_MEMORY=0),
    kept(rebrokered_from=rebrokered(0.1), one_preassigned=True),
    kept(rebrokered_from=rebrokered(0.1), listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_rebrokered(case: Case) -> None:
    check(Rebrokered(), case)


def test_the_stored_history_is_read_back_also_in_the_older_format() -> None:
    queues = {"B q": 2.5, "A": 1.0}
    history = RebrokeredFrom.of(queues)
    assert history is not None and RebrokeredFrom.of_stored(history.stored()) == history
    assert RebrokeredFrom.of_stored("1.0 A\n2.5 B q") == history
    assert RebrokeredFrom.of({}) is None


def test_the_history_is_read_by_task_and_dataset(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO broker.rebrokered_from (jeditaskid, datasetid, queue, rebrokered_at)"
                " VALUES (1, 2, 'A', to_timestamp(100)), (1, 3, 'B', to_timestamp(200)), (9, 2, 'C', to_timestamp(300))"
            )
        )
        assert read_rebrokered_from(connection, [1]) == {(1, 2): {"A": 100.0}, (1, 3): {"B": 200.0}}
