from __future__ import annotations

import pytest

from broker.whatif.answers.long_runs import comparison_sentence


@pytest.mark.parametrize(
    ("tasks_losing", "end"), [(0, "0 tasks lose their last queue."), (1, "1 task loses its last queue.")]
)
def test_a_preview_in_one_sentence(tasks_losing: int, end: str) -> None:
    summary = {
        "decisions": 98,
        "changed": 13,
        "jobs": 19_351,
        "jobs_moved": 1550,
        "tasks_losing_last_queue": tasks_losing,
    }
    assert comparison_sentence(summary) == f"13 of 98 decisions change, 1,550 of 19,351 jobs move, {end}"
