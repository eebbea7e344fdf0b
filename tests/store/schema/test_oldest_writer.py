"""The schema names the oldest release that may write: that release and newer ones work, older ones only read."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from broker.errors import Refused
from broker.store.connection.database import Database
from broker.store.connection.errors import SchemaTooNew
from broker.store.connection.opening import guarded
from broker.store.connection.tables import OWN, Migration, read_migrations
from broker.store.connection.writer_guard import WriterGuard, numbers_of, refusal
from broker.store.schema import migrate
from broker.store.schema.pending_steps import read_pending
from broker.store.schema.step_applying import TRIES, apply_step

ADDING = Migration(OWN, 9001, "adds", "ALTER TABLE broker.submit_pools ADD COLUMN made_up text;")
REMOVING = Migration(
    OWN, 9002, "ends", "-- oldest writer: 1.2.0\nALTER TABLE broker.agent_pauses RENAME COLUMN editor TO who;"
)
PAUSE = "INSERT INTO broker.installation_vo (vo, set_at, set_by) VALUES ('v', now(), 'me')"


def apply(database: Database, *steps: Migration) -> tuple[str, ...]:
    return migrate.upgrade(database, own=(*read_migrations(OWN), *steps)).applied


@pytest.mark.parametrize(
    ("release", "numbers"),
    [
        ("1.2.3", (1, 2, 3)),
        ("1.10", (1, 10, 0)),
        ("1.2.0rc1", (1, 2, 0)),
        ("2.0.0.dev4+local", (2, 0, 0)),
        ("x", (0, 0, 0)),
    ],
)
def test_releases_are_compared_by_their_numbers(release: str, numbers: tuple[int, ...]) -> None:
    assert numbers_of(release) == numbers


@pytest.mark.parametrize(("release", "writes"), [("1.0.0", False), ("1.1.9", False), ("1.2.0", True), ("1.10.0", True)])
def test_a_step_that_does_more_than_add_names_the_oldest_writer(database: Database, release: str, writes: bool) -> None:
    apply(database, REMOVING)
    with database.read_snapshot() as connection:
        assert (refusal(connection, "here", release) is None) is writes


def test_a_release_that_knows_the_step_writes_regardless_of_its_number(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.oldest_writer SET release = '99.0.0'")
        assert refusal(connection, "here", "0.0.1") is None


def test_an_adding_step_lets_an_older_release_write(database: Database) -> None:
    apply(database, ADDING)
    with guarded(database).begin() as connection:
        connection.exec_driver_sql(PAUSE)


def test_a_release_that_is_too_old_reads_and_explains_why_it_does_not_write(database: Database) -> None:
    guarded(database)
    with database.begin() as connection:
        connection.exec_driver_sql(PAUSE)
    apply(database, REMOVING)
    database.guard = WriterGuard("here", "1.0.0")
    with database.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM broker.installation_vo").scalar_one() == 1
    message = r"1\.2\.0 and newer, and this is 1\.0\.0, which only reads it.*restore"
    with pytest.raises(SchemaTooNew, match=message), database.begin() as connection:
        connection.exec_driver_sql("DELETE FROM broker.installation_vo")
    with database.sibling("another", 1) as sibling, pytest.raises(SchemaTooNew), sibling.begin() as connection:
        connection.exec_driver_sql("DELETE FROM broker.installation_vo")
    with database.read_snapshot() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM broker.installation_vo").scalar_one() == 1


def test_a_removing_step_waits_for_writers_and_no_writer_overtakes_it(database: Database) -> None:
    older_writer = guarded(database)
    older_writer.guard = WriterGuard("here", "1.0.0")
    errors: list[BaseException] = []

    def upgrade() -> None:
        with database.sibling("upgrade", 1) as upgrade_database:
            apply_step(upgrade_database, REMOVING)

    def write_later() -> None:
        try:
            with older_writer.begin() as connection:
                connection.exec_driver_sql(PAUSE)
        except SchemaTooNew as error:
            errors.append(error)

    upgrading, writing = threading.Thread(target=upgrade), threading.Thread(target=write_later)
    with older_writer.begin() as connection:
        connection.exec_driver_sql(PAUSE)
        upgrading.start()
        _wait_for_lock_waits(database, 1)
        writing.start()
        _wait_for_lock_waits(database, 2)
        columns = (
            "SELECT count(*) FROM pg_attribute WHERE attrelid = 'broker.agent_pauses'::regclass AND attname = 'who'"
        )
        assert connection.exec_driver_sql(columns).scalar_one() == 0
    upgrading.join()
    writing.join()
    assert len(errors) == 1
    with database.read_snapshot() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM broker.installation_vo").scalar_one() == 1


def _wait_for_lock_waits(database: Database, sessions: int) -> None:
    waiting = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    pacer = threading.Event()
    for _ in range(600):
        with database.read_snapshot() as connection:
            if connection.scalar(waiting) >= sessions:
                return
        pacer.wait(0.01)
    raise AssertionError("nobody waited")


def test_a_step_whose_table_stays_in_use_backs_off_and_is_finally_rejected(database: Database) -> None:
    waits: list[float] = []
    short = "SET lock_timeout = 1;"  # the step's own limit, so that the test need not wait for the default
    step = Migration(OWN, 9003, "busy", f"{short} ALTER TABLE broker.agent_pauses ADD COLUMN made_up text;")
    with database.begin() as connection:
        connection.exec_driver_sql("LOCK TABLE broker.agent_pauses IN ACCESS SHARE MODE")
        with pytest.raises(Refused, match="0 tries"):
            apply_step(database, step, waits.append)
    assert len(waits) == TRIES
    assert apply_step(database, step)
    with database.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(made_up) FROM broker.agent_pauses").scalar_one() == 0


def test_an_upgrade_check_reports_pending_steps_without_applying_them(database: Database) -> None:
    known_steps = read_migrations(OWN)
    assert read_pending(database).steps == ()
    adding = read_pending(database, own=(*known_steps, ADDING))
    assert (adding.is_safe, [step.label for step in adding.steps]) == (True, [ADDING.label])
    removing = read_pending(database, own=(*known_steps, ADDING, REMOVING))
    assert not removing.is_safe
    (lock,) = removing.steps[1].locks
    assert (lock.lock.table, lock.lock.stops, lock.about_s) == ("broker.agent_pauses", "all", 0.0)
    assert apply(database, ADDING) == (ADDING.label,)


def test_no_service_continues_on_a_schema_older_than_1_0(empty_database: Database) -> None:
    before = [step for step in read_migrations(OWN) if step.version < 195]
    migrate.upgrade(empty_database, own=before)
    pending = read_pending(empty_database)
    assert pending.steps[0].effects.is_safe
    assert (pending.from_before_1, pending.is_safe) == (True, False)
