"""The compiled loop gives the same result as the rules and steps in Python, to the bit."""

from __future__ import annotations

import dataclasses
from copy import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from broker.brokerages.job import assign_compiled
from broker.brokerages.job.assign import assign_chunks
from broker.brokerages.job.assigned import AssignedChunk
from broker.domain.decisions import DecisionRecord
from broker.engine.analysis.cycle import AnalysisCycle
from broker.engine.compiled import loading
from broker.engine.compiled.loop_parts import moving_steps
from broker.engine.shared.chain import QueueChain
from broker.gdpconfig import Tuning
from broker.rules.contract import Load, LoadCut
from broker.rules.production_job.cuts.cap import SHIPPED_CAP, Cap
from broker.rules.production_job.cuts.one_nucleus_queue import OneNucleusQueue
from broker.rules.production_job.weights.running_queued import RunningQueued
from broker.rules.shared.cuts.below_min_weight import BelowMinWeight
from broker.store.decisions.decision_writing import packed
from tests.brokerages.job.random_analysis import random_analysis
from tests.brokerages.job.random_cycles import random_cycle
from tests.engine.toy_rules import FewerQueued

pytestmark = pytest.mark.slow

CUTS: dict[str, tuple[LoadCut, ...]] = {
    "shipped": (Cap(), BelowMinWeight()),
    "other order, defined jobs do not wait": (BelowMinWeight(), Cap().configured({"defined_wait": False})),
    "none": (),
}
#: Constants for the compiled steps of rules: some cause rounding, some change nearly every decision.
CONSTANTS = st.sampled_from([0.1, 0.5, 1.0, 1.7, 2.0, 3.3, 20.0, 41.0])


def cuts_with(cuts: str, times_running: float) -> tuple[LoadCut, ...]:
    """Return the named cuts with another constant for the cap."""
    rules = tuple(copy(rule) for rule in CUTS[cuts])
    for rule in rules:
        if isinstance(rule, Cap):
            rule.times_running = times_running
    return rules


class Derived(RunningQueued):
    """A derived rule that counts running jobs twice and declares no compiled step."""

    def factor(self, load: Load) -> Any:
        return super().factor(load) * 2.0


def chunk_contents(chunk: AssignedChunk, names: Any) -> tuple[Any, ...]:
    """Return everything that is stored for a chunk, with the bits of its figures."""
    decision = chunk.decision
    stored = dataclasses.replace(packed([DecisionRecord(decision, chunk.assigned(names), None)])[0], record=None)  # type: ignore[arg-type]
    columns = {field.name: getattr(chunk.jobs, field.name) for field in dataclasses.fields(chunk.jobs)}
    bits = {name: (str(column.dtype), column.tobytes()) for name, column in columns.items()}
    plain = decision.outcome, decision.reason, dict(decision.rejected), tuple(decision.funnel)
    return chunk.row, plain, stored, chunk.candidate.tobytes(), bits, chunk.before.stored()


def decide(mode: str, make: Any, seed: int, *arguments: Any) -> tuple[list[Any], list[Any]]:
    """Return the contents of each chunk, decided with or without the loop, and the final counters of the cycle."""
    cycle, work = make(seed, *arguments)
    names = cycle.snapshot.queues.name
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "mode", mode)
        assert (assign_compiled.compiled_cycle(cycle, work, seed) is not None) == (mode == "always")
        contents = [chunk_contents(chunk, names) for chunk in assign_chunks(cycle, work, seed)]
    assert not cycle.faults
    state = cycle.moving_state
    assert state is not None
    counters = [state.placed.tolist(), state.moved.tolist()]
    if isinstance(cycle, AnalysisCycle):
        counters.extend(column.tolist() for column in cycle.user_state)
    return contents, counters


def compare(make: Any, *arguments: Any) -> None:
    in_python, python_counters = decide("never", make, *arguments)
    compiled, compiled_counters = decide("always", make, *arguments)
    for expected, actual in zip(in_python, compiled, strict=True):
        assert expected == actual
    assert python_counters == compiled_counters


