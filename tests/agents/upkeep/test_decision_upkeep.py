"""The store of decisions over days: partitions made ahead and dropped whole, old rows packed, buckets rolled up."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from broker.domain.decisions import Origin, StoredDecision
from broker.domain.rejection_counts import CANDIDATE, QueueCounts
from broker.store.connection.database import Database
from broker.store.decisions import decision_days, decision_writing
from broker.store.decisions.decision_packing import DecisionPacker
from broker.store.decisions.decision_rows import latest
from broker.store.summaries import count_writing
from broker.store.summaries.reason_counts import queue_totals, reason_counts, waiting_counts
from tests.agents.upkeep.test_cleanup import NOW, RUN, count_rows, run_once
from tests.store.decisions.packed_records import waiting

DAY = timedelta(days=1)
START = datetime(2026, 7, 20, tzinfo=UTC)


def days(database: Database) -> list[date]:
    with database.read_snapshot() as connection:
        return decision_days.days(connection)


def decide(database: Database, at: datetime, count: int = 1) -> None:
    statement = """
        INSERT INTO broker.decisions (jeditaskid, brokerage, outcome, decided_at)
        SELECT n, 'b', 'o', :at FROM generate_series(1, :count) AS n"""
    with database.begin() as connection:
        connection.execute(sa.text(statement), {"at": at, "count": count})


def make(database: Database, start: datetime, ahead: int) -> decision_days.NewPartitions:
    with database.begin() as connection:
        return decision_days.make(connection, start, ahead)


def test_partitions_are_made_ahead_and_a_day_without_one_never_fails_a_cycle(database: Database) -> None:
    decide(database, NOW + DAY)
    first, _ = run_once(database, **RUN)
    # tomorrow already has rows, and so gets no partition
    assert first.counts["days_made"] == 3 and days(database) == [date(2026, 8, 1), date(2026, 8, 3), date(2026, 8, 4)]
    decide(database, NOW)
    decide(database, NOW + 40 * DAY)
    assert count_rows(database, "broker.decisions_default") == 2 and count_rows(database, "broker.decisions") == 3
    second, _ = run_once(database, **RUN)
    assert second.outcome == "done" and "days_made" not in second.counts


@pytest.mark.parametrize(
    ("now", "dropped"),
    [(START + 15 * DAY - timedelta(seconds=1), 0), (START + 15 * DAY, 1)],
)
def test_a_day_is_dropped_whole_when_all_of_it_is_too_old(
    database: Database, monkeypatch: pytest.MonkeyPatch, now: datetime, dropped: int
) -> None:
    make(database, START, 0)
    decide(database, START, 7)
    decide(database, START + DAY - timedelta(seconds=1))
    monkeypatch.setattr("tests.agents.upkeep.test_cleanup.NOW", now)
    record, _ = run_once(database, **RUN)
    assert record.counts.get("days_dropped", 0) == dropped
    assert record.counts.get("decisions_dropped", 0) == 8 * dropped
    assert count_rows(database, "broker.decisions") == 8 - 8 * dropped


@pytest.mark.parametrize(("options", "dropped"), [({}, 1), ({"brake_share": 1.0}, 3)])
def test_one_day_goes_in_a_cycle_unless_the_brake_is_off(
    database: Database, options: dict[str, Any], dropped: int
) -> None:
    make(database, NOW - 30 * DAY, 2)
    record, _ = run_once(database, **RUN, **options)
    assert record.counts["days_dropped"] == dropped
    assert any("2 more days" in note for note in record.notes) == (dropped == 1)


@pytest.mark.slow
def test_a_table_in_use_is_left_to_the_next_cycle(database: Database) -> None:
    make(database, NOW - 30 * DAY, 0)
    make(database, NOW, 3)
    with database.engine.connect() as reader:
        reader.execute(sa.text("SELECT count(*) FROM broker.decisions"))
        record, _ = run_once(database, **RUN)
        reader.rollback()
    assert record.outcome == "done" and "in use for too long" in record.notes[0]
    assert date(2026, 7, 2) in days(database)


OLD = """
    INSERT INTO broker.decisions_unpacked
        (id, agent_run, jeditaskid, datasetid, ramcount, brokerage, outcome, reason, decided_at, snapshot, tuning, seed,
        engine, funnel, candidates, rejected, assigned, notes, work, pending_until)
    VALUES (nextval('broker.decisions_id_seq'), 3, :task, 5, 2000, 'production_job', :outcome, '', :at, 's', 2, 9, '1',
        :funnel, :candidates, :rejected, :assigned, '["source_stale:links"]', 'work', :until)"""


def store_old(database: Database, task: int, **changes: Any) -> None:
    """Store a row as the previous release wrote it."""
    values: dict[str, Any] = {
        "task": task, "outcome": "brokered", "at": NOW, "until": None,
        "funnel": json.dumps([["status", 4, 3], ["full", 3, 1]]),
        "candidates": json.dumps([{"name": "A/1", "weight": 0.1 + 0.2, "factors": {"load": 0.3}, "bootstrap": True}]),
        "rejected": json.dumps({"status": ["B"], "full": ["A/2", f"C{task}"]}),
        "assigned": json.dumps({"A/1": 4}),
    }  # fmt: skip
    with database.begin() as connection:
        connection.execute(sa.text(OLD), values | changes)


def read(database: Database, task: int) -> StoredDecision:
    with database.read_snapshot() as connection:
        (stored,) = latest(connection, task)
    return stored


def test_decisions_of_the_previous_release_are_packed_and_read_the_same(database: Database) -> None:
    store_old(database, 1)
    store_old(
        database, 2, outcome="pending", funnel=None, candidates=None, rejected=None, assigned=None, until=NOW + DAY
    )
    before = [read(database, task) for task in (1, 2)]
    assert before[0].record.decision.rejected == {"B": "status", "A/2": "full", "C1": "full"}
    record, _ = run_once(database, **RUN)
    assert record.counts["decisions_packed"] == 2
    assert (count_rows(database, "broker.decisions_unpacked"), count_rows(database, "broker.decisions")) == (0, 2)
    assert [read(database, task) for task in (1, 2)] == before
    second, _ = run_once(database, **RUN)
    assert "decisions_packed" not in second.counts


def test_batches_share_a_legend_and_one_that_fails_changes_nothing(database: Database) -> None:
    for task in (1, 2, 1, 2, 1):
        store_old(database, task)
    packer = DecisionPacker()
    for expected in (2, 2, 1, 0):
        with database.begin() as connection:
            assert packer.pack(connection, 2, NOW) == expected
    assert count_rows(database, "broker.decision_legends") == 1
    store_old(database, 3)
    with pytest.raises(RuntimeError), database.begin() as connection:
        assert DecisionPacker().pack(connection, 10, NOW) == 1
        raise RuntimeError("cut short")
    assert (count_rows(database, "broker.decisions_unpacked"), count_rows(database, "broker.decisions")) == (1, 5)


def test_old_decisions_are_packed_while_brokers_decide_and_read(database: Database) -> None:
    for task in (1, 2, 3):
        store_old(database, task)
    before = read(database, 1)
    later = NOW + timedelta(minutes=5)
    with database.begin() as packing:
        assert DecisionPacker().pack(packing, 2, NOW) == 2
        # neither a broker nor another packer waits for the batch that is not committed
        with database.begin() as connection:
            connection.execute(sa.text("SET LOCAL lock_timeout = '5s'"))
            origin = Origin(1, later, "snapshot", 3, 9, "1")
            decision_writing.save(Database.raw(connection), origin, [waiting(1), waiting(4)])
            assert DecisionPacker().pack(connection, 2, NOW) == 1
        assert latest_until(database, 1, NOW) == [before]
        assert read(database, 1).origin.decided_at == later
    assert count_rows(database, "broker.decisions_unpacked") == 0 and count_rows(database, "broker.decisions") == 5
    assert latest_until(database, 1, NOW) == [before]


def latest_until(database: Database, task: int, moment: datetime) -> list[StoredDecision]:
    with database.read_snapshot() as connection:
        return latest(connection, task, moment)


def test_buckets_become_hours_after_two_days_and_go_after_ninety(database: Database) -> None:
    counts = QueueCounts(("A",), (CANDIDATE,), np.array([[2]]), np.array([[1]]), np.array([10]))
    hour = NOW - 3 * DAY
    with database.begin() as connection:
        for at in (hour, hour + timedelta(minutes=55), hour + timedelta(hours=1), NOW - timedelta(hours=47)):
            values = {"at": at, "counts": counts.pack()}
            for table, row in (
                ("reason_counts", "'pending', 'r', 5, 3, 0, 'm'"),
                ("waiting_counts", "'pending', 'r', 3, 2, 'm'"),
                ("queue_counts", ":counts"),
            ):
                connection.execute(sa.text(f"INSERT INTO broker.{table} VALUES (300, :at, 'p', {row})"), values)
    for _ in range(2):
        with database.begin() as connection:
            count_writing.roll_up(connection, NOW)
            reasons = reason_counts(connection, hour, NOW)
            assert [(bucket.bucket_s, bucket.bucket_at, bucket.decisions) for bucket in reasons] == [
                (3600, hour, 10),
                (3600, hour + timedelta(hours=1), 5),
                (300, NOW - timedelta(hours=47), 5),
            ]
            assert [(bucket.bucket_s, bucket.chunks) for bucket in waiting_counts(connection, hour, NOW)] == [
                (3600, 3), (3600, 3), (300, 3)
            ]  # fmt: skip
            ((total,),) = queue_totals(connection, hour, NOW).values()
            assert (total.decisions, total.chunks, total.jobs) == (8, 4, 40)
    with database.begin() as connection:
        count_writing.roll_up(connection, NOW + 88 * DAY)
        assert [bucket.bucket_at for bucket in reason_counts(connection, hour, NOW)] == [NOW - timedelta(hours=47)]
