from __future__ import annotations

import ctypes
import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from benchmarks.flow_problems import grid_problem
from broker.domain.queue_capacity import QueueSums
from broker.flow.model import program
from broker.flow.model.cycle import LEFT_OVER, binding, broken_limits, damped, decide, greedy
from broker.flow.model.flow_problem import learned_queues
from broker.flow.model.problem import (
    SEGMENTS,
    FlowChunks,
    FlowCosts,
    FlowPairs,
    FlowProblem,
    FlowQueues,
    pair_costs,
    segment_size,
    segment_waits,
    unplaced_costs,
)
from broker.flow.model.program import FlowProgram
from broker.gdpconfig import Tuning
from broker.snapshot.sources.queue_capacity import QUEUE_CAPACITY


def problem(jobs: list[int], rooms: list[float], **changes: object) -> FlowProblem:
    """Chunks of 8-core jobs of one hour at queues of core power 10; all pairs feasible, one share."""
    chunks, queues = len(jobs), len(rooms)
    base = FlowProblem(
        chunks=FlowChunks(
            np.arange(chunks), np.array(jobs), np.full(chunks, 8.0), np.full(chunks, 288_000.0), np.full(chunks, 10.0),
            np.zeros(chunks, dtype=np.int64), np.full(chunks, 500.0),
        ),
        queues=FlowQueues(
            np.full(queues, 10.0), np.ones(queues), np.zeros(queues), np.full(queues, 800.0), np.zeros(queues),
            np.array(rooms)[:, None], np.arange(queues),
        ),
        pairs=FlowPairs(
            np.repeat(np.arange(chunks), queues), np.tile(np.arange(queues), chunks), np.zeros(chunks * queues),
            np.full(chunks * queues, 0.1), np.full(chunks * queues, -1),
        ),
        link_gb=np.full(queues, 1e9),
        output_jobs=np.empty(0),
        share_debt_hs06=np.zeros(1),
        costs=FlowCosts(),
    )  # fmt: skip
    pairs = {name: value for name, value in changes.items() if name in ("missing", "output")}
    others = {name: value for name, value in changes.items() if name not in pairs}
    return dataclasses.replace(base, pairs=dataclasses.replace(base.pairs, **pairs), **others)  # type: ignore[arg-type]


def test_the_cost_of_a_job_is_its_time_and_its_bytes() -> None:
    # 8 cores x 10 HS06 x 1 h, and 10 GB: 100 s of 8 cores, and 5 HS06 h per GB
    costs = pair_costs(problem([1], [9.0, 9.0], missing=np.array([0.0, 1.0])))
    assert costs == pytest.approx([80.0, 80.0 + 8 * 10 * 100 / 3600 + 50.0])


@pytest.mark.parametrize(("priority", "hours"), [(0.0, 48.0), (500.0, 72.0), (1000.0, 96.0), (-5.0, 48.0)])
def test_leaving_a_job_over_costs_more_with_priority(priority: float, hours: float) -> None:
    flow_problem = problem([1], [9.0, 9.0])
    flow_problem = dataclasses.replace(
        flow_problem, chunks=dataclasses.replace(flow_problem.chunks, priority=np.array([priority]))
    )
    assert unplaced_costs(flow_problem) == pytest.approx([hours * 80])


def test_leaving_a_job_over_costs_more_than_any_feasible_place() -> None:
    flow_problem = problem([1], [9.0, 9.0], missing=np.ones(2))
    expensive = dataclasses.replace(flow_problem, costs=FlowCosts(byte_hs06h_gb=10_000.0))
    assert unplaced_costs(expensive)[0] > pair_costs(expensive).max()
    assert decide(expensive, 1).left.tolist() == [0]


@pytest.mark.parametrize(("room", "placed"), [(4.0, 8), (5.0, 10), (6.0, 10), (0.0, 0)])
def test_room_limits_the_jobs_of_a_share_at_a_queue(room: float, placed: int) -> None:
    result = decide(problem([10], [room, room]), 1)
    assert result.jobs.sum() == placed and result.left.tolist() == [10 - placed]
    assert (result.jobs <= room).all()


