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


def test_a_decision_comes_back_as_it_was(database: Database) -> None:
    save(database, RECORD)
    (stored,) = latest(database)
    assert stored.origin == ORIGIN
    assert stored.record == RECORD


def test_a_decision_of_nothing_comes_back(database: Database) -> None:
    empty = Decision(1, None, 2000.5, "production_job", "pending", "no candidates", (), {}, ())
    save(database, DecisionRecord(empty))
    assert latest(database)[0].record == DecisionRecord(empty)


def test_the_latest_are_those_of_the_last_cycle_one_for_each_chunk(database: Database) -> None:
    second = replace(DECISION, ramcount=3000.0)
    other = replace(DECISION, datasetid=11)
    save(database, RECORD, DecisionRecord(second), DecisionRecord(other))
    save(database, DecisionRecord(replace(DECISION, reason="newer")), origin=replace(ORIGIN, decided_at=NOW))
    found = [(stored.record.decision.datasetid, stored.record.decision.ramcount) for stored in latest(database)]
    assert found == [(10, None), (10, 3000.0), (11, None)]
    assert latest(database)[0].record.decision.reason == "newer"
    later = replace(ORIGIN, decided_at=NOW + timedelta(seconds=1))
    save(database, DecisionRecord(replace(other, outcome="pending")), origin=later)
    assert [stored.record.decision.outcome for stored in latest(database)] == ["pending"]
    assert latest(database, 2) == []


def test_as_of_an_instant_a_decision_of_days_before_counts_where_a_chunk_has_none_since(database: Database) -> None:
    nucleus = replace(DECISION, brokerage="production_task", datasetid=None)
    for brokered, ago in ((nucleus, 3.0), (DECISION, 2.0), (replace(DECISION, reason="newer"), 0.5)):
        save(database, DecisionRecord(brokered), origin=replace(ORIGIN, decided_at=NOW - timedelta(days=ago)))
    found = {}
    for ago in (0.0, 1.0, 2.5, 4.0):
        with database.begin() as connection:
            rows = decisions.latest_of_each(connection, 1, NOW - timedelta(days=ago))
        found[ago] = [(one.record.decision.brokerage, one.record.decision.reason) for one in rows]
    first = ("production_task", "")
    assert found == {
        0.0: [first, ("production_job", "newer")],
        1.0: [first, ("production_job", "")],
        2.5: [first],
        4.0: [],
    }


def test_what_postgresql_cannot_hold_is_replaced_where_it_is_not_packed(database: Database) -> None:
    hostile = replace(DECISION, reason="a\0b", rejected={"nul\0name": "status", "lone\ud800": "status"}, notes=("\0",))
    save(database, DecisionRecord(hostile))
    (stored,) = latest(database)
    assert stored.record.decision.reason == "a\ufffdb"
    assert stored.record.decision.notes == ("\ufffd",)
    assert stored.record.decision.rejected == hostile.rejected


def test_a_literal_backslash_u_in_a_name_is_kept(database: Database) -> None:
    name = "path\\u0000 and \\ud800 as text"
    save(database, DecisionRecord(replace(DECISION, rejected={name: "status"})))
    assert latest(database)[0].record.decision.rejected == {name: "status"}


def test_decisions_are_lost_with_their_transaction(database: Database) -> None:
    with database.engine.connect() as connection:
        decision_writing.save(Database.raw(connection), ORIGIN, [RECORD])
        connection.rollback()
    with database.begin() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM broker.decisions")).scalar_one() == 0
