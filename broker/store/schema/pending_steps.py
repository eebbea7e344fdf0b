"""What an upgrade would do to a database in use: which steps run, who may write afterwards, and who waits how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from broker.store.connection import writer_guard
from broker.store.connection.database import Database
from broker.store.connection.tables import OWN, PANDA, Migration, Names, quoted, read_migrations
from broker.store.schema import migrate
from broker.store.schema.step_effects import StepEffects, TableLock, effects_of

BYTES_A_SECOND = 50e6
"""Bytes read, indexed or rewritten per second, at the least: an estimate for one disk."""
_SIZE = sa.text("SELECT coalesce(pg_table_size(to_regclass(:table)), 0)")


@dataclass(frozen=True)
class HeldLock:
    """A lock that a step takes on an existing table.

    Attributes:
        lock: the lock, with its duration in words.
        size_bytes: size of the table.
        about_s: seconds for which it is held, at :data:`BYTES_A_SECOND`; 0 for a moment, None if unknown.
    """

    lock: TableLock
    size_bytes: int
    about_s: float | None


@dataclass(frozen=True)
class PendingStep:
    """A step that an upgrade would apply.

    Attributes:
        label: the name of the step in messages.
        effects: what the step does.
        locks: its locks, with the sizes of the tables.
    """

    label: str
    effects: StepEffects
    locks: tuple[HeldLock, ...]


@dataclass(frozen=True)
class Pending:
    """What an upgrade would do.

    Attributes:
        steps: the steps that it would apply, in order; empty if the schema is current.
        from_before_1: whether the schema is that of a release before 1.0, which refuses every step it does not know.
    """

    steps: tuple[PendingStep, ...]
    from_before_1: bool

    @property
    def is_safe(self) -> bool:
        """Whether services that are running now continue unaffected."""
        return not self.steps or (not self.from_before_1 and all(step.effects.is_safe for step in self.steps))


def read_pending(
    database: Database, own: Sequence[Migration] | None = None, panda: Sequence[Migration] | None = None
) -> Pending:
    """What an upgrade of an installed schema would do; nothing is changed and nothing is locked.

    Args:
        database: a database with an installed schema.
        own: the steps of our tables; None for those shipped.
        panda: the steps of PanDA's tables; None for those shipped.

    Raises:
        SchemaMissing: there is no schema.
        SchemaTooNew: a newer broker has upgraded the schema past this version.
    """
    steps = {PANDA: panda or read_migrations(PANDA), OWN: own or read_migrations(OWN)}
    with database.read_snapshot() as connection:
        mode, applied = migrate.read_installed(connection, repr(database), steps)
        known = writer_guard.knows_writers(connection)
        if known and (refused := writer_guard.refusal(connection, repr(database))) is not None:
            raise refused
        pending = migrate.pending_of(steps, mode, applied)
        return Pending(tuple(_pending_step(connection, step, database.names) for step in pending), not known)


def _pending_step(connection: sa.Connection, step: Migration, names: Names) -> PendingStep:
    effects = effects_of(step)
    locks = []
    for lock in effects.locks:
        size = int(connection.scalar(_SIZE, {"table": _qualified(lock.table, names)}) or 0)
        about_s = {"moment": 0.0, "unknown": None}.get(lock.held, size / BYTES_A_SECOND)
        locks.append(HeldLock(lock, size, about_s))
    return PendingStep(step.label, effects, tuple(locks))


def _qualified(table: str, names: Names) -> str:
    """A table named as in the files, qualified with the schema names of a database."""
    schema, _, name = table.rpartition(".")
    schemas: Mapping[str, str] = {"doma_panda": names.panda, "doma_pandameta": names.meta}
    return f"{quoted(schemas.get(schema, schema))}.{quoted(name)}" if schema else quoted(name)