@pytest.mark.parametrize(("gb", "moved"), [(0.0, 0), (29.0, 2), (30.0, 3), (1000.0, 5)])
def test_a_link_takes_no_more_bytes_than_its_window(gb: float, moved: int) -> None:
    # 10 GB per job to the second queue; the first has room for one job, so the others move or are left over
    flow_problem = problem([6], [1.0, 9.0], missing=np.array([0.0, 1.0]), link_gb=np.array([0.0, gb]))
    result = decide(flow_problem, 1)
    assert result.jobs.tolist() == [1, moved]


@pytest.mark.parametrize(("files", "sent"), [(0.0, 0), (2.0, 2), (99.0, 6)])
def test_output_links_take_files_until_their_cap(files: float, sent: int) -> None:
    flow_problem = problem([6], [9.0, 0.0], output=np.array([0, 0]), output_jobs=np.array([files]))
    assert decide(flow_problem, 1).jobs.tolist() == [sent, 0]


def test_bytes_are_moved_only_when_the_wait_is_worth_it() -> None:
    def moved(price: float) -> int:
        flow_problem = problem([60], [99.0, 99.0], missing=np.array([0.0, 1.0]), costs=FlowCosts(byte_hs06h_gb=price))
        return int(decide(flow_problem, 1).jobs[1])

    assert moved(0.0) > moved(10.0) >= moved(200.0) == 0


def test_a_share_in_debt_goes_to_the_stronger_queue_first() -> None:
    flow_problem = problem([10, 10], [10.0, 10.0])
    power = np.array([10.0, 12.0])
    flow_problem = dataclasses.replace(
        flow_problem,
        chunks=dataclasses.replace(flow_problem.chunks, share=np.array([0, 1])),
        queues=dataclasses.replace(flow_problem.queues, corepower=power, room=np.array([[0.0, 0.0], [10.0, 10.0]])),
        share_debt_hs06=np.array([0.0, 800.0]),
    )
    result = decide(flow_problem, 1)
    assert result.charges["share_debt"][[1, 3]].tolist() == [0.0, 0.0]
    assert result.jobs.sum() == 20


def test_columns_by_price_reach_the_optimum_of_the_whole_program() -> None:
    """All columns at once, by another solver interface, cost the same as columns by price."""
    from scipy.optimize import linprog

    flow_problem = grid_problem(25, 12, seed=4)
    program = FlowProgram(flow_problem)
    solution = program.solve()
    pairs, chunks, queues, rows = flow_problem.pairs, flow_problem.chunks, flow_problem.queues, program.rows
    n, k, q, s = len(pairs), len(chunks), len(queues), len(flow_problem.share_debt_hs06)
    total = n + q * SEGMENTS + k + s
    equal, above = np.zeros((k + q, total)), np.zeros((len(rows.room) + len(flow_problem.link_gb) + 30 + s, total))
    equal[pairs.chunk, np.arange(n)] = 1
    equal[np.arange(k), n + q * SEGMENTS + np.arange(k)] = 1
    equal[k + pairs.queue, np.arange(n)] = chunks.cores[pairs.chunk]
    equal[k + np.repeat(np.arange(q), SEGMENTS), n + np.arange(q * SEGMENTS)] = -1
    above[rows.room_of, np.arange(n)] = 1
    link = len(rows.room)
    above[link + rows.link_of[rows.link_of >= 0], np.flatnonzero(rows.link_of >= 0)] = rows.gb[rows.link_of >= 0]
    output = link + len(flow_problem.link_gb)
    above[output + pairs.output[pairs.output >= 0], np.flatnonzero(pairs.output >= 0)] = 1
    share = output + 30
    above[share + chunks.share[pairs.chunk], np.arange(n)] = -chunks.cores[pairs.chunk] * queues.corepower[pairs.queue]
    above[share + np.arange(s), total - s + np.arange(s)] = -1
    size = np.full((q, SEGMENTS), np.inf)
    size[:, :-1] = segment_size(flow_problem)[:, None]
    cost = np.concatenate(
        [
            pair_costs(flow_problem),
            segment_waits(flow_problem).reshape(-1),
            unplaced_costs(flow_problem),
            np.full(s, 10.0),
        ]
    )
    demand = np.bincount(chunks.share, weights=chunks.jobs * chunks.cores * 10.0, minlength=s)
    limits = [
        rows.room,
        flow_problem.link_gb,
        flow_problem.output_jobs,
        -np.clip(flow_problem.share_debt_hs06, 0, demand),
    ]
    bounds = [(0, None)] * n + [(0, end) for end in size.reshape(-1)] + [(0, None)] * (k + s)
    right = np.concatenate([chunks.jobs, np.zeros(q)])
    whole = linprog(cost, above, np.concatenate(limits), equal, right, bounds)
    assert solution.status == "optimal" and whole.status == 0
    assert solution.cost == pytest.approx(whole.fun, rel=1e-7)
    assert solution.columns < n, "not all columns were needed"


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 60), st.integers(2, 25), st.integers(0, 10_000))
def test_no_limit_is_broken_and_chosen_pairs_have_no_reduced_cost(chunks: int, queues: int, seed: int) -> None:
    flow_problem = grid_problem(chunks, queues, seed)
    program = FlowProgram(flow_problem)
    result = decide(flow_problem, seed, time_limit_s=60.0)
    assert result.fallback == ""
    assert broken_limits(flow_problem, program.rows, result.jobs) == 0
    assert (result.left >= 0).all() and result.gap >= -1e-9
    assert result.linear is not None
    used = result.linear.amount > 1e-6
    scale = np.maximum(1.0, np.abs(result.linear.prices.chunk[flow_problem.pairs.chunk]))
    assert (np.abs(result.reduced_hs06h[used]) <= 1e-5 * scale[used]).all()
    assert (result.reduced_hs06h >= -1e-5 * scale).all()


