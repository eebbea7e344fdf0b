from __future__ import annotations

import numpy as np
import pytest

from broker.pilots.statements.task_queue_rows import in_order


@pytest.mark.parametrize("far", [1, 2**60], ids=["one sort", "two columns"])
def test_jobs_are_sorted_in_the_search_order_of_matchers(far: int) -> None:
    rng = np.random.default_rng(5)
    queues, priorities = rng.integers(1, 6, size=40), rng.integers(-3, 3, size=40)
    sizes = rng.integers(1, 9, size=40)
    count = int(sizes.sum())
    jobs = rng.permutation(count) * max(far // count, 1)
    levels = len({*zip(queues.tolist(), priorities.tolist(), strict=True)})
    assert (int(jobs.max() - jobs.min() + 1) * levels > np.iinfo(np.int64).max) == (far > 1)
    order = in_order(queues, priorities, sizes, jobs)
    rows = list(zip(np.repeat(queues, sizes), np.repeat(priorities, sizes), jobs, strict=True))
    assert [rows[position] for position in order] == sorted(rows)
