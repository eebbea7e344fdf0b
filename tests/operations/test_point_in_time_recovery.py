"""A base backup and the archived log restore the database to an instant before a mistake."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.fault.processes import run_arguments
from tests.operations.conftest import BROKER, MakeCluster, count, run_command
from tests.operations.postgres_cluster import PostgresCluster

pytestmark = pytest.mark.slow


def test_the_database_is_restored_to_before_the_mistake_and_continues_brokering(
    primary: PostgresCluster, archive: Path, make_cluster: MakeCluster
) -> None:
    restored = make_cluster("restored")
    restored.data.mkdir(mode=0o700)
    restored.give(restored.data)
    primary.back_up(restored.data)
    # work after the backup is only in the archived log; then the mistake follows
    run_command(0, primary, *run_arguments())
    runs, decisions = count(primary, "broker.agent_runs"), count(primary, "broker.decisions")
    with psycopg.connect(primary.url(BROKER), autocommit=True) as connection:
        connection.execute("SELECT pg_create_restore_point('before the mistake')")
        connection.execute("DELETE FROM broker.decisions")
        connection.execute("SELECT pg_switch_wal()")
    assert count(primary, "broker.decisions") == 0
    primary.stop()  # archives the rest of the log

    (restored.data / "recovery.signal").touch()
    restored.give(restored.data)
    target = {"recovery_target_name": "before the mistake", "recovery_target_action": "promote"}
    restored.start({"restore_command": f"cp {archive}/%f %p", **target})
    assert decisions > 0
    assert (count(restored, "broker.agent_runs"), count(restored, "broker.decisions")) == (runs, decisions)
    _, summary = run_command(0, restored, "replay", "--last", "1h")
    assert f"{decisions} identical, 0 different, 0 unreadable" in summary
    run_command(0, restored, *run_arguments())
    assert count(restored, "broker.agent_runs") == runs + 1
