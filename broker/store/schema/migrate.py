"""Installing and upgrading the schema: numbered steps, each in a transaction of its own, one upgrade at a time.

The VO of the installation is read and set here (``broker.installation_vo``), with who set it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.domain.installation_vo import DEFAULT_VO
from broker.errors import Refused
from broker.store.connection import writer_guard
from broker.store.connection.database import Database
from broker.store.connection.errors import ForeignSchema, MigrationChanged, SchemaMissing, SchemaOutdated, SchemaTooNew
from broker.store.connection.read_only import ReadOnlyDatabase
from broker.store.connection.tables import (
    OWN,
    PANDA,
    Migration,
    MissingParts,
    Names,
    declared_tables,
    quoted,
    read_columns,
    read_migrations,
)
from broker.store.schema import panda_version
from broker.store.schema.step_applying import apply_step, lock

_SET = sa.text("""
    INSERT INTO broker.installation_vo (vo, set_at, set_by) VALUES (:vo, :now, :editor)
    ON CONFLICT (only_row) DO UPDATE SET vo = excluded.vo, set_at = excluded.set_at, set_by = excluded.set_by""")


def read(connection: sa.Connection) -> str:
    """The VO of the installation; PanDA's default if none was set, or if the schema predates the table."""
    if connection.scalar(sa.text("SELECT to_regclass('broker.installation_vo')")) is None:
        return DEFAULT_VO
    return set_vo(connection) or DEFAULT_VO


def set_vo(connection: sa.Connection) -> str | None:
    """The VO that was set; None if none was."""
    vo = connection.scalar(sa.text("SELECT vo FROM broker.installation_vo"))
    return None if vo is None else str(vo)


def write(connection: sa.Connection, vo: str, editor: str, now: datetime) -> None:
    """Set the VO; running processes use it from their next start on. ``now`` is aware."""
    connection.execute(_SET, {"vo": vo, "now": now, "editor": editor})


STANDALONE = "standalone"
BESIDE = "beside"
MIRRORED = "mirrored"

WRITING_COPIES = "gridbroker.writing_copies"
"""Setting of a transaction that may write to the copies of a ``mirrored`` installation."""

_BOOK = """
CREATE TABLE IF NOT EXISTS {broker}.schema_migrations (
    part text NOT NULL,
    version integer NOT NULL,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    checksum text NOT NULL,
    PRIMARY KEY (part, version)
);
CREATE TABLE IF NOT EXISTS {broker}.installation (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    mode text NOT NULL CHECK (mode IN ('standalone', 'beside', 'mirrored')),
    panda_schema text NOT NULL,
    meta_schema text NOT NULL
);
"""

_REFUSE_WRITERS = f"""
CREATE OR REPLACE FUNCTION broker.refuse_writers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('{WRITING_COPIES}', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', HINT = 'change it in PanDA',
            MESSAGE = 'table ' || TG_TABLE_NAME || ' is a copy of PanDA''s, which nothing but its copying writes';
    END IF;
    RETURN NULL;
END $$
"""


@dataclass(frozen=True)
class UpgradeResult:
    """What one run of :func:`upgrade` did.

    Attributes:
        mode: ``standalone`` (PanDA's tables are ours), ``beside`` (they belong to a PanDA installation) or ``mirrored``
            (they are copies of those of a PanDA on another database).
        applied: the steps that were applied now, in order.
        missing: what the PanDA database in mode ``beside`` lacks; always empty in other modes.
        panda_before: previously recorded version of PanDA's schema; None if there was none.
        panda_now: version recorded now.
    """

    mode: str
    applied: tuple[str, ...]
    missing: MissingParts
    panda_before: str | None = None
    panda_now: str | None = None


