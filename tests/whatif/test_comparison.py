"""Differences between two sides, compared with values worked out by hand."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from broker.domain.arrays import texts
from broker.whatif.model import task_differences
from broker.whatif.model.comparison import Difference, added, difference, task_documents, total_documents
from broker.whatif.model.outcome_columns import CycleComparison, Side
from broker.whatif.model.task_differences import NEVER_A_CANDIDATE, TaskDifference

NAMES = ("A", "B", "C")
# one letter per queue: chosen (*), rejected by rule 0 or 1, passed over (.) or never a candidate (x)
LETTERS = {"*": -1, "0": 0, "1": 1, ".": -1, "x": -2}


def side(*rows: tuple[str, str, str, tuple[int, int, int]]) -> Side:
    return Side(
        outcome=texts(row[0] for row in rows),
        reason=texts(row[1] for row in rows),
        chosen=np.array([[letter == "*" for letter in row[2]] for row in rows]),
        jobs=np.array([row[3] for row in rows]),
        position=np.array([[LETTERS[letter] for letter in row[2]] for row in rows]),
        codes=("lowmemory", "zeroshare"),
    )


@pytest.fixture
def example() -> Difference:
    """Task 7 has two chunks: one loses its candidates, one gains. Task 8 is the same. Task 9 is blocked afterwards."""
    before = side(
        ("brokered", "", "**0", (10, 5, 0)),
        ("pending", "no_candidates", "01x", (0, 0, 0)),
        ("brokered", "", "*11", (4, 0, 0)),
        ("brokered", "", "*01", (2, 0, 0)),
    )
    after = side(
        ("pending", "no_candidates", "100", (0, 0, 0)),
        ("brokered", "", "0*x", (0, 3, 0)),
        ("brokered", "", "*11", (4, 0, 0)),
        ("throttled", "throttled_cap", ".01", (0, 0, 0)),
    )
    return difference(CycleComparison("production_job", np.array([7, 7, 8, 9]), texts(NAMES), before, after))


def test_differences_by_task(example: Difference) -> None:
    assert set(example.tasks) == {("production_job", 7), ("production_job", 9)}
    seven, nine = example.tasks["production_job", 7], example.tasks["production_job", 9]
    assert seven.decisions == 2
    assert seven.outcomes == {("brokered", "pending"): 1, ("pending", "brokered"): 1}
    assert seven.gained == {"B": "zeroshare"}
    assert seven.lost == {"A": "zeroshare", "B": "lowmemory"}
    assert not seven.loses_last_queue and not seven.gains_first_queue  # its chunks do both, the task as a whole neither
    assert seven.candidates == (2, 1)
    assert (seven.jobs_before, seven.jobs_after) == ({"A": 10, "B": 5}, {"B": 3})
    assert nine.lost == {"A": "throttled_cap"} and nine.loses_last_queue


def test_total_differences(example: Difference) -> None:
    totals = example.totals["production_job"]
    assert (totals.cycles, totals.decisions, totals.changed) == (1, 4, 3)
    assert totals.outcomes[("brokered", "brokered")] == 1 and totals.outcomes.total() == 4
    assert (totals.gained, totals.lost) == ({"B": 1}, {"A": 2, "B": 1})
    assert (totals.losing_last, totals.gaining_first) == (1, 0)
    assert totals.candidates_before == {2: 1, 0: 1, 1: 2}
    assert totals.candidates_after == {0: 2, 1: 2}
    assert (totals.jobs_before, totals.jobs_after) == ({"A": 16, "B": 5}, {"A": 4, "B": 3})
    assert totals.jobs_moved == 15 + 3 + 0 + 2
    assert totals.rejected_before == {"lowmemory": 3, "zeroshare": 4}
    assert totals.rejected_after == {"lowmemory": 4, "zeroshare": 4, "throttled_cap": 1}


def test_jobs_that_change_queues_are_counted_once() -> None:
    before = side(("brokered", "", "**0", (10, 5, 0)))
    after = side(("brokered", "", "**0", (7, 8, 0)))
    comparison = difference(CycleComparison("production_job", np.array([7]), texts(NAMES), before, after))
    assert comparison.totals["production_job"].jobs_moved == 3
    assert comparison.tasks == {}  # the candidates are the same


def test_cycles_add_up(example: Difference) -> None:
    whole = added([example, example])
    assert whole.tasks["production_job", 7].decisions == 4
    assert whole.totals["production_job"].rejected_after == Counter(lowmemory=8, zeroshare=8, throttled_cap=2)
    assert (whole.total("cycles"), whole.total("decisions"), whole.total("losing_last")) == (2, 8, 2)
    assert whole.tasks_losing_last() == [9]
    assert example.tasks["production_job", 7].decisions == 2  # adding up leaves the parts as they are


def random_cycle(draw: np.random.Generator) -> CycleComparison:
    """Two random sides of a few chunks of a few tasks."""
    count = int(draw.integers(1, 9))
    sides = []
    for _ in range(2):
        chosen = draw.random((count, 3)) < 0.4
        reasons = ["no_candidates" if draw.random() < 0.3 else "" for _ in range(count)]
        sides.append(
            Side(
                outcome=texts("pending" if reason else "brokered" for reason in reasons),
                reason=texts(reasons),
                chosen=chosen,
                jobs=np.where(chosen, draw.integers(0, 3, (count, 3)), 0),
                position=np.where(chosen, -1, draw.integers(-2, 2, (count, 3))),
                codes=("lowmemory", "zeroshare"),
            )
        )
    names = texts(draw.permutation(["A", "B", "C"]).tolist())
    return CycleComparison("production_job", draw.integers(1, 5, count), names, *sides)


def one_by_one(cycles: Sequence[CycleComparison]) -> dict[tuple[str, int], TaskDifference]:
    """The tasks that differ, found chunk by chunk."""
    differences: dict[tuple[str, int], TaskDifference] = {}
    for cycle in cycles:
        before, after = cycle.before, cycle.after
        for row, task in enumerate(cycle.jeditaskid.tolist()):
            was, is_ = ((each.outcome[row], each.reason[row], each.chosen[row].tolist()) for each in (before, after))
            if was == is_:
                continue
            entry = differences.setdefault((cycle.brokerage, task), TaskDifference())
            entry.decisions += 1
            entry.outcomes[was[0], is_[0]] += 1
            entry.candidates = entry.candidates[0] + sum(was[2]), entry.candidates[1] + sum(is_[2])
            for at, name in enumerate(cycle.names):
                for jobs, side_jobs in ((entry.jobs_before, before), (entry.jobs_after, after)):
                    if side_jobs.jobs[row, at]:
                        jobs[name] += int(side_jobs.jobs[row, at])
                for queues, reasons, applies in (
                    (entry.gained, before, is_[2][at] and not was[2][at]),
                    (entry.lost, after, was[2][at] and not is_[2][at]),
                ):
                    if applies:
                        place = int(reasons.position[row, at])
                        queues[name] = (*reasons.codes, NEVER_A_CANDIDATE, reasons.reason[row])[place]
        had, has = ({*cycle.jeditaskid[each.chosen.any(axis=1)].tolist()} for each in (before, after))
        for task in had ^ has:
            differences[cycle.brokerage, task].loses_last_queue |= task in had
            differences[cycle.brokerage, task].gains_first_queue |= task in has
    return differences


@pytest.mark.parametrize("seed", range(20))
def test_task_differences_agree_with_a_chunk_by_chunk_count(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(seed)
    monkeypatch.setattr(task_differences, "COLLECTED", int(draw.choice([0, 30, 1000])))
    cycles = [random_cycle(draw) for _ in range(6)]
    parts = [added(map(difference, cycles[:2])), difference(cycles[2]), added(map(difference, cycles[3:]))]
    if seed % 2:
        parts = pickle.loads(pickle.dumps(parts))  # noqa: S301  # data pickled here
    whole = added(parts)
    assert whole.tasks == one_by_one(cycles)
    assert whole.tasks_losing_last() == sorted(
        task for (_, task), task_difference in whole.tasks.items() if task_difference.loses_last_queue
    )
    assert whole == added(map(difference, cycles))
    assert difference(cycles[0], by_task=False).tasks == {}


def test_documents(example: Difference) -> None:
    nine, seven = task_documents(example)
    assert nine["jeditaskid"] == 9 and nine["loses_last_queue"]
    assert seven["outcomes"] == [["brokered", "pending", 1], ["pending", "brokered", 1]]
    assert seven["candidates"] == {"before": 1.0, "after": 0.5}
    (total,) = total_documents(example)
    assert total["outcomes"]["before"] == {"brokered": 3, "pending": 1}
    assert total["outcomes"]["changed"] == [
        ["brokered", "pending", 1],
        ["brokered", "throttled", 1],
        ["pending", "brokered", 1],
    ]
    assert total["candidates"]["after"] == {"mean": 0.5, "decisions": {"0": 2, "1": 2}}
    assert total["queues"]["A"] == {
        "gained": 0,
        "lost": 2,
        "jobs_before": 16,
        "jobs_after": 4,
        "share_before": 16 / 21,
        "share_after": 4 / 7,
    }
    assert total["jobs"] == {"before": 21, "after": 7, "moved": 20}
    assert total_documents(Difference()) == []
