"""A database that was dumped and restored into another one: decisions, days and aggregates are as they were."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.domain.decisions import Origin
from broker.store.connection.database import Database
from broker.store.connection.embedded_binaries import program
from broker.store.decisions import decision_days, decision_writing
from broker.store.decisions.decision_rows import latest
from broker.store.decisions.stored_cycles import StoredCycle, stored_cycles
from broker.store.schema import migrate
from broker.store.summaries.chunk_states import ChunkState, read_states
from tests.store.decisions.packed_records import START, brokered, waiting


def libpq(database: Database) -> str:
    return sa.make_url(database.url).set(drivername="postgresql").render_as_string(hide_password=False)


def decide(database: Database, minutes: int) -> None:
    origin = Origin(minutes + 1, START + timedelta(minutes=minutes), f"snapshot {minutes}", 3, 9, "1")
    with database.begin() as connection:
        decision_writing.save(Database.raw(connection), origin, [waiting(1), brokered(2), waiting(minutes + 3)])


def stored(database: Database) -> tuple[list[StoredCycle], list[ChunkState], list[object]]:
    with database.read_snapshot() as connection:
        return list(stored_cycles(connection)), read_states(connection), list(decision_days.days(connection))


@pytest.mark.slow
def test_a_restored_database_decides_and_reads_on(make_database: Callable[..., Database], tmp_path: Path) -> None:
    first, second = make_database(), make_database(migrated=False)
    with first.begin() as connection:
        decision_days.make(connection, START, 2)
    for minutes in (0, 5):
        decide(first, minutes)
    file = tmp_path / "backup"
    for tool, words in (
        ("pg_dump", ["--format=custom", f"--file={file}", libpq(first)]),
        ("pg_restore", ["--no-owner", f"--dbname={libpq(second)}", str(file)]),
    ):
        subprocess.run([program(tool), *words], check=True, capture_output=True)
    assert migrate.check(second) == migrate.check(first)
    before = stored(first)
    assert stored(second) == before and len(before[2]) == 3 and len(before[0]) == 2
    decide(second, 10)
    with second.read_snapshot() as connection:
        (found,) = latest(connection, 1)
        assert (found.seen_again, found.last_seen_at) == (2, START + timedelta(minutes=10))
        ids = connection.execute(sa.text("SELECT count(DISTINCT id), count(*) FROM broker.decisions")).one()
    assert ids[0] == ids[1] == 5
