"""Jobs that fit on cores which ran at a queue once and are free now, as a reading of "running"."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.domain.arrays import RowsByKind
from broker.domain.grid import COUNTED_STATUSES
from broker.domain.queue_capacity import QueueSums
from broker.engine.job.learned_running import AS_RUNNING, PRIOR, learned_evidence, learned_free_jobs
from broker.engine.job.running import Running, RunningInputs, running_of_kinds
from broker.gdpconfig import Tuning
from broker.snapshot.raw import SourceState
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.queue_capacity import QUEUE_CAPACITY
from tests.snapshot.raw_grid import build, queue, ucore

TYPES = [{"resource_name": "SCORE", "mincore": 1, "maxcore": 1}, {"resource_name": "MCORE", "mincore": 2}]
#: Candidates: A with one core, B/MCORE with 8, B/SCORE with one.
EIGHT, ONE = 1, 2


def grid(known: dict[str, QueueSums], running: float = 0.0, state: str = "ok") -> Snapshot:
    """Queues A and B with so many cores that run at B, and what was learned."""
    states = (SourceState(QUEUE_CAPACITY, state, 1, 5.0, 60.0),)  # type: ignore[arg-type]
    made = build(states=states, schedconfig_json=[queue("A"), ucore("B")], resource_types=TYPES)
    cores = np.zeros((len(made.unified), 1))
    cores[made.unified.name.tolist().index("B")] = running
    return dataclasses.replace(
        made, offered={QUEUE_CAPACITY: known}, jobs=dataclasses.replace(made.jobs, running_cores=cores)
    )


def tuned(on: bool = True, prior_h: float = 0.0) -> Tuning:
    return Tuning.defaults().with_values({AS_RUNNING: on, PRIOR: prior_h})


@pytest.mark.parametrize(
    ("most", "hours", "running", "prior_h", "of_eight", "of_one"),
    [
        (80.0, 6, 73.0, 0.0, 0, 7),  # no whole job of eight cores
        (80.0, 6, 72.0, 0.0, 1, 8),
        (80.0, 6, 71.0, 0.0, 1, 9),
        (80.0, 6, 80.0, 0.0, 0, 0),
        (80.0, 6, 90.0, 0.0, 0, 0),  # more than ever runs now
        (80.0, 6, 0.0, 6.0, 5, 40),  # half of it is believed
        (80.0, 0, 0.0, 0.0, 0, 0),  # nobody has looked yet
        (0.0, 6, 0.0, 0.0, 0, 0),
    ],
)
def test_free_cores_are_counted_in_whole_jobs(
    most: float, hours: int, running: float, prior_h: float, of_eight: int, of_one: int
) -> None:
    found = learned_free_jobs(grid({"B": QueueSums(most_cores=most, hours=hours)}, running), tuned(prior_h=prior_h))
    assert found is not None and found[[EIGHT, ONE]].tolist() == [of_eight, of_one]
    assert found[0] == 0, "nothing is known of the queue A"


@pytest.mark.parametrize("state", ["stale", "missing"])
def test_an_old_record_does_not_count(state: str) -> None:
    known = {"B": QueueSums(most_cores=80.0, hours=6)}
    assert learned_free_jobs(grid(known, state=state), tuned()) is None
    assert learned_free_jobs(grid(known), tuned(on=False)) is None
    assert learned_free_jobs(grid({}), tuned()) is None
    assert Tuning.defaults().flag(AS_RUNNING) is False


def test_the_profile_of_panda_does_not_read_it() -> None:
    known, off = grid({"B": QueueSums(most_cores=80.0, hours=6)}), Running().configured({"learned": False})
    assert Running().free_jobs(known, tuned()) is not None and Running().needed_sources() == (QUEUE_CAPACITY,)
    assert off.free_jobs(known, tuned()) is None and off.needed_sources() == ()


def test_an_explanation_says_where_the_jobs_come_from() -> None:
    snapshot = grid({"B": QueueSums(most_cores=80.0, hours=6)})
    free = learned_free_jobs(snapshot, tuned())
    said = {"learned_free_jobs": 10.0, "learned_most_cores": 80.0, "learned_hours": 6}
    assert learned_evidence(snapshot, free, EIGHT) == said
    assert learned_evidence(snapshot, free, 0) == learned_evidence(snapshot, None, EIGHT) == {}


@given(
    most=st.floats(0, 1e5),
    hours=st.integers(0, 504),
    running=st.floats(0, 1e5),
    prior_h=st.floats(0, 1000),
    jobs=st.lists(st.integers(0, 500), min_size=3, max_size=3),
    workers=st.floats(0, 50),
)
def test_the_reading_for_all_is_that_of_each_pair(
    most: float, hours: int, running: float, prior_h: float, jobs: list[int], workers: float
) -> None:
    snapshot = grid({"B": QueueSums(most_cores=most, hours=hours)}, running)
    free = learned_free_jobs(snapshot, tuned(prior_h=prior_h))
    assert free is not None
    counts = np.zeros((len(COUNTED_STATUSES), 1, 3))
    counts[COUNTED_STATUSES.index("running"), 0] = jobs
    inputs = RunningInputs(
        workers=np.full((1, 3), workers),
        cores=snapshot.queues.cores[None, :],
        pilots=np.zeros((1, 3)),
        pull_ups=np.zeros((1, 3), dtype=np.bool_),
        low_priority=np.zeros((1, 1), dtype=np.bool_),
        pilots_count=np.zeros((1, 1), dtype=np.bool_),
        learned_free=free,
    )
    one = np.zeros(1, dtype=np.int64)
    slots = RowsByKind(np.full((1, len(snapshot.unified)), np.nan), one)
    found = running_of_kinds(Running(), RowsByKind(counts, one), slots, inputs, snapshot.queues.unified).every[0]
    for at in range(3):
        believed = hours / (hours + prior_h) if at and hours else 0.0
        more = running + believed * max(0.0, most - running) - running if at else 0.0
        alone = jobs[at] + math.floor(more / snapshot.queues.cores[at])
        assert found[at] == max(jobs[at], min(workers, 20.0), alone)
