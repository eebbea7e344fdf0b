from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.errors import ForeignSchema, MigrationChanged, SchemaMissing, SchemaOutdated, SchemaTooNew
from broker.store.connection.tables import OWN, PANDA, Migration, Names, read_migrations
from broker.store.schema import migrate
from tests.conftest import TestServer

pytestmark = pytest.mark.slow

MakeDatabase = Callable[..., Database]

# A whole schema as text: relations with their columns, indexes, constraints, sequences.
SHAPE = """
SELECT format('%s.%s %s %s %s %s %s', n.nspname, c.relname, c.relkind, a.attname, format_type(a.atttypid, a.atttypmod),
              a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE n.nspname !~ '^(pg_|information_schema)'
UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname !~ '^(pg_|information_schema)'
UNION ALL SELECT format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
    WHERE connamespace::regnamespace::text !~ '^(pg_|information_schema)'
UNION ALL SELECT format('%s %s', part, version) FROM broker.schema_migrations
ORDER BY 1
"""


def shape(database: Database) -> list[str]:
    with database.read_snapshot() as connection:
        return list(connection.scalars(sa.text(SHAPE)))


def step(version: int, text: str) -> Migration:
    return Migration(OWN, version, "made_up", text)


def table_exists(database: Database, name: str) -> bool:
    with database.read_snapshot() as connection:
        return connection.scalar(sa.text("SELECT to_regclass(:name)"), {"name": name}) is not None


def test_a_fresh_installation_is_current_and_a_second_upgrade_changes_nothing(empty_database: Database) -> None:
    result = migrate.upgrade(empty_database)
    assert result.mode == migrate.STANDALONE
    assert len(result.applied) == len(read_migrations(PANDA)) + len(read_migrations(OWN))
    assert not result.missing
    before = shape(empty_database)
    assert migrate.upgrade(empty_database).applied == ()
    assert shape(empty_database) == before
    assert migrate.check(empty_database) == migrate.STANDALONE


def test_an_upgrade_from_each_earlier_version_gives_the_schema_of_a_fresh_installation(
    database: Database, empty_database: Database, test_server: TestServer
) -> None:
    """One database takes the steps one at a time; after each step a copy of it is upgraded."""
    fresh = shape(database)
    assert len(fresh) > 500
    panda_steps, own_steps = read_migrations(PANDA), read_migrations(OWN)
    # An empty tuple would mean no step of this part, so at least one of our own steps is always applied.
    for step_count in range(1, len(panda_steps) + len(own_steps)):
        own = own_steps[: max(0, step_count - len(panda_steps))] or own_steps[:1]
        migrate.upgrade(empty_database, panda=panda_steps[:step_count], own=own)
        assert shape(empty_database) != fresh
        empty_database.engine.dispose()  # a database in use cannot be copied
        with test_server.opened(test_server.copy(empty_database.url)) as earlier:
            migrate.upgrade(earlier)
            assert shape(earlier) == fresh, f"after an upgrade from {step_count} steps"


def test_an_interrupted_step_is_rolled_back_and_the_next_run_continues(empty_database: Database) -> None:
    good_step = step(1, "CREATE TABLE broker.first (x int);")
    broken_step = step(2, "CREATE TABLE broker.second (x int); SELECT 1 / 0;")
    with pytest.raises(Exception, match="division by zero"):
        migrate.upgrade(empty_database, own=(good_step, broken_step))
    assert table_exists(empty_database, "broker.first")
    assert not table_exists(empty_database, "broker.second")
    repaired_step = step(2, "CREATE TABLE broker.second (x int);")
    result = migrate.upgrade(empty_database, own=(good_step, repaired_step))
    assert result.applied == (repaired_step.label,)
    assert table_exists(empty_database, "broker.second")


def test_a_step_added_later_with_a_lower_number_is_applied(empty_database: Database) -> None:
    late = step(2, "CREATE TABLE broker.late (x int);")
    other_steps = (step(1, "SELECT 1;"), step(3, "SELECT 1;"))
    migrate.upgrade(empty_database, own=other_steps)
    assert migrate.upgrade(empty_database, own=(other_steps[0], late, other_steps[1])).applied == (late.label,)


