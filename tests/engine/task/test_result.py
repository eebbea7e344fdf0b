"""Results, decisions and explanations of the task brokerage, with toy rules and three nuclei."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.brokerages.production_task.assign import assign_tasks
from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Decision, Observation
from broker.engine.task.cycle import TaskCycle
from broker.engine.task.decision import why_not_nucleus
from broker.rules.contract import Filter, NucleusLoadWeight, TaskPairs, Weight
from broker.snapshot.raw import SourceState
from tests.engine.task.task_works import Part, cycle, nuclei, task_work


class Without(Filter[TaskPairs]):
    """Rejects one nucleus, observing its name."""

    def __init__(self, nucleus: str, **more: Any) -> None:
        name = f"without_{nucleus}"
        # these are class variables for real rules
        self.__dict__.update({"name": name, "code": f"no_{nucleus}", "title": f"not {nucleus}", **more})
        self._nucleus = nucleus

    def keep(self, pairs: TaskPairs) -> Bools:
        return np.asarray(pairs.nuclei.name != self._nucleus)

    def observe(self, pairs: TaskPairs) -> Observation:
        return Observation(str(pairs.nuclei.name.item()), "!=", self._nucleus, "-", "rule")


class ByName(Weight[TaskPairs]):
    """A factor for each nucleus."""

    name = code = "by_name"
    title = "by name"

    def __init__(self, **factors: float) -> None:
        self._factors = factors

    def factor(self, pairs: TaskPairs) -> Floats:
        return np.array([[self._factors.get(str(name), 1.0) for name in pairs.nuclei.name[0]]])


class Idle(NucleusLoadWeight):
    """Falls with the remaining work, in HS06 s."""

    name = code = "idle"
    title = "idle"

    def factor(self, remaining_work_hs06s: Floats) -> Floats:
        return np.asarray(1.0 / (1.0 + remaining_work_hs06s))


def weights_of(task_cycle: TaskCycle, row: int = 0) -> dict[str, float]:
    result = task_cycle.result(row)
    names = task_cycle.snapshot.nuclei.name[result.feasible]
    return dict(zip(map(str, names), result.weight.tolist(), strict=True))


def decision_of(task_cycle: TaskCycle, nucleus: str | None = None) -> Decision:
    """The decision on the only task, by the first seed that draws this nucleus."""
    for seed in range(99):
        (assigned_task,) = assign_tasks(task_cycle, seed)
        if nucleus in (None, *(candidate.name for candidate in assigned_task.decision.candidates[:1])):
            return assigned_task.decision
    raise AssertionError(f"no seed draws {nucleus}")


def test_weights_multiply_in_order_and_satellites_are_no_nuclei() -> None:
    task_cycle = cycle(task_work([]), weights=[ByName(A=2.0, C=0.5)], load_weights=[Idle()])
    assert weights_of(task_cycle) == {"A": 2.0, "B": 1.0, "C": 0.5}
    assert task_cycle.factor_codes == ["idle", "by_name"]
    assert task_cycle.result(0).factors.tolist() == [[1.0, 1.0, 1.0], [2.0, 1.0, 0.5]]


def test_a_rejected_nucleus_is_gone_whatever_the_kind() -> None:
    second = Without("B", kind="temporary")
    task_cycle = cycle(task_work([]), filters=[Without("A"), second, Without("A", name="again", code="again")])
    assert weights_of(task_cycle) == {"C": 1.0}
    decision = decision_of(task_cycle)
    assert decision.rejected == {"A": "no_A", "B": "no_B"}
    assert [(step.code, step.before, step.after) for step in decision.funnel if step.before != step.after] == [
        ("no_A", 3, 2),
        ("no_B", 2, 1),
    ]
    assert (decision.outcome, decision.reason) == ("brokered", "")


@pytest.mark.parametrize("factor", [np.nan, np.inf, -1.0])
def test_a_weight_that_is_no_number(factor: float) -> None:
    task_cycle = cycle(task_work([]), weights=[ByName(B=factor)])
    result = task_cycle.result(0)
    assert weights_of(task_cycle) == {"A": 1.0, "C": 1.0}
    assert decision_of(task_cycle).rejected == {"B": "weight_unknown"}
    assert why_not_nucleus(task_cycle, result, "B", "A").code == "weight_unknown"


def test_a_task_without_any_valid_weight_has_no_candidates() -> None:
    task_cycle = cycle(task_work([]), weights=[ByName(A=np.nan, B=np.nan, C=np.nan)])
    assert task_cycle.result(0).reason == "no_candidates"


def test_placed_work_counts_by_share_and_priority() -> None:
    """Work counts by share and VO; a task without priority sees all of it."""
    rows = [
        {"nucleus": "A", "hs06s": 1.0, "currentpriority": 500},
        {"nucleus": "A", "hs06s": 2.0, "currentpriority": 499},
        {"nucleus": "A", "hs06s": 4.0, "gshare": "Other"},
        {"nucleus": "A", "hs06s": 8.0, "vo": "cms"},
        {"nucleus": "GONE", "hs06s": 16.0},
        {"nucleus": "B", "hs06s": None},
    ]
    columns = {"currentpriority": [500, 500, None], "gshare": ["Simulation", "Other", "Simulation"]}
    columns |= {"workqueue_id": 1, "remaining_hs06s": [5.0, 7.0, None]}
    task_cycle = cycle(task_work([], [], [], remaining=rows, tasks=columns), load_weights=[Idle()])
    assert [task_cycle.remaining_work(row).tolist()[:3] for row in range(3)] == [[1, 0, 0], [4, 0, 0], [3, 0, 0]]
    task_cycle.place(0, 1)
    task_cycle.place(1, 0)
    # unknown work adds nothing
    task_cycle.place(2, 2)
    assert [task_cycle.remaining_work(row).tolist()[:3] for row in range(3)] == [[1, 5, 0], [11, 0, 0], [3, 5, 0]]
    assert weights_of(task_cycle) == {"A": 1 / 2, "B": 1 / 6, "C": 1.0}
    # all shares of the VO, without the work placed by the cycle
    assert task_cycle.all_work_hs06s.every[0].tolist()[:3] == [7.0, 0, 0]
    stored = task_cycle.placed_before(1)
    task_cycle.place(1, 0)
    task_cycle.restore(1, stored)
    assert task_cycle.remaining_work(1).tolist()[:3] == [11, 0, 0]


def test_an_independent_cycle_forgets_what_it_places() -> None:
    task_cycle = cycle(task_work([], tasks={"remaining_hs06s": 5.0}), load_weights=[Idle()], independent=True)
    task_cycle.place(0, 0)
    assert weights_of(task_cycle) == {"A": 1.0, "B": 1.0, "C": 1.0}


@pytest.mark.parametrize("nucleus", ["A", "C", "S"])
def test_a_preset_nucleus_is_kept_whatever_the_rules_say(nucleus: str) -> None:
    """The first of the table as well as the last."""
    task_cycle = cycle(task_work([], tasks={"nucleus": nucleus}), filters=[Without(nucleus)])
    result = task_cycle.result(0)
    assert (weights_of(task_cycle), result.reason) == ({nucleus: 1.0}, "preset_nucleus")
    decision = decision_of(task_cycle)
    assert [(candidate.name, candidate.factors) for candidate in decision.candidates] == [(nucleus, {})]
    assert decision.rejected == {}
    answer = why_not_nucleus(task_cycle, result, "B", nucleus)
    assert (answer.code, answer.observation and answer.observation.limit) == ("other_nucleus_set", nucleus)


def test_a_task_without_its_input_waits_whatever_the_nuclei_are() -> None:
    task_cycle = cycle(task_work([Part([])]), filters=[Without("A")])
    result = task_cycle.result(0)
    assert (result.blocked, result.reason) == (True, "no_complete_replica")
    decision = decision_of(task_cycle)
    assert decision.outcome == "pending" and decision.candidates == ()
    assert decision.rejected == {"A": "no_A", "B": "no_complete_replica", "C": "no_complete_replica"}
    assert decision.funnel[-1].code == "no_complete_replica" and decision.funnel[-1].after == 0
    answer = why_not_nucleus(task_cycle, result, "B", None)
    assert (answer.code, answer.rule, answer.kind) == ("no_complete_replica", "input", "temporary")


def test_the_drawn_nucleus_is_first_then_by_weight_and_name() -> None:
    task_cycle = cycle(task_work([]), weights=[ByName(B=3.0)])
    decision = decision_of(task_cycle, "C")
    assert [candidate.name for candidate in decision.candidates] == ["C", "B", "A"]
    assert decision.candidates[1].factors == {"by_name": 3.0}


def test_why_not() -> None:
    task_cycle = cycle(task_work([]), filters=[Without("A")], weights=[ByName(B=3.0)])
    result = task_cycle.result(0)
    answers = {name: why_not_nucleus(task_cycle, result, name, "C") for name in ("A", "B", "C", "S", "GONE")}
    assert {name: answer.code for name, answer in answers.items()} == {
        "A": "no_A", "B": "not_drawn", "C": "chosen", "S": "not_a_nucleus", "GONE": "unknown_nucleus"
    }  # fmt: skip
    rejection, missed_draw = answers["A"].observation, answers["B"].observation
    assert rejection is not None and (rejection.value, rejection.limit) == ("A", "A")
    # 3 of 4 parts of the draw
    assert missed_draw is not None and missed_draw.inputs == {"weight": 3.0, "chance": 75.0}


def test_why_not_while_a_source_is_too_old() -> None:
    """The rule is not evaluated: its policy rejects every nucleus, and the age of the source is the reason."""
    grid = nuclei((SourceState("links", "stale", 5, 99.0, 10.0),))
    task_cycle = cycle(task_work([]), filters=[Without("A", sources=("links",))], grid=grid)
    result = task_cycle.result(0)
    assert not len(result.feasible)
    answer = why_not_nucleus(task_cycle, result, "B", None)
    assert answer.code == "unknown_without_A" and answer.observation is not None
    assert (answer.observation.value, answer.observation.limit, answer.observation.key) == (99.0, 10.0, "source.links")
    assert decision_of(task_cycle).notes == ("source_stale:links",)


def test_a_nucleus_without_weight_had_no_chance() -> None:
    task_cycle = cycle(task_work([]), weights=[ByName(A=0.0, B=0.0, C=0.0)])
    result = task_cycle.result(0)
    observation = why_not_nucleus(task_cycle, result, "B", "C").observation
    assert observation is not None and observation.inputs == {"weight": 0.0, "chance": 0.0}


def test_a_task_without_candidates_has_no_weights() -> None:
    result = cycle(task_work([Part([])])).result(0)
    assert (result.weight.shape, result.factors.shape) == ((0,), (0, 0))
