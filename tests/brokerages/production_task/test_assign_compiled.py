"""Placing tasks by the compiled loop, block by block in Python, or one by one gives the same result, to the bit."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from broker.brokerages.production_task import assign
from broker.brokerages.production_task.assign import STREAM, AssignedTask, assign_tasks
from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation
from broker.engine.compiled import loading
from broker.engine.compiled.loop_parts import numbered
from broker.engine.task.cycle import TaskCycle
from broker.engine.task.decision import decisive_position
from broker.engine.task.placing import drawn
from broker.gdpconfig import Tuning
from broker.rules.contract import Filter, NucleusLoadWeight, TaskPairs, Weight
from broker.rules.production_task.weights.remaining_work import LEAST_HS06S, RemainingWork
from tests.engine.task.task_works import Copy, Part, cycle, task_work

pytestmark = pytest.mark.slow

NUCLEI = ("A", "B", "C")
FACTORS = (0.0, 0.1, 1.0, 7.3, 1e300, 5e-324, np.inf, np.nan, -1.0)


class RandomWeight(Weight[TaskPairs]):
    """A random factor for each task and nucleus, sometimes a special value."""

    name = code = "random"
    title = "random"

    def __init__(self, seed: int, special_values: bool) -> None:
        self._seed, self._special_values = seed, special_values

    def factor(self, pairs: TaskPairs) -> Floats:
        random = np.random.default_rng(self._seed)
        shape = (len(pairs.rows), len(NUCLEI) + 1)
        values = random.random(shape)
        return np.where(random.random(shape) < 0.3, random.choice(FACTORS, shape), values)[:, pairs.positions] if (
            self._special_values
        ) else values[:, pairs.positions]  # fmt: skip


class RandomFilter(Filter[TaskPairs]):
    """A filter that rejects pairs at random."""

    name = code = "some"
    title = "some"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def keep(self, pairs: TaskPairs) -> Bools:
        shape = (len(pairs.rows), len(NUCLEI) + 1)
        return (np.random.default_rng(self._seed).random(shape) < 0.8)[:, pairs.positions]

    def observe(self, pairs: TaskPairs) -> Observation:
        return Observation("-", "==", "-", "-", "rule")


class Derived(RemainingWork):
    """A derived rule that doubles the factor and declares no compiled step."""

    def factor(self, remaining_work_hs06s: Floats) -> Floats:
        return super().factor(remaining_work_hs06s) * 2.0


def random_cycle(
    seed: int,
    count: int,
    special_values: bool,
    below_least: str,
    least: float = LEAST_HS06S,
    *,
    independent: bool = False,
) -> TaskCycle:
    """Make tasks of two shares and all priorities, some of which wait for input and some have a preset nucleus."""
    random = np.random.default_rng(seed)
    shares, amounts = ("Simulation", "Other"), (0.0, 3.0, 49.0, 50.0, 1e4)
    columns = {
        "gshare": random.choice(shares, count).tolist(),
        "currentpriority": sorted(random.integers(0, 5, count).tolist(), reverse=True),
        "workqueue_id": 1,
        "nucleus": [random.choice((*NUCLEI, "S")) if random.random() < 0.1 else None for _ in range(count)],
        "remaining_hs06s": [None if random.random() < 0.1 else float(random.choice(amounts)) for _ in range(count)],
    }
    inputs = [[Part([])] if random.random() < 0.1 else [Part([Copy("A_DISK")])] for _ in range(count)]
    rows = [
        {"nucleus": nucleus, "gshare": share, "hs06s": float(random.choice(amounts)), "currentpriority": priority}
        for nucleus in NUCLEI
        for share in shares
        for priority in range(5)
    ]
    moving = RemainingWork().configured({"below_least": below_least})
    moving.least_hs06s = least
    return cycle(
        task_work(*inputs, remaining=rows, tasks=columns),
        [RandomFilter(seed)],
        [RandomWeight(seed, special_values)],
        [moving],
        independent=independent,
    )


def task_contents(task: AssignedTask) -> tuple[Any, ...]:
    """Return everything that is stored for a task, with the bits of its figures."""
    decision = task.decision
    candidates: Any = decision.candidates
    rejections: Any = decision.rejected
    bits = (
        candidates.place.tolist(),
        candidates.weight.tobytes(),
        candidates.factors.tobytes(),
        candidates.bootstrap.tolist(),
    )
    plain = decision.jeditaskid, decision.outcome, decision.reason, decision.notes, tuple(decision.funnel)
    position = rejections.reasons.position
    return task.row, task.nucleus, plain, bits, (position.dtype, position.tolist()), task.placed_hs06s.tobytes()


def one_by_one(task_cycle: TaskCycle, seed: int) -> Iterator[tuple[Any, ...]]:
    """Rank each task alone and yield row, nucleus, reason, ordered candidates, codes and earlier placements."""
    for row, task in enumerate(task_cycle.work.tasks.jeditaskid.tolist()):
        result, before, nucleus = task_cycle.result(row), task_cycle.placed_before(row), None
        if len(result.feasible):
            fraction = np.random.default_rng([seed, STREAM, task]).random()
            nucleus = int(result.feasible[drawn(result.weight, fraction)])
            task_cycle.place(row, nucleus)
        ranks = range(len(result.feasible))
        order = sorted(ranks, key=lambda rank: (result.feasible[rank] != nucleus, -result.weight[rank], rank))
        bits = result.feasible[order].tolist(), result.weight[order].tobytes()
        yield row, nucleus, result.reason, bits, decisive_position(task_cycle, result).tolist(), before.tobytes()


def decide(mode: str, seed: int, *arguments: Any, **options: Any) -> list[Any]:
    """Return the contents of each task, decided with or without the loop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "mode", mode)
        # small blocks, so that placements carry over from block to block
        patch.setattr(assign, "BLOCK", 5)
        return [task_contents(task) for task in assign_tasks(random_cycle(seed, *arguments, **options), seed)]


