"""A database with PanDA's tables as PanDA has them, and a role with the least rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import PANDA, Names, quoted, read_migrations

#: PanDA's partitioned tables, with their partition key.
PARTITIONED = {
    "jedi_tasks": "jeditaskid",
    "jedi_datasets": "jeditaskid",
    "jedi_dataset_contents": "jeditaskid",
    "jedi_taskparams": "jeditaskid",
    "jobsarchived4": "modificationtime",
    "filestable4": "modificationtime",
    "jobs_statuslog": "modificationtime",
    "tasks_statuslog": "modificationtime",
}
VIEWS = ("mv_worker_node_summary", "mv_worker_node_gpu_summary")
ROLE = "broker_least"
TRIGGERS = "schema/panda/0166_activated_jobs.sql"
"""Triggers that tell our schema of activated jobs: PanDA's own tables have none."""


def make_panda_schema(database: Database) -> None:
    """Create PanDA's tables from our migrations, with partitions and materialised views where PanDA has them."""
    names = Names()
    with database.begin() as connection:
        raw = database.raw(connection)
        for schema in (names.panda, names.meta):
            connection.exec_driver_sql(f"CREATE SCHEMA {quoted(schema)}")
        for step in read_migrations(PANDA):
            if step.label != TRIGGERS:
                raw.execute(step.statements(names).encode())
        for table, column in PARTITIONED.items():
            full_name = f"doma_panda.{table}"
            connection.exec_driver_sql(f"ALTER TABLE {full_name} RENAME TO {table}_plain")
            connection.exec_driver_sql(
                f"CREATE TABLE {full_name} (LIKE {full_name}_plain INCLUDING DEFAULTS) PARTITION BY RANGE ({column})"
            )
            connection.exec_driver_sql(f"CREATE TABLE {full_name}_rest PARTITION OF {full_name} DEFAULT")
            connection.exec_driver_sql(f"DROP TABLE {full_name}_plain CASCADE")
        for view in VIEWS:
            connection.exec_driver_sql(f"ALTER TABLE doma_panda.{view} RENAME TO {view}_rows")
            connection.exec_driver_sql(
                f"CREATE MATERIALIZED VIEW doma_panda.{view} AS SELECT * FROM doma_panda.{view}_rows"
            )


@pytest.fixture
def panda(make_database: Callable[..., Database]) -> Database:
    """A database with PanDA's tables only, opened by their owner."""
    database = make_database(migrated=False)
    make_panda_schema(database)
    return database


@contextmanager
def least_role(panda: Database) -> Iterator[Callable[..., Database]]:
    """Yield a function that connects as a role that owns schema ``broker`` and has only the given grants."""

    def connect(*grants: str) -> Database:
        with panda.autocommit() as connection:
            connection.exec_driver_sql(
                f"DO $$ BEGIN CREATE ROLE {ROLE} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
            )
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS broker AUTHORIZATION {ROLE}")
            for grant in grants:
                connection.exec_driver_sql(grant)
        url = sa.make_url(panda.url).set(username=ROLE)
        database = Database(url.render_as_string(hide_password=False))
        opened.append(database)
        return database

    opened: list[Database] = []
    yield connect
    for database in opened:
        database.close()
    with panda.autocommit() as connection:
        connection.exec_driver_sql(f"DROP OWNED BY {ROLE} CASCADE")


@pytest.fixture
def least(panda: Database) -> Iterator[Callable[..., Database]]:
    """A function that connects as the role with the least rights to PanDA's empty tables."""
    with least_role(panda) as connect:
        yield connect


READ = (
    f"GRANT USAGE ON SCHEMA doma_panda, doma_pandameta TO {ROLE}",
    f"GRANT SELECT ON ALL TABLES IN SCHEMA doma_panda, doma_pandameta TO {ROLE}",
)