@pytest.fixture(scope="module")
def compiler(compiled_loop: None) -> None:
    pytest.importorskip("numba", reason="the extra fast is not installed")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**31),
    count=st.integers(1, 90),
    queues=st.integers(1, 24),
    cuts=st.sampled_from(sorted(CUTS)),
    constants=st.tuples(CONSTANTS, CONSTANTS, CONSTANTS),
)
def test_decisions_draws_and_jobs_equal_those_of_python(
    compiler: None, seed: int, count: int, queues: int, cuts: str, constants: tuple[float, float, float]
) -> None:
    times_running, *weight_constants = constants
    compare(random_cycle, seed, count, queues, cuts_with(cuts, times_running), tuple(weight_constants))


def random_probes(seed: int, *arguments: Any) -> Any:
    """Make a random cycle with queues that get one job per chunk, and chunks with a single pre-assigned queue."""
    cycle, work = random_cycle(seed, *arguments)
    random = np.random.default_rng(seed)
    cycle.job_groups = random.choice([-3, -1, 0, 4], len(cycle.job_groups))
    cycle.with_one_queue = random.random(len(cycle.with_one_queue)) < 0.3
    return cycle, work


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**31), count=st.integers(1, 90), queues=st.integers(1, 24))
def test_probe_jobs_equal_those_of_python(compiler: None, seed: int, count: int, queues: int) -> None:
    compare(random_probes, seed, count, queues, CUTS["none"], (1.0, 2.0))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**31),
    count=st.integers(1, 90),
    queues=st.integers(1, 24),
    cuts=st.sampled_from(((BelowMinWeight(),), ())),
    new_weight=st.booleans(),
    constants=st.tuples(CONSTANTS, CONSTANTS),
)
def test_user_figures_move_as_in_python(
    compiler: None,
    seed: int,
    count: int,
    queues: int,
    cuts: tuple[LoadCut, ...],
    new_weight: bool,
    constants: tuple[float, float],
) -> None:
    compare(random_analysis, seed, count, queues, cuts, new_weight, constants)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 127, 128, 129, 257, 1_000, 4_097])
def test_sums_equal_those_of_numpy(compiler: None, size: int) -> None:
    from broker.engine.compiled.users import added_up

    column = np.random.default_rng(size).random(size) * 10.0 ** np.arange(size % 7 + 1).repeat(size)[:size]
    assert added_up(column) == column[None, :].sum(axis=1)[0]


@given(words=st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4), sizes=st.lists(st.integers(1, 11)))
def test_the_random_stream_equals_that_of_numpy(compiler: None, words: list[int], sizes: list[int]) -> None:
    from broker.engine.compiled import random_stream

    state, expected = np.empty(6, dtype=np.uint64), np.random.default_rng(tuple(words))
    random_stream.seeded(np.array(words, dtype=np.int64), state)
    for size in sizes:
        assert random_stream.below(state, size) == expected.integers(size)
        assert random_stream.fraction(state) == expected.random()


@pytest.mark.parametrize("rule", [FewerQueued(), Derived(), OneNucleusQueue(), Cap().configured({"at_ucore": False})])
def test_a_rule_unknown_to_the_loop_is_run_in_python(rule: Any) -> None:
    weights, cuts = ((), (rule,)) if isinstance(rule, LoadCut) else ((rule,), ())
    assert moving_steps(QueueChain("toy", (), (), weights, cuts), Tuning.defaults(), SHIPPED_CAP) is None


def test_a_cycle_calls_the_signature_that_was_compiled_ahead(compiler: None) -> None:
    from broker.compilation import warm_up
    from broker.engine.compiled.placing import placed_until

    warm_up.compile_all()
    decide("always", random_cycle, 7, 40, 12, CUTS["shipped"])
    decide("always", random_analysis, 7, 40, 12, CUTS["none"], True)
    assert len(placed_until.signatures) == 1  # type: ignore[attr-defined]  # a cycle with other types would compile again


def random_capacity(seed: int, *arguments: Any) -> Any:
    """Make a random cycle in which some queues have learned cores that are free now."""
    cycle, work = random_cycle(seed, *arguments)
    random = np.random.default_rng(seed)
    free = random.choice([0.0, 1.0, 7.0, 300.0], len(cycle.snapshot.queues))
    cycle._grid = dataclasses.replace(cycle._grid, learned_free=free)
    return cycle, work


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**31), count=st.integers(1, 90), queues=st.integers(1, 24))
def test_free_learned_cores_count_as_in_python(compiler: None, seed: int, count: int, queues: int) -> None:
    compare(random_capacity, seed, count, queues, CUTS["shipped"], (1.0, 2.0))