def test_the_same_problem_and_seed_give_bitwise_the_same_result() -> None:
    flow_problem = grid_problem(120, 40, seed=2)
    first, second = decide(flow_problem, 5, time_limit_s=60.0), decide(flow_problem, 5, time_limit_s=60.0)
    assert first.jobs.tobytes() == second.jobs.tobytes()
    assert first.reduced_hs06h.tobytes() == second.reduced_hs06h.tobytes()
    assert first.linear is not None and first.linear.solver.startswith("HiGHS 1.")
    assert decide(flow_problem, 6, time_limit_s=60.0).jobs.tobytes() != first.jobs.tobytes(), (
        "rounding is drawn by seed"
    )


def test_past_the_time_limit_the_greedy_fallback_decides_and_is_reported() -> None:
    flow_problem = grid_problem(120, 40, seed=2)
    result = decide(flow_problem, 5, time_limit_s=0.0)
    program = FlowProgram(flow_problem)
    assert (result.fallback, result.linear) == ("time_limit", None)
    assert result.jobs.sum() > 0 and broken_limits(flow_problem, program.rows, result.jobs) == 0
    assert result.jobs.tobytes() == greedy(flow_problem, program).tobytes()


@pytest.mark.slow
def test_rounding_to_whole_jobs_costs_at_most_a_percent() -> None:
    flow_problem = grid_problem(1000, 165, seed=1)
    result = decide(flow_problem, 1, time_limit_s=300.0)
    assert result.fallback == "" and 0.0 < result.gap <= 0.01
    assert broken_limits(flow_problem, FlowProgram(flow_problem).rows, result.jobs) == 0


@pytest.mark.parametrize(
    ("flow_problem", "pair", "cause"),
    [
        # the better queue is full, and nothing is left over
        (problem([10], [5.0, 9.0], missing=np.array([0.0, 1.0])), 0, "queue_full"),
        (problem([10], [5.0, 4.0], missing=np.array([0.0, 1.0])), 0, LEFT_OVER),
        (problem([10], [99.0, 99.0], missing=np.array([0.0, 1.0])), 1, "time_and_bytes"),
    ],
)
def test_why_not_names_the_binding_limit(flow_problem: FlowProblem, pair: int, cause: str) -> None:
    assert binding(decide(flow_problem, 1), flow_problem, pair) == cause


