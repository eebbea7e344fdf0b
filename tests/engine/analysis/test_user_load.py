"""What a cycle has placed, as the chunks of the same user, share and type see it."""

from __future__ import annotations

from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisFacts, AnalysisGrid
from broker.domain.counted_load import CountedLoad
from broker.engine.analysis.load_tracking import NEW_USERS, OF_TYPE, OF_USER, UserLoad, with_placed
from tests.engine.analysis.analysis_requests import reading_grid
from tests.engine.small_work import chunk_table
from tests.rules.builders import facts_of

#: ann is known to have jobs of share X at A; bob at no queue.
GRID = reading_grid(AnalysisGrid(present={("ann", "X"): np.array([0])}))
CANDIDATES = [str(name) for name in GRID.queues.name]
CHUNKS = chunk_table(
    6,
    username=["ann", "bob", "ann", "ann", "bob", None],
    gshare=["X", "X", "Y", "X", "X", "X"],
    prodsourcelabel=["user", "user", "user", "panda", "user", "user"],
    resource_type=["SCORE", "SCORE", "SCORE", "SCORE", None, "MCORE"],
    merging=[False, False, False, False, True, False],
)


def counted(*steps: tuple[int, dict[str, int]]) -> UserLoad:
    """After these chunks got so many jobs at these candidates."""
    load = UserLoad(GRID, CHUNKS)
    for row, jobs in steps:
        where = np.array([CANDIDATES.index(name) for name in jobs])
        load.add(row, where, np.array(list(jobs.values())))
    return load


def seen(load: UserLoad, row: int) -> dict[str, dict[str, int]]:
    """By figure and queue, without zeros."""
    names = GRID.unified.name.tolist()
    return {
        figure: {str(names[at]): int(counts[at]) for at in np.flatnonzero(counts)}
        for figure, counts in load.of_row(row).items()
    }


def test_jobs_count_for_their_user_share_and_label() -> None:
    load = counted((0, {"A": 3, "C": 2}))
    assert seen(load, 0)[OF_USER] == {"A": 3, "C": 2}
    # another user, another share, another label
    assert [seen(load, row)[OF_USER] for row in (1, 2, 3)] == [{}, {}, {}]


def test_jobs_count_for_their_type_and_for_tasks_without_one() -> None:
    load = counted((0, {"A": 3}), (5, {"U/MCORE": 4}))
    assert seen(load, 1)[OF_TYPE] == {"A": 3}
    assert seen(load, 4)[OF_TYPE] == {"A": 3, "U": 4}
    assert seen(load, 5)[OF_TYPE] == {"U": 4}
    assert seen(load, 2)[OF_TYPE] == {}


def test_a_pseudo_queue_has_a_type_of_its_own() -> None:
    """A task of type SCORE at a pseudo-queue for several cores makes jobs of that type."""
    load = counted((0, {"U/MCORE": 4}))
    assert seen(load, 0)[OF_TYPE] == {} and seen(load, 5)[OF_TYPE] == {"U": 4}


def test_merge_jobs_are_none_of_the_user_but_of_the_type() -> None:
    load = counted((4, {"A": 3}))
    assert seen(load, 1) == {OF_USER: {}, OF_TYPE: {}, NEW_USERS: {"A": 1}}
    assert seen(load, 4)[OF_TYPE] == {"A": 3}


def test_a_user_is_new_at_a_queue_once() -> None:
    load = counted((0, {"A": 1, "C": 1}), (0, {"C": 1}), (1, {"A": 1}), (5, {"A": 1}))
    # ann was at A before and is new at C; bob is new at A; nobody has no name
    assert seen(load, 0)[NEW_USERS] == {"A": 1, "C": 1}
    # pseudo-queues of one queue are one place
    assert seen(counted((1, {"U/SCORE": 1, "U/MCORE": 1})), 1)[NEW_USERS] == {"U": 1}


def test_a_stored_load_is_set_whatever_was_counted() -> None:
    stored = counted((0, {"A": 3, "C": 2}), (1, {"A": 7})).counted(0, CountedLoad())
    assert stored == CountedLoad(of_user={"A": 3, "C": 2}, of_type={"A": 10, "C": 2}, new_users={"A": 1, "C": 1})
    other = counted((0, {"B": 5}))
    other.set(0, stored)
    assert other.counted(0, CountedLoad()) == stored


def test_the_facts_of_one_chunk_with_what_was_placed() -> None:
    facts: Any = facts_of(AnalysisFacts, 2, 2, defined=[1, 2, 3, 4], user_queued=[5, 6, 7, 8], users=[1, 1, 2, 2])
    counts = {OF_USER: np.array([10.0, 0.0]), OF_TYPE: np.array([0.0, 20.0]), NEW_USERS: np.array([1.0, 0.0])}
    now = with_placed(facts, 1, np.array([100.0, 200.0]), counts)
    assert (now.defined.tolist(), now.user_queued.tolist()) == ([[103, 204]], [[17, 8]])
    assert (now.queued_of_type.tolist(), now.users.tolist()) == ([[0, 20]], [[3, 2]])
    assert now.jobs_bad.shape == (1, 2)
