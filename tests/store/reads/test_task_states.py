from __future__ import annotations

import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.task_states import TaskState, distinct_vos, states_of
from tests.store.small_work import seed


def test_vos_with_tasks_in_the_statuses_are_ordered_by_highest_priority(database: Database) -> None:
    seed(database, tasks=range(1, 7))
    with database.begin() as connection:
        for task, vo, priority, status in (
            (1, "low", 10, "ready"),
            (2, "high", 10, "ready"),
            (3, "high", 900, "running"),
            (4, "none", None, "ready"),
            (5, "done", 950, "done"),
            (6, None, 990, "ready"),
        ):
            connection.execute(
                sa.text(
                    "UPDATE doma_panda.jedi_tasks SET vo = :vo, currentpriority = :priority, status = :status"
                    " WHERE jeditaskid = :task"
                ),
                {"vo": vo, "priority": priority, "status": status, "task": task},
            )
        catalogue = TableCatalogue.read(connection, database.names)
        assert distinct_vos(connection, catalogue, ("ready", "running")) == ["high", "low", "none"]


def test_only_existing_tasks_have_states(database: Database) -> None:
    seed(database, tasks=[1, 2])
    with database.begin() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        assert states_of(connection, catalogue, [1, 3]) == {1: TaskState("ready", "CERN", "atlas")}
        assert states_of(connection, catalogue, []) == {}
