"""What steps do to others is told from their text, and compared with the locks that the server takes."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import OWN, PANDA, Migration, Names, read_migrations
from broker.store.schema import migrate
from broker.store.schema.step_effects import effects_of, statements_of

FIRST_THAT_SAYS = 195
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
def test_what_a_statement_does_to_others(text: str, only_adds: bool, locks: list[tuple[str, str, str]]) -> None:
    found = effects_of(step(text))
    assert found.only_adds is only_adds
    assert [(one.mode, one.stops, one.held) for one in found.locks] == locks
    assert found.is_safe is only_adds


def test_a_step_names_the_oldest_writer_in_a_comment_of_its_own() -> None:
    found = effects_of(step("-- What it is for.\n-- oldest writer: 1.3.0\nALTER TABLE broker.a DROP COLUMN b;"))
    assert (found.oldest_writer, found.is_safe) == ("1.3.0", False)
    assert effects_of(step("-- an oldest writer: 1.3.0 in words\nSELECT 1;")).oldest_writer is None


def test_statements_end_outside_of_texts_comments_and_bodies() -> None:
    text = "SELECT ';' -- a; b\n; CREATE FUNCTION f() AS $x$ a; b $x$; SELECT 'it''s';"
    assert list(statements_of(text)) == ["SELECT ';'", "CREATE FUNCTION f() AS $x$ a; b $x$", "SELECT 'it''s'"]


@pytest.mark.parametrize("shipped", [one for one in read_migrations(OWN) if one.version >= FIRST_THAT_SAYS])
def test_a_step_since_1_0_only_adds_or_names_who_may_write(shipped: Migration) -> None:
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


def predicted(connection: sa.Connection, shipped: Migration) -> dict[str, str]:
    """The strongest mode for each table, by the text."""
    found: dict[str, str] = {}
    for lock in effects_of(shipped).locks:
        table = connection.scalar(sa.text(TABLE_OF_INDEX), {"name": lock.table}) or lock.table
        found[table] = max(found.get(table, MODES[0]), lock.mode, key=MODES.index)
    return found


def taken(connection: sa.Connection, before: dict[int, str]) -> dict[str, str]:
    """The strongest mode for each table that was there before, by the server."""
    found: dict[str, str] = {}
    for oid, mode in connection.execute(sa.text(LOCKED), {"before": list(before)}):
        if mode in MODES:
            found[before[oid]] = max(found.get(before[oid], MODES[0]), mode, key=MODES.index)
    return found


def test_the_locks_of_each_shipped_step_are_those_that_the_server_takes(empty_database: Database) -> None:
    panda, own = read_migrations(PANDA), read_migrations(OWN)
    migrate.upgrade(empty_database, panda=panda[:1], own=own[:1])
    compared = 0
    for shipped in (*panda[1:], *own[1:]):
        with empty_database.begin() as connection:
            before = {oid: name for oid, name in connection.execute(sa.text(TABLES))}
            expected = predicted(connection, shipped)
            empty_database.raw(connection).execute(shipped.statements(Names()).encode())
            assert taken(connection, before) == expected, shipped.label
            compared += len(expected)
    assert compared > 40
