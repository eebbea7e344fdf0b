"""Leases that are lost at the worst moments of a cycle, in the database itself: between transactions and inside one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service import fault_points, registry
from agents.service.base import CycleContext
from agents.service.cycle import open_run, run_cycle
from agents.service.process import ProcessSettings
from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import Lease, LeaseTerms

_LOSE = """
CREATE FUNCTION broker.lose_leases() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE broker.leases SET expires_at = clock_timestamp() - interval '1 s';
    RETURN NULL;
END $$"""
_REFUSE = """
CREATE FUNCTION broker.refuse_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' was written under a lease that is not in force';
END $$"""
_LIMITED = """
CREATE FUNCTION broker.want_limits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('lock_timeout') = '0' OR current_setting('idle_in_transaction_session_timeout') = '0' THEN
        RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' was written without limits of time';
    END IF;
    RETURN NULL;
END $$"""
_ON = "CREATE TRIGGER {name} {when} INSERT OR UPDATE OR DELETE ON {table} EXECUTE FUNCTION broker.{name}()"


def lose_when_written(database: Database, tables: Iterable[str]) -> None:
    """From now on, the first statement that writes one of ``tables`` makes every lease expire, in its transaction."""
    with database.begin() as connection:
        connection.exec_driver_sql(_LOSE)
        for table in tables:
            connection.exec_driver_sql(_ON.format(name="lose_leases", when="AFTER", table=table))


def want_limits(database: Database, tables: Iterable[str]) -> None:
    """From now on, a statement that writes one of ``tables`` fails where waits for locks have no end."""
    with database.begin() as connection:
        connection.exec_driver_sql(_LIMITED)
        for table in tables:
            connection.exec_driver_sql(_ON.format(name="want_limits", when="BEFORE", table=table))


def take_over(database: Database, name: str, tables: Iterable[str]) -> None:
    """Another holder gets the lease, and from now on any statement that writes one of ``tables`` fails."""
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.leases SET expires_at = clock_timestamp() - interval '1 s'"))
        assert leases.acquire(connection, name, "another", LeaseTerms()).lease is not None
        connection.exec_driver_sql(_REFUSE)
        for table in tables:
            connection.exec_driver_sql(_ON.format(name="refuse_write", when="BEFORE", table=table))


@dataclass
class Moment:
    """Calls something once: at the start of a cycle, at a fault point, or at the n-th time that it checks its lease.

    The process goes on believing in its lease, as one does that was paused for long.
    """

    at: str | int
    action: Callable[[], None] = lambda: None
    came: bool = False
    _checks: int = field(default=0)

    def start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Arm the fault points."""
        if self.at == "start":
            self._come()
        monkeypatch.setattr(fault_points, "reach", lambda point: self._come() if point == self.at else None)

    def believes(self, lease: Lease) -> bool:
        """What a cycle asks before it goes on."""
        self._checks += 1
        if self._checks == self.at:
            self._come()
        return True

    def _come(self) -> None:
        if not self.came:
            self.came = True
            self.action()


def cycle(
    database: Database, name: str, now: Any, moment: Moment, options: dict[str, Any], patch: pytest.MonkeyPatch
) -> RunRecord:
    """One cycle of an agent under its lease."""
    agent = registry.make(name, options, ProcessSettings())
    with database.begin() as connection:
        lease = leases.acquire(connection, name, "test", LeaseTerms()).lease
    assert lease is not None
    run_id = open_run(database, name, lease)
    moment.start(patch)
    return run_cycle(agent, CycleContext(database, now, 1, 60.0, lease=lease, run_id=run_id, believes=moment.believes))


def contents(database: Database, tables: Iterable[str]) -> dict[str, list[str]]:
    """All rows of some tables, as text."""
    with database.read_snapshot() as connection:
        return {
            table: sorted(connection.execute(sa.text(f"SELECT t::text FROM {table} AS t")).scalars())
            for table in tables
        }
