from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import (
    OWN,
    PANDA,
    BadSchemaFile,
    Migration,
    Names,
    declared_tables,
    read_columns,
    read_migrations,
    read_own_columns,
)

PRIMARY_KEYS = """
SELECT c.relname, array_agg(a.attname::text ORDER BY array_position(i.indkey::int[], a.attnum::int))
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey)
WHERE i.indisprimary AND n.nspname = ANY(:schemas) GROUP BY c.relname
"""


def test_the_files_declare_the_tables_of_the_database(database: Database) -> None:
    declarations = declared_tables(PANDA)
    with database.read_snapshot() as connection:
        columns = read_columns(connection, database.names)
        keys = dict(connection.execute(sa.text(PRIMARY_KEYS), {"schemas": ["doma_panda", "doma_pandameta"]}).all())
    assert {name: list(shape.columns) for name, shape in declarations.items()} == {
        n: list(c) for n, c in columns.items()
    }
    assert {name: list(shape.key) for name, shape in declarations.items() if shape.key} == keys


def test_the_files_declare_our_own_tables(database: Database) -> None:
    declarations = declared_tables(OWN)
    with database.read_snapshot() as connection:
        own_columns = read_own_columns(connection)
    views = {"submit_pool_queues", "stored_decisions", "queue_sites"}
    undeclared_tables = {"schema_migrations", "installation", *views}
    assert {name: set(shape.columns) for name, shape in declarations.items()} == {
        name: set(columns) for name, columns in own_columns.items() if name not in undeclared_tables
    }


def test_the_three_job_tables_have_the_same_columns() -> None:
    tables = declared_tables(PANDA)
    assert tables["jobsdefined4"].columns == tables["jobsactive4"].columns == tables["jobsarchived4"].columns
    assert tables["jobsactive4"].key == ("pandaid",)


def test_columns_that_change_with_each_status_of_an_active_job_are_not_indexed(database: Database) -> None:
    with database.read_snapshot() as connection:
        indexes = connection.scalars(
            sa.text("SELECT indexdef FROM pg_indexes WHERE schemaname = 'doma_panda' AND tablename = 'jobsactive4'")
        ).all()
    assert len(indexes) == 3
    assert not [index for index in indexes if "jobstatus" in index or "time" in index]


def test_only_keys_are_not_null(database: Database) -> None:
    with database.read_snapshot() as connection:
        not_null_columns = connection.execute(
            sa.text(
                "SELECT table_name, column_name FROM information_schema.columns "
                "WHERE is_nullable = 'NO' AND table_schema IN ('doma_panda', 'doma_pandameta')"
            )
        ).all()
    declarations = declared_tables(PANDA)
    keyless_tables = {
        "tasks_statuslog": {"jeditaskid"},
        "jobs_statuslog": {"pandaid"},
        "harvester_slots": {"pandaqueuename"},
    }
    assert not_null_columns
    for table, column in not_null_columns:
        assert column in declarations[table].key or column in keyless_tables.get(table, ()), f"{table}.{column}"


def test_files_are_read_in_numeric_order(tmp_path: Path) -> None:
    folder = tmp_path / OWN
    folder.mkdir()
    for name in ("0010_b.sql", "0002_a.sql", "0009_c_d.sql"):
        (folder / name).write_text(f"-- {name}")
    assert [(m.version, m.name) for m in read_migrations(OWN, tmp_path)] == [(2, "a"), (9, "c_d"), (10, "b")]


@pytest.mark.parametrize("names", [("0001_a.sql", "0001_b.sql"), ("1_a.sql",), ("0001-a.sql",), ("0001_A.sql",)])
def test_a_duplicate_or_missing_number_is_an_error(tmp_path: Path, names: tuple[str, ...]) -> None:
    folder = tmp_path / OWN
    folder.mkdir()
    for name in names:
        (folder / name).write_text("SELECT 1;")
    with pytest.raises(BadSchemaFile):
        read_migrations(OWN, tmp_path)


def test_schema_names_are_replaced_as_whole_words() -> None:
    text = "doma_panda.a doma_pandameta.b my_doma_panda.c"
    statements = Migration(PANDA, 1, "x", text).statements(Names("p", "m"))
    assert statements == '"p".a "m".b my_doma_panda.c'
