"""Shadow mode beside placements of ours: agreement is computed from PanDA's own placements only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from broker.alongside.answers.shadow import shadow
from broker.alongside.answers.shadow_models import Shadow
from broker.alongside.statements.panda_placements import read_placements
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
from broker.store.schema import migrate
from tests.alongside import planted
from tests.alongside.conftest import READ
from tests.alongside.planted import NOW, RECORDED, UNKNOWN, WROTE, PlantedJobs

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
AT = NOW - HOUR


@pytest.fixture
def database(panda: Database, least: Callable[..., Database]) -> Database:
    broker_database = least(*READ)
    migrate.upgrade(broker_database)
    planted.plant_cycles(broker_database)
    return broker_database


def report_of(database: Database) -> Shadow:
    with database.read_snapshot() as connection:
        return shadow(QueryContext(connection, database.names, NOW), NOW - 2 * HOUR, 2 * HOUR)


def test_our_own_jobs_are_left_out(panda: Database, database: Database) -> None:
    """20 of 25 jobs are where ours wants them, but the plug-in placed 11 of these: of PanDA's 14 jobs, 9 agree."""
    panda_jobs = [PlantedJobs(task, "A" if task <= 9 else "C") for task in range(1, 15)]
    our_jobs = [PlantedJobs(task, "A") for task in range(15, 26)]
    planted.plant(panda, panda_jobs + our_jobs)
    decisions = [planted.decision_for(entry.task, "A", "B") for entry in panda_jobs + our_jobs]
    planted.record(database, RECORDED, AT - HOUR / 2, decisions)
    # eight decisions equal the service's and have no row of their own, three differ
    by_plugin = [planted.decision_for(entry.task, "A", "B") for entry in our_jobs[:8]]
    by_plugin += [planted.decision_for(entry.task, "A") for entry in our_jobs[8:]]
    planted.record(database, None, AT - 20 * SECOND, by_plugin)
    report = report_of(database)
    (line,) = report.brokerages
    assert (line.jobs, line.compared_jobs, line.agreed_jobs) == (14, 14, 9)
    assert line.job_agreement == pytest.approx(0.643, abs=0.001)
    naive = (line.agreed_jobs + sum(entry.jobs for entry in report.placed_by_ours)) / 25
    assert naive == 0.8
    assert [(entry.by, entry.jobs, entry.tasks) for entry in report.placed_by_ours] == [("plugin", 11, 11)]
    assert line.witnesses == 14 and line.job_interval is not None
    assert (line.job_interval.low, line.job_interval.high) == (
        pytest.approx(0.388, abs=0.001),
        pytest.approx(0.837, abs=0.001),
    )
    assert [(entry.code, entry.jobs) for entry in report.rules] == [("dest_blacklisted", 5)]
    assert [(entry.profile, entry.engine, entry.tuning, entry.jobs) for entry in report.decided_by] == [
        ("panda", "0.9", 7, 14)
    ]
    assert report.notes == ()


@pytest.mark.parametrize(
    ("decided_at", "by"),
    [
        (AT - timedelta(minutes=10), "plugin"),
        (AT - timedelta(minutes=10) - SECOND, None),  # JEDI would have given up on that thread
        (AT + SECOND, "plugin"),  # clocks of two hosts
        (AT + 2 * SECOND, None),
    ],
)
def test_a_job_counts_as_placed_by_the_plugin_soon_after_its_decision(
    panda: Database, database: Database, decided_at: object, by: str | None
) -> None:
    planted.plant(panda, [PlantedJobs(1, "A")])
    planted.record(database, RECORDED, AT - HOUR, [planted.decision_for(1, "A")])
    planted.record(database, None, decided_at, [planted.decision_for(1, "B")])  # type: ignore[arg-type]
    assert [placement.by for placement in report_of(database).placed_by_ours] == ([] if by is None else [by])


@pytest.mark.parametrize(("run", "by"), [(WROTE, "agent"), (UNKNOWN, "agent"), (None, "plugin"), (RECORDED, None)])
def test_a_nucleus_assigned_by_ours_is_no_agreement(
    panda: Database, database: Database, run: int | None, by: str | None
) -> None:
    planted.plant(panda, [PlantedJobs(1, "A")])
    planted.record(database, run, AT, [planted.decision_for(1, "CERN", brokerage="production_task")])
    report = report_of(database)
    lines = [
        (entry.compared_jobs, entry.agreed_jobs) for entry in report.brokerages if entry.brokerage == "production_task"
    ]
    assert [entry.by for entry in report.placed_by_ours] == ([] if by is None else [by])
    assert lines == ([(1, 1)] if by is None else [])


def test_a_nucleus_other_than_ours_was_assigned_by_panda(panda: Database, database: Database) -> None:
    planted.plant(panda, [PlantedJobs(1, "A")])
    planted.record(database, WROTE, AT, [planted.decision_for(1, "BNL", brokerage="production_task")])
    report = report_of(database)
    assert report.placed_by_ours == ()
    assert [entry.compared_jobs for entry in report.brokerages if entry.brokerage == "production_task"] == [1]


def test_calls_without_a_record_are_noted(panda: Database, database: Database) -> None:
    planted.plant(panda, [PlantedJobs(1, "A")])
    planted.record(database, RECORDED, AT - HOUR / 2, [planted.decision_for(1, "A")])
    with database.begin() as connection:
        planted.plugin_calls.add(connection, planted.plugin_calls.Call("production_job", "decided", "brokered"), AT)
    (note,) = report_of(database).notes
    assert "decided 1 times and recorded 0" in note and "record = true" in note


