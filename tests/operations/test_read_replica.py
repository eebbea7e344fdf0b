"""A streaming replica serves pages, explanations, replay and what-if; commands that write are rejected as read-only."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import psycopg
import pytest

from tests.fault.processes import broker, run_arguments, wait_until
from tests.operations.conftest import BROKER, MakeCluster, count, run_command
from tests.operations.postgres_cluster import PostgresCluster, free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def replica(primary: PostgresCluster, make_cluster: MakeCluster) -> PostgresCluster:
    """A standby that follows the primary."""
    standby = make_cluster("standby")
    standby.data.mkdir(mode=0o700)
    standby.give(standby.data)
    primary.back_up(standby.data, standby=True)
    standby.start()
    return standby


def test_reading_commands_work_and_writing_commands_are_rejected(
    primary: PostgresCluster, replica: PostgresCluster
) -> None:
    with psycopg.connect(replica.url(BROKER)) as connection:
        row = connection.execute("SELECT pg_is_in_recovery(), min(jeditaskid) FROM broker.decisions").fetchone()
    assert row is not None
    is_standby, task = row
    assert is_standby
    for arguments in (("tasks",), ("agents",), ("explain", str(task)), ("why-not", str(task), "BNL/MCORE")):
        primary_output, _ = run_command(0, primary, *arguments, "--json")
        replica_output, _ = run_command(0, replica, *arguments, "--json")
        if arguments != ("agents",):  # the ages differ
            assert replica_output == primary_output
    _, summary = run_command(0, replica, "replay", "--last", "1h")
    assert "16 identical, 0 different" in summary
    run_command(0, replica, "what-if", "--last", "1h", "--set", "NQUEUED_SAT_CAP=149")
    _, errors = run_command(
        3, replica, "config", "set", "NQUEUED_SAT_CAP", "149", "--reason", "tried", "--editor", "me"
    )
    assert "this server only reads" in errors


def test_the_replica_follows_later_decisions_of_the_primary(primary: PostgresCluster, replica: PostgresCluster) -> None:
    before = count(replica, "broker.agent_runs")
    run_command(0, primary, *run_arguments())
    wait_until(lambda: count(replica, "broker.agent_runs") > before, "the replica followed")


def test_the_replica_serves_pages_and_the_api(replica: PostgresCluster, tmp_path: Path) -> None:
    port = free_port()
    variables = {"BROKER_HOME": str(tmp_path / "home")}
    with broker(replica.url(BROKER), "api", "--port", str(port), variables=variables, log=tmp_path / "log"):

        def status_of(path: str) -> int:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
                    return int(response.status)
            except OSError as error:
                return int(getattr(error, "code", 0))

        wait_until(lambda: status_of("/health/live") == 200, "the API listens")
        pages = ("/", "/queues", "/tasks", "/tuning", "/service", "/api/v1/tasks", "/api/v1/queues", "/metrics")
        assert {path: status_of(path) for path in pages} == dict.fromkeys(pages, 200)
