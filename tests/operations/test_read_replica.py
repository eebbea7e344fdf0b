"""A streaming replica answers pages, explanations, replay and what-if; what writes says that it only reads."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import psycopg
import pytest

from tests.fault.processes import broker, run_arguments, wait_until
from tests.operations.conftest import BROKER, MakeCluster, count, ends_with
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


def test_what_only_reads_answers_and_what_writes_is_refused_by_name(
    primary: PostgresCluster, replica: PostgresCluster
) -> None:
    with psycopg.connect(replica.url(BROKER)) as connection:
        row = connection.execute("SELECT pg_is_in_recovery(), min(jeditaskid) FROM broker.decisions").fetchone()
    assert row is not None
    follows, task = row
    assert follows
    for arguments in (("tasks",), ("agents",), ("explain", str(task)), ("why-not", str(task), "BNL/MCORE")):
        of_primary, _ = ends_with(0, primary, *arguments, "--json")
        of_replica, _ = ends_with(0, replica, *arguments, "--json")
        if arguments != ("agents",):  # whose ages differ
            assert of_replica == of_primary
    _, said = ends_with(0, replica, "replay", "--last", "1h")
    assert "16 identical, 0 different" in said
    ends_with(0, replica, "what-if", "--last", "1h", "--set", "NQUEUED_SAT_CAP=149")
    _, refused = ends_with(3, replica, "config", "set", "NQUEUED_SAT_CAP", "149", "--reason", "tried", "--editor", "me")
    assert "this server only reads" in refused


def test_it_shows_what_the_primary_decides_afterwards(primary: PostgresCluster, replica: PostgresCluster) -> None:
    before = count(replica, "broker.agent_runs")
    ends_with(0, primary, *run_arguments())
    wait_until(lambda: count(replica, "broker.agent_runs") > before, "the replica followed")


def test_pages_and_the_api_answer_from_it(replica: PostgresCluster, tmp_path: Path) -> None:
    port = free_port()
    variables = {"BROKER_HOME": str(tmp_path / "home")}
    with broker(replica.url(BROKER), "api", "--port", str(port), variables=variables, log=tmp_path / "log"):

        def answered(path: str) -> int:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                    return int(answer.status)
            except OSError as error:
                return int(getattr(error, "code", 0))

        wait_until(lambda: answered("/health/live") == 200, "the API listens")
        pages = ("/", "/queues", "/tasks", "/tuning", "/service", "/api/v1/tasks", "/api/v1/queues", "/metrics")
        assert {path: answered(path) for path in pages} == dict.fromkeys(pages, 200)
