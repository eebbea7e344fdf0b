"""The learned sources read from a database: present probe jobs, ends of failing tasks, sums over weeks."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.domain.failed_inputs import FailedFiles
from broker.domain.queue_capacity import QueueSums
from broker.domain.queue_health import QueueHealth
from broker.snapshot.source import Source
from broker.snapshot.sources.failed_inputs import FailedInputsSource
from broker.snapshot.sources.queue_capacity import QueueCapacitySource
from broker.snapshot.sources.queue_health import QueueHealthSource
from broker.snapshot.sources.task_failures import TaskFailuresSource
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.snapshots.source_reads import SourceReader
from tests.agents.moving_jobs import NOW, fill, job

BEGAN = NOW - timedelta(minutes=10)


def build_source(database: Database, source: Source) -> Any:
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        return source.build(SourceReader(connection, catalogue, NOW).read(source), None)  # type: ignore[arg-type]


def execute(database: Database, statement: str, **values: Any) -> None:
    with database.begin() as connection:
        connection.execute(sa.text(statement), values)


def probe(number: int, minutes: float, status: str = "activated", **columns: Any) -> dict[str, Any]:
    created_at = (BEGAN + timedelta(minutes=minutes)).astimezone(UTC).replace(tzinfo=None).isoformat()
    return job(number, status, creationtime=created_at, **{"prodsourcelabel": "managed", **columns})


@pytest.mark.parametrize(
    ("jobs", "kind", "present"),
    [
        ([], "production", 0),
        ([probe(1, 0), probe(2, 1, "running"), probe(3, 1, "defined")], "production", 3),
        ([probe(1, -0.1)], "production", 0),
        ([probe(1, 1, computingsite="R")], "production", 0),
        ([probe(1, 1, prodsourcelabel="user")], "production", 0),
        ([probe(1, 1, prodsourcelabel="user"), probe(2, 1)], "analysis", 1),
        ([probe(1, 1, prodsourcelabel=None)], "production", 1),
    ],
)
@pytest.mark.parametrize("state", ["probation", "excluded"])
def test_probe_jobs_are_those_created_since_the_probation_began(
    shared_database: Database, jobs: list[dict[str, Any]], kind: str, present: int, state: str
) -> None:
    fill(shared_database, jobs)
    execute(
        shared_database,
        "INSERT INTO broker.queue_health VALUES ('Q', :kind, '', :state, 11, 1, 20, 19, '{1}', '{}', :began, NULL, 1,"
        " 20, 19, 1801, 1, 1, 1, 0)",
        kind=kind,
        state=state,
        began=BEGAN.timestamp(),
    )
    health = build_source(shared_database, QueueHealthSource())["Q", kind]
    assert (health.probes, health.probes_there) == (1, present if state == "probation" else 0)
    assert health.probe_room == (4 - present if state == "probation" else 0)


@pytest.mark.parametrize(("ended", "failed"), [(0.0, 0.0), (7.6, 2.2), (200.0, 50.0), (20_000.0, 19_000.0)])
def test_only_the_recent_job_ends_of_a_healthy_queue_are_read(
    shared_database: Database, ended: float, failed: float
) -> None:
    fill(shared_database, [])
    execute(
        shared_database,
        "INSERT INTO broker.queue_health VALUES ('Q', 'analysis', '', 'healthy', 3.3, 1, 20, 19, '{1}', '{}', 5, NULL,"
        " 1, :ended, :failed, 1801, 1, 1, 1, 0), ('Q', 'analysis', 'n1', 'excluded', 9, 1, 20, 19, '{1}', '{}', 5,"
        " NULL, 1, 20, 19, 1801, 1, 1, 1, 0)",
        ended=ended,
        failed=failed,
    )
    ((key, health),) = build_source(shared_database, QueueHealthSource()).items()
    assert (key, health.state, health.statistic, health.ended_jobs) == (("Q", "analysis"), "healthy", 0.0, 0)
    expected = QueueHealth("Q", "analysis", memory_ended=ended, memory_failed=failed).lately()
    assert (health.finished_lately, health.failed_lately) == expected


def test_all_ends_of_tasks_with_two_failures_at_a_queue_are_read(shared_database: Database) -> None:
    fill(shared_database, [])
    execute(
        shared_database,
        "INSERT INTO broker.task_ends VALUES (1, 'Q', 10, 0, 1), (1, 'Q', 11, 2, 1), (1, 'R', 11, 5, 0),"
        " (2, 'Q', 10, 0, 1), (2, 'R', 10, 0, 1), (3, 'Q', 10, 9, 0)",
    )
    assert build_source(shared_database, TaskFailuresSource()) == {
        1: {("Q", 10): (0, 1), ("Q", 11): (2, 1), ("R", 11): (5, 0)}
    }


def test_failed_files_that_are_ready_again_are_read(shared_database: Database) -> None:
    fill(shared_database, [])
    execute(
        shared_database,
        "INSERT INTO broker.failed_inputs SELECT 1, dataset, file, queue, node, to_timestamp(at) FROM (VALUES"
        " (5, 1, 'Q', 'a', 100), (5, 1, 'Q', 'b', 300), (5, 2, 'Q', 'a', 200), (5, 1, 'R', 'a', 400),"
        " (5, 3, 'Q', 'a', 900), (6, 1, 'R', 'a', 500), (7, 9, 'Q', 'a', 1))"
        " AS failed (dataset, file, queue, node, at)",
    )
    execute(
        shared_database,
        "INSERT INTO doma_panda.jedi_dataset_contents (jeditaskid, datasetid, fileid, status) VALUES"
        " (1, 5, 1, 'ready'), (1, 5, 2, 'ready'), (1, 5, 3, 'running'), (1, 5, 4, 'ready'),"
        " (1, 6, 1, 'ready'), (1, 7, 9, 'finished')",
    )
    assert build_source(shared_database, FailedInputsSource()) == {
        (1, 5): {"Q": FailedFiles(2, 300.0), "R": FailedFiles(1, 400.0)},
        (1, 6): {"R": FailedFiles(1, 500.0)},
    }


def test_cores_and_ends_are_summed_over_three_weeks(shared_database: Database) -> None:
    fill(shared_database, [])
    hour = NOW.replace(minute=0, second=0, microsecond=0)
    for days, max_cores, finished in ((0, 40, 7), (20, 90, 3), (22, 500, 1000)):
        stamp = hour - timedelta(days=days)
        execute(
            shared_database,
            "INSERT INTO broker.queue_cores VALUES (:at, 'Q', 'all', :most), (:at, 'Q', 'production', 1)",
            at=stamp,
            most=max_cores,
        )
        execute(
            shared_database,
            "INSERT INTO broker.queue_record VALUES (:at, 'Q', 'production', 'evgen', 'SCORE', :ok, 1, 0, 0, 0, 0, 2,"
            " 0.5, 1, '{}'), (:at, 'Q', 'test', '', '', 99, 99, 0, 0, 0, 0, 9, 9, 9, '{}')",
            at=stamp,
            ok=finished,
        )
    execute(shared_database, "INSERT INTO broker.queue_cores VALUES (:at, 'R', 'all', 8)", at=hour)
    assert build_source(shared_database, QueueCapacitySource()) == {
        "Q": QueueSums(90.0, 2, 10, 2, 4, 1.0),
        "R": QueueSums(8.0, 1),
    }
