"""The analysis cycle without a database: passes, throttles, and jobs that the cycle itself has placed."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from broker.brokerages.analysis_job.brokerage import chain
from broker.domain.analysis import FIGURES, AnalysisFacts, AnalysisGrid, OwnerJobs
from broker.domain.arrays import Bools
from broker.domain.work import Work
from broker.engine.analysis.cycle import AnalysisCycle
from broker.engine.analysis.facts import PASS_FACTS
from broker.gdpconfig.tuning import Tuning
from broker.rules.contract import AnalysisPairs, Filter, Observation, number
from broker.snapshot.snapshot import Snapshot
from tests.brokerages.job.random_analysis import random_analysis
from tests.engine.analysis.analysis_requests import READS, reading_grid, requests
from tests.engine.small_work import Dataset, replica, work_of
from tests.rules.builders import GB
from tests.snapshot.raw_grid import NOW, TYPES, endpoint, jobs, queue, uses

pytestmark = pytest.mark.usefixtures("blocks")

NOW_S = NOW.timestamp()
TASK = {
    "prodsourcelabel": "user",
    "username": "ann",
    "gshare": "X",
    "cloud": None,
    "nucleus": None,
    "taskpriority": 500,
}
AT_A, AT_B, AT_C = (Dataset([replica(f"DISK_{name}")]) for name in "ABC")


def grid(closed: str = "", owners: AnalysisGrid | None = None, **tables: Any) -> Snapshot:
    """A, B and C each read a separate disk; the queues in ``closed`` are not online."""
    return reading_grid(
        owners,
        **{
            "schedconfig_json": [
                queue(name, type="analysis", releases=["ANY"], status="brokeroff" if name in closed else "online")
                for name in "ABC"
            ],
            "resource_types": [dict(row) for row in TYPES],
            "ddm_endpoint": [endpoint(f"DISK_{name}", "S") for name in "ABC"],
            "panda_ddm_relation": [uses(name, f"DISK_{name}") for name in "ABC"],
            "sitedata": [
                {"site": name, "flag": "production", "hours": 3, "getjob": 2, "updatejob": 3} for name in "ABC"
            ],
            **tables,
        },
    )


def work(*datasets: Sequence[Dataset], request_columns: dict[str, Any] | None = None, **columns: Any) -> Work:
    """A chunk for each list of datasets."""
    plain = work_of(*datasets, chunks={**TASK, **columns})
    return Work(
        plain.chunks, plain.inputs, plain.replicas, analysis_request=requests(len(datasets), **(request_columns or {}))
    )


def cycle(chunks: Work, snapshot: Snapshot | None = None, *, independent: bool = False, **tuning: Any) -> AnalysisCycle:
    values = Tuning.defaults(vo="atlas").with_values(tuning)
    return AnalysisCycle(snapshot or grid(), chunks, values, chain(), independent=independent)


def weights_by_candidate(analysis_cycle: AnalysisCycle) -> list[dict[str, float]]:
    """The candidates of each chunk with their weights."""
    rows = []
    for result in analysis_cycle.results():
        ranking = result.ranking
        weight = [] if ranking is None else ranking.weight[ranking.chosen].tolist()
        names = [str(name) for name in analysis_cycle.snapshot.queues.name[result.chosen]]
        rows.append(dict(zip(names, weight, strict=True)))
    assert not analysis_cycle.faults, analysis_cycle.faults
    return rows


def test_the_input_decides_for_each_chunk_separately() -> None:
    analysis_cycle = cycle(work([AT_A], [AT_B], [AT_C]))
    assert weights_by_candidate(analysis_cycle) == [{"A": 1.0}, {"B": 1.0}, {"C": 1.0}]


def test_only_chunks_that_need_a_second_pass_get_one() -> None:
    """A is closed; only the chunks with input there look elsewhere, whatever their block."""
    analysis_cycle = cycle(work([AT_B], [AT_A], [AT_C], [AT_A]), grid("A"))
    elsewhere = {"B": 1.0, "C": 1.0}
    assert weights_by_candidate(analysis_cycle) == [{"B": 1.0}, elsewhere, {"C": 1.0}, elsewhere]


def test_the_facts_that_differ_between_passes() -> None:
    analysis_cycle = cycle(work([AT_A]))
    known, later = analysis_cycle._analysis_facts._of_pass(slice(0, 1), np.ones((1, 1), dtype=np.bool_))
    assert {*known, *later} == set(PASS_FACTS)


def test_without_a_source_over_wan_there_is_no_second_pass() -> None:
    off = '{"read_wan": "OFF"}'
    disks = [endpoint("DISK_A", "S", detailed_status=off), endpoint("DISK_B", "S"), endpoint("DISK_C", "S")]
    assert weights_by_candidate(cycle(work([AT_A], [AT_B]), grid("A", ddm_endpoint=disks))) == [{}, {"B": 1.0}]


LIMITS = {"IO_INTENSITY_CUTOFF_USER": 100, "DATA_CHECK_TIMEOUT_USER": 48}
HOUR = 3600.0


@pytest.mark.parametrize(
    ("columns", "tuning", "checked"),
    [
        ({"taskpriority": 1999}, {}, True),
        ({"taskpriority": 2000}, {}, False),
        ({"taskpriority": None}, {}, True),
        ({"iointensity": 100}, LIMITS, False),
        ({"iointensity": 100.5}, LIMITS, True),
        ({"iointensity": 0}, LIMITS, True),
        ({"iointensity": None}, LIMITS, True),
        ({"iointensity": 1}, {}, True),
        ({"frozentime_s": NOW_S - 48 * HOUR - 1}, LIMITS, False),
        ({"frozentime_s": NOW_S - 48 * HOUR}, LIMITS, True),
        ({"frozentime_s": None}, LIMITS, True),
        ({"frozentime_s": 0.0}, {}, True),
    ],
)
def test_when_the_locality_check_is_suppressed(columns: dict[str, Any], tuning: dict[str, Any], checked: bool) -> None:
    (row,) = weights_by_candidate(cycle(work([AT_A], **columns), **tuning))
    assert row == ({"A": 1.0} if checked else {"A": 1.0, "B": 1.0, "C": 1.0})


def test_local_gib_count_where_the_locality_check_is_suppressed() -> None:
    """15 GiB at A: 1 + 15 / 10."""
    big = Dataset([replica("DISK_A", files=15 * GB / 100)], files=15 * GB / 100)
    assert weights_by_candidate(cycle(work([big], taskpriority=2000))) == [{"A": 2.5, "B": 1.0, "C": 1.0}]


def test_placed_jobs_count_for_the_share_and_its_chunks_only() -> None:
    everywhere = [Dataset([replica(f"DISK_{name}") for name in "ABC"])]
    chunks = work(*[everywhere] * 4, gshare=["X", "Y", "X", "X"])
    analysis_cycle = cycle(chunks)
    weights = []
    for result in analysis_cycle.results():
        ranking = result.ranking
        assert ranking is not None
        at_a = result.feasible.tolist().index(0)
        weights.append(ranking.weight[at_a])
        analysis_cycle.add_load(result.row, np.array([0]), np.array([4]))
    # 1 / (waiting + 1): no jobs wait, none of its share, 4 of the first chunk, and 4 more of the third
    assert weights == [1.0, 1.0, 1 / 5, 1 / 9]
    assert cycle(chunks, independent=True).load_before(3).of_share == {}


def test_a_queue_filled_by_the_cycle_is_rejected_with_a_reason() -> None:
    """41 jobs of the share and type exceed 2 x 20; for another type they weigh but do not count to the cap."""
    chunks = work([AT_A], [AT_A], [AT_A], resource_type=["SCORE", "MCORE", "SCORE"], username=["ann", "bob", "cec"])
    analysis_cycle = cycle(chunks)
    results = analysis_cycle.results()
    first = next(results)
    analysis_cycle.add_load(first.row, np.array([0]), np.array([41]))
    second, third = next(results), next(results)
    assert [len(result.chosen) for result in (first, second, third)] == [1, 1, 0]
    codes = [rule.code for rule in analysis_cycle.chain.filters]
    inside = third.row - third.block.rows.start
    assert codes[third.block.evaluation.reason[inside, 0]] == "queue_cap"
    facts: Any = analysis_cycle.facts_at(third, np.array([0]))
    assert (facts.queued_of_type.item(), facts.defined.item(), facts.user_queued.item()) == (41, 41, 0)
    assert facts.users.item() == 1


class OneChunkEach(Filter[AnalysisPairs]):
    """A filter of a package, which the cycle asks again because the filter says so: no queue gets work twice."""

    name = code = "one_chunk_each"
    title = "The cycle has placed nothing at the queue"
    moving = True

    def keep(self, pairs: AnalysisPairs) -> Bools:
        return np.asarray(pairs.facts.defined == 0)

    def observe(self, pairs: AnalysisPairs) -> Observation:
        return Observation(number(pairs.facts.defined), "==", 0.0, "jobs", "rule")


def test_a_filter_that_declares_it_judges_again_what_the_cycle_has_placed() -> None:
    def second_chosen(rule: OneChunkEach) -> int:
        rules = dataclasses.replace(chain(), filters=(*chain().filters, rule))
        analysis_cycle = AnalysisCycle(grid(), work([AT_A], [AT_A]), Tuning.defaults(vo="atlas"), rules)
        results = analysis_cycle.results()
        analysis_cycle.add_load(next(results).row, np.array([0]), np.array([1]))
        return len(next(results).chosen)

    resting = type("Resting", (OneChunkEach,), {"moving": False})
    assert (second_chosen(OneChunkEach()), second_chosen(resting())) == (0, 1)


def test_a_restored_load_decides_as_the_counted_load() -> None:
    chunks = work([AT_A], [AT_A], [AT_A])
    counting, restored = cycle(chunks), cycle(chunks)
    for result in counting.results():
        counting.add_load(result.row, np.array([0]), np.array([30]))
        if result.row == 1:
            stored = counting.load_before(2)
    restored.set_load(2, stored)
    assert [row for row in weights_by_candidate(restored)][2] == {}
    assert restored.load_before(2) == stored


def test_a_throttled_chunk_gets_a_reason_and_no_candidates() -> None:
    owners = AnalysisGrid(of_user={"ann": OwnerJobs(running_jobs=4)})
    chunks = work([AT_A], [AT_A], [AT_A], username=["ann", "bob", "ann"], merging=[False, False, True])
    analysis_cycle = cycle(chunks, grid(owners=owners), CAP_RUNNING_USER_JOBS=3)
    results = list(analysis_cycle.results())
    assert [analysis_cycle.outcome(result.row, result.reason) for result in results] == [
        "throttled",
        "brokered",
        "brokered",
    ]
    assert results[0].reason == "throttled_running_jobs" and not len(results[0].chosen)
    assert analysis_cycle.remarks(0) == ("throttle:running_jobs:4:3:jobs:CAP_RUNNING_USER_JOBS",)


def test_the_new_weight_follows_the_room_that_is_left() -> None:
    """1 job to two queues of 100 each: (100 - 0.5) / (200 - 1); then 40 of the user wait at A."""
    both = [Dataset([replica("DISK_A"), replica("DISK_B")])]
    analysis_cycle = cycle(work(both, both), NEW_BASIC_WEIGHT=True)
    results = analysis_cycle.results()
    first = next(results)
    analysis_cycle.add_load(first.row, np.array([0]), np.array([40]))
    second = next(results)
    least = 2.0**-20
    assert first.ranking is not None and second.ranking is not None
    assert first.ranking.weight.tolist() == pytest.approx([99.5 / 199 + least] * 2)
    # 60 and 100 are left
    assert second.ranking.weight.tolist() == pytest.approx([59.5 / 159 + least, 99.5 / 159 + least])


def test_a_cloned_job_has_as_many_candidates_as_copies() -> None:
    names = [f"Q{number:02}" for number in range(13)]
    snapshot = grid(
        schedconfig_json=[queue(name, type="analysis", releases=["ANY"]) for name in names],
        panda_ddm_relation=[uses(name, "DISK_A") for name in names],
        sitedata=[{"site": name, "flag": "production", "hours": 3, "getjob": 1} for name in names],
    )
    request_columns = {"sites_per_job": np.array([1, 12, 13, 14])}
    rows = weights_by_candidate(cycle(work([AT_A], [AT_A], [AT_A], [AT_A], request_columns=request_columns), snapshot))
    assert [len(row) for row in rows] == [10, 12, 13, 0]


def test_a_full_queue_leaves_the_second_pass_alone() -> None:
    """Too many waiting jobs are a temporary issue: the chunk waits for A instead of going elsewhere."""
    waiting = [jobs("A", "activated", 41, gshare="X")]
    owners = AnalysisGrid(by_type={("X", "SCORE"): np.array([[41.0, 0, 0], [0, 0, 0]])})
    assert weights_by_candidate(cycle(work([AT_A]), grid(owners=owners, job_counts=waiting))) == [{}]


def test_work_without_the_columns_of_analysis_is_refused() -> None:
    with pytest.raises(ValueError, match="analysis"):
        cycle(work_of([AT_A], chunks=TASK))


def test_virtual_placement_only_reads() -> None:
    """A reads B's data by virtual placement, which a merge avoids."""
    snapshot = grid(
        ddm_endpoint=[*(endpoint(f"DISK_{name}", "S") for name in "ABC"), endpoint("A_VP_DISK", "S")],
        panda_ddm_relation=[*(uses(name, f"DISK_{name}") for name in "ABC"), uses("A", "A_VP_DISK", **READS)],
    )
    placed = [Dataset([replica("A_VP_DISK", is_vp=True), replica("TAPE", is_tape=True)])]
    assert weights_by_candidate(cycle(work(placed, placed, merging=[False, True]), snapshot))[0] == {"A": 1.0}


