"""The clean-up as an agent: retentions, dry runs, batches, budgets, and cycles that are cut short."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import ValidationError

from agents.service import fault_points, registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms
from broker.store.snapshots import stored_snapshots as snapshots

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
RUN = {"agent_runs_days": None}  # the runs of these tests are dated by the clock of the machine


def run_once(database: Database, dry: bool = False, budget_s: float = 60.0, **options: Any) -> tuple[RunRecord, Any]:
    agent = registry.make("cleanup", options, ProcessSettings())
    objects: list[dict[str, Any]] = []
    request = CycleRequest(dry_run=dry, emit=objects.append)
    if dry:
        record = run_cycle(agent, CycleContext(database, NOW, 1, budget_s, request))
    else:
        with database.begin() as connection:
            connection.execute(sa.text("DELETE FROM broker.leases WHERE name = 'cleanup'"))
            lease = leases.acquire(connection, "cleanup", "test", LeaseTerms()).lease
        assert lease is not None
        run_id = open_run(database, "cleanup", lease)
        context = CycleContext(database, NOW, 1, budget_s, request, lease=lease, run_id=run_id)
        record = run_cycle(agent, context)
    return record, {item["kind"]: item for item in objects}


def decisions(database: Database, count: int, age: timedelta) -> None:
    statement = """
        INSERT INTO broker.decisions (jeditaskid, brokerage, outcome, decided_at, snapshot)
        SELECT n, 'b', 'o', :at, 's' || n FROM generate_series(1, :count) AS n"""
    with database.begin() as connection:
        connection.execute(sa.text(statement), {"at": NOW - age, "count": count})
        for number in range(1, count + 1):
            parts = {"queues": (f"q{number}", b"q" * 1000), "links": ("links", b"l" * 500)}
            snapshots.save(connection, f"s{number}", NOW - age + timedelta(seconds=number), "e", parts)


def finished_job(database: Database) -> None:
    with database.begin() as connection:
        statement = (
            "INSERT INTO doma_panda.jobsarchived4 (pandaid, jobstatus, modificationtime) VALUES (1, 'failed', :at)"
        )
        connection.execute(sa.text(statement), {"at": NOW - timedelta(days=8)})


def count_rows(database: Database, table: str) -> int:
    with database.read_snapshot() as connection:
        return int(connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one())


@pytest.mark.parametrize(("age_s", "is_gone"), [(14 * 86400, False), (14 * 86400 + 1, True)])
def test_decisions_go_with_their_snapshots_after_their_days(database: Database, age_s: int, is_gone: bool) -> None:
    decisions(database, 3, timedelta(seconds=age_s))
    finished_job(database)
    dry, dry_objects = run_once(database, dry=True, **RUN)
    assert (count_rows(database, "broker.decisions"), count_rows(database, "doma_panda.jobsarchived4")) == (3, 1)
    record, objects = run_once(database, **RUN)
    assert (record.outcome, record.error, record.notes) == ("done", None, ())
    # the first snapshot is one second younger than its decision, and the newest snapshot stays
    expected = {"decisions": 3, "snapshots": 0, "snapshot_bytes": 0} if is_gone else {"decisions": 0, "snapshots": 0}
    assert {kind: record.counts[kind] for kind in expected} == expected
    assert record.counts["finished_jobs"] == 1
    assert {kind: dry.counts[kind] for kind in expected} == expected
    assert {kind: item["removed"] for kind, item in dry_objects.items()} == {
        k: item["removed"] for k, item in objects.items()
    }
    assert all(item["dry_run"] for item in dry_objects.values())
    assert not any(item["dry_run"] for item in objects.values())
    assert objects["decisions"]["before"] == (NOW - timedelta(days=14)).isoformat()


def test_parts_that_snapshots_share_stay_with_the_last_of_them(database: Database) -> None:
    decisions(database, 3, timedelta(days=20))
    record, objects = run_once(database, **RUN)
    assert (record.counts["snapshots"], record.counts["snapshot_blobs"], record.counts["snapshot_bytes"]) == (
        2,
        2,
        2000,
    )
    assert objects["snapshots"]["with_it"] == {"snapshot_blobs": 2, "snapshot_bytes": 2000}
    assert count_rows(database, "broker.snapshot_blobs") == 2
    second, _ = run_once(database, **RUN)
    assert not any(second.counts.values())


def test_null_keeps_rows_forever(database: Database) -> None:
    decisions(database, 3, timedelta(days=2000))
    finished_job(database)
    record, objects = run_once(database, decisions_days=None, snapshots_days=None, finished_jobs_days=None)
    assert record.outcome == "done"
    assert {"decisions", "snapshots", "finished_jobs"} & set(objects) == set()
    assert count_rows(database, "broker.decisions") == count_rows(database, "broker.snapshots") == 3
    assert count_rows(database, "doma_panda.jobsarchived4") == 1


def test_a_budget_removes_snapshots_that_no_decision_needs_before_their_time(database: Database) -> None:
    decisions(database, 40, timedelta(hours=2))
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.decisions WHERE jeditaskid <= 25"))
    roomy, _ = run_once(database, snapshots_budget_mib=41_000 / 2**20, **RUN)
    assert roomy.counts["snapshots_over_budget"] == 0
    record, objects = run_once(database, snapshots_budget_mib=10_000 / 2**20, **RUN)
    assert objects["snapshots_over_budget"]["removed"] == 25
    assert count_rows(database, "broker.snapshots") == 15
    assert record.notes == (
        "snapshots take 0.0 MiB of 0.00953674 MiB (snapshots_budget_mib); those that decisions need stay: keep "
        "decisions for fewer days (decisions_days) or allow more",
    )


def test_small_batches_leave_the_rest_to_the_next_cycle(database: Database) -> None:
    decisions(database, 5, timedelta(days=20))
    record, objects = run_once(database, batch_rows=2, batches_of_a_kind=2, **RUN)
    assert (record.counts["decisions"], objects["decisions"]["finished"]) == (4, False)
    assert record.notes[0] == "there are more decisions to remove; the next cycle goes on"
    record, objects = run_once(database, batch_rows=2, batches_of_a_kind=2, **RUN)
    assert (record.counts["decisions"], objects["decisions"]["finished"]) == (1, True)


def test_a_cycle_without_time_says_what_is_left(database: Database) -> None:
    decisions(database, 2, timedelta(days=20))
    agent = registry.make("cleanup", {}, ProcessSettings())
    with database.begin() as connection:
        lease = leases.acquire(connection, "cleanup", "test", LeaseTerms()).lease
    context = CycleContext(database, NOW, 1, 10.0, lease=lease, monotonic=lambda: 9.0, started=0.0)
    record = run_cycle(agent, context)
    assert record.outcome == "done"
    assert "there are more decisions to remove; the next cycle goes on" in record.notes
    assert count_rows(database, "broker.decisions") == 2


@pytest.mark.parametrize("point", ["before_write", "after_write_before_commit", "after_commit"])
def test_a_cycle_that_fails_anywhere_needs_no_repair(database: Database, point: str) -> None:
    decisions(database, 3, timedelta(days=20))
    fault_points.arm({"BROKER_FAULT": f"{point}:raise"})
    record, _ = run_once(database, batch_rows=2, **RUN)
    assert record.outcome == "failed"
    assert count_rows(database, "broker.decisions") == (1 if point == "after_commit" else 3)
    record, _ = run_once(database, **RUN)
    assert (record.outcome, count_rows(database, "broker.decisions"), count_rows(database, "broker.snapshots")) == (
        "done",
        0,
        1,
    )


def test_without_its_lease_nothing_is_removed(database: Database) -> None:
    decisions(database, 3, timedelta(days=20))
    agent = registry.make("cleanup", {}, ProcessSettings())
    record = run_cycle(agent, CycleContext(database, NOW, 1, 60.0, lease=leases.Lease("cleanup", "somebody", 0)))
    assert record.outcome == "lost_lease"
    assert count_rows(database, "broker.decisions") == 3


def test_jobs_are_archived_only_where_they_are_ours(make_database: Callable[..., Database]) -> None:
    database = make_database()
    finished_job(database)
    assert "finished_jobs" not in run_once(database, archive_jobs=False)[1]
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.installation SET mode = 'beside'"))
    record, objects = run_once(database)
    assert "finished_jobs" not in objects
    assert record.notes == ("finished jobs are archived by PanDA, to which these tables belong",)
    assert count_rows(database, "doma_panda.jobsarchived4") == 1


def test_the_last_run_and_jobs_without_a_time_stay(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(sa.text("INSERT INTO doma_panda.jobsarchived4 (pandaid, jobstatus) VALUES (1, 'finished')"))
        runs = "INSERT INTO broker.agent_runs (agent, started_at) VALUES ('a', :one), ('a', :two), ('b', :one)"
        connection.execute(sa.text(runs), {"one": NOW - timedelta(days=40), "two": NOW - timedelta(days=35)})
    record, _ = run_once(database)
    assert record.counts["agent_runs"] == 1
    assert record.notes == ("1 finished jobs have no modificationtime and stay in jobsarchived4",)


@pytest.mark.parametrize(
    "options",
    [
        {"decisions_days": 0},
        {"rebrokered_from_days": 6.9},
        {"submitted_pilots_days": 7.9},
        {"job_actions_days": 1},
        {"batch_rows": 0},
        {"colour": "red"},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    agent_type = type(registry.make("cleanup", {}, ProcessSettings()))
    with pytest.raises(ValidationError):
        agent_type.options_type.model_validate(options)
