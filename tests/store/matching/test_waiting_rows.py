from __future__ import annotations

import numpy as np
import pytest

from broker.store.matching.waiting_rows import in_order


@pytest.mark.parametrize("far", [1, 2**60], ids=["one sort", "two columns"])
def test_jobs_are_in_the_order_in_which_matchers_look_for_them(far: int) -> None:
    rng = np.random.default_rng(5)
    queues, priorities = rng.integers(1, 6, size=40), rng.integers(-3, 3, size=40)
    sizes = rng.integers(1, 9, size=40)
    jobs = rng.permutation(int(sizes.sum())) * far // int(sizes.sum()) if far > 1 else rng.permutation(int(sizes.sum()))
    order = in_order(queues, priorities, sizes, jobs)
    rows = list(zip(np.repeat(queues, sizes), np.repeat(priorities, sizes), jobs, strict=True))
    assert [rows[at] for at in order] == sorted(rows)
