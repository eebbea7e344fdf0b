"""Input files of jobs that failed through no fault of the payload are kept as failed for some hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from tests.agents.outcomes.test_held_nodes import switch
from tests.agents.outcomes.test_outcomes import NOW, ended_job, failed_job, rows, run_once

ENDED = datetime(2026, 8, 1, 11, tzinfo=UTC)


def file(pandaid: int, fileid: int, **columns: Any) -> dict[str, Any]:
    plain = {"row_id": 10 * pandaid + fileid, "pandaid": pandaid, "jeditaskid": 1, "datasetid": 5, "fileid": fileid}
    return plain | {"type": "input", "modificationtime": "2026-08-01T11:00:00"} | columns


def put(database: Database, jobs: list[dict[str, Any]], *files: dict[str, Any]) -> None:
    load(database, Scenario(NOW, {"jobsarchived4": jobs, "filestable4": list(files)}))


@pytest.mark.parametrize(
    ("job", "file_columns", "is_kept"),
    [
        (failed_job(1, 60), {}, True),
        (failed_job(1, 60), {"type": "pseudo_input"}, True),
        (failed_job(1, 60), {"type": "output"}, False),
        (failed_job(1, 60), {"datasetid": None}, False),
        (failed_job(1, 60, piloterrorcode=0), {}, True),  # no known code
        (failed_job(1, 60, piloterrorcode=1305, transexitcode="1"), {}, False),  # the payload's fault
        (failed_job(1, 60, prodsourcelabel="test"), {}, False),
        (ended_job(1, 60), {}, False),
    ],
)
def test_which_failed_inputs_are_kept(
    database: Database, job: dict[str, Any], file_columns: dict[str, Any], is_kept: bool
) -> None:
    put(database, [job], file(1, 3, **file_columns))
    record, _ = run_once(database)
    expected = [(1, 5, 3, "Q", "node1", ENDED)] if is_kept else []
    assert (rows(database, "failed_inputs"), record.counts["failed_inputs"]) == (expected, len(expected))


def test_the_last_failure_at_a_place_counts_and_each_place_is_kept(database: Database) -> None:
    put(
        database,
        [failed_job(1, 50), failed_job(2, 60), failed_job(3, 55, computingsite="R")],
        file(1, 3),
        file(2, 3),
        file(2, 3, row_id=99),
        file(3, 3),
    )
    run_once(database)
    expected = [(1, 5, 3, "Q", "node1", ENDED), (1, 5, 3, "R", "node1", ENDED - timedelta(minutes=5))]
    assert rows(database, "failed_inputs") == expected


@pytest.mark.parametrize(("key", "minutes", "is_held"), [(True, 59, True), (True, 60, False), (False, 59, False)])
def test_a_job_that_waits_is_held_from_the_node_while_the_key_is_on(
    database: Database, key: bool, minutes: int, is_held: bool
) -> None:
    archived = [failed_job(1, 60), ended_job(3, 60, modificationhost="slot1@node2")]
    waiting_job = {"pandaid": 9, "jeditaskid": 1, "computingsite": "Q", "jobstatus": "activated"}
    contents = {"jeditaskid": 1, "datasetid": 5, "fileid": 3, "status": "running", "pandaid": 9}
    tables = {"jobsarchived4": archived, "filestable4": [file(1, 3)], "jobsactive4": [waiting_job]}
    load(database, Scenario(NOW, {**tables, "jedi_dataset_contents": [contents]}))
    switch(database, str(key), "LEARNED_RETRY_OTHER_NODE")
    record, _ = run_once(database, ENDED + timedelta(minutes=minutes))
    expected = [(9, "node1", "Q", ENDED + timedelta(hours=1))] if is_held else []
    assert (rows(database, "held_jobs"), record.counts["held_jobs"]) == (expected, len(expected))


@pytest.mark.parametrize(("hours", "is_kept"), [(5.0, True), (5.01, False)])
def test_failures_are_forgotten_after_six_hours(database: Database, hours: float, is_kept: bool) -> None:
    put(database, [failed_job(1, 60)], file(1, 3))
    run_once(database)
    run_once(database, NOW + timedelta(hours=hours))
    assert bool(rows(database, "failed_inputs")) == is_kept
