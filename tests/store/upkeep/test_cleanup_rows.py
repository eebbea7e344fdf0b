from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.upkeep import cleanup_rows
from broker.store.upkeep.cleanup_rows import AgedRows

BEFORE = datetime(2026, 8, 1, 12, tzinfo=UTC)
ROW = {
    "decisions_default": ("decided_at, jeditaskid, brokerage, outcome", ":time, :n, 'b', 'o'"),
    "decisions_unpacked": ("decided_at, id, jeditaskid, brokerage, outcome", ":time, :n, :n, 'b', 'o'"),
    "decision_repeats": ("decided_at, brokerage, size, pattern", ":time, 'b', :n, ''"),
    "decision_legends": ("last_used_at, sha256, legend", ":time, 'h' || :n, '{}'"),
    "chunk_states": (
        "last_seen_at, brokerage, jeditaskid, decision, decided_at, outcome, reason, outcome_since, decisions, "
        "seen_again, candidate_count, jobs, assigned, state, work_state",
        ":time, 'b', :n, :n, :time, 'o', '', :time, 1, 0, 0, 0, '{}', '', ''",
    ),
    "job_actions": ("acted_at, agent, pandaid, rule, action, code", ":time, 'a', :n, 'r', 'killed', 2"),
    "agent_runs": ("started_at, agent", ":time, 'a'"),
    "rebrokered_from": ("rebrokered_at, jeditaskid, datasetid, queue", ":time, :n, 1, 'Q'"),
    "queue_record": (
        "hour, queue, kind, processingtype, resource_type, finished, failed, closed, lost, core_s, failed_core_s, "
        "ratio_jobs, ratio_ln_sum, ratio_ln_square_sum, waits",
        ":time, 'q' || :n, 'k', 'p', 'r', 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}'",
    ),
    "queue_failures": ("hour, queue, kind, error_class, fault, failed", ":time, 'q' || :n, 'k', 'e', 'site', 1"),
    "retry_actions": (
        "acted_at, pandaid, attemptnr, jeditaskid, rule, rules_version, errorsource, errorcode, action, active, "
        "target, rows_changed, before, after, reason, evidence",
        ":time, :n, 1, 1, 'r', 'v', 's', 1, 'no_retry', true, 'none', 0, '{}', '{}', 'r', '{}'",
    ),
    "request_changes": (
        "changed_at, jeditaskid, source, active, before, after, reason",
        ":time, :n, 'scouts', true, '{}', '{}', 'r'",
    ),
    "request_learned": (
        "evaluated_at, jeditaskid, processingtype, transformation, release, cores, finished, killed, scouts, unknown",
        ":time, :n, '', '', '', 1, 5, 0, '{}', ''",
    ),
    "incidents": (
        "resolved_at, id, kind, code, about, severity, sentence, page, began_at, opened_at, seen_at",
        ":time, gen_random_uuid(), 'alarm', 'c', 'a' || :n, 'info', 's', '/', :time, :time, :time",
    ),
    "task_subscriptions": (
        "ended_at, jeditaskid, channel, address, subscribed_at, subscribed_by",
        ":time, :n, 'c', '', :time, 'ann'",
    ),
    "decision_quality": (
        "decided_at, brokerage, tuning, vo, placer, snapshot, measured_at, measure_s, state, jobs, cost_hs06h, "
        "best_hs06h, left_hs06h, gb, best_gb, input_gb, details",
        ":time, 'b', :n, '', 'ours', 's', :time, 0, 'nothing', 0, 0, 0, 0, 0, 0, 0, '{}'",
    ),
    "failed_jobs": ("failed_at, pandaid", ":time, :n"),
    "forecasts": (
        "made_at, kind, subject, cell, situation, horizon_s, n, unknown, status, status_since, is_newest, is_judged",
        ":time, 'task', 't' || :n, 'c', 's', 1, 0, '', '', :time, false, true",
    ),
    "job_starts": ("hour, started", ":time, :n"),
    "queue_cores": ("hour, queue, kind, most_cores_running", ":time, 'q' || :n, 'all', 8"),
    "sandboxes": (
        "used_at, name, username, size_bytes, checksum, uploaded_at, content",
        ":time, 's' || :n, 'ann', 1, 1, :time, ''",
    ),
    "submitted_pilots": (
        "ended_at, worker, harvester_id, panda_queue, resource_type, executor, state, planned_at",
        ":time, :n, 'h', 'q', 'SCORE', 'slurm', 'ended', :time",
    ),
    "job_status_reports": ("reported_at, pandaid, record", ":time, :n, '{}'"),
    "feed_runs": (
        "started_at, feed, by_hand, outcome, documents, changes, left_out",
        ":time, 'cric', false, 'done', '[]', '{}', '{}'",
    ),
    "leases": ("expires_at, name, holder, epoch, renewed_at", ":time, 'l' || :n, 'h', :n, :time"),
    "services": ("seen_at, holder, host, version, started_at, agents", ":time, 'h' || :n, 'h', 'v', :time, '[]'"),
}
KINDS = [value for value in vars(cleanup_rows).values() if isinstance(value, AgedRows)]


