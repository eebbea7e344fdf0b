from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa

from broker.domain.decisions import Candidate, Decision, DecisionRecord, FunnelStep, Origin, StoredDecision
from broker.store.connection.database import Database
from broker.store.decisions import decision_rows as decisions, decision_writing
from tests.store.small_work import NOW

ORIGIN = Origin(7, NOW, "snap", 17, 42, "0.1.0")
DECISION = Decision(
    jeditaskid=1,
    datasetid=10,
    ramcount=None,
    brokerage="production_job",
    outcome="brokered",
    reason="",
    candidates=(
        Candidate("CERN/SCORE", 0.1 + 0.2, {"running": 0.3, "network": 1.0}),
        Candidate("BNL", 5e-324, {"running": 5e-324}, bootstrap=True),
    ),
    rejected={"DESY": "lowmemory", "Q'\"\n%s\\": "status"},
    funnel=(FunnelStep("status", 30, 27), FunnelStep("lowmemory", 27, 2)),
    notes=("links: stale",),
)
RECORD = DecisionRecord(DECISION, {"CERN": 120, "BNL": 1}, NOW + timedelta(hours=1), b"\0work")


def save(database: Database, *records: DecisionRecord, origin: Origin = ORIGIN) -> None:
    with database.begin() as connection:
        assert decision_writing.save(Database.raw(connection), origin, records) == len(records)


def latest(database: Database, jeditaskid: int = 1) -> list[StoredDecision]:
    with database.begin() as connection:
        return decisions.latest(connection, jeditaskid)


def test_a_decision_is_read_back_unchanged(database: Database) -> None:
    save(database, RECORD)
    (stored_decision,) = latest(database)
    assert stored_decision.origin == ORIGIN
    assert stored_decision.record == RECORD


def test_an_empty_decision_is_read_back(database: Database) -> None:
    empty = Decision(1, None, 2000.5, "production_job", "pending", "no candidates", (), {}, ())
    save(database, DecisionRecord(empty))
    assert latest(database)[0].record == DecisionRecord(empty)


def test_the_latest_decisions_are_from_the_last_cycle_one_for_each_chunk(database: Database) -> None:
    other_ramcount = replace(DECISION, ramcount=3000.0)
    other_dataset = replace(DECISION, datasetid=11)
    save(database, RECORD, DecisionRecord(other_ramcount), DecisionRecord(other_dataset))
    save(database, DecisionRecord(replace(DECISION, reason="newer")), origin=replace(ORIGIN, decided_at=NOW))
    chunks = [
        (stored_decision.record.decision.datasetid, stored_decision.record.decision.ramcount)
        for stored_decision in latest(database)
    ]
    assert chunks == [(10, None), (10, 3000.0), (11, None)]
    assert latest(database)[0].record.decision.reason == "newer"
    later = replace(ORIGIN, decided_at=NOW + timedelta(seconds=1))
    save(database, DecisionRecord(replace(other_dataset, outcome="pending")), origin=later)
    assert [stored_decision.record.decision.outcome for stored_decision in latest(database)] == ["pending"]
    assert latest(database, 2) == []


def test_as_of_an_instant_an_older_decision_counts_for_a_chunk_without_a_newer_one(database: Database) -> None:
    nucleus = replace(DECISION, brokerage="production_task", datasetid=None)
    for decision, ago in ((nucleus, 3.0), (DECISION, 2.0), (replace(DECISION, reason="newer"), 0.5)):
        save(database, DecisionRecord(decision), origin=replace(ORIGIN, decided_at=NOW - timedelta(days=ago)))
    latest_by_age = {}
    for ago in (0.0, 1.0, 2.5, 4.0):
        with database.begin() as connection:
            rows = decisions.latest_of_each(connection, 1, NOW - timedelta(days=ago))
        latest_by_age[ago] = [
            (stored_decision.record.decision.brokerage, stored_decision.record.decision.reason)
            for stored_decision in rows
        ]
    first = ("production_task", "")
    assert latest_by_age == {
        0.0: [first, ("production_job", "newer")],
        1.0: [first, ("production_job", "")],
        2.5: [first],
        4.0: [],
    }


def test_characters_that_postgresql_cannot_store_are_replaced_unless_packed(database: Database) -> None:
    hostile = replace(DECISION, reason="a\0b", rejected={"nul\0name": "status", "lone\ud800": "status"}, notes=("\0",))
    save(database, DecisionRecord(hostile))
    (stored_decision,) = latest(database)
    assert stored_decision.record.decision.reason == "a\ufffdb"
    assert stored_decision.record.decision.notes == ("\ufffd",)
    assert stored_decision.record.decision.rejected == hostile.rejected


def test_a_literal_backslash_u_in_a_name_is_preserved(database: Database) -> None:
    name = "path\\u0000 and \\ud800 as text"
    save(database, DecisionRecord(replace(DECISION, rejected={name: "status"})))
    assert latest(database)[0].record.decision.rejected == {name: "status"}


def test_decisions_are_lost_with_their_transaction(database: Database) -> None:
    with database.engine.connect() as connection:
        decision_writing.save(Database.raw(connection), ORIGIN, [RECORD])
        connection.rollback()
    with database.begin() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM broker.decisions")).scalar_one() == 0
