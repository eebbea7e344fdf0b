"""Jobs placed by a cycle count for chunks of the same user, share and type."""

from __future__ import annotations

from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisFacts, AnalysisGrid
from broker.domain.counted_load import CountedLoad
from broker.engine.analysis.load_tracking import NEW_USERS, OF_TYPE, OF_USER, UserLoad, with_placed
from tests.engine.analysis.analysis_requests import reading_grid
from tests.engine.small_work import chunk_table
from tests.rules.builders import facts_of

#: ann has known jobs of share X at A; bob has none anywhere.
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


def load_after(*steps: tuple[int, dict[str, int]]) -> UserLoad:
    """The load after the steps, each of them a chunk and its new jobs by candidate."""
    load = UserLoad(GRID, CHUNKS)
    for row, jobs in steps:
        where = np.array([CANDIDATES.index(name) for name in jobs])
        load.add(row, where, np.array(list(jobs.values())))
    return load


def figures_of(load: UserLoad, row: int) -> dict[str, dict[str, int]]:
    """The load of a chunk by figure and queue, without zeros."""
    names = GRID.unified.name.tolist()
    return {
        figure: {str(names[at]): int(counts[at]) for at in np.flatnonzero(counts)}
        for figure, counts in load.of_row(row).items()
    }


def test_jobs_count_for_their_user_share_and_label() -> None:
    load = load_after((0, {"A": 3, "C": 2}))
    assert figures_of(load, 0)[OF_USER] == {"A": 3, "C": 2}
    # another user, another share, another label
    assert [figures_of(load, row)[OF_USER] for row in (1, 2, 3)] == [{}, {}, {}]


def test_jobs_count_for_their_type_and_for_tasks_without_one() -> None:
    load = load_after((0, {"A": 3}), (5, {"U/MCORE": 4}))
    assert figures_of(load, 1)[OF_TYPE] == {"A": 3}
    assert figures_of(load, 4)[OF_TYPE] == {"A": 3, "U": 4}
    assert figures_of(load, 5)[OF_TYPE] == {"U": 4}
    assert figures_of(load, 2)[OF_TYPE] == {}


def test_jobs_count_for_the_type_of_their_pseudo_queue() -> None:
    """A task of type SCORE at an MCORE pseudo-queue makes MCORE jobs."""
    load = load_after((0, {"U/MCORE": 4}))
    assert figures_of(load, 0)[OF_TYPE] == {} and figures_of(load, 5)[OF_TYPE] == {"U": 4}


def test_merge_jobs_count_for_the_type_but_not_for_the_user() -> None:
    load = load_after((4, {"A": 3}))
    assert figures_of(load, 1) == {OF_USER: {}, OF_TYPE: {}, NEW_USERS: {"A": 1}}
    assert figures_of(load, 4)[OF_TYPE] == {"A": 3}


def test_a_user_is_new_at_a_queue_once() -> None:
    load = load_after((0, {"A": 1, "C": 1}), (0, {"C": 1}), (1, {"A": 1}), (5, {"A": 1}))
    # ann was at A before and is new at C; bob is new at A; the chunk without a user does not count
    assert figures_of(load, 0)[NEW_USERS] == {"A": 1, "C": 1}
    # pseudo-queues of one queue count as one queue
    assert figures_of(load_after((1, {"U/SCORE": 1, "U/MCORE": 1})), 1)[NEW_USERS] == {"U": 1}


def test_setting_a_stored_load_replaces_the_counted_one() -> None:
    stored = load_after((0, {"A": 3, "C": 2}), (1, {"A": 7})).counted(0, CountedLoad())
    assert stored == CountedLoad(of_user={"A": 3, "C": 2}, of_type={"A": 10, "C": 2}, new_users={"A": 1, "C": 1})
    load = load_after((0, {"B": 5}))
    load.set(0, stored)
    assert load.counted(0, CountedLoad()) == stored


def test_the_facts_of_one_chunk_with_placed_jobs() -> None:
    facts: Any = facts_of(AnalysisFacts, 2, 2, defined=[1, 2, 3, 4], user_queued=[5, 6, 7, 8], users=[1, 1, 2, 2])
    counts = {OF_USER: np.array([10.0, 0.0]), OF_TYPE: np.array([0.0, 20.0]), NEW_USERS: np.array([1.0, 0.0])}
    now = with_placed(facts, 1, np.array([100.0, 200.0]), counts)
    assert (now.defined.tolist(), now.user_queued.tolist()) == ([[103, 204]], [[17, 8]])
    assert (now.queued_of_type.tolist(), now.users.tolist()) == ([[0, 20]], [[3, 2]])
    assert now.jobs_bad.shape == (1, 2)
