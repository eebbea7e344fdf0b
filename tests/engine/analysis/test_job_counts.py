"""Job counts of a chunk at each queue: by type, user, share and task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.domain.analysis import AnalysisGrid, UserQueue
from broker.domain.arrays import texts
from broker.engine.analysis.job_counts import of_share, of_task, of_type, of_user
from broker.engine.analysis.queue_attributes import analysis_queues
from tests.engine.analysis.analysis_requests import reading_grid
from tests.engine.small_work import chunk_table
from tests.snapshot.raw_grid import jobs

#: The unified queues are A, B, C, P, U.
SIZE = 5
ALL = slice(None)


def at(**queues: float) -> Any:
    """One figure for each queue."""
    return np.array([queues.get(name, 0.0) for name in "ABCPU"])


@pytest.mark.parametrize(
    ("share", "kind", "queued", "running"),
    [
        ("X", "SCORE", {"A": 5}, {"A": 1}),
        ("X", "MCORE", {"A": 7, "U": 2}, {}),
        # a task without a type counts all types
        ("X", None, {"A": 12, "U": 2}, {"A": 1}),
        ("Y", "SCORE", {}, {"B": 4}),
        ("Z", "SCORE", {}, {}),
        (None, "SCORE", {}, {}),
    ],
)
def test_by_type(share: str | None, kind: str | None, queued: dict[str, float], running: dict[str, float]) -> None:
    grid = AnalysisGrid(
        by_type={
            ("X", "SCORE"): np.stack([at(A=5), at(A=1)]),
            ("X", "MCORE"): np.stack([at(A=7, U=2), at()]),
            ("Y", "SCORE"): np.stack([at(), at(B=4)]),
        }
    )
    counts = of_type(reading_grid(grid), chunk_table(1, gshare=share, resource_type=kind), ALL)
    assert counts.every[:, 0].tolist() == [at(**queued).tolist(), at(**running).tolist()]


@pytest.mark.parametrize(
    ("user", "share", "label", "queued"),
    [
        ("ann", "X", "user", {"A": 3, "U": 1}),
        ("ann", "X", "panda", {}),
        ("ann", "Y", "user", {}),
        ("bob", "X", "user", {}),
        (None, "X", "user", {}),
    ],
)
def test_by_user(user: str | None, share: str, label: str, queued: dict[str, float]) -> None:
    grid = AnalysisGrid(
        by_user={("ann", "X", "user"): UserQueue(np.array([0, 4]), np.array([3.0, 1.0]), np.array([2.0, 0.0]))}
    )
    counts = of_user(reading_grid(grid), chunk_table(1, username=user, gshare=share, prodsourcelabel=label), ALL)
    running = {"A": 2} if queued else {}
    assert counts.every[:, 0].tolist() == [at(**queued).tolist(), at(**running).tolist()]


def test_by_share() -> None:
    """A: 6 of 8 running jobs are of the share, and 12 started in 6 hours: 2 x 6 / 8 = 1.5 an hour."""
    grid = AnalysisGrid(
        starts=at(A=12, B=6),
        users={"X": at(A=3)},
        # of the label and without merge jobs; B has no such job at all, so its jobs of the share count
        users_running={("X", "user"): np.array([4.0, np.nan, 0.0, 0.0, 0.0])},
    )
    counts = [
        jobs("A", "running", 6, gshare="X"),
        jobs("A", "running", 2, gshare="Y"),
        jobs("A", "activated", 5, gshare="X"),
        jobs("B", "running", 9, gshare="X"),
        jobs("B", "defined", 1, gshare="X"),
        jobs("C", "assigned", 7, gshare="Y"),
    ]
    snapshot = reading_grid(grid, job_counts=counts)
    columns = chunk_table(2, gshare=["X", "unknown"], prodsourcelabel="user")
    users, running, rate, queued_everywhere, running_everywhere = of_share(
        snapshot, analysis_queues(snapshot), columns, ALL
    ).every
    assert users.tolist() == [at(A=3).tolist(), at().tolist()]
    assert running.tolist() == [[4, 9, 0, 0, 0], [0] * SIZE]
    assert rate.tolist() == [[12 / 6 * 6 / 8, 6 / 6 * 1, 0, 0, 0], [0] * SIZE]
    assert queued_everywhere[:, 0].tolist() == [6, 0]
    assert running_everywhere[:, 0].tolist() == [15, 0]


def test_by_task() -> None:
    texts_of_jobs = texts(['{"A": [4, 2, 1], "GONE": [9, 9, 9]}', None, '{"U": [0, 5, 0]}'])
    finished, bad, closed = of_task(reading_grid(), texts_of_jobs).every
    assert finished.tolist() == [at(A=4).tolist(), at().tolist(), at().tolist()]
    assert bad.tolist() == [at(A=3).tolist(), at().tolist(), at(U=5).tolist()]
    assert closed.tolist() == [at(A=1).tolist(), at().tolist(), at().tolist()]


def test_a_block_counts_for_its_rows_only() -> None:
    grid = AnalysisGrid(by_type={("X", "SCORE"): np.stack([at(A=5), at()])})
    chunks = chunk_table(3, gshare=["Y", "X", "X"], resource_type=["SCORE", "SCORE", "MCORE"])
    counts = of_type(reading_grid(grid), chunks, slice(1, 3))
    assert counts.every[0, :, 0].tolist() == [5, 0]
