"""The dry run of a task in the job brokerage: how many queues of each nucleus could run its first input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.engine.task.nucleus_feasibility import DryRun, ask_jobs
from broker.gdpconfig.tuning import Tuning
from broker.rules.contract import Filter, JobPairs
from tests.engine.small_work import Dataset, replica, work_of
from tests.engine.task.task_works import nuclei
from tests.snapshot.raw_grid import at_site, queue

#: A has two production queues, B one, C none; S is a satellite.
GRID = nuclei(
    schedconfig_json=[queue("A_BIG", corecount=8), queue("A_ONE"), queue("B_ONE"), queue("C_ONE", type="analysis")],
    panda_site=[at_site("A_BIG", "A"), at_site("A_ONE", "A"), at_site("B_ONE", "B"), at_site("C_ONE", "C")],
)
NAMES = [str(name) for name in GRID.nuclei.name]


class Cores(Filter[JobPairs]):
    """Keeps queues with at least as many cores as the task requests."""

    name = code = "cores"
    title = "cores"

    def keep(self, pairs: JobPairs) -> Bools:
        return np.asarray(pairs.candidates.cores >= pairs.chunks.corecount)

    def observe(self, pairs: JobPairs) -> Observation:
        return Observation(None, ">=", None, "-", "rule")


def dry_run_of(*cores: float, tasks: Any = None, wanted: Any = None, datasets: Any = None, **more: Any) -> DryRun:
    """A dry run of one chunk for each number of cores, by default of separate tasks."""
    owners = list(tasks or range(1, len(cores) + 1))
    hint = work_of(*(datasets or [[] for _ in cores]), chunks={"corecount": list(cores), "jeditaskid": owners})
    distinct = np.array(list(dict.fromkeys(owners)), dtype=np.int64)
    every = np.ones((len(distinct), len(NAMES)), dtype=np.bool_) if wanted is None else wanted
    return ask_jobs(GRID, hint, distinct, every, [Cores()], Tuning.defaults(), **more)


def able_queues(dry_run: DryRun, row: int = 0) -> dict[str, float]:
    return {name: count for name, count in zip(NAMES, dry_run.able_queues[row].tolist(), strict=True) if count}


@pytest.mark.parametrize(("cores", "expected"), [(1.0, {"A": 2, "B": 1}), (8.0, {"A": 1}), (9.0, {})])
def test_queues_that_could_run_the_task(cores: float, expected: dict[str, float]) -> None:
    dry_run = dry_run_of(cores)
    assert able_queues(dry_run) == expected
    assert dict(zip(NAMES, dry_run.queues.tolist(), strict=True))["A"] == 2


def test_the_chunk_that_fits_most_queues_counts() -> None:
    dry_run = dry_run_of(8.0, 1.0, 9.0, tasks=[1, 1, 2])
    assert (able_queues(dry_run, 0), able_queues(dry_run, 1)) == ({"A": 2, "B": 1}, {})


def test_the_dry_run_fails_for_a_task_without_input_in_any_chunk() -> None:
    lost = [Dataset([])]
    dry_run = dry_run_of(1.0, 1.0, 1.0, tasks=[1, 1, 2], datasets=[lost, [Dataset([replica("A_DISK")])], lost])
    assert dry_run.failed.tolist() == [False, True]
    assert dry_run.fault.tolist() == ["", "no_complete_replica"]
    assert (able_queues(dry_run, 0), able_queues(dry_run, 1)) == ({"A": 2, "B": 1}, {})


def test_codes_are_counted_on_request() -> None:
    dry_run = dry_run_of(8.0, with_codes=True)
    codes = dict(zip(NAMES, dry_run.codes[0].tolist(), strict=True))
    assert "cores" in codes["A"] and "cores" in codes["B"]
    assert dry_run_of(8.0).codes.tolist() == [[None]]