def test_concurrent_upgrades_apply_every_step_once(empty_database: Database) -> None:
    results: list[migrate.UpgradeResult] = []
    gate = threading.Barrier(3)

    def run() -> None:
        with Database(empty_database.url) as own_pool:
            gate.wait()
            results.append(migrate.upgrade(own_pool))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    applied = [label for result in results for label in result.applied]
    assert len(results) == 3
    assert sorted(applied) == sorted(s.label for s in (*read_migrations(PANDA), *read_migrations(OWN)))


UNKNOWN = "INSERT INTO broker.schema_migrations (part, version, name, checksum) VALUES ('broker', 9999, 'n', 'c')"


def test_a_database_of_a_newer_broker_without_an_oldest_writer_is_rejected(empty_database: Database) -> None:
    own_steps = read_migrations(OWN)[:3]
    migrate.upgrade(empty_database, own=own_steps)
    with empty_database.begin() as connection:
        connection.exec_driver_sql(UNKNOWN)
    for act in (migrate.check, lambda database: migrate.upgrade(database, own=own_steps)):
        with pytest.raises(SchemaTooNew, match=r"newer broker.*9999.*install that version"):
            act(empty_database)


def test_a_newer_broker_that_lets_this_one_write_is_accepted(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql(UNKNOWN)
    assert migrate.check(database) == migrate.STANDALONE
    assert migrate.upgrade(database).applied == ()


def test_a_newer_broker_that_keeps_this_one_from_writing_is_named(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql(UNKNOWN)
        connection.exec_driver_sql("UPDATE broker.oldest_writer SET release = '99.0.0', version = 9999")
    for act in (migrate.check, migrate.upgrade):
        with pytest.raises(
            SchemaTooNew, match=r"step broker/9999.*99\.0\.0.*only reads it.*install gridbroker 99\.0\.0"
        ):
            act(database)
    assert migrate.mode_of(database) == migrate.STANDALONE


def test_an_edited_applied_step_is_rejected(empty_database: Database) -> None:
    migrate.upgrade(empty_database, own=(step(1, "CREATE TABLE broker.first (x int);"),))
    with pytest.raises(MigrationChanged, match="0001_made_up"):
        migrate.upgrade(empty_database, own=(step(1, "CREATE TABLE broker.first (y int);"),))


def test_different_line_endings_do_not_count_as_an_edit() -> None:
    assert step(1, "SELECT 1;\r\nSELECT 2;\r\n").checksum == step(1, "SELECT 1;\nSELECT 2;\n").checksum
    assert step(1, "SELECT 1;").checksum != step(1, "SELECT 2;").checksum


def test_check_names_the_required_command(empty_database: Database) -> None:
    with pytest.raises(SchemaMissing, match="broker db init"):
        migrate.check(empty_database)
    migrate.upgrade(empty_database, own=read_migrations(OWN)[:1])
    with pytest.raises(SchemaOutdated, match="broker db upgrade"):
        migrate.check(empty_database)
    migrate.upgrade(empty_database)
    assert migrate.check(empty_database) == migrate.STANDALONE


@pytest.fixture
def panda_database(empty_database: Database) -> Database:
    """A database as PanDA leaves it: partitions, wider tables, a real view, and some missing columns."""
    with empty_database.begin() as connection:
        connection.exec_driver_sql(
            """
            CREATE SCHEMA doma_panda; CREATE SCHEMA doma_pandameta;
            CREATE TABLE doma_panda.jedi_tasks (jeditaskid bigint NOT NULL, taskname varchar(256), status varchar(64)
                NOT NULL, an_extra_column text, PRIMARY KEY (jeditaskid)) PARTITION BY RANGE (jeditaskid);
            CREATE TABLE doma_panda.jedi_tasks_p1 PARTITION OF doma_panda.jedi_tasks FOR VALUES FROM (0) TO (1000000);
            CREATE TABLE doma_panda.site (site_name varchar(52) PRIMARY KEY, role varchar(256), tier_level smallint,
                state varchar(52));
            CREATE TABLE doma_pandameta.sitedata (site varchar(60), flag varchar(30), hours integer, getjob integer);
            CREATE MATERIALIZED VIEW doma_panda.mv_worker_node_gpu_summary AS SELECT 'S'::varchar(128) AS site;
            INSERT INTO doma_panda.jedi_tasks VALUES (1, 'a task', 'running', 'theirs');
            """
        )
    return empty_database


def panda_shape(database: Database) -> list[str]:
    with database.read_snapshot() as connection:
        rows = connection.execute(
            sa.text(
                "SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns "
                "WHERE table_schema LIKE 'doma%' UNION ALL SELECT schemaname, indexname, indexdef, '' FROM pg_indexes "
                "WHERE schemaname LIKE 'doma%' ORDER BY 1, 2, 3"
            )
        )
        return [str(tuple(row)) for row in rows]


def test_alongside_panda_only_our_own_schema_is_created(panda_database: Database) -> None:
    before = panda_shape(panda_database)
    result = migrate.upgrade(panda_database)
    assert result.mode == migrate.BESIDE
    assert panda_shape(panda_database) == before
    assert result.applied == tuple(migration.label for migration in read_migrations(OWN))
    assert migrate.check(panda_database) == migrate.BESIDE
    assert migrate.upgrade(panda_database).applied == ()
    with panda_database.read_snapshot() as connection:
        assert connection.scalar(sa.text("SELECT an_extra_column FROM doma_panda.jedi_tasks")) == "theirs"


def test_alongside_panda_missing_tables_and_columns_are_reported(panda_database: Database) -> None:
    missing = migrate.upgrade(panda_database).missing
    assert "schedconfig_json" in missing.tables
    assert "site" not in missing.tables
    assert "site" not in missing.columns
    assert "nucleus" in missing.columns["jedi_tasks"]
    assert "taskname" not in missing.columns["jedi_tasks"]
    assert "panda_queue" in missing.columns["mv_worker_node_gpu_summary"]
    assert "updatejob" in missing.columns["sitedata"]


def test_a_schema_with_foreign_tables_is_rejected(empty_database: Database) -> None:
    with empty_database.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA doma_panda; CREATE TABLE doma_panda.somebodys (x int)")
    with pytest.raises(ForeignSchema, match="somebodys"):
        migrate.upgrade(empty_database)


@pytest.mark.parametrize("names", [Names("other", "other_meta"), Names("Both_In_One", "Both_In_One")])
def test_other_schema_names_are_used_and_remembered(make_database: MakeDatabase, names: Names) -> None:
    database = make_database(migrated=False, names=names)
    migrate.upgrade(database)
    with database.read_snapshot() as connection:
        schemas = set(connection.scalars(sa.text("SELECT nspname FROM pg_namespace")))
        assert connection.scalar(sa.text(f"SELECT count(*) FROM {names.table('jedi_tasks')}")) == 0
        assert connection.scalar(sa.text(f"SELECT count(*) FROM {names.table('sitedata')}")) == 0
    assert {names.panda, names.meta, "broker"} <= schemas
    assert not {"doma_panda", "doma_pandameta"} & schemas
    assert migrate.recorded_names(database) == names
    assert migrate.check(database) == migrate.STANDALONE


def test_panda_is_recognised_by_a_role_without_read_permission(panda_database: Database) -> None:
    with panda_database.begin() as connection:
        name = connection.scalar(sa.text("SELECT current_database()"))
        role = f"reader_of_{name}"[-60:]
        connection.exec_driver_sql(f'CREATE ROLE "{role}" LOGIN; GRANT CREATE ON DATABASE "{name}" TO "{role}"')
        panda_database.raw(connection).execute(f'SET ROLE "{role}"'.encode())
        assert migrate._is_panda(connection, panda_database.names)
        connection.exec_driver_sql("RESET ROLE")
        connection.exec_driver_sql(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')
