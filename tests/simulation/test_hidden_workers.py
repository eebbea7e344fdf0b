"""The worker rows of a hidden truth, the input of a fit with Harvester workers."""

from __future__ import annotations

from benchmarks.hidden_workers import rows_with_workers
from broker.simulation.model.generated_grid import GridParameters

TINY = GridParameters(
    days=0.25, queues=2, cores=64, nuclei=1, load=0.6, outage_mean_days=0.0, warm_up_s=0.0, median_jobs=6.0,
    spread_jobs=0.5,
)  # fmt: skip


def test_each_worker_was_submitted_waited_and_ran() -> None:
    rows = rows_with_workers(1, "least_loaded", TINY)
    workers = rows["harvester_workers"]
    assert len(workers) > 10
    assert all(submitted < started <= ended for *_, submitted, started, ended, _, _, _ in workers)
    assert sum(jobs for *_, jobs, _ in workers) >= len(rows["jobsarchived4"]) - len(workers)
