"""Taking jobs back and brokering them again, end to end, for analysis and production."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.agents.moving_jobs import config, run
from tests.brokerages.analysis_grid import analysis, decide_one, weights_of
from tests.brokerages.small_grid import DATASET, NOW, TASK, next_cycle


def record_rebrokerage(database: Database, queue: str, hours_ago: float) -> None:
    statement = "INSERT INTO broker.rebrokered_from VALUES (:task, :dataset, :queue, :at)"
    values = {"task": TASK, "dataset": DATASET, "queue": queue, "at": NOW - timedelta(hours=hours_ago)}
    with database.begin() as connection:
        connection.execute(sa.text(statement), values)


def count_files(database: Database) -> list[tuple[Any, ...]]:
    statement = "SELECT status, attemptnr, count(*) FROM doma_panda.jedi_dataset_contents GROUP BY 1, 2 ORDER BY 1, 2"
    with database.read_snapshot() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


@pytest.mark.parametrize(("hours_ago", "closed"), [(6.0, False), (5.99, True)])
def test_user_jobs_do_not_go_straight_back(database: Database, hours_ago: float, closed: bool) -> None:
    record_rebrokerage(database, "ALPHA_MCORE", hours_ago)
    record_rebrokerage(database, "BETA", hours_ago)
    decision = decide_one(database, analysis())
    assert decision["rejected"].get("ALPHA_MCORE") == ("rebrokered" if closed else None)
    assert decision["rejected"].get("BETA/SCORE") == ("rebrokered" if closed else None)
    assert ("GAMMA_MCORE" in weights_of(decision), "ALPHA_MCORE" in weights_of(decision)) == (True, not closed)


def test_a_users_jobs_are_taken_back_and_brokered_elsewhere(database: Database) -> None:
    first = decide_one(database, analysis(sites=("ALPHA",)))
    assert set(first["assigned"]) == {"ALPHA_MCORE"}
    jobs_assigned = sum(first["assigned"].values())
    assert count_files(database) == [("running", 0, 4)]
    later = NOW + timedelta(hours=13)
    with database.begin() as connection:
        connection.execute(
            sa.text("UPDATE doma_panda.schedconfig_json SET last_update = last_update + interval '13 h'")
        )
    record, moves = run(database, "analysis_rebrokerage", now=later)
    assert (record.outcome, record.counts["moved"]) == ("done", jobs_assigned)
    assert [(move["queue"], move["table"], move["value_s"]) for move in moves] == [
        ("ALPHA_MCORE", "jobsdefined4", 46800.0)
    ]
    assert count_files(database) == [("ready", 1, 4)]
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.rebrokered_from SET rebrokered_at = rebrokered_at - interval '13 h'"))
        connection.execute(
            sa.text("UPDATE doma_panda.schedconfig_json SET last_update = last_update - interval '13 h'")
        )
    record, (second,) = next_cycle(database, agent="analysis_job")
    assert (second["outcome"], second["rejected"]["ALPHA_MCORE"]) == ("pending", "rebrokered")
    assert not [note for note in record.notes if note.startswith("rule ")]


def test_excess_production_jobs_are_taken_back_and_count_an_attempt(database: Database) -> None:
    first = decide_one(
        database, analysis(sites=("ALPHA",), config=[config("FAST_REBRO_THRESHOLD_NQUEUE_User Analysis", 1)])
    )
    jobs_assigned = sum(first["assigned"].values())
    _, (result,) = run(database, "fast_rebrokerage", now=NOW)
    assert (result["nqueue"], result["excess"], result["moved"]) == (
        jobs_assigned,
        jobs_assigned - max(1, int(0.3 * jobs_assigned)),
        result["excess"],
    )
    file_counts, jobs_left = count_files(database), jobs_assigned - result["moved"]
    assert file_counts == [
        ("ready", 1, 4 * result["moved"] // jobs_assigned),
        ("running", 0, 4 * jobs_left // jobs_assigned),
    ]
