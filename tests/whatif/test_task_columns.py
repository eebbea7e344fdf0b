"""Tasks decided again as columns: what they share with the side before, and that they agree with decisions."""

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


def columns(variant: Change, beside: ReplayedColumns | None = None) -> ReplayedColumns:
    """The stored cycle with a change, beside another side or by itself."""
    case = stored_case(TASKS)
    snapshot, (batch,) = grid_and_work(TASKS)
    assert isinstance(batch, StoredTaskBatch)
    tuning, rules = (
        proposed(case.published, variant.proposals).tuning(batch.vo),
        rules_of(variant.rules.profile, TASKS),
    )
    return ProductionTask().replayed_columns(snapshot, tuning, batch, case.seed, rules, beside)


def is_equal(first: ReplayedColumns, second: ReplayedColumns) -> bool:
    """Whether two sides are the same in all columns."""
    names = [field.name for field in dataclasses.fields(first) if field.name not in ("cycle", "codes")]
    return first.codes == second.codes and all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in names
    )


NOTHING = Change((), RULES)


@pytest.mark.parametrize(
    ("variant", "shares_all", "shares_job_check"),
    [
        (NOTHING, True, True),
        (change("MIN_WEIGHT_managed=7"), True, True),
        (change("NQUEUED_NUC_CAP=0"), False, True),
        (change(rules=("transfer_backlog=off",)), False, True),
        # the job brokerage has a rule of the same name
        (change(rules=("free_space=off",)), False, False),
        (change("MAX_DISKIO_DEFAULT=1"), False, False),
        (change("IO_INTENSITY_CUTOFF=1"), False, False),
        (change(rules=("diskIO=off",)), False, False),
    ],
)
def test_a_change_shares_work_with_the_side_before(variant: Change, shares_all: bool, shares_job_check: bool) -> None:
    before = columns(NOTHING)
    beside, alone = columns(variant, before), columns(variant)
    assert (beside is before) is shares_all
    assert (beside.cycle.dry_run is before.cycle.dry_run) is shares_job_check
    assert is_equal(beside, alone)
    assert is_equal(columns(NOTHING, beside), before)


@pytest.mark.parametrize("variant", [NOTHING, change("MAX_DISKIO_DEFAULT=1"), change("NQUEUED_NUC_CAP=0")])
def test_columns_agree_with_decisions(variant: Change) -> None:
    side_columns, decisions = columns(variant), whole(stored_case(TASKS), variant)
    names = np.array(side_columns.names.tolist())
    assert len(side_columns.outcome) == len(decisions) > 0
    for row, replayed in enumerate(decisions):
        decision = replayed.decision
        assert (side_columns.outcome[row], side_columns.reason[row]) == (decision.outcome, decision.reason)
        assert set(names[side_columns.chosen[row]]) == {candidate.name for candidate in decision.candidates}
        assert (
            dict(
                zip(names[side_columns.jobs[row] > 0], side_columns.jobs[row][side_columns.jobs[row] > 0], strict=True)
            )
            == replayed.assigned
        )
        codes = [side_columns.codes[at] if at >= 0 else decision.reason for at in side_columns.position[row]]
        rejected = {name: code for name, code in zip(names, codes, strict=True) if name in decision.rejected}
        assert rejected == dict(decision.rejected)


def test_a_blocked_task_has_no_candidates() -> None:
    cycle: TaskCycle = columns(NOTHING).cycle
    row = int(np.flatnonzero((cycle.evaluation.feasible.sum(axis=1) > 1) & (cycle.preset < 0))[0])
    cycle.blocked[row] = "no_endpoint"
    replayed = columns_of(cycle, list(decided_blocks(cycle, 1)))
    assert (replayed.outcome[row], replayed.reason[row]) == ("pending", "no_endpoint")
    assert not replayed.chosen[row].any() and not replayed.jobs[row].any()
    # feasible queues count under the reason of the task
    assert np.array_equal(replayed.position[row] == FEASIBLE, cycle.evaluation.feasible[row])


def test_another_snapshot_or_other_work_shares_nothing() -> None:
    before = columns(NOTHING)
    first = before.cycle
    jobs = rules_of(RULES.profile, TASKS).needed[JOBS]
    rest = first.tuning, first.chain, jobs.filters, jobs.steps  # type: ignore[attr-defined]
    assert first.beside(dataclasses.replace(first._before_reading), first.work, *rest) is None
    assert first.beside(first._before_reading, dataclasses.replace(first.work), *rest) is None
