"""No timeout acts on jobs of the event service, however old they are; 0 and NULL mark ordinary jobs."""

from __future__ import annotations

from typing import Any

import pytest

from broker.lifecycle.model.check_job import check_job
from broker.lifecycle.model.jobs import Job
from broker.lifecycle.model.rules import ACTIVE, RULES
from broker.lifecycle.statements.scan import find_job
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from tests.lifecycle.lifecycle_grid import DAY, NOW, Rows, ago, due, read_inputs, run_once, store
from tests.store.small_work import all_rows

TIMES = ("modificationtime", "statechangetime", "creationtime", "starttime", "endtime")
#: PanDA's job table: event service, its merge jobs, cloned, jumbo, co-jumbo and fine-grained jobs; and unknown ones.
KINDS = (1, 2, 3, 4, 5, 6, 7, -1)


def old_jobs(kind: int | None) -> tuple[Rows, Rows]:
    """For each rule a job on which it would act, by table: active, defined."""
    tables: tuple[Rows, Rows] = ([], [])
    for number, rule in enumerate(RULES):
        row: dict[str, Any] = {
            "pandaid": 100 + number,
            "jobstatus": rule.statuses[0],
            "computingsite": "OFF" if rule.inactive_queues else "ON",
            "prodsourcelabel": "managed",
            "lockedby": None if rule.origin == "not_from_task" else "jedi",
            "relocationflag": 0,
            "processingtype": "simul",
            "currentpriority": 900 if rule.priority == "high" else 100,
            "jobsubstatus": "x" if rule.needs_substatus else None,
            **dict.fromkeys(TIMES, ago(400 * DAY)),
        }
        tables[rule.table != ACTIVE].append(row if kind is None else {**row, "eventservice": kind})
    return tables


@pytest.mark.parametrize("kind", [None, 0])
def test_an_ordinary_job_of_every_rule_is_due(shared_database: Database, kind: int | None) -> None:
    store(shared_database, *old_jobs(kind))
    assert len(due(shared_database)) == len(RULES)


@pytest.mark.parametrize("kind", KINDS)
def test_no_rule_acts_on_a_job_of_the_event_service(shared_database: Database, kind: int) -> None:
    store(shared_database, *old_jobs(kind))
    assert due(shared_database) == {}


def test_the_check_of_one_job_gives_the_reason(shared_database: Database) -> None:
    store(shared_database, *old_jobs(1))
    with shared_database.read_snapshot() as connection:
        job = find_job(connection, TableCatalogue.read(connection, shared_database.names), 100)
    assert isinstance(job, Job)
    limits = read_inputs(shared_database).timeout_context.limits
    verdicts = check_job(job, None, limits, NOW.replace(tzinfo=None))
    assert all("event_service" in verdict.excused and not verdict.fired for verdict in verdicts)


def test_a_cycle_of_the_agent_changes_neither_jobs_nor_events(database: Database) -> None:
    events: Rows = [{"jeditaskid": 1, "pandaid": 100, "fileid": 3, "job_processid": 4, "datasetid": 5, "status": 2}]
    active, defined = old_jobs(1)
    store(database, active, defined, jedi_events=events)
    record, _ = run_once(database)
    assert (record.outcome, record.counts["due"]) == ("done", 0)
    assert all_rows(database, "SELECT count(*) AS n FROM doma_panda.jobsactive4") == [{"n": len(active)}]
    assert all_rows(database, "SELECT status FROM doma_panda.jedi_events") == [{"status": 2}]