def upgrade(
    database: Database,
    *,
    panda: Sequence[Migration] | None = None,
    own: Sequence[Migration] | None = None,
    mirrored: bool = False,
) -> UpgradeResult:
    """Upgrade the schema to this version, from nothing or from any earlier one.

    Each step is one transaction; an interrupted step leaves no trace, and the next run continues from there.

    Args:
        database: the database to upgrade.
        panda: the steps of PanDA's tables; None for those shipped.
        own: the steps of our tables; None for those shipped.
        mirrored: whether a new installation gets tables for copies of PanDA's.

    Raises:
        Refused: ``mirrored`` is set, and the database is installed in another mode or is PanDA's own.
        SchemaTooNew: a newer broker has upgraded this database.
        MigrationChanged: an applied step was edited afterwards.
        ForeignSchema: the schema for PanDA's tables holds something else.
    """
    database.server_version()
    steps = {PANDA: panda or read_migrations(PANDA), OWN: own or read_migrations(OWN)}
    mode = _prepare(database, steps, mirrored=mirrored)
    applied = [step.label for part in _parts_of(mode) for step in steps[part] if apply_step(database, step)]
    if mode == MIRRORED:
        _refuse_writers(database)
    missing = MissingParts((), {})
    before = now = None
    with database.begin() as connection:
        if mode != STANDALONE:
            before, now = panda_version.recorded(connection), panda_version.current(connection, database.names)
            panda_version.record(connection, now)
        if mode == BESIDE:
            missing = MissingParts.of(declared_tables(PANDA), read_columns(connection, database.names))
    return UpgradeResult(mode, tuple(applied), missing, before, now)


def check(database: Database | ReadOnlyDatabase) -> str:
    """The mode of an installed schema under which this broker may write.

    Raises:
        SchemaMissing: there is no schema.
        SchemaOutdated: steps are missing.
        SchemaTooNew: a newer broker has upgraded the schema, and this one may no longer write.
    """
    with database.read_snapshot() as connection:
        mode = _mode_in(connection, repr(database))
        refused = writer_guard.refusal(connection, repr(database))
    if refused is not None:
        raise refused
    return mode


def mode_of(database: Database | ReadOnlyDatabase) -> str:
    """The mode of an installed schema that this broker can read.

    Raises:
        SchemaMissing: there is no schema.
        SchemaOutdated: steps are missing.
        SchemaTooNew: the schema has steps unknown to this broker, and does not name the releases that may write.
    """
    with database.read_snapshot() as connection:
        return _mode_in(connection, repr(database))


def _mode_in(connection: sa.Connection, where: str) -> str:
    steps = {PANDA: read_migrations(PANDA), OWN: read_migrations(OWN)}
    mode, applied = read_installed(connection, where, steps)
    pending = [step.label for step in pending_of(steps, mode, applied)]
    if pending:
        raise SchemaOutdated(
            f"{len(pending)} schema steps are not applied, first {pending[0]}",
            where,
            "run `broker db upgrade`; `broker db upgrade --check` says what that does",
        )
    return mode


def read_installed(
    connection: sa.Connection, where: str, steps: Mapping[str, Sequence[Migration]]
) -> tuple[str, frozenset[tuple[str, int]]]:
    """The mode of the installed schema, and part and number of the applied steps.

    Args:
        connection: a connection to the database.
        where: the database, for messages.
        steps: the steps known to this broker, by part.

    Raises:
        SchemaMissing: nothing is installed, or the installation was not finished.
        SchemaTooNew: the schema has steps unknown to this broker, and does not name the releases that may write.
    """
    if connection.scalar(sa.text("SELECT to_regclass('broker.installation')")) is None:
        raise SchemaMissing("the database has no broker schema", where, "run `broker db init`")
    mode = str(connection.scalar(sa.text("SELECT mode FROM broker.installation")) or "")
    applied = _applied(connection)
    if not writer_guard.knows_writers(connection):
        _refuse_unknown(steps, applied, where)
    if not mode:
        raise SchemaMissing("the installation of the schema was not finished", where, "run `broker db init`")
    return mode, frozenset(applied)


def pending_of(
    steps: Mapping[str, Sequence[Migration]], mode: str, applied: Collection[tuple[str, int]]
) -> list[Migration]:
    """The steps that an upgrade would apply, in order."""
    return [step for part in _parts_of(mode) for step in steps[part] if (part, step.version) not in applied]


def recorded_names(database: Database) -> Names | None:
    """The schema names and the VO of the installed database; None if nothing is installed."""
    with database.read_snapshot() as connection:
        if connection.scalar(sa.text("SELECT to_regclass('broker.installation')")) is None:
            return None
        row = connection.execute(sa.text("SELECT panda_schema, meta_schema FROM broker.installation")).one_or_none()
        vo = read(connection)
    return Names(row.panda_schema, row.meta_schema, vo) if row else None


def _parts_of(mode: str) -> tuple[str, ...]:
    return (OWN,) if mode == BESIDE else (PANDA, OWN)


