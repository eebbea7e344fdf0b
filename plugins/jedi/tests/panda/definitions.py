"""PanDA's own definitions of its tables, from a checkout of PanDAWMS/panda-database that ``PANDA_DATABASE`` names.

What needs an extension is left out: pg_cron runs procedures that the tests stand in for, and pg_partman makes the
partitions, in place of which each partitioned table has one for all rows. The two summaries of worker nodes become
tables, so that a scenario can say what is in them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psycopg2
import sqlalchemy as sa

from broker.store.connection.embedded_binaries import program

VARIABLE = "PANDA_DATABASE"
#: In this order. A fresh installation of the base scripts alone lacks tables that patches bring.
SCRIPTS = (
    "pg_PANDA_TABLE.sql",
    "patches/0.0.31.patch.sql",
    "patches/0.1.4.patch.sql",
    "pg_PANDA_SEQUENCE.sql",
    "pg_PANDA_FUNCTION.sql",
    "pg_PANDA_TRIGGER.sql",
    "pg_PANDAMETA_TABLE.sql",
    "pg_PANDAMETA_SEQUENCE.sql",
    "pg_PANDAARCH_TABLE.sql",
    "pg_DEFT_TABLE.sql",
)
SUMMARIES = ("mv_worker_node_summary", "mv_worker_node_gpu_summary")
_ROLE = """DO $$ BEGIN CREATE ROLE panda; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"""
_WITHOUT_PARTITION = """
SELECT p.partrelid::regclass::text FROM pg_partitioned_table p
WHERE NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = p.partrelid)"""


def checkout() -> Path | None:
    """The folder with the scripts; None where no checkout is named.

    Raises:
        FileNotFoundError: what is named is no checkout.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named) / "schema" / "postgres"
    if not (folder / "version").is_file():
        raise FileNotFoundError(f"{VARIABLE}={named}: no checkout of PanDAWMS/panda-database (schema/postgres/version)")
    return folder


def version(folder: Path) -> str:
    """PanDA's version of its tables."""
    return (folder / "version").read_text(encoding="utf-8").strip()


def install(url: str, folder: Path) -> None:
    """Make PanDA's tables in an empty database.

    Raises:
        subprocess.CalledProcessError: a script cannot be run.
    """
    with psycopg2.connect(_dsn(url)) as connection, connection.cursor() as cursor:
        cursor.execute(_ROLE)
    connection.close()
    for script in SCRIPTS:
        command = [str(program("psql")), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(folder / "sqls" / script), url]
        subprocess.run(command, check=True, capture_output=True, text=True)
    with psycopg2.connect(_dsn(url)) as connection, connection.cursor() as cursor:
        cursor.execute(_WITHOUT_PARTITION)
        for (table,) in cursor.fetchall():
            cursor.execute(f"CREATE TABLE {table}_rest PARTITION OF {table} DEFAULT")
        for view in SUMMARIES:
            cursor.execute(f"CREATE TABLE doma_panda.rows_of_it AS SELECT * FROM doma_panda.{view} WITH NO DATA")
            cursor.execute(f"DROP MATERIALIZED VIEW doma_panda.{view}")
            cursor.execute(f"ALTER TABLE doma_panda.rows_of_it RENAME TO {view}")
    connection.close()


def _dsn(url: str) -> str:
    """The address as libpq reads it."""
    return sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
