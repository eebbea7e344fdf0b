"""The effects of steps are derived from their text and compared with the locks that the server takes."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import OWN, PANDA, Migration, Names, read_migrations
from broker.store.schema import migrate
from broker.store.schema.step_effects import effects_of, statements_of

FIRST_DECLARING_STEP = 195
"""The step that brought the oldest writer: from here on a step that does more than add names one."""
MODES = ("ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "ACCESS EXCLUSIVE")


def step(text: str) -> Migration:
    return Migration(OWN, 9000, "made_up", text)


@pytest.mark.parametrize(
    ("text", "only_adds", "locks"),
    [
        ("CREATE TABLE broker.new (x int); CREATE UNIQUE INDEX i ON broker.new (x);", True, []),
        ("ALTER TABLE broker.a ADD COLUMN b text;", True, [("ACCESS EXCLUSIVE", "all", "moment")]),
        ("ALTER TABLE broker.a ADD COLUMN b int NOT NULL DEFAULT 0;", True, [("ACCESS EXCLUSIVE", "all", "moment")]),
        ("ALTER TABLE broker.a ADD COLUMN b int NOT NULL;", False, [("ACCESS EXCLUSIVE", "all", "moment")]),
        ("ALTER TABLE broker.a ADD COLUMN b bigserial;", True, [("ACCESS EXCLUSIVE", "all", "rewrite")]),
        ("ALTER TABLE broker.a ADD COLUMN b int, DROP COLUMN c;", False, [("ACCESS EXCLUSIVE", "all", "moment")]),
        ("ALTER TABLE broker.a DROP COLUMN b;", False, [("ACCESS EXCLUSIVE", "all", "moment")]),
        ("ALTER TABLE broker.a RENAME TO b;", False, [("ACCESS EXCLUSIVE", "all", "moment")]),
        ("ALTER TABLE broker.a ALTER COLUMN b TYPE bigint;", False, [("ACCESS EXCLUSIVE", "all", "rewrite")]),
        ("ALTER TABLE broker.a ALTER COLUMN b SET NOT NULL;", False, [("ACCESS EXCLUSIVE", "all", "scan")]),
        ("ALTER TABLE broker.a ADD CHECK (b > 0);", False, [("ACCESS EXCLUSIVE", "all", "scan")]),
        ("ALTER TABLE broker.a ADD PRIMARY KEY (b);", False, [("ACCESS EXCLUSIVE", "all", "index")]),
        ("CREATE INDEX i ON broker.a (b);", True, [("SHARE", "writes", "index")]),
        ("CREATE UNIQUE INDEX i ON broker.a (b);", False, [("SHARE", "writes", "index")]),
        ("DROP INDEX broker.i;", False, [("ACCESS EXCLUSIVE", "all", "moment")]),
        ("UPDATE broker.a SET b = 1;", False, [("ROW EXCLUSIVE", "nothing", "rewrite")]),
        ("DROP TABLE broker.a;", False, []),
        ("CREATE INDEX i ON broker.a (b); ALTER TABLE broker.a ADD COLUMN c int;", True,
         [("ACCESS EXCLUSIVE", "all", "index")]),
    ],
)  # fmt: skip
def test_effects_of_a_statement_on_other_sessions(
    text: str, only_adds: bool, locks: list[tuple[str, str, str]]
) -> None:
    effects = effects_of(step(text))
    assert effects.only_adds is only_adds
    assert [(lock.mode, lock.stops, lock.held) for lock in effects.locks] == locks
    assert effects.is_safe is only_adds


def test_a_step_names_the_oldest_writer_in_a_separate_comment() -> None:
    effects = effects_of(step("-- What it is for.\n-- oldest writer: 1.3.0\nALTER TABLE broker.a DROP COLUMN b;"))
    assert (effects.oldest_writer, effects.is_safe) == ("1.3.0", False)
    assert effects_of(step("-- an oldest writer: 1.3.0 in words\nSELECT 1;")).oldest_writer is None


def test_semicolons_in_strings_comments_and_bodies_do_not_end_a_statement() -> None:
    text = "SELECT ';' -- a; b\n; CREATE FUNCTION f() AS $x$ a; b $x$; SELECT 'it''s';"
    assert list(statements_of(text)) == ["SELECT ';'", "CREATE FUNCTION f() AS $x$ a; b $x$", "SELECT 'it''s'"]


@pytest.mark.parametrize(
    "shipped", [migration for migration in read_migrations(OWN) if migration.version >= FIRST_DECLARING_STEP]
)
def test_a_step_since_1_0_only_adds_or_names_the_oldest_writer(shipped: Migration) -> None:
    effects = effects_of(shipped)
    assert effects.only_adds or effects.oldest_writer is not None, (
        f"{shipped.label} does more than add ({effects.more_than_adds[0]}): split it, or begin the file with "
        "`-- oldest writer: RELEASE`, the oldest release that can still write (docs/explanation/stability.md)"
    )


LOCKED = """
SELECT relation, upper(replace(regexp_replace(mode, '([a-z])([A-Z])', '\\1 \\2', 'g'), ' Lock', ''))
FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation = ANY(:before)"""
TABLES = """
SELECT c.oid, c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND (n.nspname = 'broker' OR n.nspname LIKE 'doma%')"""
TABLE_OF_INDEX = "SELECT indrelid::regclass::text FROM pg_index WHERE indexrelid = to_regclass(:name)"


def predicted_locks(connection: sa.Connection, shipped: Migration) -> dict[str, str]:
    """Return the strongest lock mode for each table, derived from the text."""
    modes: dict[str, str] = {}
    for lock in effects_of(shipped).locks:
        table = connection.scalar(sa.text(TABLE_OF_INDEX), {"name": lock.table}) or lock.table
        modes[table] = max(modes.get(table, MODES[0]), lock.mode, key=MODES.index)
    return modes


def server_locks(connection: sa.Connection, before: dict[int, str]) -> dict[str, str]:
    """Return the strongest lock mode that the server took on each existing table."""
    modes: dict[str, str] = {}
    for oid, mode in connection.execute(sa.text(LOCKED), {"before": list(before)}):
        if mode in MODES:
            modes[before[oid]] = max(modes.get(before[oid], MODES[0]), mode, key=MODES.index)
    return modes


def test_the_predicted_locks_of_each_shipped_step_are_those_that_the_server_takes(empty_database: Database) -> None:
    panda_steps, own_steps = read_migrations(PANDA), read_migrations(OWN)
    migrate.upgrade(empty_database, panda=panda_steps[:1], own=own_steps[:1])
    compared_count = 0
    for shipped in (*panda_steps[1:], *own_steps[1:]):
        with empty_database.begin() as connection:
            before = {oid: name for oid, name in connection.execute(sa.text(TABLES))}
            expected = predicted_locks(connection, shipped)
            empty_database.raw(connection).execute(shipped.statements(Names()).encode())
            assert server_locks(connection, before) == expected, shipped.label
            compared_count += len(expected)
    assert compared_count > 40
