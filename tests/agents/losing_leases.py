"""Leases that are lost at the worst moments of a cycle, in the database itself: between transactions and inside one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service.base import Agent, CycleContext
from agents.service.cycle import open_run, run_cycle
from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms

UNFENCED = ("leases", "agent_runs", "services")
"""Tables that the service writes, whatever became of the lease."""
_LOSE = """
CREATE FUNCTION broker.lose_leases() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE broker.leases SET expires_at = clock_timestamp() - interval '1 s';
    RETURN NULL;
END $$"""
_REFUSE = """
CREATE FUNCTION broker.refuse_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' was written under a lease that is not in force';
END $$"""
_NOTE = """
CREATE TABLE broker.noted_writes (transaction text, written text, PRIMARY KEY (transaction, written));
CREATE FUNCTION broker.note_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO broker.noted_writes VALUES (pg_current_xact_id()::text, TG_TABLE_NAME) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$"""
_ON = "CREATE TRIGGER {name} {when} INSERT OR UPDATE OR DELETE ON {table} {each} EXECUTE FUNCTION broker.{name}()"
_TABLES = sa.text("""
    SELECT quote_ident(schema.nspname) || '.' || quote_ident(class.relname)
    FROM pg_class AS class JOIN pg_namespace AS schema ON schema.oid = class.relnamespace
    WHERE class.relkind IN ('r', 'p') AND (:partitions OR NOT class.relispartition)
      AND schema.nspname IN ('broker', 'doma_panda', 'doma_pandameta')
      AND class.relname <> ALL(:unfenced)
    ORDER BY 1""")


def _arm(connection: sa.Connection, function: str, name: str, when: str, each: str = "") -> None:
    connection.exec_driver_sql(function)
    tables = _tables(connection, partitions=not each)  # a row trigger of a table also fires for its partitions
    statements = [_ON.format(name=name, when=when, table=table, each=each) for table in tables]
    connection.exec_driver_sql("; ".join(statements))


def _tables(connection: sa.Connection, *, partitions: bool) -> list[str]:
    values = {"unfenced": [*UNFENCED, "noted_writes"], "partitions": partitions}
    return list(connection.execute(_TABLES, values).scalars())


def lose_when_written(database: Database) -> None:
    """From now on, the first statement that writes any table makes every lease expire, in its transaction."""
    with database.begin() as connection:
        _arm(connection, _LOSE, "lose_leases", "AFTER")


def take_over(database: Database, name: str) -> None:
    """Another holder gets the lease, and from now on any statement that writes fails."""
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.leases SET expires_at = clock_timestamp() - interval '1 s'"))
        assert leases.acquire(connection, name, "another", LeaseTerms()).lease is not None
        _arm(connection, _REFUSE, "refuse_write", "BEFORE")


def note_writes(database: Database) -> None:
    """From now on, record which transaction writes rows of which table."""
    with database.begin() as connection:
        _arm(connection, _NOTE, "note_write", "AFTER", "FOR EACH ROW")


def noted_writes(database: Database) -> dict[str, list[str]]:
    """The tables that each transaction wrote, in the order of the transactions."""
    with database.read_snapshot() as connection:
        statement = "SELECT transaction, written FROM broker.noted_writes ORDER BY transaction::bigint, written"
        writes: dict[str, list[str]] = {}
        for transaction, written in connection.execute(sa.text(statement)):
            writes.setdefault(transaction, []).append(written)
    return writes


@dataclass
class Transactions:
    """Counts the fenced transactions of a cycle, and acts before the n-th one.

    Attributes:
        at: number of the transaction to act before; 0 for none.
        action: what to do then.
        count: transactions so far.
    """

    at: int = 0
    action: Callable[[], None] = lambda: None
    count: int = field(default=0)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Count from now on."""
        writing = leases.writing

        def counting(*arguments: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                self.action()
            return writing(*arguments)

        monkeypatch.setattr(leases, "writing", counting)


def cycle(database: Database, agent: Agent[Any], now: Any) -> RunRecord:
    """One cycle of an agent under a lease that its process believes in to the end."""
    with database.begin() as connection:
        lease = leases.acquire(connection, agent.name, "test", LeaseTerms(60.0, longest_s=90.0)).lease
    assert lease is not None
    run_id = open_run(database, agent.name, lease)
    return run_cycle(agent, CycleContext(database, now, 1, 60.0, lease=lease, run_id=run_id))


def contents(database: Database) -> dict[str, list[str]]:
    """All rows of all tables that agents write, as text."""
    with database.read_snapshot() as connection:
        return {
            table: sorted(connection.execute(sa.text(f"SELECT t::text FROM {table} AS t")).scalars())
            for table in _tables(connection, partitions=False)
        }
