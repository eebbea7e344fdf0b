"""The tuning in a real database: versions, history, conflicts, and changes by other programs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from broker.gdpconfig.catalogue import UnknownKeyError, ValueRefusedError
from broker.gdpconfig.publish import NotSetError, Published, UnknownVersionError, VersionConflictError
from broker.store.connection.database import Database
from broker.store.connection.errors import SchemaMissing
from broker.store.connection.tables import Names
from broker.store.gdpconfig_rows import TuningStore

WHO: dict[str, Any] = {"editor": "alice", "reason": "for the test"}


def write_outside(database: Database, key: str, value: str | None, kind: str = "integer", **more: str) -> None:
    """Change the CONFIG table as another program would; a value of None removes the row."""
    row = {"app": "jedi", "component": "jobbroker", "key": key, "vo": "atlas", "value": value, "type": kind} | more
    with database.begin() as connection:
        connection.execute(
            sa.text("DELETE FROM doma_panda.config WHERE app = :app AND component = :component AND key = :key"), row
        )
        if value is not None:
            connection.execute(
                sa.text(
                    "INSERT INTO doma_panda.config (app, component, key, vo, value, type, descr) "
                    "VALUES (:app, :component, :key, :vo, :value, :type, '')"
                ),
                row,
            )


def config_rows(database: Database) -> dict[str, tuple[str, str, str]]:
    with database.begin() as connection:
        rows = connection.execute(sa.text("SELECT key, vo, value, type FROM doma_panda.config"))
        return {row.key: (row.vo, row.value, row.type) for row in rows}


def read(database: Database, *, live: bool = False) -> Published:
    with database.read_snapshot() as connection:
        return TuningStore().read_current(connection, live=live)


def sync(database: Database) -> Published:
    with database.begin() as connection:
        return TuningStore().sync_outside_changes(connection)


def test_a_new_database_has_no_version_and_every_default(database: Database) -> None:
    current = read(database)
    assert (current.version, current.rows, current.bad_rows) == (0, (), ())
    assert current.tuning("atlas").number("NQUEUED_SAT_CAP") == 150
    assert sync(database).version == 1
    assert read(database).version == 1
    assert sync(database).version == 1


def test_set_writes_the_row_the_version_and_the_history(database: Database) -> None:
    store = TuningStore()
    with database.begin() as connection:
        result = store.set_value(connection, "NQUEUED_SAT_CAP", 99, **WHO)
    assert result.version == 2  # version 1 records what was in the table before
    assert read(database) == result
    assert config_rows(database) == {"NQUEUED_SAT_CAP": ("atlas", "99", "integer")}
    assert read(database).tuning("atlas").number("NQUEUED_SAT_CAP") == 99
    with database.read_snapshot() as connection:
        newest, first = store.history(connection)
    assert (newest.version, newest.editor, newest.reason, newest.key, newest.action, newest.old, newest.new) == (
        2,
        "alice",
        "for the test",
        "NQUEUED_SAT_CAP",
        "set",
        None,
        "99",
    )
    assert newest.published_at.tzinfo is not None
    assert (first.version, first.editor, first.key) == (1, "(outside)", None)


def test_change_and_unset(database: Database) -> None:
    store = TuningStore()
    with database.begin() as connection:
        store.set_value(connection, "NW_THRESHOLD", 1.5, **WHO)
        store.set_value(connection, "NW_THRESHOLD", 1.25, **WHO)
        store.unset(connection, "NW_THRESHOLD", **WHO)
    assert config_rows(database) == {}
    with database.read_snapshot() as connection:
        history = store.history(connection, "NW_THRESHOLD")
    assert [(item.version, item.action, item.old, item.new) for item in history] == [
        (4, "unset", "1.25", None),
        (3, "set", "1.5", "1.25"),
        (2, "set", None, "1.5"),
    ]
    with database.begin() as connection, pytest.raises(NotSetError):
        store.unset(connection, "NW_THRESHOLD", **WHO)


def test_setting_the_current_value_publishes_nothing(database: Database) -> None:
    for _ in range(2):
        with database.begin() as connection:
            assert TuningStore().set_value(connection, "NW_THRESHOLD", 1.5, **WHO).version == 2


def test_an_edit_that_is_not_committed_leaves_no_trace(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.begin() as connection:
        TuningStore().set_value(connection, "NW_THRESHOLD", 1.5, **WHO)
        raise ZeroDivisionError
    assert config_rows(database) == {}
    assert read(database).version == 0


def test_set_of_a_family_member_and_of_a_vo(database: Database) -> None:
    with database.begin() as connection:
        TuningStore().set_value(connection, "NQUEUELIMITSITE_MC 16", 30, **WHO)
        TuningStore().set_value(connection, "STORAGE_MIN_FREE_SIZE", 50, vo="cms", **WHO)
    current = read(database)
    assert current.tuning("atlas").by_suffix("NQUEUELIMITSITE", ["MC 16", "x"]).tolist() == [30, 20]
    assert current.tuning("atlas").number("STORAGE_MIN_FREE_SIZE") == 200
    assert current.tuning("cms").number("STORAGE_MIN_FREE_SIZE") == 50


@pytest.mark.parametrize(
    "share", ["O'Brien", 'a"b', "50%", "%s", "; drop table x", "a:b", ":value", "{panda}", "\\", "é"]
)
def test_names_are_never_interpreted(database: Database, share: str) -> None:
    with database.begin() as connection:
        TuningStore().set_value(connection, f"NQUEUELIMITSITE_{share}", 3, editor=share, reason=share)
    assert read(database).tuning("atlas").by_suffix("NQUEUELIMITSITE", [share]).tolist() == [3]
    with database.begin() as connection:
        (item,) = TuningStore().history(connection, f"NQUEUELIMITSITE_{share}")
        assert (item.editor, item.reason) == (share, share)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"key": "NO_SUCH_KEY"}, UnknownKeyError),
        ({"value": "9"}, ValueRefusedError),
        ({"value": -1}, ValueRefusedError),
        ({"vo": "cms"}, ValueRefusedError),
        ({"editor": " "}, ValueRefusedError),
        ({"reason": ""}, ValueRefusedError),
        ({"reason": "a\0b"}, ValueRefusedError),
        ({"reason": "x" * 1001}, ValueRefusedError),
        ({"editor": "x" * 129}, ValueRefusedError),
    ],
)
def test_a_refused_edit_changes_nothing(database: Database, change: dict[str, object], error: type[Exception]) -> None:
    arguments: dict[str, Any] = {"key": "NQUEUED_SAT_CAP", "value": 9, "vo": "atlas", **WHO} | change
    with pytest.raises(error), database.begin() as connection:
        TuningStore().set_value(connection, **arguments)
    assert config_rows(database) == {}
    assert read(database).version == 0


def test_the_second_editor_gets_a_version_conflict(database: Database) -> None:
    store = TuningStore()
    seen_version = sync(database).version
    with database.begin() as connection:
        store.set_value(connection, "NW_THRESHOLD", 1.5, expected_version=seen_version, **WHO)
    with pytest.raises(VersionConflictError, match="version 2, changed by alice, not at the expected version 1"):  # noqa: SIM117
        with database.begin() as connection:
            store.set_value(connection, "NW_THRESHOLD", 1.6, expected_version=seen_version, editor="bob", reason="also")
    assert config_rows(database)["NW_THRESHOLD"][1] == "1.5"
    with database.begin() as connection:
        assert store.unset(connection, "NW_THRESHOLD", expected_version=2, **WHO).version == 3


def test_an_editor_who_saw_no_version_yet_may_set_the_first(database: Database) -> None:
    write_outside(database, "NQUEUED_SAT_CAP", "9")
    with database.begin() as connection:
        result = TuningStore().set_value(connection, "NW_THRESHOLD", 1.5, expected_version=0, **WHO)
    assert result.version == 2


def test_an_editor_gets_a_conflict_after_changes_by_other_programs(database: Database) -> None:
    seen_version = sync(database).version
    write_outside(database, "NQUEUED_SAT_CAP", "9")
    with pytest.raises(VersionConflictError, match=r"changed by \(outside\)"), database.begin() as connection:
        TuningStore().set_value(connection, "NW_THRESHOLD", 1.5, expected_version=seen_version, **WHO)


def test_changes_by_other_programs_become_a_version_before_the_next_cycle(database: Database) -> None:
    sync(database)
    write_outside(database, "NQUEUED_SAT_CAP", "9")
    assert read(database).version == 1  # a cycle uses the published version only
    assert read(database).tuning("atlas").number("NQUEUED_SAT_CAP") == 150
    assert read(database, live=True).version == 0  # not published yet, so it has no version
    assert read(database, live=True).tuning("atlas").number("NQUEUED_SAT_CAP") == 9
    assert sync(database).version == 2
    assert read(database).tuning("atlas").number("NQUEUED_SAT_CAP") == 9
    assert read(database, live=True).version == 2
    with database.begin() as connection:
        item = TuningStore().history(connection)[0]
    assert (item.version, item.editor, item.key, item.old, item.new) == (2, "(outside)", "NQUEUED_SAT_CAP", None, "9")


def test_rows_of_other_programs_make_neither_a_version_nor_bad_rows(database: Database) -> None:
    sync(database)
    write_outside(database, "NQUEUED_SAT_CAP", "x", app="pilot")
    write_outside(database, "NQUEUED_SAT_CAP", "x", component="other")
    write_outside(database, "NEW_IN_PANDA", "x", "nonsense")
    assert sync(database).version == 1
    assert read(database, live=True).bad_rows == ()


def test_a_wrong_row_keeps_its_last_good_value_for_a_reader_that_never_saw_it(database: Database) -> None:
    write_outside(database, "NQUEUED_SAT_CAP", "9")
    write_outside(database, "NW_THRESHOLD", "wrong", "float")
    sync(database)
    for value in ("many", "-1"):
        write_outside(database, "NQUEUED_SAT_CAP", value)
        current = sync(database)
        assert read(database) == current
        assert current.tuning("atlas").number("NQUEUED_SAT_CAP") == 9
        assert current.tuning("atlas").number("NW_THRESHOLD") == 1.7
        assert {bad.key: bad.last_good for bad in current.bad_rows} == {"NQUEUED_SAT_CAP": 9, "NW_THRESHOLD": None}
    assert current.version == 3


def test_set_repairs_a_wrong_row_and_keeps_its_description(database: Database) -> None:
    write_outside(database, "NQUEUED_SAT_CAP", "many", "string")
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE doma_panda.config SET descr = 'kept'"))
        result = TuningStore().set_value(connection, "NQUEUED_SAT_CAP", 9, **WHO)
    assert result.bad_rows == ()
    assert config_rows(database) == {"NQUEUED_SAT_CAP": ("atlas", "9", "integer")}
    with database.begin() as connection:
        assert connection.scalar(sa.text("SELECT descr FROM doma_panda.config")) == "kept"


def test_rollback_restores_the_rows_of_an_older_version(database: Database) -> None:
    store = TuningStore()
    write_outside(database, "NQUEUED_SAT_CAP", "9")
    before = sync(database)
    with database.begin() as connection:
        store.set_value(connection, "NQUEUED_SAT_CAP", 10, **WHO)
        store.set_value(connection, "NW_ACTIVE", False, **WHO)
        result = store.rollback(connection, before.version, **WHO)
    assert (result.version, result.rows) == (4, before.rows)
    assert config_rows(database) == {"NQUEUED_SAT_CAP": ("atlas", "9", "integer")}
    with database.begin() as connection:
        assert store.rollback(connection, before.version, **WHO).version == 4
        assert store.version(connection, 3).tuning("atlas").flag("NW_ACTIVE") is False
        with pytest.raises(UnknownVersionError, match="no version 99"):
            store.rollback(connection, 99, **WHO)


def test_a_reader_sees_one_version_while_an_editor_writes(database: Database) -> None:
    sync(database)
    with database.read_snapshot() as reading:
        assert TuningStore().read_current(reading).version == 1
        with database.begin() as writing:
            TuningStore().set_value(writing, "NW_THRESHOLD", 1.5, **WHO)
        second = TuningStore().read_current(reading)
        assert (second.version, second.rows) == (1, ())
        assert TuningStore().read_current(reading, live=True).version == 1
    assert read(database).version == 2


def run_together(count: int, work: Callable[[int], object]) -> list[BaseException]:
    gate = threading.Barrier(count)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        gate.wait(timeout=30)
        try:
            work(number)
        except VersionConflictError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return errors


def test_of_many_editors_at_once_exactly_one_wins(database: Database) -> None:
    seen_version = sync(database).version

    def edit(number: int) -> None:
        with database.begin() as connection:
            TuningStore().set_value(
                connection,
                "NQUEUED_SAT_CAP",
                100 + number,
                expected_version=seen_version,
                editor=f"e{number}",
                reason="race",
            )

    errors = run_together(5, edit)
    assert len(errors) == 4
    current = read(database)
    assert current.version == 2
    assert config_rows(database)["NQUEUED_SAT_CAP"][1] == f"{current.tuning('atlas').number('NQUEUED_SAT_CAP'):.0f}"


def test_many_services_publish_an_outside_change_once(database: Database) -> None:
    write_outside(database, "NQUEUED_SAT_CAP", "9")
    assert run_together(5, lambda _: sync(database)) == []
    assert read(database).version == 1
    with database.begin() as connection:
        assert len(TuningStore().history(connection)) == 1


def test_another_schema_name_is_used_and_a_missing_table_is_named(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(sa.text('CREATE SCHEMA "Odd Name"'))
        with pytest.raises(SchemaMissing, match=r'"Odd Name"\."config"'):
            TuningStore(Names(panda="Odd Name")).read_current(connection, live=True)
        # A table as in an older PanDA: no value_json, one extra column, and rows without a VO.
        connection.execute(
            sa.text(
                'CREATE TABLE "Odd Name".config (app text, component text, key text, value text, type text, '
                "vo text, descr text, extra int)"
            )
        )
        connection.execute(
            sa.text("""INSERT INTO "Odd Name".config VALUES ('jedi', 'jobbroker', 'NQUEUED_SAT_CAP', '9', 'int')""")
        )
        store = TuningStore(Names(panda="Odd Name"))
        assert store.read_current(connection, live=True).tuning("atlas").number("NQUEUED_SAT_CAP") == 9
        assert store.set_value(connection, "NQUEUED_SAT_CAP", 8, **WHO).tuning("atlas").number("NQUEUED_SAT_CAP") == 8
