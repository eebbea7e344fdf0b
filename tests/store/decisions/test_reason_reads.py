"""Codes at one queue, read without making decisions: those that the decisions give."""

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


def chosen(task: int, *places: int) -> DecisionRecord:
    """A brokered chunk that has chosen candidates by their positions in the legend."""
    record, size = brokered(task), len(places)
    own = ChosenCandidates(np.array(places), np.ones(size), np.zeros((0, size)), np.zeros(size, dtype=np.bool_), LEGEND)
    return dataclasses.replace(record, decision=dataclasses.replace(record.decision, candidates=own))


def named(task: int) -> DecisionRecord:
    """A chunk whose decision has names alone, as one that was read from JSON."""
    record = waiting(task)
    plain = dataclasses.replace(
        record.decision, candidates=(Candidate("B", 1.0, {}),), rejected={"A/1": "full", "A/2": "full"}, funnel=(),
        notes=(),
    )  # fmt: skip
    return dataclasses.replace(record, decision=plain)


RECORDS = (
    waiting(1), waiting(2, 0, 0, 0), waiting(3, 1, 0, 1), waiting(4, 0, -1, 1), chosen(5, 1), chosen(6, 2),
    chosen(7, 1, 2), named(8),
)  # fmt: skip


def save(database: Database) -> list[int]:
    with database.begin() as connection:
        decision_writing.save(Database.raw(connection), ORIGIN, RECORDS)
        found = connection.scalars(sa.text("SELECT id FROM broker.stored_decisions ORDER BY jeditaskid"))
        return list(found)


@pytest.mark.parametrize("queue", ["A", "B", "CERN"])
def test_codes_are_those_of_the_whole_decisions(database: Database, queue: str) -> None:
    numbers = save(database)
    with database.begin() as connection:
        found = codes_at(connection, numbers, START, START, queue)
        whole = by_id(connection, numbers, START, START, REASONS_ALONE)
    codes = zip(whole, codes_of([one.record.decision for one in whole], queue), strict=True)
    assert found == {one.id: code for one, code in codes if code is not None}


def test_a_decision_that_chose_the_queue_has_no_code(database: Database) -> None:
    numbers = save(database)
    with database.begin() as connection:
        found = codes_at(connection, numbers, START, START, "A")
    codes = [found.get(one) for one in numbers]
    assert codes == ["offline", "offline", "full", "offline", None, "offline", None, "full"]


def test_a_damaged_row_is_named(database: Database) -> None:
    numbers = save(database)
    with database.begin() as connection:
        connection.execute(
            sa.text("UPDATE broker.decisions SET reasons = decode('ff00', 'hex') WHERE id = :id"), {"id": numbers[0]}
        )
        with pytest.raises(DecisionUnreadable, match=f"decision {numbers[0]}"):
            codes_at(connection, numbers, START, START, "A")
