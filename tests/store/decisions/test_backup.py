"""Decisions, days and aggregates survive a dump and a restore into another database."""

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


def stored_records(database: Database) -> tuple[list[StoredCycle], list[ChunkState], list[object]]:
    with database.read_snapshot() as connection:
        return list(stored_cycles(connection)), read_states(connection), list(decision_days.days(connection))


@pytest.mark.slow
def test_a_restored_database_continues_to_decide_and_read(
    make_database: Callable[..., Database], tmp_path: Path
) -> None:
    original, restored = make_database(), make_database(migrated=False)
    with original.begin() as connection:
        decision_days.make(connection, START, 2)
    for minutes in (0, 5):
        decide(original, minutes)
    file = tmp_path / "backup"
    for tool, words in (
        ("pg_dump", ["--format=custom", f"--file={file}", libpq(original)]),
        ("pg_restore", ["--no-owner", f"--dbname={libpq(restored)}", str(file)]),
    ):
        subprocess.run([program(tool), *words], check=True, capture_output=True)
    assert migrate.check(restored) == migrate.check(original)
    before = stored_records(original)
    assert stored_records(restored) == before and len(before[2]) == 3 and len(before[0]) == 2
    decide(restored, 10)
    with restored.read_snapshot() as connection:
        (newest,) = latest(connection, 1)
        assert (newest.seen_again, newest.last_seen_at) == (2, START + timedelta(minutes=10))
        ids = connection.execute(sa.text("SELECT count(DISTINCT id), count(*) FROM broker.decisions")).one()
    assert ids[0] == ids[1] == 5
