"""Jobs that are taken back and brokered again: the whole way, for users and for production."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.agents.moving_jobs import config, run
from tests.brokerages.analysis_grid import analysis, chosen, decided
from tests.brokerages.small_grid import DATASET, NOW, TASK, next_cycle


def remember(database: Database, queue: str, hours_ago: float) -> None:
    statement = "INSERT INTO broker.rebrokered_from VALUES (:task, :dataset, :queue, :at)"
    values = {"task": TASK, "dataset": DATASET, "queue": queue, "at": NOW - timedelta(hours=hours_ago)}
    with database.begin() as connection:
        connection.execute(sa.text(statement), values)


def files(database: Database) -> list[tuple[Any, ...]]:
    statement = "SELECT status, attemptnr, count(*) FROM doma_panda.jedi_dataset_contents GROUP BY 1, 2 ORDER BY 1, 2"
    with database.read_snapshot() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


@pytest.mark.parametrize(("hours_ago", "closed"), [(6.0, False), (5.99, True)])
def test_users_jobs_do_not_go_straight_back(database: Database, hours_ago: float, closed: bool) -> None:
    remember(database, "ALPHA_MCORE", hours_ago)
    remember(database, "BETA", hours_ago)
    decision = decided(database, analysis())
    assert decision["rejected"].get("ALPHA_MCORE") == ("rebrokered" if closed else None)
    assert decision["rejected"].get("BETA/SCORE") == ("rebrokered" if closed else None)
    assert ("GAMMA_MCORE" in chosen(decision), "ALPHA_MCORE" in chosen(decision)) == (True, not closed)


def test_a_users_jobs_are_taken_back_and_brokered_elsewhere(database: Database) -> None:
    first = decided(database, analysis(here=("ALPHA",)))
    assert set(first["assigned"]) == {"ALPHA_MCORE"}
    made = sum(first["assigned"].values())
    assert files(database) == [("running", 0, 4)]
    later = NOW + timedelta(hours=13)
    with database.begin() as connection:
        connection.execute(
            sa.text("UPDATE doma_panda.schedconfig_json SET last_update = last_update + interval '13 h'")
        )
    record, told = run(database, "analysis_rebrokerage", now=later)
    assert (record.outcome, record.counts["moved"]) == ("done", made)
    assert [(one["queue"], one["table"], one["value_s"]) for one in told] == [("ALPHA_MCORE", "jobsdefined4", 46800.0)]
    assert files(database) == [("ready", 1, 4)]
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.rebrokered_from SET rebrokered_at = rebrokered_at - interval '13 h'"))
        connection.execute(
            sa.text("UPDATE doma_panda.schedconfig_json SET last_update = last_update - interval '13 h'")
        )
    record, (second,) = next_cycle(database, agent="analysis_job")
    assert (second["outcome"], second["rejected"]["ALPHA_MCORE"]) == ("pending", "rebrokered")
    assert not [note for note in record.notes if note.startswith("rule ")]


def test_production_jobs_that_are_too_many_go_back_and_count_an_attempt(database: Database) -> None:
    first = decided(
        database, analysis(here=("ALPHA",), config=[config("FAST_REBRO_THRESHOLD_NQUEUE_User Analysis", 1)])
    )
    made = sum(first["assigned"].values())
    _, (told,) = run(database, "fast_rebrokerage", now=NOW)
    assert (told["nqueue"], told["excess"], told["moved"]) == (made, made - max(1, int(0.3 * made)), told["excess"])
    again, attempts = files(database), made - told["moved"]
    assert again == [("ready", 1, 4 * told["moved"] // made), ("running", 0, 4 * attempts // made)]
