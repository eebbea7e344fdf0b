"""Shadow mode beside placements of ours: of PanDA's alone it is said how far both agree."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from broker.alongside.answers.shadow import shadow
from broker.alongside.answers.shadow_models import Shadow
from broker.alongside.statements.panda_placements import read_placements
from broker.store.connection.database import Database
from broker.store.query_context import Asking
from broker.store.schema import migrate
from tests.alongside import planted
from tests.alongside.conftest import READ
from tests.alongside.planted import NOW, RECORDED, UNKNOWN, WROTE, Planted

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
AT = NOW - HOUR


@pytest.fixture
def database(panda: Database, least: Callable[..., Database]) -> Database:
    found = least(*READ)
    migrate.upgrade(found)
    planted.plant_cycles(found)
    return found


def answered(database: Database) -> Shadow:
    with database.read_snapshot() as connection:
        return shadow(Asking(connection, database.names, NOW), NOW - 2 * HOUR, 2 * HOUR)


def test_our_own_jobs_are_left_out(panda: Database, database: Database) -> None:
    """Of 25 jobs 20 are where ours wants them, but 11 of those the plug-in put there: of PanDA's 14 it is 9."""
    theirs = [Planted(task, "A" if task <= 9 else "C") for task in range(1, 15)]
    ours = [Planted(task, "A") for task in range(15, 26)]
    planted.plant(panda, theirs + ours)
    everything = [planted.decided(one.task, "A", "B") for one in theirs + ours]
    planted.record(database, RECORDED, AT - HOUR / 2, everything)
    # eight decide as the service did and have no row of their own, three decide otherwise
    by_plugin = [planted.decided(one.task, "A", "B") for one in ours[:8]]
    by_plugin += [planted.decided(one.task, "A") for one in ours[8:]]
    planted.record(database, None, AT - 20 * SECOND, by_plugin)
    found = answered(database)
    (line,) = found.brokerages
    assert (line.jobs, line.compared_jobs, line.agreed_jobs) == (14, 14, 9)
    assert line.job_agreement == pytest.approx(0.643, abs=0.001)
    naive = (line.agreed_jobs + sum(one.jobs for one in found.placed_by_ours)) / 25
    assert naive == 0.8
    assert [(one.by, one.jobs, one.tasks) for one in found.placed_by_ours] == [("plugin", 11, 11)]
    assert line.witnesses == 14 and line.job_interval is not None
    assert (line.job_interval.low, line.job_interval.high) == (
        pytest.approx(0.388, abs=0.001),
        pytest.approx(0.837, abs=0.001),
    )
    assert [(one.code, one.jobs) for one in found.rules] == [("dest_blacklisted", 5)]
    assert [(one.profile, one.engine, one.tuning, one.jobs) for one in found.decided_by] == [("panda", "0.9", 7, 14)]
    assert found.notes == ()


@pytest.mark.parametrize(
    ("asked", "by"),
    [
        (AT - timedelta(minutes=10), "plugin"),
        (AT - timedelta(minutes=10) - SECOND, None),  # JEDI would have given up on that thread
        (AT + SECOND, "plugin"),  # clocks of two hosts
        (AT + 2 * SECOND, None),
    ],
)
def test_the_plugin_placed_what_it_decided_about_just_before(
    panda: Database, database: Database, asked: object, by: str | None
) -> None:
    planted.plant(panda, [Planted(1, "A")])
    planted.record(database, RECORDED, AT - HOUR, [planted.decided(1, "A")])
    planted.record(database, None, asked, [planted.decided(1, "B")])  # type: ignore[arg-type]
    assert [one.by for one in answered(database).placed_by_ours] == ([] if by is None else [by])


@pytest.mark.parametrize(("run", "by"), [(WROTE, "agent"), (UNKNOWN, "agent"), (None, "plugin"), (RECORDED, None)])
def test_a_nucleus_of_ours_is_no_agreement(
    panda: Database, database: Database, run: int | None, by: str | None
) -> None:
    planted.plant(panda, [Planted(1, "A")])
    planted.record(database, run, AT, [planted.decided(1, "CERN", brokerage="production_task")])
    found = answered(database)
    lines = [(one.compared_jobs, one.agreed_jobs) for one in found.brokerages if one.brokerage == "production_task"]
    assert [one.by for one in found.placed_by_ours] == ([] if by is None else [by])
    assert lines == ([(1, 1)] if by is None else [])


def test_a_nucleus_that_is_another_one_is_pandas(panda: Database, database: Database) -> None:
    planted.plant(panda, [Planted(1, "A")])
    planted.record(database, WROTE, AT, [planted.decided(1, "BNL", brokerage="production_task")])
    found = answered(database)
    assert found.placed_by_ours == ()
    assert [one.compared_jobs for one in found.brokerages if one.brokerage == "production_task"] == [1]


