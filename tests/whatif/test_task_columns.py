"""Tasks decided again as columns: what is shared with the side before, and that it is what decisions say."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from broker.brokerages.production_task.assign import columns_of, decided_blocks
from broker.brokerages.production_task.brokerage import ProductionTask, StoredTaskBatch
from broker.brokerages.profile import rules_of
from broker.brokerages.replayed_columns import ReplayedColumns
from broker.engine.shared.pair_state import FEASIBLE
from broker.engine.task.cycle import TaskCycle
from broker.gdpconfig.proposals import proposed
from broker.whatif.model.cases import Change
from tests.whatif.stored import JOBS, RULES, TASKS, change
from tests.whatif.test_quick_way import grid_and_work, stored_case, whole


def columns(asked: Change, beside: ReplayedColumns | None = None) -> ReplayedColumns:
    """The stored cycle with a change, beside another side or by itself."""
    case = stored_case(TASKS)
    snapshot, (batch,) = grid_and_work(TASKS)
    assert isinstance(batch, StoredTaskBatch)
    tuning, rules = proposed(case.published, asked.proposals).tuning(batch.vo), rules_of(asked.rules.profile, TASKS)
    return ProductionTask().replayed_columns(snapshot, tuning, batch, case.seed, rules, beside)


def is_equal(one: ReplayedColumns, two: ReplayedColumns) -> bool:
    """Whether two sides are the same in all columns."""
    names = [field.name for field in dataclasses.fields(one) if field.name not in ("cycle", "codes")]
    return one.codes == two.codes and all(np.array_equal(getattr(one, name), getattr(two, name)) for name in names)


NOTHING = Change((), RULES)


@pytest.mark.parametrize(
    ("asked", "everything", "job_check"),
    [
        (NOTHING, True, True),
        (change("MIN_WEIGHT_managed=7"), True, True),
        (change("NQUEUED_NUC_CAP=0"), False, True),
        (change(rules=("transfer_backlog=off",)), False, True),
        # the job brokerage has a rule of that name, too
        (change(rules=("free_space=off",)), False, False),
        (change("MAX_DISKIO_DEFAULT=1"), False, False),
        (change("IO_INTENSITY_CUTOFF=1"), False, False),
        (change(rules=("diskIO=off",)), False, False),
    ],
)
def test_what_is_shared_with_the_side_before(asked: Change, everything: bool, job_check: bool) -> None:
    before = columns(NOTHING)
    beside, alone = columns(asked, before), columns(asked)
    assert (beside is before) is everything
    assert (beside.cycle.dry_run is before.cycle.dry_run) is job_check
    assert is_equal(beside, alone)
    assert is_equal(columns(NOTHING, beside), before)


@pytest.mark.parametrize("asked", [NOTHING, change("MAX_DISKIO_DEFAULT=1"), change("NQUEUED_NUC_CAP=0")])
def test_columns_say_what_decisions_say(asked: Change) -> None:
    found, decisions = columns(asked), whole(stored_case(TASKS), asked)
    names = np.array(found.names.tolist())
    assert len(found.outcome) == len(decisions) > 0
    for row, one in enumerate(decisions):
        decision = one.decision
        assert (found.outcome[row], found.reason[row]) == (decision.outcome, decision.reason)
        assert set(names[found.chosen[row]]) == {candidate.name for candidate in decision.candidates}
        assert dict(zip(names[found.jobs[row] > 0], found.jobs[row][found.jobs[row] > 0], strict=True)) == one.assigned
        codes = [found.codes[at] if at >= 0 else decision.reason for at in found.position[row]]
        rejected = {name: code for name, code in zip(names, codes, strict=True) if name in decision.rejected}
        assert rejected == dict(decision.rejected)


def test_a_blocked_task_has_no_candidates_whatever_is_left() -> None:
    cycle: TaskCycle = columns(NOTHING).cycle
    row = int(np.flatnonzero((cycle.evaluation.feasible.sum(axis=1) > 1) & (cycle.preset < 0))[0])
    cycle.blocked[row] = "no_endpoint"
    found = columns_of(cycle, list(decided_blocks(cycle, 1)))
    assert (found.outcome[row], found.reason[row]) == ("pending", "no_endpoint")
    assert not found.chosen[row].any() and not found.jobs[row].any()
    # these count under the reason of the task
    assert np.array_equal(found.position[row] == FEASIBLE, cycle.evaluation.feasible[row])


def test_another_snapshot_or_other_work_shares_nothing() -> None:
    before = columns(NOTHING)
    first = before.cycle
    jobs = rules_of(RULES.profile, TASKS).needed[JOBS]
    given = first.tuning, first.chain, jobs.filters, jobs.steps  # type: ignore[attr-defined]
    assert first.beside(dataclasses.replace(first._asked_of), first.work, *given) is None
    assert first.beside(first._asked_of, dataclasses.replace(first.work), *given) is None
