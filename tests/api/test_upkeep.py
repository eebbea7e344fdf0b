"""Rows that the API removes by itself after a time: requests, tokens, matches and runs."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from broker.store import http_requests
from broker.store.connection.database import Database

ROWS = {
    "http_requests": ("(subject, key, digest, begun_at) VALUES ('s', :name, 'd', clock_timestamp() - :age)", 24),
    "used_tokens": ("(issuer, token, expires_at) VALUES ('i', :name, clock_timestamp() - :age)", 1),
    "matched_requests": (
        "(pilot, request_number, pandaid, task_queue, panda_queue, matched_at) "
        "VALUES (:name, 1, 1, 1, 'Q', clock_timestamp() - :age)",
        7 * 24,
    ),
    "presented_nodes": (
        "(hour, site, ce, queue, signature, node, room, requests, last_seen_at) VALUES (clock_timestamp() - :age, 's', "
        "'c', 'q', :name, '{}', '{}', 1, clock_timestamp() - :age)",
        3 * 24,
    ),
    "presented_tags": (
        "(tag, first_seen_at, last_seen_at) VALUES (:name, clock_timestamp() - :age, clock_timestamp() - :age)",
        400 * 24,
    ),
    "runs": (
        "(kind, asked, subject, state, ended_at) VALUES ('sweep', '{}', :name, 'done', clock_timestamp() - :age)",
        720,
    ),
}
"""For each table the values of an inserted row, and the hours after which it is removed."""
NAMES = {
    "http_requests": "key", "used_tokens": "token", "matched_requests": "pilot", "presented_nodes": "signature",
    "presented_tags": "tag", "runs": "subject",
}  # fmt: skip


@pytest.fixture(autouse=True)
def filled(shared_database: Database) -> None:
    """Each table gets two rows that are past their age, and one that is a minute short of it."""
    with shared_database.begin() as connection:
        for table, (values, hours) in ROWS.items():
            connection.execute(sa.text(f"DELETE FROM broker.{table}"))
            insert = sa.text(
                f"INSERT INTO broker.{table} {values}".replace(
                    ":age", "make_interval(hours => :hours, mins => :minutes)"
                )
            )
            for name, minutes in (("old", 1), ("older", 2), ("young", -1)):
                connection.execute(insert, {"name": name, "hours": hours, "minutes": minutes})


def names_in(database: Database, table: str) -> set[str]:
    with database.begin() as connection:
        return {row[0] for row in connection.execute(sa.text(f"SELECT {NAMES[table]} FROM broker.{table}"))}


def test_old_rows_are_removed_and_young_ones_stay(shared_database: Database) -> None:
    assert http_requests.remove_old(shared_database) == dict.fromkeys(ROWS, 2)
    assert {table: names_in(shared_database, table) for table in ROWS} == {table: {"young"} for table in ROWS}
    assert http_requests.remove_old(shared_database) == dict.fromkeys(ROWS, 0)


def test_a_run_that_has_not_ended_stays(shared_database: Database) -> None:
    with shared_database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.runs SET state = 'running', ended_at = NULL"))
    assert http_requests.remove_old(shared_database)["runs"] == 0


def test_a_transaction_removes_a_limited_number_of_rows(
    shared_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_requests, "MOST_ROWS", 1)
    assert [http_requests.remove_old(shared_database)["used_tokens"] for _ in range(3)] == [1, 1, 0]


def test_a_locked_row_is_skipped(shared_database: Database) -> None:
    with shared_database.begin() as locking:
        locking.execute(sa.text("SELECT FROM broker.http_requests WHERE key = 'old' FOR UPDATE"))
        assert http_requests.remove_old(shared_database)["http_requests"] == 1
    assert names_in(shared_database, "http_requests") == {"old", "young"}