def test_the_figures_of_the_stabilizer_are_kept_for_the_candidates() -> None:
    analysis_cycle = cycle(work([AT_A]))
    (result,) = analysis_cycle.results()
    result_figures = analysis_cycle.figures_of(result)
    assert result_figures is not None
    shown, figures = result_figures
    assert shown.tolist() == result.chosen.tolist() != []
    assert figures.shape == (len(FIGURES), len(shown))


def facts_in_memory() -> int:
    return sum(type(item) is AnalysisFacts for item in gc.get_objects())


@pytest.mark.slow
def test_the_facts_of_a_block_are_freed_with_it() -> None:
    """Garbage collection is off while many cycles are replayed, so facts must not refer to themselves."""
    analysis_cycle, _ = random_analysis(1, 9, 5, (), True)
    gc.disable()
    try:
        before = facts_in_memory()
        block = analysis_cycle.evaluate_block(slice(0, 9))
        assert block.facts.can_be_throttled.shape == block.facts.initial.shape  # type: ignore[attr-defined]
        assert facts_in_memory() > before
        del block
        assert facts_in_memory() == before
    finally:
        gc.enable()


def placements_of(analysis_cycle: AnalysisCycle) -> list[tuple[str, list[str], Any]]:
    """The block reason, choice and counted load of each chunk, where each gives 25 jobs to its first candidate."""
    rows = []
    for result in analysis_cycle.results():
        names = [str(name) for name in analysis_cycle.snapshot.queues.name[result.chosen]]
        rows.append((analysis_cycle.blocked(result.row), names, analysis_cycle.load_before(result.row)))
        analysis_cycle.add_load(result.row, result.chosen[:1], np.array([25] * min(1, len(result.chosen))))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("new_weight", [False, True])