def test_consequences_on_both_sides(panda: Database, database: Database) -> None:
    """PanDA assigns two jobs to C, which ours rejects; ours divides all jobs between A, next to the data, and B."""
    planted.plant(panda, [PlantedJobs(1, "A", jobs=2), PlantedJobs(2, "C", jobs=2)])
    planted.record(
        database, RECORDED, AT - HOUR / 2, [planted.decision_for(1, "A", "B"), planted.decision_for(2, "A", "B")]
    )
    statement = """
        INSERT INTO doma_panda.jobsarchived4 (pandaid, computingsite, prodsourcelabel, jobstatus, corecount,
            creationtime, starttime, endtime, modificationtime) VALUES
        (91, 'A', 'managed', 'finished', 8,
         '2026-08-01T09:00', '2026-08-01T09:10', '2026-08-01T10:10', '2026-08-01T11:00'),
        (92, 'C', 'managed', 'finished', 1,
         '2026-08-01T09:00', '2026-08-01T10:00', '2026-08-01T10:30', '2026-08-01T11:00'),
        (93, 'C', 'managed', 'failed', NULL, '2026-08-01T09:00', '2026-08-01T10:00', '2026-08-01T10:30',
         '2026-08-01T11:00'),
        (94, 'C', 'user', 'failed', NULL, '2026-08-01T09:00', '2026-08-01T09:00', '2026-08-01T10:30',
         '2026-08-01T11:00')"""
    with panda.begin() as connection:
        Database.raw(connection).execute(statement.encode())
        relation = (
            "INSERT INTO doma_panda.panda_ddm_relation (panda_site_name, ddm_endpoint_name, roles, scope) VALUES "
        )
        connection.exec_driver_sql(relation + "('A', 'A_DISK', 'read_lan,write_lan', 'default')")
    with database.begin() as connection:
        replica = "INSERT INTO broker.dataset_replicas (scope, name, rse, available_files, total_files) VALUES "
        connection.exec_driver_sql(replica + "('mc', 'set.1', 'A_DISK', 3, 4), ('mc', 'set.2', 'ELSEWHERE', 4, 4)")
    report = report_of(database)
    lines = {entry.placed: entry for entry in report.consequences}
    assert set(lines) == {"panda", "ours", "panda_only", "ours_only"}
    gb = 1e9
    assert {name: (entry.queues, entry.jobs, entry.wan_bytes) for name, entry in lines.items()} == {
        # a quarter of the first dataset is not at A; the second dataset is remote from all queues
        "panda": (2, 4.0, 2 * gb / 4 + 2 * gb),
        "ours": (2, 4.0, gb / 4 + gb + gb + gb),
        "panda_only": (1, 2.0, 2 * gb),
        "ours_only": (1, 2.0, 2 * gb),
    }
    assert {
        name: (entry.waiting_s, entry.failure_rate, entry.core_hours, entry.no_record_jobs)
        for name, entry in lines.items()
    } == {
        "panda": ((2 * 600 + 2 * 3600) / 4, (0 + 2 * 0.5) / 4, 2 * 8 + 2 * 0.5, 0),
        "ours": (600, 0, 16, 2),
        "panda_only": (3600, 0.5, 1, 0),
        "ours_only": (None, None, None, 2),
    }
    (share,) = report.share_consequences
    assert (share.share, share.panda_jobs, share.our_jobs, share.panda_part, share.our_part) == ("MC", 4, 4, 1, 1)


def test_jobs_with_input_of_unknown_location_are_counted(panda: Database, database: Database) -> None:
    planted.plant(panda, [PlantedJobs(1, "A", jobs=3)])
    planted.record(database, RECORDED, AT - HOUR / 2, [planted.decision_for(1, "A")])
    lines = {entry.placed: (entry.wan_bytes, entry.wan_unknown_jobs) for entry in report_of(database).consequences}
    assert lines["panda"] == lines["ours"] == (None, 3)


def test_tasks_without_a_decision_are_summed(panda: Database, database: Database) -> None:
    """Jobs of two such tasks at two queues form one row, with the same total as if each task were read separately."""
    undecided = [PlantedJobs(task, queue, jobs=2) for task, queue in ((2, "A"), (3, "C"))]
    planted.plant(panda, [PlantedJobs(1, "A"), *undecided])
    planted.record(database, RECORDED, AT - HOUR / 2, [planted.decision_for(1, "A")])
    with database.read_snapshot() as connection:
        arguments = connection, QueryContext(connection, database.names, NOW).catalogue, NOW - 2 * HOUR, NOW
        singly, no_totals = read_placements(*arguments)
        placements, totals = read_placements(*arguments, decided_since=NOW - 3 * HOUR)
        _, later_totals = read_placements(*arguments, decided_since=AT)
    assert [(entry.jeditaskid, entry.queue, entry.jobs) for entry in singly] == [(1, "A", 1), (2, "A", 2), (3, "C", 2)]
    assert no_totals == [] and placements == singly[:1]
    assert [(entry.brokerage, entry.label, entry.at, entry.jobs) for entry in totals] == [
        ("production_job", "managed", AT, 4)
    ]
    assert [entry.jobs for entry in later_totals] == [5]
    report = report_of(database)
    assert [(entry.reason, entry.jobs) for entry in report.uncompared] == [("no_decision", 4)]
    assert [(entry.jobs, entry.compared_jobs) for entry in report.brokerages] == [(5, 1)]
    assert [(entry.share, entry.jobs) for entry in report.shares] == [("MC", 5)]
