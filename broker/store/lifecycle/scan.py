"""Which jobs the timeout rules act on at one instant, and one job with all that decides about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.lifecycle.codes import watcher_code
from broker.lifecycle.jobs import UNSET_TIME, Job, JobTable, Queue
from broker.lifecycle.limits import TimeoutLimits, before
from broker.lifecycle.rules import RULES, TimeoutRule
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.lifecycle import scan_sql as lifecycle_sql
from broker.store.lifecycle.actions import TABLES, JobAction


@dataclass(frozen=True)
class TimeoutContext:
    """What jobs are judged by.

    Attributes:
        queues: by the name that jobs have.
        limits: in force.
        now: the instant, naive UTC.
    """

    queues: Mapping[str, Queue]
    limits: TimeoutLimits
    now: datetime

    @classmethod
    def at(cls, now: datetime, queues: Mapping[str, Queue], limits: TimeoutLimits) -> TimeoutContext:
        """At an aware instant."""
        return cls(queues, limits, now.astimezone(UTC).replace(tzinfo=None))

    def start_nothing(self) -> list[str]:
        """The queues that start nothing."""
        since = self.limits.inactive_before(self.now)
        return sorted(name for name, queue in self.queues.items() if queue.starts_nothing(since))


def find_due(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    given: TimeoutContext,
    most: int | None = None,
    tasks: Sequence[int] | None = None,
) -> list[JobAction]:
    """The jobs on which a rule acts, by pandaid.

    Args:
        connection: any transaction.
        catalogue: the tables of the database.
        given: what jobs are judged by.
        most: no more than so many, those of the lowest pandaid; None for all.
        tasks: only jobs of these tasks; None for all.
    """
    found: list[JobAction] = []
    chosen = {"most": most, "tasks": None if tasks is None else list(tasks)}
    parameters = _parameters(connection, catalogue, given) | chosen
    for table in TABLES:
        statement = lifecycle_sql.scan(catalogue, table)
        rows = Database.raw(connection).execute(statement.encode(), parameters)
        found += [_move(table, *row) for row in rows]
    return sorted(found, key=lambda move: move.pandaid)[:most]


def count_live(connection: sa.Connection, catalogue: TableCatalogue) -> int:
    """How many jobs have not ended."""
    statements = [f"SELECT count(*) FROM {catalogue.names.table(table)}" for table in TABLES]  # noqa: S608 - quoted names
    return sum(int(connection.execute(sa.text(statement)).scalar_one()) for statement in statements)


def triggered_inactive_queues(
    connection: sa.Connection, catalogue: TableCatalogue, given: TimeoutContext
) -> frozenset[str]:
    """The queues that start nothing and have jobs that have waited for too long."""
    queues = given.start_nothing()
    found: set[str] = set()
    for rule in RULES:
        if rule.inactive_queues and queues:
            parameters = {**_instants(given), "queues": queues}
            statement = lifecycle_sql.crowded(catalogue, rule)
            rows = Database.raw(connection).execute(statement.encode(), parameters)
            found |= {queue for (queue,) in rows}
    return frozenset(found)


def find_job(connection: sa.Connection, catalogue: TableCatalogue, pandaid: int) -> Job | None:
    """A job that is not archived; None when there is none."""
    names = tuple(field.name for field in fields(Job) if field.name != "table")
    for table in TABLES:
        source = catalogue.source(table, names)
        statement = sa.text(f"SELECT * FROM {source} AS job WHERE pandaid = :pandaid")  # noqa: S608 - quoted names
        row = connection.execute(statement, {"pandaid": pandaid}).mappings().first()
        if row is not None:
            return Job(**{**row, "table": table, "jobstatus": row["jobstatus"] or ""})
    return None


def _parameters(connection: sa.Connection, catalogue: TableCatalogue, given: TimeoutContext) -> dict[str, Any]:
    idle, inactive_queue_triggered = set(given.start_nothing()), triggered_inactive_queues(connection, catalogue, given)
    queues = list(given.queues.values())
    own = [given.limits.own_s(queue) for queue in queues]
    return {
        **_instants(given),
        "queue_name": [queue.name for queue in queues],
        "queue_exempt": [bool(queue.exceptions) for queue in queues],
        "queue_known": [queue.known for queue in queues],
        "queue_starts_nothing": [queue.name in idle for queue in queues],
        "queue_crowded": [queue.name in inactive_queue_triggered for queue in queues],
        "queue_own_s": own,
        "queue_own_cut": [None if limit_s is None else before(given.now, limit_s) for limit_s in own],
    }


def _instants(given: TimeoutContext) -> dict[str, Any]:
    """The limits in seconds, and the instants before which a job is over them."""
    limits = {lifecycle_sql.cut_name(name): limit_s for name, limit_s in given.limits.seconds.items()}
    values: dict[str, Any] = {"now": given.now, "high_priority": given.limits.high_priority}
    for name, limit_s in limits.items():
        values |= {name: before(given.now, limit_s), f"{name}_s": limit_s}
    for name, limit_s in (("production", given.limits.production_s), ("analysis", given.limits.analysis_s)):
        values |= {f"{name}_cut": before(given.now, limit_s), f"{name}_s": limit_s}
    return values


def _move(
    table: JobTable,
    pandaid: int,
    status: str,
    queue: str | None,
    task: int | None,
    changed: datetime | None,
    number: int,
    value_s: float,
    limit_s: float,
    *errors: Any,
) -> JobAction:
    rule = RULES[number]
    code = _code(rule, status, *errors)
    return JobAction(
        pandaid, table, status, changed, queue, task, rule.name, rule.action, code, value_s, limit_s, rule.error
    )


def _code(
    rule: TimeoutRule,
    status: str,
    endtime: datetime | None,
    exe_diag: str | None,
    pilot_diag: str | None,
    diag: str | None,
    code: int | None,
) -> int:
    if rule.code is not None:
        return rule.code
    return watcher_code(
        status,
        has_ended=endtime not in (None, UNSET_TIME),
        has_error=bool(exe_diag or pilot_diag),
        dispatcher_diag=diag,
        dispatcher_code=code,
    )
