"""A small grid of places, pools, tasks and jobs for tests of SubmitPools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.pools.model.description import NumberLiteral
from broker.pools.model.job_text import resolve_requirements
from broker.pools.model.requirement import SubmitPool
from broker.pools.statements.pool_refresh import new_mapping, write_mapping
from broker.pools.statements.resource_versions import ResourceText, current, publish
from broker.store.connection.database import Database

START = datetime(2026, 8, 1, tzinfo=UTC)
PLACES: dict[str, dict[str, Any]] = {
    "SITE_A": {
        "params": {"Memory": "2000"},
        "ces": {
            "ce1": {
                "params": {"PandaQueue": "QUEUE_A"},
                "queues": {"short": {}, "long": {"params": {"Memory": "8000", "Label": ["T1", "T2"]}}},
            }
        },
    },
    "SITE_B": {
        "params": {"Memory": "4000", "Label": "T2"},
        "ces": {"ce1": {"queues": {"QUEUE_B": {"VO": ["lhcb"]}}}},
    },
}

#: The tables that the pool tests write; the tests share a database and start with these tables empty.
TABLES = (
    "broker.resource_versions", "broker.resource_queues", "broker.submit_pools", "broker.submit_pool_links",
    "broker.submit_pool_refreshes",
    "broker.task_requirements", "broker.task_queues", "broker.waiting_jobs", "broker.task_queue_levels",
    "broker.running_limits", "broker.limit_leases", "broker.activated_jobs", "broker.held_jobs",
    "broker.leases", "doma_panda.jedi_tasks", "doma_panda.jobsdefined4", "doma_panda.jobsactive4",
    "doma_panda.jobs_statuslog",
)  # fmt: skip


def emptied(database: Database) -> Database:
    """Empty the tables of these tests and return the database."""
    execute(database, f"TRUNCATE {', '.join(TABLES)} RESTART IDENTITY CASCADE")
    return database


def at(seconds: float) -> datetime:
    """Return the time this many seconds after the start."""
    return START + timedelta(seconds=seconds)


def pool_for(vo: str = "lhcb", **requirements: Any) -> SubmitPool:
    """Return the pool for these requirements; integers become number literals."""
    literals = {
        key: NumberLiteral(str(value)) if isinstance(value, int) else value for key, value in requirements.items()
    }
    pool = resolve_requirements(literals, vo)
    assert pool is not None
    return pool


def publish_places(database: Database, places: Mapping[str, Any] = PLACES, seconds: float = 0) -> bool:
    """Publish these places as the current resources."""
    text = ResourceText("test", "json", json.dumps({"resources": places}))
    with database.begin() as connection:
        return publish(connection, text, at(seconds))


def refresh(database: Database, seconds: float) -> dict[str, int]:
    """Refresh the mapping from the current resources."""
    with database.begin() as connection:
        version = current(connection)
        assert version is not None
        mapping = new_mapping(connection, version.content.resources)
        return write_mapping(connection, mapping, version.content.resources, version.id, at(seconds))


def rows(database: Database, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with database.read_snapshot() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement), values)]


def execute(database: Database, statement: str, **values: Any) -> None:
    """Run one statement."""
    with database.begin() as connection:
        connection.execute(sa.text(statement), values)


def mapping_of(database: Database) -> list[tuple[Any, ...]]:
    """Return all rows of the mapping."""
    return rows(database, "SELECT * FROM broker.submit_pool_queues ORDER BY 1, 2, 3, 4")


def add_task(database: Database, task: int, status: str = "running") -> None:
    """Add a task, or change its status."""
    execute(
        database,
        "INSERT INTO doma_panda.jedi_tasks (jeditaskid, status, vo) VALUES (:task, :status, 'lhcb')"
        " ON CONFLICT (jeditaskid) DO UPDATE SET status = excluded.status",
        task=task,
        status=status,
    )
