from __future__ import annotations

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.leases import Lease, LeaseTerms
from tests.fault.history import CHECKS, fenced_commits, violations, watch
from tests.fault.writers import AGENT, start_run, write_fenced
from tests.store.small_work import placement, seed

STALE = "a run wrote after another one had its lease"


def acquire_lease(database: Database, holder: str) -> Lease:
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.leases SET expires_at = clock_timestamp()"))
        lease = leases.acquire(connection, AGENT, holder, LeaseTerms()).lease
    assert lease is not None
    return lease


@pytest.fixture
def history(database: Database) -> Lease:
    """A consistent history: one job of two files, under a lease."""
    seed(database)
    watch(database)
    lease = acquire_lease(database, "one")
    write_fenced(database, lease, start_run(database, lease), placement([(1, "CERN", [100, 101])]))
    return lease


def test_a_consistent_history_has_no_violations(database: Database, history: Lease) -> None:
    assert violations(database, 0, [1, 2]) == []
    assert fenced_commits(database) == 1


def test_a_write_after_the_lease_was_lost_is_detected(database: Database, history: Lease) -> None:
    """Write without fences, which would reject it."""
    run = start_run(database, history)
    second_job = placement([(2, "BNL", [200, 201])])
    write_fenced(
        database, history, run, second_job, between=lambda: (acquire_lease(database, "two"), None)[1], fenced=False
    )
    assert [violation.partition(":")[0] for violation in violations(database, 0, [])] == [STALE]


FORGERIES = {
    "a file has more than one live job": """
        INSERT INTO doma_panda.jobsactive4 (pandaid, jeditaskid)
        SELECT max(pandaid) + 1, 1 FROM doma_panda.jobsdefined4;
        INSERT INTO doma_panda.filestable4 (row_id, pandaid, jeditaskid, datasetid, fileid, type)
        SELECT 1000000 + live, pandaid + live, 1, 10, 100, 'input'
        FROM doma_panda.jobsdefined4 CROSS JOIN generate_series(0, 1) AS live""",
    "a job is in more than one table": """
        INSERT INTO doma_panda.jobsarchived4 (pandaid, jobstatus)
        SELECT pandaid, 'failed' FROM doma_panda.jobsdefined4""",
    "a job ended twice": """
        INSERT INTO doma_panda.jobs_statuslog (pandaid, jobstatus, modificationtime)
        SELECT pandaid, 'finished', now() FROM doma_panda.jobsdefined4 CROSS JOIN generate_series(1, 2)""",
    "a counter differs from the files": """
        UPDATE doma_panda.jedi_datasets SET nfilesused = nfilesused + 1 WHERE datasetid = 10""",
    "an epoch went back": """
        INSERT INTO broker.agent_runs (agent, holder, epoch, started_at)
        SELECT agent, 'old', epoch - 1, clock_timestamp() FROM broker.agent_runs""",
    "a decision names no run": "DELETE FROM broker.agent_runs",
}


def test_each_check_has_a_forgery() -> None:
    assert {*FORGERIES, STALE} == set(CHECKS)


@pytest.mark.parametrize("title", FORGERIES)
def test_a_forged_history_is_detected(database: Database, history: Lease, title: str) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql(FORGERIES[title])
    assert title in {violation.partition(":")[0] for violation in violations(database, 0, [])}


def test_a_job_assigned_to_two_pilots_is_detected(database: Database, history: Lease) -> None:
    assert violations(database, 0, [7, 8, 7]) == ["a job was given to 2 pilots: 7"]
