"""Codes at one queue, read without building decisions, equal the codes that the decisions give."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import sqlalchemy as sa

from broker.codec.reason_at_queue import codes_at as codes_of
from broker.domain.chosen_candidates import ChosenCandidates
from broker.domain.decisions import Candidate, DecisionRecord, Origin
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing
from broker.store.decisions.decision_rows import REASONS_ALONE, DecisionUnreadable, by_id
from broker.store.decisions.reason_reads import codes_at
from tests.store.decisions.packed_records import LEGEND, START, brokered, waiting

ORIGIN = Origin(1, START, "snap", 1, 2, "1.0.0")


def brokered_at(task: int, *places: int) -> DecisionRecord:
    """Return a brokered chunk whose chosen candidates are given by their positions in the legend."""
    record, size = brokered(task), len(places)
    candidates = ChosenCandidates(
        np.array(places), np.ones(size), np.zeros((0, size)), np.zeros(size, dtype=np.bool_), LEGEND
    )
    return dataclasses.replace(record, decision=dataclasses.replace(record.decision, candidates=candidates))


def waiting_with_names(task: int) -> DecisionRecord:
    """Return a chunk whose decision has only names, as if read from JSON."""
    record = waiting(task)
    decision = dataclasses.replace(
        record.decision, candidates=(Candidate("B", 1.0, {}),), rejected={"A/1": "full", "A/2": "full"}, funnel=(),
        notes=(),
    )  # fmt: skip
    return dataclasses.replace(record, decision=decision)


RECORDS = (
    waiting(1), waiting(2, 0, 0, 0), waiting(3, 1, 0, 1), waiting(4, 0, -1, 1), brokered_at(5, 1), brokered_at(6, 2),
    brokered_at(7, 1, 2), waiting_with_names(8),
)  # fmt: skip


def save(database: Database) -> list[int]:
    with database.begin() as connection:
        decision_writing.save(Database.raw(connection), ORIGIN, RECORDS)
        ids = connection.scalars(sa.text("SELECT id FROM broker.stored_decisions ORDER BY jeditaskid"))
        return list(ids)


@pytest.mark.parametrize("queue", ["A", "B", "CERN"])
def test_codes_equal_those_of_the_full_decisions(database: Database, queue: str) -> None:
    numbers = save(database)
    with database.begin() as connection:
        codes_read = codes_at(connection, numbers, START, START, queue)
        stored_decisions = by_id(connection, numbers, START, START, REASONS_ALONE)
    codes = zip(
        stored_decisions,
        codes_of([stored_decision.record.decision for stored_decision in stored_decisions], queue),
        strict=True,
    )
    assert codes_read == {stored_decision.id: code for stored_decision, code in codes if code is not None}


def test_a_decision_that_chose_the_queue_has_no_code(database: Database) -> None:
    numbers = save(database)
    with database.begin() as connection:
        codes_by_id = codes_at(connection, numbers, START, START, "A")
    codes = [codes_by_id.get(number) for number in numbers]
    assert codes == ["offline", "offline", "full", "offline", None, "offline", None, "full"]


def test_a_damaged_row_is_rejected_by_id(database: Database) -> None:
    numbers = save(database)
    with database.begin() as connection:
        connection.execute(
            sa.text("UPDATE broker.decisions SET reasons = decode('ff00', 'hex') WHERE id = :id"), {"id": numbers[0]}
        )
        with pytest.raises(DecisionUnreadable, match=f"decision {numbers[0]}"):
            codes_at(connection, numbers, START, START, "A")
