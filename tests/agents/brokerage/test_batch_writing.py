"""Decisions whose jobs could not all be written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from agents.brokerage.batch_writing import records_of
from broker.brokerages.job.assigned import AssignedChunk
from broker.brokerages.job.brokerage import JobsCycle
from broker.brokerages.registry import brokerage
from broker.domain.arrays import texts
from broker.domain.decisions import Candidate, Decision
from broker.domain.placements import WriteOutcome
from broker.engine.job.cycle import JobCycle
from broker.work.cut_jobs import no_jobs
from broker.work.input_files import DatasetUse
from broker.work.split_settings import SplitSettings
from tests.brokerages.small_grid import NOW
from tests.codec.test_cut_codec import cycle
from tests.work.files_for_tests import plain_files

GRID = SimpleNamespace(snapshot=SimpleNamespace(queues=SimpleNamespace(name=texts(["A", "B"]))))


@pytest.mark.parametrize(
    ("written_jobs", "skipped", "outcome", "reason", "assigned", "notes"),
    [
        ([True] * 4, False, "brokered", "", {"A": 3, "B": 1}, ("before",)),
        ([True, False, True, False], False, "brokered", "", {"A": 2}, ("before", "files_changed:2")),
        ([False] * 4, False, "skipped", "files_changed", {}, ("before",)),
        ([False] * 4, True, "skipped", "task_changed", {}, ("before",)),
        (None, False, "brokered", "", {"A": 3, "B": 1}, ("before",)),
    ],
)
def test_jobs_that_could_not_be_written_are_noted(
    written_jobs: list[bool] | None,
    skipped: bool,
    outcome: str,
    reason: str,
    assigned: dict[str, int],
    notes: tuple[str, ...],
) -> None:
    work = cycle([[(plain_files(4), DatasetUse())]], [SplitSettings()])
    candidates = (Candidate("A", 1.0, {}), Candidate("B", 1.0, {}))
    decision = Decision(1, 2, None, "production_job", "brokered", "", candidates, {}, (), ("before",))
    chunk = AssignedChunk(0, decision, np.array([0, 0, 0, 1]), no_jobs())
    written: Any = None
    if written_jobs is not None:
        written = SimpleNamespace(kept=np.array(written_jobs), tasks_skipped={1} if skipped else set(), counts={})
    jobs_cycle = JobsCycle(cast(JobCycle, GRID), work)
    (record,) = records_of(brokerage("production_job"), jobs_cycle, [chunk], cast(WriteOutcome, written), NOW)
    assert (record.decision.outcome, record.decision.reason) == (outcome, reason)
    assert (dict(record.assigned), record.decision.notes) == (assigned, notes)
    assert record.pending_until is None