GIVEN = given(
    seed=st.integers(0, 2**31),
    count=st.integers(1, 17),
    special_values=st.booleans(),
    below_least=st.sampled_from(("as_least", "one")),
    independent=st.booleans(),
    least=st.sampled_from((0.3, 3.0, LEAST_HS06S, 1e4)),
)


@settings(max_examples=25, deadline=None)
@GIVEN
def test_a_block_is_decided_like_its_tasks_one_by_one(
    seed: int, count: int, special_values: bool, below_least: str, independent: bool, least: float
) -> None:
    arguments = (seed, count, special_values, below_least, least)
    blocks = decide("never", *arguments, independent=independent)
    singles = one_by_one(random_cycle(*arguments, independent=independent), seed)
    for (row, nucleus, plain, bits, position, placed), expected in zip(blocks, singles, strict=True):
        assert (row, nucleus, plain[2], bits[:2], position[1], placed) == expected


@pytest.fixture(scope="module")
def compiler(compiled_loop: None) -> None:
    pytest.importorskip("numba", reason="there is no compiler for this machine")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@GIVEN
def test_the_compiled_loop_decides_like_python(
    compiler: None, seed: int, count: int, special_values: bool, below_least: str, independent: bool, least: float
) -> None:
    arguments = (seed, count, special_values, below_least, least)
    assert decide("always", *arguments, independent=independent) == decide("never", *arguments, independent=independent)


def test_a_cycle_calls_the_signature_that_was_compiled_ahead(compiler: None) -> None:
    from broker.engine.compiled.nuclei import call_first, place_all

    call_first()
    decide("always", 7, 12, True, "one")
    assert len(place_all.signatures) == 1  # type: ignore[attr-defined]  # a cycle with other types would compile again


class Idle(NucleusLoadWeight):
    """A plugin rule."""

    name = code = "idle"
    title = "idle"

    def factor(self, remaining_work_hs06s: Floats) -> Floats:
        return np.asarray(1.0 / (1.0 + remaining_work_hs06s))


@pytest.mark.parametrize("rule", [Idle(), Derived()])
def test_a_rule_unknown_to_the_loop_is_run_in_python(rule: NucleusLoadWeight) -> None:
    tunings = {known_rule.name: Tuning.defaults().only(()) for known_rule in (RemainingWork(), rule)}
    assert numbered((RemainingWork(), rule), tunings) is None
    assert numbered((RemainingWork(),), tunings) is not None


def test_the_loop_of_tasks_is_loaded_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of tasks is loaded later than that of chunks, and sooner if the compiler is already loaded."""
    monkeypatch.setattr(loading, "mode", "where it pays")
    monkeypatch.setattr(loading, "is_compiled", lambda: True)
    monkeypatch.setattr(loading, "_tasks_seen", 0)
    monkeypatch.setattr(loading, "_COMPILER", "not_loaded_by_anybody")
    assert loading.load_compiled_task_loop(loading.TASKS_THAT_PAY_THEN) is None
    assert (
        loading.load_compiled_task_loop(loading.TASKS_THAT_PAY) is None
    )  # enough tasks, but the compiler does not exist
    monkeypatch.setattr(loading, "_tasks_seen", 0)
    monkeypatch.setattr(loading, "_COMPILER", "numpy")
    monkeypatch.setattr(loading, "_read_modules", {})
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(loading, "_OF_TASKS", "tests.engine.quick_loop")
    assert loading.load_compiled_task_loop(loading.TASKS_THAT_PAY_THEN - 1) is None
    assert loading.load_compiled_task_loop(1).__name__ == "tests.engine.quick_loop"  # type: ignore[union-attr]
