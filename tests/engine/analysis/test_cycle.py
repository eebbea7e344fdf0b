"""The cycle of analysis without a database: passes, throttles, and jobs that the cycle itself has placed."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from broker.brokerages.analysis_job.brokerage import chain
from broker.domain.analysis import FIGURES, AnalysisFacts, AnalysisGrid, OwnerJobs
from broker.domain.work import Work
from broker.engine.analysis.cycle import AnalysisCycle
from broker.engine.analysis.facts import PASS_FACTS
from broker.gdpconfig.tuning import Tuning
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
    """A, B and C read a disk of their own each; the queues in ``closed`` are not online."""
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


def work(*datasets: Sequence[Dataset], asked: dict[str, Any] | None = None, **columns: Any) -> Work:
    """A chunk for each list of datasets."""
    found = work_of(*datasets, chunks={**TASK, **columns})
    return Work(found.chunks, found.inputs, found.replicas, analysis_request=requests(len(datasets), **(asked or {})))


def cycle(given: Work, snapshot: Snapshot | None = None, *, independent: bool = False, **tuning: Any) -> AnalysisCycle:
    values = Tuning.defaults(vo="atlas").with_values(tuning)
    return AnalysisCycle(snapshot or grid(), given, values, chain(), independent=independent)


def chosen(found: AnalysisCycle) -> list[dict[str, float]]:
    """By chunk the candidates with their weights."""
    rows = []
    for result in found.results():
        ranking = result.ranking
        weight = [] if ranking is None else ranking.weight[ranking.chosen].tolist()
        names = [str(name) for name in found.snapshot.queues.name[result.chosen]]
        rows.append(dict(zip(names, weight, strict=True)))
    assert not found.faults, found.faults
    return rows


def test_the_input_decides_and_each_chunk_by_itself() -> None:
    found = cycle(work([AT_A], [AT_B], [AT_C]))
    assert chosen(found) == [{"A": 1.0}, {"B": 1.0}, {"C": 1.0}]


def test_the_second_pass_is_that_of_the_chunks_that_need_it() -> None:
    """A is closed; only the chunks with their input there look elsewhere, in whatever block they are."""
    found = cycle(work([AT_B], [AT_A], [AT_C], [AT_A]), grid("A"))
    elsewhere = {"B": 1.0, "C": 1.0}
    assert chosen(found) == [{"B": 1.0}, elsewhere, {"C": 1.0}, elsewhere]


def test_the_facts_that_differ_between_passes() -> None:
    found = cycle(work([AT_A]))
    known, later = found._analysis_facts._of_pass(slice(0, 1), np.ones((1, 1), dtype=np.bool_))
    assert {*known, *later} == set(PASS_FACTS)


def test_without_a_source_over_wan_there_is_no_second_pass() -> None:
    off = '{"read_wan": "OFF"}'
    disks = [endpoint("DISK_A", "S", detailed_status=off), endpoint("DISK_B", "S"), endpoint("DISK_C", "S")]
    assert chosen(cycle(work([AT_A], [AT_B]), grid("A", ddm_endpoint=disks))) == [{}, {"B": 1.0}]


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
    (found,) = chosen(cycle(work([AT_A], **columns), **tuning))
    assert found == ({"A": 1.0} if checked else {"A": 1.0, "B": 1.0, "C": 1.0})


def test_local_gib_count_where_the_input_is_not_asked_for() -> None:
    """15 GiB at A: 1 + 15 / 10."""
    big = Dataset([replica("DISK_A", files=15 * GB / 100)], files=15 * GB / 100)
    assert chosen(cycle(work([big], taskpriority=2000))) == [{"A": 2.5, "B": 1.0, "C": 1.0}]


def test_placed_jobs_count_for_the_share_and_its_chunks_only() -> None:
    everywhere = [Dataset([replica(f"DISK_{name}") for name in "ABC"])]
    given = work(*[everywhere] * 4, gshare=["X", "Y", "X", "X"])
    found = cycle(given)
    seen = []
    for result in found.results():
        ranking = result.ranking
        assert ranking is not None
        at_a = result.feasible.tolist().index(0)
        seen.append(ranking.weight[at_a])
        found.add_load(result.row, np.array([0]), np.array([4]))
    # 1 / (waiting + 1): none, none of its own share, 4 of the first, and 4 of the third as well
    assert seen == [1.0, 1.0, 1 / 5, 1 / 9]
    assert cycle(given, independent=True).load_before(3).of_share == {}


def test_a_queue_that_the_cycle_fills_is_out_and_why() -> None:
    """41 jobs of the share and type are more than 2 x 20; of another type they do not count, but they weigh."""
    given = work([AT_A], [AT_A], [AT_A], resource_type=["SCORE", "MCORE", "SCORE"], username=["ann", "bob", "cec"])
    found = cycle(given)
    results = found.results()
    first = next(results)
    found.add_load(first.row, np.array([0]), np.array([41]))
    second, third = next(results), next(results)
    assert [len(result.chosen) for result in (first, second, third)] == [1, 1, 0]
    codes = [rule.code for rule in found.chain.filters]
    inside = third.row - third.block.rows.start
    assert codes[third.block.evaluation.reason[inside, 0]] == "queue_cap"
    facts: Any = found.facts_at(third, np.array([0]))
    assert (facts.queued_of_type.item(), facts.defined.item(), facts.user_queued.item()) == (41, 41, 0)
    assert facts.users.item() == 1


def test_a_load_that_is_set_decides_as_the_one_that_was_counted() -> None:
    given = work([AT_A], [AT_A], [AT_A])
    found, again = cycle(given), cycle(given)
    for result in found.results():
        found.add_load(result.row, np.array([0]), np.array([30]))
        if result.row == 1:
            stored = found.load_before(2)
    again.set_load(2, stored)
    assert [row for row in chosen(again)][2] == {}
    assert again.load_before(2) == stored


def test_a_throttled_chunk_gets_no_candidates_and_says_why() -> None:
    owners = AnalysisGrid(of_user={"ann": OwnerJobs(running_jobs=4)})
    given = work([AT_A], [AT_A], [AT_A], username=["ann", "bob", "ann"], merging=[False, False, True])
    found = cycle(given, grid(owners=owners), CAP_RUNNING_USER_JOBS=3)
    results = list(found.results())
    assert [found.outcome(result.row, result.reason) for result in results] == ["throttled", "brokered", "brokered"]
    assert results[0].reason == "throttled_running_jobs" and not len(results[0].chosen)
    assert found.remarks(0) == ("throttle:running_jobs:4:3:jobs:CAP_RUNNING_USER_JOBS",)


def test_the_new_weight_follows_the_room_that_is_left() -> None:
    """1 job to two queues of 100 each: (100 - 0.5) / (200 - 1); then 40 of the user wait at A."""
    both = [Dataset([replica("DISK_A"), replica("DISK_B")])]
    found = cycle(work(both, both), NEW_BASIC_WEIGHT=True)
    results = found.results()
    first = next(results)
    found.add_load(first.row, np.array([0]), np.array([40]))
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
    asked = {"sites_per_job": np.array([1, 12, 13, 14])}
    found = chosen(cycle(work([AT_A], [AT_A], [AT_A], [AT_A], asked=asked), snapshot))
    assert [len(row) for row in found] == [10, 12, 13, 0]


def test_a_full_queue_leaves_the_second_pass_alone() -> None:
    """Too many waiting jobs may clear: the chunk waits for A instead of going elsewhere."""
    waiting = [jobs("A", "activated", 41, gshare="X")]
    owners = AnalysisGrid(by_type={("X", "SCORE"): np.array([[41.0, 0, 0], [0, 0, 0]])})
    assert chosen(cycle(work([AT_A]), grid(owners=owners, job_counts=waiting))) == [{}]


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
    assert chosen(cycle(work(placed, placed, merging=[False, True]), snapshot))[0] == {"A": 1.0}


def test_the_figures_of_the_stabilizer_are_kept_for_the_candidates() -> None:
    found = cycle(work([AT_A]))
    (result,) = found.results()
    kept = found.figures_of(result)
    assert kept is not None
    shown, figures = kept
    assert shown.tolist() == result.chosen.tolist() != []
    assert figures.shape == (len(FIGURES), len(shown))


def facts_in_memory() -> int:
    return sum(type(one) is AnalysisFacts for one in gc.get_objects())


@pytest.mark.slow
def test_the_facts_of_a_block_go_with_it() -> None:
    """Nobody searches for what refers to itself while many cycles are decided again."""
    made, _ = random_analysis(1, 9, 5, (), True)
    gc.disable()
    try:
        before = facts_in_memory()
        block = made.evaluate_block(slice(0, 9))
        assert block.facts.can_be_throttled.shape == block.facts.initial.shape  # type: ignore[attr-defined]
        assert facts_in_memory() > before
        del block
        assert facts_in_memory() == before
    finally:
        gc.enable()


def placed_in(found: AnalysisCycle) -> list[tuple[str, list[str], Any]]:
    """Of each chunk why it is blocked, its choice, and the load that counts, where each gives 25 jobs to its first."""
    rows = []
    for result in found.results():
        names = [str(name) for name in found.snapshot.queues.name[result.chosen]]
        rows.append((found.blocked(result.row), names, found.load_before(result.row)))
        found.add_load(result.row, result.chosen[:1], np.array([25] * min(1, len(result.chosen))))
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
def test_a_cycle_beside_another_decides_as_one_made_anew(
    values: dict[str, Any], taken_over: bool, moves_alike: bool, new_weight: bool
) -> None:
    made, _ = random_analysis(3, 40, 12, (), new_weight)
    snapshot, tuning = made._asked_of, made.tuning.with_values(values)
    rules, anew = chain(), []
    for value in (made.tuning, tuning):
        anew.append(AnalysisCycle(snapshot, made.work, value, rules))
    first, other = anew
    placed_in(first)
    beside = first.beside(snapshot, made.work, tuning, rules)
    assert first.moves_alike(other) is moves_alike
    assert (beside is not None) is taken_over
    if beside is not None:
        assert beside._input is first._input
        assert placed_in(beside) == placed_in(other) and beside.legend == other.legend
    assert first.beside(snapshot, made.work, tuning.with_values({"NEW_BASIC_WEIGHT": not new_weight}), rules) is None
    assert first.beside(grid(), made.work, tuning, rules) is None


@pytest.mark.parametrize("new_weight", [False, True])
def test_what_is_brought_up_to_date_is_not_that_of_other_cycles(new_weight: bool) -> None:
    made, _ = random_analysis(3, 40, 12, (), new_weight)
    block = made.evaluate_block(slice(0, 40))
    own = made.of_its_own(block)
    before = [array.copy() for array in (block.evaluation.feasible, block.evaluation.reason)]
    weights = [np.array(weight) for weight in block.fixed()]
    for row in range(40):
        made.add_load(row, np.arange(12), np.full(12, 1000))
        made.result(own, row)
    assert (own.evaluation.reason != block.evaluation.reason).any()
    assert all(map(np.array_equal, before, (block.evaluation.feasible, block.evaluation.reason)))
    assert all(map(np.array_equal, weights, block.fixed()))
