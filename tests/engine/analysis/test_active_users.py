"""Options change the figures of the stabilizer."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from broker.domain.analysis import AnalysisFacts
from broker.engine.analysis.job_counts import ActiveUsers
from broker.engine.analysis.steps import UserFigures
from broker.snapshot.sources.active_user_jobs import ACTIVE_USER_JOBS, UserCounts
from broker.snapshot.sources.recent_starts import RECENT_STARTS
from tests.engine.analysis.analysis_requests import reading_grid
from tests.engine.small_work import chunk_table
from tests.rules.builders import facts_of
from tests.snapshot.raw_grid import jobs

#: At A ann has 2 queued jobs and 1 running job; no user has jobs at B.
COUNTS = UserCounts({("user", "X"): {"A": {"ann": (2.0, 1.0), "bob": (0.0, 4.0)}}})


def figures(user: str = "ann", running: float = 1.0, total: int = 1, **options: str) -> dict[str, Any]:
    """The figures at the first two queues, A and B."""
    grid = reading_grid(job_counts=[jobs("A", "running", total)])
    grid = dataclasses.replace(grid, offered={ACTIVE_USER_JOBS: COUNTS, RECENT_STARTS: {"A": 6.0}})
    chunks = chunk_table(1, username=user, gshare="X", prodsourcelabel="user")
    facts = facts_of(AnalysisFacts, 1, len(grid.queues), running=running)
    stats = ActiveUsers(grid, chunks, UserFigures().configured(options)).stats(slice(0, 1), facts)
    return {name: np.asarray(values)[0, :2].tolist() for name, values in stats.items()}


def test_nothing_differs_by_default() -> None:
    assert figures() == {}


@pytest.mark.parametrize(("running", "total", "rate"), [(1.0, 1, 6.0), (1.0, 4, 1.5), (0.0, 4, 0.0), (1.0, 0, 0.0)])
def test_starts_are_shared_by_the_running_jobs(running: float, total: int, rate: float) -> None:
    values = figures(running=running, total=total, starts="until_five_minutes_ago")
    assert values == {"to_running_rate": [rate, 0.0]}


@pytest.mark.parametrize(
    ("user", "queued", "own", "ignored"),
    [("ann", 2.0, 1.0, [False, True]), ("bob", 0.0, 4.0, [False, True]), ("eve", 0.0, 0.0, [True, True])],
)
def test_active_jobs_of_users(user: str, queued: float, own: float, ignored: list[bool]) -> None:
    values = figures(user, running=9.0, jobs="active", absent="not_looked_at")
    assert values == {
        "user_queued": [queued, 0.0],
        "user_running": [own, 0.0],
        "users": [2.0, 0.0],
        # of all users; where no user has jobs, the running jobs of the share
        "users_running": [5.0, 9.0],
        "user_ignored": ignored,
    }


def test_all_users_together_may_count_as_one_more() -> None:
    assert figures(jobs="active", users="and_total")["users"] == [3.0, 1.0]