def insert(database: Database, table: str, *ages_s: float) -> None:
    columns, values = ROW[table]
    statement = sa.text(f"INSERT INTO broker.{table} ({columns}) VALUES ({values.replace(':n', 'CAST(:n AS bigint)')})")
    rows = [{"time": BEFORE - timedelta(seconds=age_s), "n": n} for n, age_s in enumerate(ages_s)]
    with database.begin() as connection:
        connection.execute(statement, rows)


def count_left(connection: sa.Connection, table: str) -> int:
    return int(connection.execute(sa.text(f"SELECT count(*) FROM broker.{table}")).scalar_one())


def test_every_kind_of_rows_is_tested() -> None:
    assert sorted(aged.table for aged in KINDS) == sorted(ROW)


def test_older_rows_are_removed_oldest_first(database: Database) -> None:
    for aged in KINDS:
        insert(database, aged.table, -1.0, 0.0, 1e-6, 60.0, 120.0)
        with database.begin() as connection:
            assert (aged.kind, aged.count(connection, BEFORE)) == (aged.kind, 3)
            assert aged.remove(connection, BEFORE, 2) == 2
            assert aged.count(connection, BEFORE - timedelta(seconds=1)) == 0
            assert aged.remove(connection, BEFORE, 2) == 1
            assert aged.remove(connection, BEFORE, 2) == 0
            assert count_left(connection, aged.table) == 2


def test_the_last_run_of_an_agent_is_preserved(database: Database) -> None:
    insert(database, "agent_runs", 10.0, 20.0, 30.0)
    with database.begin() as connection:
        assert cleanup_rows.AGENT_RUNS.remove(connection, BEFORE, 100) == 2
        remaining = connection.scalar(sa.text("SELECT started_at FROM broker.agent_runs"))
        assert remaining == BEFORE - timedelta(seconds=10)


def test_changes_of_a_feed_run_are_removed_with_it_and_the_last_run_is_preserved(database: Database) -> None:
    insert(database, "feed_runs", 10.0, 20.0)
    with database.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO broker.feed_changes SELECT id, 1, started_at, 'site', ARRAY['A'], 'added', '{}' "
                "FROM broker.feed_runs"
            )
        )
        assert cleanup_rows.FEED_RUNS.remove(connection, BEFORE, 100) == 1
        assert (count_left(connection, "feed_runs"), count_left(connection, "feed_changes")) == (1, 1)


@pytest.mark.parametrize(("ends_in_s", "removed"), [(3600, 0), (-3600, 1)])
def test_a_lease_in_force_is_preserved_whatever_time_the_cycle_uses(
    database: Database, ends_in_s: int, removed: int
) -> None:
    with database.begin() as connection:
        statement = (
            "INSERT INTO broker.leases SELECT 'l', 'h', 1, t, t FROM (SELECT now() + make_interval(secs => :s)) x(t)"
        )
        connection.execute(sa.text(statement), {"s": ends_in_s})
        far_future = datetime(2999, 1, 1, tzinfo=UTC)
        assert cleanup_rows.LEASES.count(connection, far_future) == removed
        assert cleanup_rows.LEASES.remove(connection, far_future, 10) == removed


def test_locked_rows_are_left_for_later(database: Database) -> None:
    insert(database, "rebrokered_from", 10.0, 20.0, 30.0)
    with database.begin() as holder, database.begin() as connection:
        holder.execute(sa.text("SELECT FROM broker.rebrokered_from WHERE jeditaskid = 1 FOR UPDATE"))
        connection.execute(sa.text("SET LOCAL lock_timeout = '3s'"))
        assert cleanup_rows.REBROKERED_FROM.remove(connection, BEFORE, 10) == 2
        assert count_left(connection, "rebrokered_from") == 1


def test_a_pilot_that_has_not_ended_is_preserved_at_any_age(database: Database) -> None:
    insert(database, "submitted_pilots", 10.0, 20.0)
    with database.begin() as connection:
        waiting = "UPDATE broker.submitted_pilots SET state = 'submitted', ended_at = NULL WHERE worker = 1"
        connection.execute(sa.text(waiting))
        assert cleanup_rows.SUBMITTED_PILOTS.remove(connection, BEFORE, 100) == 1
        assert connection.scalar(sa.text("SELECT worker FROM broker.submitted_pilots")) == 1
