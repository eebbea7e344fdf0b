"""The claim benchmark runs, and the time per file does not grow with the size of a dataset."""

from __future__ import annotations

import pytest

from benchmarks.bench_claim import measure

pytestmark = pytest.mark.slow


def test_all_files_are_claimed() -> None:
    stats = measure(2, 40, batches=2)
    assert (stats["datasets"], stats["files_of_a_dataset"], stats["claimed"]) == (2, 40, 80)
    assert stats["first_batch_s"] <= stats["slowest_batch_s"]


@pytest.mark.soak
def test_the_time_per_file_does_not_grow_with_the_dataset() -> None:
    small, large = measure(20, 10_000), measure(2, 100_000)
    assert small["claimed"] == large["claimed"] == 200_000
    # quadratic growth would give a factor of ten; three allows for the noise of a busy machine
    assert large["us_a_file"] < 3 * small["us_a_file"]