def test_calls_that_left_no_record_are_said(panda: Database, database: Database) -> None:
    planted.plant(panda, [Planted(1, "A")])
    planted.record(database, RECORDED, AT - HOUR / 2, [planted.decided(1, "A")])
    with database.begin() as connection:
        planted.plugin_calls.add(connection, planted.plugin_calls.Call("production_job", "decided", "brokered"), AT)
    (note,) = answered(database).notes
    assert "decided 1 times and recorded 0" in note and "record = true" in note


def test_consequences_on_both_sides(panda: Database, database: Database) -> None:
    """PanDA puts two jobs at C, which ours refuses, and ours shares all between A, next to the data, and B."""
    planted.plant(panda, [Planted(1, "A", jobs=2), Planted(2, "C", jobs=2)])
    planted.record(database, RECORDED, AT - HOUR / 2, [planted.decided(1, "A", "B"), planted.decided(2, "A", "B")])
    ended = """
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
        Database.raw(connection).execute(ended.encode())
        relation = (
            "INSERT INTO doma_panda.panda_ddm_relation (panda_site_name, ddm_endpoint_name, roles, scope) VALUES "
        )
        connection.exec_driver_sql(relation + "('A', 'A_DISK', 'read_lan,write_lan', 'default')")
    with database.begin() as connection:
        replica = "INSERT INTO broker.dataset_replicas (scope, name, rse, available_files, total_files) VALUES "
        connection.exec_driver_sql(replica + "('mc', 'set.1', 'A_DISK', 3, 4), ('mc', 'set.2', 'ELSEWHERE', 4, 4)")
    found = answered(database)
    lines = {one.placed: one for one in found.consequences}
    assert set(lines) == {"panda", "ours", "panda_only", "ours_only"}
    gb = 1e9
    assert {name: (one.queues, one.jobs, one.wan_bytes) for name, one in lines.items()} == {
        # a quarter of the first dataset is not at A; the second is nowhere near
        "panda": (2, 4.0, 2 * gb / 4 + 2 * gb),
        "ours": (2, 4.0, gb / 4 + gb + gb + gb),
        "panda_only": (1, 2.0, 2 * gb),
        "ours_only": (1, 2.0, 2 * gb),
    }
    assert {
        name: (one.waiting_s, one.failure_rate, one.core_hours, one.no_record_jobs) for name, one in lines.items()
    } == {
        "panda": ((2 * 600 + 2 * 3600) / 4, (0 + 2 * 0.5) / 4, 2 * 8 + 2 * 0.5, 0),
        "ours": (600, 0, 16, 2),
        "panda_only": (3600, 0.5, 1, 0),
        "ours_only": (None, None, None, 2),
    }
    (share,) = found.share_consequences
    assert (share.share, share.panda_jobs, share.our_jobs, share.panda_part, share.our_part) == ("MC", 4, 4, 1, 1)


def test_input_of_unknown_place_is_counted(panda: Database, database: Database) -> None:
    planted.plant(panda, [Planted(1, "A", jobs=3)])
    planted.record(database, RECORDED, AT - HOUR / 2, [planted.decided(1, "A")])
    lines = {one.placed: (one.wan_bytes, one.wan_unknown_jobs) for one in answered(database).consequences}
    assert lines["panda"] == lines["ours"] == (None, 3)


def test_tasks_of_which_nothing_was_decided_are_added_up(panda: Database, database: Database) -> None:
    """Jobs of two such tasks at two queues are one row, and are counted as if each had been looked for by itself."""
    alone = [Planted(task, queue, jobs=2) for task, queue in ((2, "A"), (3, "C"))]
    planted.plant(panda, [Planted(1, "A"), *alone])
    planted.record(database, RECORDED, AT - HOUR / 2, [planted.decided(1, "A")])
    with database.read_snapshot() as connection:
        asked = connection, Asking(connection, database.names, NOW).catalogue, NOW - 2 * HOUR, NOW
        singly, none = read_placements(*asked)
        placements, added_up = read_placements(*asked, decided_since=NOW - 3 * HOUR)
        _, later = read_placements(*asked, decided_since=AT)
    assert [(one.jeditaskid, one.queue, one.jobs) for one in singly] == [(1, "A", 1), (2, "A", 2), (3, "C", 2)]
    assert none == [] and placements == singly[:1]
    assert [(one.brokerage, one.label, one.at, one.jobs) for one in added_up] == [("production_job", "managed", AT, 4)]
    assert [one.jobs for one in later] == [5]
    found = answered(database)
    assert [(one.reason, one.jobs) for one in found.uncompared] == [("no_decision", 4)]
    assert [(one.jobs, one.compared_jobs) for one in found.brokerages] == [(5, 1)]
    assert [(one.share, one.jobs) for one in found.shares] == [("MC", 5)]
