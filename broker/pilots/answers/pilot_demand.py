"""How many pilots each queue could use, and why no more: as last counted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.history.answers.tasks import known_value
from broker.pilots.model.pilot_demand import sentence
from broker.pilots.statements import pilot_demand as rows
from broker.pilots.statements.pilot_demand import DemandRow
from broker.store.connection.database import Database
from broker.store.connection.tables import Names
from broker.store.query_context import ResponseModel
from broker.store.reads.grid_names import queue_names

LIMIT_S = 10.0
_NOW = sa.text("SELECT clock_timestamp()")


class QueueDemand(ResponseModel):
    """Pilots of one resource type that a queue could use.

    Attributes:
        counted: numbers and time of the count.
        why: the demand and its reason, as a sentence.
    """

    counted: DemandRow
    why: str


def pilot_demand(connection: sa.Connection, names: Names, queue: str | None = None) -> list[QueueDemand]:
    """The demand of a queue, or of all queues that have jobs or pilots.

    Raises:
        UnknownValue: there is no such queue; it says which are near.
    """
    if queue is not None:
        known_value("queue", queue, queue_names(connection, names))
    demands = rows.read_demand(connection, names, queue)
    return [QueueDemand(counted=one, why=sentence(one.demand, one.panda_queue)) for one in demands]


def take_commands(database: Database, harvester: str, most: int) -> list[dict[str, Any]]:
    """Take the oldest new commands of a Harvester instance; nobody else gets them again."""
    with database.within(LIMIT_S) as limited, limited.begin() as connection:
        return rows.take_commands(connection, database.names, harvester, most, _now(connection))


def acknowledge(database: Database, commands: Sequence[int]) -> list[int]:
    """Record that commands were carried out; return the numbers of those that somebody had retrieved."""
    with database.within(LIMIT_S) as limited, limited.begin() as connection:
        return rows.acknowledge(connection, database.names, commands, _now(connection))


def _now(connection: sa.Connection) -> datetime:
    now: datetime = connection.execute(_NOW).scalar_one()
    return now.astimezone(UTC)
