from __future__ import annotations

import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import MissingParts, Names, TableCatalogue, TableShape, columns_present


def test_present_columns_are_read_and_missing_ones_are_typed_nulls(empty_database: Database) -> None:
    with empty_database.begin() as connection:
        connection.exec_driver_sql(
            "CREATE SCHEMA doma_panda; CREATE TABLE doma_panda.site (site_name text, role text);"
            "INSERT INTO doma_panda.site VALUES ('S', 'nucleus')"
        )
    with empty_database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, empty_database.names)
        assert catalogue.columns_present("site") == {"site_name", "role"}
        columns = catalogue.select_list("site", ("site_name", "tier_level", "role"), alias="s")
        row = connection.execute(sa.text(f"SELECT {columns} FROM doma_panda.site s")).one()
        assert tuple(row) == ("S", None, "nucleus")
        assert (
            connection.scalar(
                sa.text(f"SELECT pg_typeof(t.tier_level)::text FROM (SELECT {columns} FROM doma_panda.site s) t")
            )
            == "smallint"
        )


def test_a_missing_table_is_read_as_empty(empty_database: Database) -> None:
    with empty_database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, empty_database.names)
        source = catalogue.source("sw_tags", ("panda_queue", "data"))
        assert connection.execute(sa.text(f"SELECT panda_queue, data FROM {source} t")).all() == []
        assert "sw_tags" in catalogue.missing.tables


def test_an_existing_table_is_a_source_with_exactly_the_requested_columns(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("INSERT INTO doma_panda.site (site_name) VALUES ('S')")
        catalogue = TableCatalogue.read(connection, database.names)
        result = connection.execute(
            sa.text(f"SELECT * FROM {catalogue.source('site', ('role', 'site_name', 'no_such'))} t")
        )
        assert list(result.keys()) == ["role", "site_name", "no_such"]
        assert result.all() == [(None, "S", None)]
        assert not catalogue.missing


def test_columns_are_looked_up_in_the_configured_meta_schema(database: Database) -> None:
    with database.read_snapshot() as connection:
        assert "getjob" in columns_present(connection, database.names, "sitedata")
        assert columns_present(connection, Names(meta="elsewhere"), "sitedata") == frozenset()
        assert columns_present(connection, database.names, "no_such_table") == frozenset()


def test_missing_parts_are_false_when_nothing_is_missing() -> None:
    needed_tables = {"a": TableShape("a", {"x": "int", "y": "int"}, ()), "b": TableShape("b", {"z": "int"}, ())}
    assert not MissingParts.of(needed_tables, {"a": {"x": "int", "y": "int", "more": "int"}, "b": {"z": "int"}})
    missing = MissingParts.of(needed_tables, {"a": {"y": "int"}})
    assert (missing.tables, dict(missing.columns)) == (("b",), {"a": ("x",)})
    assert missing
