"""The rows of ``broker.services``: the heartbeats of service processes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.engine import Connection


@dataclass(frozen=True)
class Service:
    """A service process as stored in the database; the age is in seconds by the database's clock."""

    holder: str
    host: str
    version: str
    started_at: datetime
    seen_s_ago: float
    agents: list[str]


_SAVE_BEAT = text("""
    INSERT INTO broker.services (holder, host, version, started_at, seen_at, agents, state)
    VALUES (:holder, :host, :version, clock_timestamp(), clock_timestamp(), CAST(:agents AS jsonb),
            CAST(:state AS jsonb))
    ON CONFLICT (holder) DO UPDATE
    SET seen_at = excluded.seen_at, agents = excluded.agents, state = excluded.state""")

_FORGET_DEAD = text("DELETE FROM broker.services WHERE seen_at < clock_timestamp() - make_interval(days => 1)")

_DELETE_SERVICE = text("DELETE FROM broker.services WHERE holder = :holder")

_READ_SERVICES = text("""
    SELECT holder, host, version, started_at,
           extract(epoch FROM clock_timestamp() - seen_at)::float8 AS seen_s_ago, agents
    FROM broker.services
    ORDER BY started_at, holder""")

_READ_DIVISIONS = text("""
    SELECT holder, coalesce(state -> 'parts', '{}') AS parts FROM broker.services
    WHERE seen_at > clock_timestamp() - make_interval(secs => :alive_s)""")


def beat(
    connection: Connection,
    holder: str,
    host: str,
    version: str,
    agents: Sequence[str],
    state: Mapping[str, Any] | None = None,
) -> None:
    """Record that the service ``holder`` on ``host`` is alive and runs ``agents``.

    ``state`` is its own report; see :class:`broker.store.service.health.ServiceState`.
    """
    values = {"holder": holder, "host": host, "version": version, "agents": json.dumps(list(agents))}
    connection.execute(_SAVE_BEAT, values | {"state": None if state is None else json.dumps(dict(state))})


def leave(connection: Connection, holder: str) -> None:
    """Remove the service ``holder``, which is ending, and services that have been silent for a day."""
    connection.execute(_DELETE_SERVICE, {"holder": holder})
    connection.execute(_FORGET_DEAD)


def divisions(connection: Connection, alive_s: float) -> dict[str, dict[str, int]]:
    """The number of parts by divided agent, for each service with a heartbeat in the last ``alive_s`` seconds."""
    return {holder: dict(parts) for holder, parts in connection.execute(_READ_DIVISIONS, {"alive_s": alive_s})}


def find_all(connection: Connection) -> list[Service]:
    """All services that have not signed off, oldest first."""
    return [Service(**row._mapping) for row in connection.execute(_READ_SERVICES)]


SIGN_OF_LIFE_WITHIN_S = 30.0
_READ_AGE_OF_NEWEST_BEAT = sa.text(
    "SELECT extract(epoch FROM clock_timestamp() - max(seen_at))::float8 FROM broker.services"
)


def newest_sign_of_life_s(connection: sa.Connection) -> float | None:
    """Seconds since the last heartbeat of any service, by the database's clock; None if there is no service."""
    age_s = connection.execute(_READ_AGE_OF_NEWEST_BEAT).scalar()
    return None if age_s is None else float(age_s)
