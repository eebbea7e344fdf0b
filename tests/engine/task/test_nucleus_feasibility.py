"""What the job brokerage says of the nuclei of a task: how many queues could run its first input."""

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

#: A has two queues, B one, C none of production; S is a satellite.
GRID = nuclei(
    schedconfig_json=[queue("A_BIG", corecount=8), queue("A_ONE"), queue("B_ONE"), queue("C_ONE", type="analysis")],
    panda_site=[at_site("A_BIG", "A"), at_site("A_ONE", "A"), at_site("B_ONE", "B"), at_site("C_ONE", "C")],
)
NAMES = [str(name) for name in GRID.nuclei.name]


class Cores(Filter[JobPairs]):
    """Keeps queues with as many cores as the task asks for."""

    name = code = "cores"
    title = "cores"

    def keep(self, pairs: JobPairs) -> Bools:
        return np.asarray(pairs.candidates.cores >= pairs.chunks.corecount)

    def observe(self, pairs: JobPairs) -> Observation:
        return Observation(None, ">=", None, "-", "rule")


def asked(*cores: float, tasks: Any = None, wanted: Any = None, datasets: Any = None, **more: Any) -> DryRun:
    """One chunk for each number of cores, of the tasks given."""
    owners = list(tasks or range(1, len(cores) + 1))
    hint = work_of(*(datasets or [[] for _ in cores]), chunks={"corecount": list(cores), "jeditaskid": owners})
    distinct = np.array(list(dict.fromkeys(owners)), dtype=np.int64)
    every = np.ones((len(distinct), len(NAMES)), dtype=np.bool_) if wanted is None else wanted
    return ask_jobs(GRID, hint, distinct, every, [Cores()], Tuning.defaults(), **more)


def able(found: DryRun, row: int = 0) -> dict[str, float]:
    return {name: count for name, count in zip(NAMES, found.able_queues[row].tolist(), strict=True) if count}


@pytest.mark.parametrize(("cores", "wanted"), [(1.0, {"A": 2, "B": 1}), (8.0, {"A": 1}), (9.0, {})])
def test_queues_that_could_run_the_task(cores: float, wanted: dict[str, float]) -> None:
    found = asked(cores)
    assert able(found) == wanted
    assert dict(zip(NAMES, found.queues.tolist(), strict=True))["A"] == 2


def test_of_several_chunks_the_one_that_fits_most_queues_counts() -> None:
    found = asked(8.0, 1.0, 9.0, tasks=[1, 1, 2])
    assert (able(found, 0), able(found, 1)) == ({"A": 2, "B": 1}, {})


def test_a_task_of_which_no_chunk_has_its_input_cannot_be_asked_about() -> None:
    lost = [Dataset([])]
    found = asked(1.0, 1.0, 1.0, tasks=[1, 1, 2], datasets=[lost, [Dataset([replica("A_DISK")])], lost])
    assert found.failed.tolist() == [False, True]
    assert found.fault.tolist() == ["", "no_complete_replica"]
    assert (able(found, 0), able(found, 1)) == ({"A": 2, "B": 1}, {})


def test_codes_are_counted_when_asked_for() -> None:
    found = asked(8.0, with_codes=True)
    codes = dict(zip(NAMES, found.codes[0].tolist(), strict=True))
    assert "cores" in codes["A"] and "cores" in codes["B"]
    assert asked(8.0).codes.tolist() == [[None]]
