"""Shadow mode on PanDA's own tables, by the role with the least rights."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from broker.alongside.answers.shadow import shadow
from broker.domain.decisions import Candidate, Decision, DecisionRecord, Origin
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing
from broker.store.query_context import QueryContext
from broker.store.schema import migrate
from tests.alongside.conftest import READ

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
JEDI = """
    INSERT INTO doma_panda.jedi_tasks (jeditaskid, vo, prodsourcelabel, gshare, status, nucleus, modificationtime,
                                       errordialog) VALUES
        (1, 'atlas', 'managed', 'MC', 'running', 'CERN', '2026-08-01 11:00', NULL),
        (2, 'atlas', 'user', 'User', 'pending', NULL, '2026-08-01 11:30', 'skip site=A criteria=-lowmemory');
    INSERT INTO doma_panda.jedi_datasets (jeditaskid, datasetid, type, masterid) VALUES
        (1, 10, 'input', NULL), (1, 11, 'input', 10), (2, 20, 'input', NULL);
    INSERT INTO doma_panda.jedi_dataset_contents (jeditaskid, datasetid, fileid, lfn, ramcount) VALUES
        (1, 10, 100, 'a', 2000), (1, 10, 101, 'b', 2000), (1, 11, 110, 'c', 0);
    INSERT INTO doma_panda.jobsdefined4 (pandaid, jeditaskid, computingsite, gshare, prodsourcelabel, lockedby,
                                         creationtime) VALUES
        (1001, 1, 'A', 'MC', 'managed', 'jedi', '2026-08-01 11:00:10'),
        (1009, 1, 'A', 'MC', 'managed', NULL, '2026-08-01 11:00:10');
    INSERT INTO doma_panda.jobsarchived4 (pandaid, jeditaskid, computingsite, gshare, prodsourcelabel, lockedby,
                                          creationtime, modificationtime) VALUES
        (1002, 1, 'C', 'MC', 'managed', 'jedi', '2026-08-01 11:00:20', '2026-08-01 11:50'),
        (1003, 1, 'C', 'MC', 'managed', 'jedi', '2026-08-01 09:00:20', '2026-08-01 11:50');
    INSERT INTO doma_panda.filestable4 (row_id, pandaid, jeditaskid, datasetid, fileid, type, modificationtime) VALUES
        (1, 1001, 1, 11, 110, 'input', '2026-08-01 11:00'), (2, 1001, 1, 10, 100, 'input', '2026-08-01 11:00'),
        (3, 1002, 1, 10, 101, 'input', '2026-08-01 11:00');
    INSERT INTO doma_panda.tasks_statuslog (jeditaskid, modificationtime, status, reason) VALUES
        (2, '2026-08-01 11:10', 'pending', 'brokerage failed'), (2, '2026-08-01 08:10', 'pending', 'too long ago');
"""


#: A cycle of the service that only recorded decisions.
CYCLE = """
    INSERT INTO broker.agent_runs (id, agent, started_at, profile, only_recorded) VALUES
        (1, 'production_job', '2026-08-01 11:00+00', 'panda', true)"""


def _record(task: int, brokerage: str, dataset: int | None, ramcount: float | None, *names: str) -> DecisionRecord:
    candidates = tuple(Candidate(name, 1.0, {}) for name in names)
    rejected = {"C": "status"}
    return DecisionRecord(Decision(task, dataset, ramcount, brokerage, "brokered", "", candidates, rejected, ()))


def test_jobs_waits_and_nuclei_of_panda_are_compared(panda: Database, least: Callable[..., Database]) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    with panda.begin() as connection:
        Database.raw(connection).execute(JEDI.encode())
    records = [
        _record(1, "production_task", None, None, "CERN", "BNL"),
        _record(1, "production_job", 10, 2000.0, "A", "B"),
        _record(1, "production_job", 10, 4000.0, "C"),
        _record(2, "analysis_job", 20, None, "A"),
    ]
    origin = Origin(1, NOW - timedelta(hours=1), None, 1, 0, "0.9")
    with database.begin() as connection:
        connection.execute(sa.text(CYCLE))
        decision_writing.save(Database.raw(connection), origin, records)
    with database.read_snapshot() as connection:
        report = shadow(QueryContext(connection, database.names, NOW), NOW - timedelta(hours=2), timedelta(hours=2))
    lines = {
        entry.brokerage: (entry.jobs, entry.agreed_jobs, entry.waits, entry.agreed_waits) for entry in report.brokerages
    }
    assert lines == {"production_task": (1, 1, 0, 0), "production_job": (2, 1, 0, 0), "analysis_job": (0, 0, 2, 0)}
    assert {(entry.side, entry.code, entry.jobs, entry.queues) for entry in report.rules} == {
        ("panda_only", "status", 1, ("C",)),
        ("ours_only", "lowmemory", 0, ()),
        ("ours_only", "not_said", 0, ()),
    }
    assert report.uncompared == ()
    deciders = [
        (entry.brokerage, entry.profile, entry.engine, entry.tuning, entry.jobs, entry.waits)
        for entry in report.decided_by
    ]
    assert deciders == [
        ("analysis_job", "panda", "0.9", 1, 0, 2),
        ("production_job", "panda", "0.9", 1, 2, 0),
        ("production_task", "panda", "0.9", 1, 1, 0),
    ]
    assert report.notes == () and report.placed_by_ours == ()
    labels = [(entry.brokerage, entry.label, entry.jobs) for entry in report.labels]
    assert sorted(labels) == [
        ("analysis_job", "user", 0),
        ("production_job", "managed", 2),
        ("production_task", "managed", 1),
    ]