def _prepare(database: Database, steps: Mapping[str, Sequence[Migration]], *, mirrored: bool) -> str:
    """Create the tables that record the installation, check the existing schema, and record the mode."""
    names = database.names
    with database.begin() as connection:
        lock(connection)
        # a role that owns the schema needs no privilege on the database, but IF NOT EXISTS would require one
        if connection.scalar(sa.text("SELECT to_regnamespace('broker')")) is None:
            connection.exec_driver_sql(names.sql("CREATE SCHEMA {broker}"))
        connection.exec_driver_sql(names.sql(_BOOK))
        applied = _applied(connection)
        if not writer_guard.knows_writers(connection):
            _refuse_unknown(steps, applied, repr(database))
        elif refused := writer_guard.refusal(connection, repr(database)):
            raise refused
        _refuse_changed(steps, applied)
        mode = connection.scalar(sa.text("SELECT mode FROM broker.installation"))
        if mode is None:
            mode = _mode_of_new(connection, names, mirrored=mirrored)
            if mode != BESIDE:
                _create_panda_schemas(connection, names)
            connection.execute(
                sa.text("INSERT INTO broker.installation (mode, panda_schema, meta_schema) VALUES (:m, :p, :q)"),
                {"m": mode, "p": names.panda, "q": names.meta},
            )
        elif mirrored and mode != MIRRORED:
            raise Refused(
                f"the database is installed in mode {mode}",
                repr(database),
                "name a database without gridbroker's schema, or leave out --mirrored",
            )
    return str(mode)


def _mode_of_new(connection: sa.Connection, names: Names, *, mirrored: bool) -> str:
    if not _is_panda(connection, names):
        return MIRRORED if mirrored else STANDALONE
    if mirrored:
        raise Refused(
            f"schema {names.panda} is PanDA's own", names.panda, "leave out --mirrored, or name a database of ours"
        )
    return BESIDE


def _refuse_writers(database: Database) -> None:
    """Let only the copying program write to copies: any other change would be lost, and never reach PanDA."""
    names = database.names
    with database.begin() as connection:
        lock(connection)
        connection.exec_driver_sql(_REFUSE_WRITERS)
        for table in declared_tables(PANDA):
            connection.exec_driver_sql(
                f"CREATE OR REPLACE TRIGGER only_copies BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE "
                f"ON {names.table(table)} FOR EACH STATEMENT EXECUTE FUNCTION broker.refuse_writers()"
            )


def _is_panda(connection: sa.Connection, names: Names) -> bool:
    """Whether the PanDA schema belongs to a PanDA installation.

    Raises:
        ForeignSchema: the schema holds tables, but not those of PanDA.
    """
    tables = set(
        connection.scalars(
            # The catalogue itself: the information schema hides tables on which this role has no privilege yet.
            sa.text(
                "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
                "WHERE n.nspname = :schema AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
            ),
            {"schema": names.panda},
        )
    )
    if "jedi_tasks" in tables:
        return True
    if tables:
        raise ForeignSchema(
            f"schema {names.panda} holds {len(tables)} tables, but no jedi_tasks",
            f"for example {min(tables)}",
            "name the schema of PanDA (BROKER_PANDA_SCHEMA), or an empty or new one",
        )
    return False


def _create_panda_schemas(connection: sa.Connection, names: Names) -> None:
    for schema in (names.panda, names.meta):
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")


def _applied(connection: sa.Connection) -> dict[tuple[str, int], tuple[str, str]]:
    rows = connection.execute(sa.text("SELECT part, version, name, checksum FROM broker.schema_migrations"))
    return {(row.part, row.version): (row.name, row.checksum) for row in rows}


def _refuse_unknown(
    steps: Mapping[str, Sequence[Migration]], applied: Mapping[tuple[str, int], tuple[str, str]], where: str
) -> None:
    known = {(part, step.version) for part, part_steps in steps.items() for step in part_steps}
    unknown = sorted(set(applied) - known)
    if unknown:
        part, version = unknown[-1]
        raise SchemaTooNew(
            f"the database was upgraded by a newer broker (step {part}/{version:04d} is unknown here)",
            where,
            "install that version of gridbroker, or use another database",
        )


def _refuse_changed(
    steps: Mapping[str, Sequence[Migration]], applied: Mapping[tuple[str, int], tuple[str, str]]
) -> None:
    for part_steps in steps.values():
        for step in part_steps:
            _, checksum = applied.get((step.part, step.version), ("", step.checksum))
            if checksum != step.checksum:
                raise MigrationChanged(
                    "an applied migration has been edited", step.label, "restore the file and add a new numbered one"
                )
