from __future__ import annotations

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms
from tests.fault.auditor import CHECKS, COUNTERS, NO_DECISION, Baseline, audit, baseline
from tests.fault.writers import AGENT, start_run, write_fenced
from tests.store.small_work import placement, seed


@pytest.fixture
def history(database: Database) -> Baseline:
    """A consistent history: two jobs of two files each."""
    seed(database)
    before = baseline(database)
    with database.begin() as connection:
        lease = leases.acquire(connection, AGENT, "one", LeaseTerms()).lease
    assert lease is not None
    two_jobs = placement([(1, "CERN", [100, 101]), (2, "BNL", [200, 201])])
    write_fenced(database, lease, start_run(database, lease), two_jobs)
    return before


def test_a_consistent_history_has_no_findings(database: Database, history: Baseline) -> None:
    assert audit(database, history) == []


FORGERIES = [
    ("DELETE FROM doma_panda.jobsdefined4 WHERE jeditaskid = 1", "a file is marked for a job that is not there"),
    ("UPDATE doma_panda.jedi_dataset_contents SET status = 'ready' WHERE fileid = 100", "a marked file is still ready"),
    (
        "INSERT INTO doma_panda.filestable4 (row_id, pandaid, jeditaskid, datasetid, fileid)"
        " SELECT 1000000, max(pandaid), 1, 10, 100 FROM doma_panda.jobsdefined4",
        "a file has more than one live job",
    ),
    (
        "UPDATE doma_panda.jedi_dataset_contents SET pandaid = (SELECT max(pandaid) FROM doma_panda.jobsdefined4)"
        " WHERE fileid = 100",
        "a file is recorded with another job than it is marked for",
    ),
    (
        "INSERT INTO doma_panda.jobsdefined4 (pandaid, jeditaskid, computingsite, jobstatus)"
        " SELECT max(pandaid) + 1, 1, 'CERN', 'defined' FROM doma_panda.jobsdefined4",
        "a job has no file",
    ),
    (
        "UPDATE doma_panda.jobsdefined4 SET computingsite = 'ELSEWHERE' WHERE jeditaskid = 1",
        "a job has no decision with its queue among the candidates",
    ),
    (
        "DELETE FROM broker.decisions WHERE jeditaskid = 1",
        "the decisions assigned another number of jobs than there are",
    ),
    (
        "INSERT INTO broker.agent_runs (agent, holder, epoch, started_at)"
        " SELECT agent, 'old', epoch - 1, clock_timestamp() FROM broker.agent_runs",
        "an epoch went back",
    ),
    ("DELETE FROM broker.agent_runs", "a decision names no run"),
    ("UPDATE doma_panda.jedi_datasets SET nfilesused = nfilesused + 1 WHERE datasetid = 10", COUNTERS),
]


@pytest.mark.parametrize(("forgery", "finding"), FORGERIES)
def test_a_forged_history_is_detected(database: Database, history: Baseline, forgery: str, finding: str) -> None:
    with database.begin() as connection:
        assert connection.execute(sa.text(forgery)).rowcount > 0
    assert any(line.startswith(finding) for line in audit(database, history))


def test_every_check_has_a_forgery() -> None:
    assert {finding for _, finding in FORGERIES} == {*CHECKS, COUNTERS, NO_DECISION}


def test_the_auditor_checks_only_jobs_created_since_the_baseline(database: Database) -> None:
    seed(database)
    with database.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO doma_panda.jobsdefined4 (pandaid, jeditaskid, computingsite, jobstatus)"
                " VALUES (1, 1, 'OLD', 'defined')"
            )
        )
    assert audit(database, baseline(database)) == []
    assert audit(database, Baseline(0, {})) != []
