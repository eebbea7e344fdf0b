"""The benchmark of claims runs, and the time for a file does not grow with the files of a dataset."""

from __future__ import annotations

import pytest

from benchmarks.bench_claim import measure

pytestmark = pytest.mark.slow


def test_all_files_are_claimed() -> None:
    stats = measure(2, 40, batches=2)
    assert (stats["datasets"], stats["files_of_a_dataset"], stats["claimed"]) == (2, 40, 80)
    assert stats["first_batch_s"] <= stats["slowest_batch_s"]


@pytest.mark.soak
def test_the_time_for_a_file_is_the_same_in_ten_times_larger_datasets() -> None:
    small, large = measure(20, 10_000), measure(2, 100_000)
    assert small["claimed"] == large["claimed"] == 200_000
    # quadratic would be ten times; the rest is the noise of a busy machine
    assert large["us_a_file"] < 3 * small["us_a_file"]
