"""What of a decision may differ though it is the same decision: its work, and the figures that it remarks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from functools import lru_cache

from broker.codec.packed_reasons import RejectedNames
from broker.codec.packed_remarks import Notes, pack_remarks, unpack_remarks
from broker.codec.repeats import Body
from broker.domain.decision_records import DecisionRecord
from broker.domain.legend import Legend
from broker.store.decisions.plain_json import clean_json


def body_of(record: DecisionRecord) -> Body:
    """The parts of a decision that do not make it another one."""
    codes, remarks = packed_notes([record.decision.notes])[0]
    return Body(codes.encode(), remarks, record.work)


def packed_notes(notes: Sequence[Sequence[str]]) -> list[tuple[str, bytes | None]]:
    """Of each decision the notes that are codes, as JSON, and those that are figures, packed."""
    rows = [row for row, own in enumerate(notes) if isinstance(own, Notes)]
    remarks: dict[int, bytes | None] = {}
    if rows:
        some = [own.remarks for own in notes if isinstance(own, Notes)]
        remarks = dict(zip(rows, pack_remarks(some), strict=True))
    return [
        (_codes(own.codes), remarks[row]) if isinstance(own, Notes) else (_codes(tuple(own)), None)
        for row, own in enumerate(notes)
    ]


@lru_cache(maxsize=64)
def _codes(codes: tuple[str, ...]) -> str:
    """As JSON: nearly all decisions of a cycle have the same."""
    return clean_json(list(codes))


def with_body(record: DecisionRecord, body: Body) -> DecisionRecord:
    """The same decision with these parts.

    Raises:
        RemarksCorruptError: the figures are damaged.
        ValueError: the notes are.
    """
    notes: Sequence[str] = tuple(json.loads(body.notes or b"[]"))
    if body.remarks is not None:
        notes = Notes(tuple(notes), unpack_remarks(_legend(record), body.remarks))
    decision = dataclasses.replace(record.decision, notes=notes)
    return dataclasses.replace(record, decision=decision, work=body.work)


def _legend(record: DecisionRecord) -> Legend | None:
    rejected = record.decision.rejected
    return rejected.reasons.legend if isinstance(rejected, RejectedNames) else None
