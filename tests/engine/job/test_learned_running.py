"""Jobs that fit on the free part of a queue's largest core count so far, as a reading of "running"."""

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
    """Queues A and B with ``running`` cores in use at B and the learned sums."""
    states = (SourceState(QUEUE_CAPACITY, state, 1, 5.0, 60.0),)  # type: ignore[arg-type]
    snapshot = build(states=states, schedconfig_json=[queue("A"), ucore("B")], resource_types=TYPES)
    cores = np.zeros((len(snapshot.unified), 1))
    cores[snapshot.unified.name.tolist().index("B")] = running
    return dataclasses.replace(
        snapshot, offered={QUEUE_CAPACITY: known}, jobs=dataclasses.replace(snapshot.jobs, running_cores=cores)
    )


def tuning_with(on: bool = True, prior_h: float = 0.0) -> Tuning:
    return Tuning.defaults().with_values({AS_RUNNING: on, PRIOR: prior_h})


@pytest.mark.parametrize(
    ("most", "hours", "running", "prior_h", "of_eight", "of_one"),
    [
        (80.0, 6, 73.0, 0.0, 0, 7),  # no whole job of eight cores
        (80.0, 6, 72.0, 0.0, 1, 8),
        (80.0, 6, 71.0, 0.0, 1, 9),
        (80.0, 6, 80.0, 0.0, 0, 0),
        (80.0, 6, 90.0, 0.0, 0, 0),  # more cores run now than ever before
        (80.0, 6, 0.0, 6.0, 5, 40),  # half of it counts
        (80.0, 0, 0.0, 0.0, 0, 0),  # no observations yet
        (0.0, 6, 0.0, 0.0, 0, 0),
    ],
)
def test_free_cores_are_counted_in_whole_jobs(
    most: float, hours: int, running: float, prior_h: float, of_eight: int, of_one: int
) -> None:
    free_jobs = learned_free_jobs(
        grid({"B": QueueSums(most_cores=most, hours=hours)}, running), tuning_with(prior_h=prior_h)
    )
    assert free_jobs is not None and free_jobs[[EIGHT, ONE]].tolist() == [of_eight, of_one]
    assert free_jobs[0] == 0, "nothing is known of the queue A"


@pytest.mark.parametrize("state", ["stale", "missing"])
def test_an_old_record_does_not_count(state: str) -> None:
    known = {"B": QueueSums(most_cores=80.0, hours=6)}
    assert learned_free_jobs(grid(known, state=state), tuning_with()) is None
    assert learned_free_jobs(grid(known), tuning_with(on=False)) is None
    assert learned_free_jobs(grid({}), tuning_with()) is None
    assert Tuning.defaults().flag(AS_RUNNING) is False


def test_the_panda_profile_ignores_learned_cores() -> None:
    known, off = grid({"B": QueueSums(most_cores=80.0, hours=6)}), Running().configured({"learned": False})
    assert Running().free_jobs(known, tuning_with()) is not None and Running().needed_sources() == (QUEUE_CAPACITY,)
    assert off.free_jobs(known, tuning_with()) is None and off.needed_sources() == ()


def test_an_explanation_names_the_source_of_the_jobs() -> None:
    snapshot = grid({"B": QueueSums(most_cores=80.0, hours=6)})
    free = learned_free_jobs(snapshot, tuning_with())
    evidence = {"learned_free_jobs": 10.0, "learned_most_cores": 80.0, "learned_hours": 6}
    assert learned_evidence(snapshot, free, EIGHT) == evidence
    assert learned_evidence(snapshot, free, 0) == learned_evidence(snapshot, None, EIGHT) == {}


@given(
    most=st.floats(0, 1e5),
    hours=st.integers(0, 504),
    running=st.floats(0, 1e5),
    prior_h=st.floats(0, 1000),
    jobs=st.lists(st.integers(0, 500), min_size=3, max_size=3),
    workers=st.floats(0, 50),
)
def test_the_reading_by_kind_equals_that_of_each_pair(
    most: float, hours: int, running: float, prior_h: float, jobs: list[int], workers: float
) -> None:
    snapshot = grid({"B": QueueSums(most_cores=most, hours=hours)}, running)
    free = learned_free_jobs(snapshot, tuning_with(prior_h=prior_h))
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
    kind = np.zeros(1, dtype=np.int64)
    slots = RowsByKind(np.full((1, len(snapshot.unified)), np.nan), kind)
    readings = running_of_kinds(Running(), RowsByKind(counts, kind), slots, inputs, snapshot.queues.unified).every[0]
    for at in range(3):
        trust = hours / (hours + prior_h) if at and hours else 0.0
        more = running + trust * max(0.0, most - running) - running if at else 0.0
        alone = jobs[at] + math.floor(more / snapshot.queues.cores[at])
        assert readings[at] == max(jobs[at], min(workers, 20.0), alone)
