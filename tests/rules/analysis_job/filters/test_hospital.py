"""Hospital queues get work only if no other queue remains."""

from __future__ import annotations

import numpy as np
import pytest

from broker.domain.analysis import AnalysisFacts
from broker.rules.analysis_job.filters.hospital import Hospital
from broker.rules.contract import AnalysisPairs
from tests.rules.builders import facts_of, make_queues, make_tasks, tuning_for

SICK, WELL, NEAR = "A_HOSPITAL", "B", "HOSPITAL_C"


@pytest.mark.parametrize(
    ("names", "alive", "expected"),
    [
        ([SICK, WELL], [True, True], [False, True]),
        # the other queue was rejected before
        ([SICK, WELL], [True, False], [True, True]),
        ([SICK, "X_HOSPITAL"], [True, True], [True, True]),
        # only the end of the name counts, case-sensitively
        ([SICK, NEAR], [True, True], [False, True]),
        (["A_hospital", WELL], [True, True], [True, True]),
        ([SICK], [True], [True]),
    ],
)
def test_hospital(names: list[str], alive: list[bool], expected: list[bool]) -> None:
    rule, count = Hospital(), len(names)
    queues = make_queues(count, name=names, unified_name=names)
    facts = facts_of(AnalysisFacts, 1, count)
    keep = rule.keep_among(np.array([alive]), AnalysisPairs(make_tasks(), queues, facts, tuning_for(rule)))
    assert keep.tolist() == [expected]


def test_each_chunk_is_judged_alone_by_the_unified_name() -> None:
    """The names of pseudo-queues begin with the name of their hospital queue."""
    rule = Hospital()
    queues = make_queues(2, name=[f"{SICK}/SCORE", WELL], unified_name=[SICK, WELL])
    alive = np.array([[True, True], [True, False]])
    keep = rule.keep_among(alive, AnalysisPairs(make_tasks(2), queues, facts_of(AnalysisFacts, 2, 2), tuning_for(rule)))
    assert keep.tolist() == [[False, True], [True, True]]
