"""Packed decisions about three candidates in two queues, for tests of the store."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import numpy as np

from broker.codec.packed_reasons import FunnelSteps, Reasons, RejectedNames
from broker.codec.packed_remarks import Notes, Remarks
from broker.domain.chosen_candidates import Legend, no_candidates
from broker.domain.decisions import Decision, DecisionRecord

START = datetime(2026, 8, 1, 12, tzinfo=UTC)
LEGEND = Legend(("A/1", "A/2", "B"), ("A", "A", "B"), ("offline", "full"), (0, 1), (0, 1), stats=("nQ",), remark="seen")


def waiting(task: int, *steps: int, work: bytes = b"work", figure: float = 1.0, reason: str = "none") -> DecisionRecord:
    """Return a pending chunk without candidates; ``steps`` are the codes at the three candidates."""
    reasons = Reasons(LEGEND, np.array(steps or (0, 0, 1), dtype=np.int16))
    notes = Notes(("source_stale:links",), Remarks(LEGEND, np.array([2]), np.array([[figure]])))
    packed = no_candidates(LEGEND), RejectedNames(reasons), FunnelSteps(reasons), notes
    return DecisionRecord(Decision(task, 10 * task, 2000.0, "production_job", "pending", reason, *packed), work=work)


def brokered(task: int, work: bytes = b"work") -> DecisionRecord:
    record = waiting(task, 0, -1, 1, work=work, reason="")
    return dataclasses.replace(
        record, decision=dataclasses.replace(record.decision, outcome="brokered"), assigned={"A/2": 7}
    )