def test_prices_are_damped() -> None:
    assert damped(None, np.array([4.0]), 0.5).tolist() == [4.0]
    assert damped(np.array([0.0]), np.array([4.0]), 0.75).tolist() == [1.0]


def swing(damping: float, counters: bool) -> float:
    """The largest gap in cores between two equal queues, late in a run that reads them every fifth cycle only."""
    waiting, reading, smooth = np.array([1600.0, 0.0]), np.array([1600.0, 0.0]), None
    since, gaps = np.zeros(2), []
    for cycle in range(80):
        if cycle % 5 == 0:
            reading, since = waiting.copy(), np.zeros(2)
        smooth = damped(smooth, reading + since, damping)
        flow_problem = problem([20], [999.0, 999.0])
        result = decide(
            dataclasses.replace(flow_problem, queues=dataclasses.replace(flow_problem.queues, waiting_cores=smooth)),
            cycle,
        )
        waiting = np.maximum(0.0, waiting + result.jobs * 8.0 - 80.0)
        if counters:
            since += result.jobs * 8.0
        gaps.append(abs(waiting[0] - waiting[1]))
    return max(gaps[40:])


@pytest.mark.slow
def test_stale_queues_do_not_swing() -> None:
    a_cycle = 20 * 8.0
    # own counters keep the queues within one cycle's work, and within two with damping
    assert swing(0.0, counters=True) <= a_cycle and swing(0.5, counters=True) <= 2 * a_cycle
    # without them every reading sends five cycles' work to one side
    assert swing(0.0, counters=False) >= 4 * a_cycle


@pytest.mark.parametrize("many_columns", [10, 6_000], ids=["rough prices first", "simplex at once"])
def test_the_solver_prints_nothing(
    many_columns: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "MANY_COLUMNS", many_columns)
    assert decide(grid_problem(60, 20, 1), 1).jobs.sum() > 0
    ctypes.CDLL(None).fflush(None)  # output buffered by C
    assert capfd.readouterr() == ("", "")


def queues_with_records(offered: dict[str, QueueSums], **keys: float | bool) -> FlowQueues:
    """Three queues with 10, 10 and 0 running cores and 5 waiting cores each, adjusted by records."""
    names = SimpleNamespace(name=np.array(["A", "B", "C"], dtype=object))
    snapshot = SimpleNamespace(unified=names, offered={QUEUE_CAPACITY: offered})
    three = np.ones(3)
    queues = FlowQueues(
        10 * three, three, 0 * three, np.array([10.0, 10.0, 0.0]), 5 * three, three[:, None], np.arange(3)
    )
    tuning = Tuning.defaults().with_values({"LEARNED_CAPACITY": True, **keys})
    return learned_queues(queues, snapshot, tuning)  # type: ignore[arg-type]


def test_cores_that_ran_before_count_as_free() -> None:
    queues = queues_with_records(
        {"A": QueueSums(most_cores=30.0, hours=6), "C": QueueSums(most_cores=8.0, hours=10**6)}
    )
    assert queues.running_cores == pytest.approx([20.0, 10.0, 8.0], abs=1e-3)
    assert queues.waiting_cores == pytest.approx([-5.0, 5.0, -3.0], abs=1e-3)


@pytest.mark.parametrize("keys", [{"LEARNED_CAPACITY": False}, {}])
def test_without_the_key_or_a_record_nothing_is_learned(keys: dict[str, bool]) -> None:
    queues = queues_with_records({} if not keys else {"A": QueueSums(most_cores=30.0, hours=6, failed=9)}, **keys)
    assert queues.running_cores.tolist() == [10.0, 10.0, 0.0] and queues.failure.tolist() == [0.0] * 3


def test_failures_and_slow_jobs_make_a_queue_more_expensive() -> None:
    queues = queues_with_records(
        {"A": QueueSums(finished=20, failed=60), "B": QueueSums(ratio_jobs=980, ratio_ln_sum=686.0)}
    )
    assert queues.failure == pytest.approx([0.615, 0.075, 0.075])
    assert queues.efficiency == pytest.approx([1.0, 0.504, 1.0], abs=1e-3)