@pytest.mark.parametrize(
    ("values", "taken_over", "moves_alike"),
    [
        ({"OVERLOAD_MIN_QUEUE": 1}, True, True),
        ({"MIN_WEIGHT_user": 0.7}, True, True),
        ({"CAP_RUNNING_USER_JOBS": 1}, True, True),
        ({"IO_INTENSITY_CUTOFF_USER": 5.0}, False, False),
        ({"MAX_MISSING_INPUT_FILES_USER": 1}, False, False),
        ({"BASE_QUEUE_LENGTH_PER_PQ": 77}, False, False),
    ],
)
def test_a_cycle_beside_another_decides_as_a_fresh_one(
    values: dict[str, Any], taken_over: bool, moves_alike: bool, new_weight: bool
) -> None:
    template, _ = random_analysis(3, 40, 12, (), new_weight)
    snapshot, tuning = template._before_reading, template.tuning.with_values(values)
    rules, fresh = chain(), []
    for value in (template.tuning, tuning):
        fresh.append(AnalysisCycle(snapshot, template.work, value, rules))
    first, second = fresh
    placements_of(first)
    beside = first.beside(snapshot, template.work, tuning, rules)
    assert first.moves_alike(second) is moves_alike
    assert (beside is not None) is taken_over
    if beside is not None:
        assert beside._input is first._input
        assert placements_of(beside) == placements_of(second) and beside.legend == second.legend
    assert (
        first.beside(snapshot, template.work, tuning.with_values({"NEW_BASIC_WEIGHT": not new_weight}), rules) is None
    )
    assert first.beside(grid(), template.work, tuning, rules) is None


@pytest.mark.parametrize("new_weight", [False, True])
def test_updating_a_block_leaves_the_blocks_of_other_cycles_unchanged(new_weight: bool) -> None:
    analysis_cycle, _ = random_analysis(3, 40, 12, (), new_weight)
    block = analysis_cycle.evaluate_block(slice(0, 40))
    own = analysis_cycle.of_its_own(block)
    before = [array.copy() for array in (block.evaluation.feasible, block.evaluation.reason)]
    weights = [np.array(weight) for weight in block.fixed()]
    for row in range(40):
        analysis_cycle.add_load(row, np.arange(12), np.full(12, 1000))
        analysis_cycle.result(own, row)
    assert (own.evaluation.reason != block.evaluation.reason).any()
    assert all(map(np.array_equal, before, (block.evaluation.feasible, block.evaluation.reason)))
    assert all(map(np.array_equal, weights, block.fixed()))
