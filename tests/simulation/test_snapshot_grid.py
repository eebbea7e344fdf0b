"""A simulation on the grid of a snapshot."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters, generate
from broker.simulation.model.grids import FRESH
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.simple import LeastLoaded
from broker.simulation.model.real.grid_rows import static_snapshot
from broker.simulation.model.scenario import Scenario
from broker.simulation.model.snapshot_grid import grid_of_snapshot, node_memory_gb
from broker.snapshot.snapshot import Snapshot

SMALL = GridParameters(days=0.2, queues=8, cores=600, nuclei=2, users=10, warm_up_s=3600.0)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return generate(SMALL, 3)


@pytest.fixture
def snapshot(scenario: Scenario) -> Snapshot:
    return static_snapshot(scenario)


def test_queues_sites_and_links_are_those_of_the_snapshot(scenario: Scenario, snapshot: Snapshot) -> None:
    made = grid_of_snapshot(snapshot, SMALL)(1)
    known = {queue.name: queue for queue in scenario.queues}
    assert sorted(queue.name for queue in made.queues) == sorted(known)
    for queue in made.queues:
        own = known[queue.name]
        assert queue.cores == pytest.approx(own.cores, abs=32)
        assert (queue.corepower, queue.mode) == (own.corepower, own.mode)
        assert queue.node_memory_gb == pytest.approx(own.node_memory_gb / own.node_cores * queue.node_cores)
        assert made.sites[queue.site].name == scenario.sites[own.site].name
    for site in made.sites:
        before = next(one for one in scenario.sites if one.name == site.name)
        assert site.storage_total == pytest.approx(before.storage_total, rel=1e-6)
        assert site.storage_used == pytest.approx(before.storage_used, rel=1e-5)
    numbers = {site.name: place for place, site in enumerate(scenario.sites)}
    assert made.link_bytes_s
    for (a, b), rate in made.link_bytes_s.items():
        # the network matrix has whole MB/s
        own = scenario.link_bytes_s[numbers[made.sites[a].name], numbers[made.sites[b].name]]
        assert rate == pytest.approx(1e6 * round(own / 1e6), rel=1e-12)


@pytest.mark.parametrize(
    ("maxrss_mb", "cores", "node_gb"),
    [
        ([6144.0], [1.0], 192.0),  # the most that a core has
        ([6145.0], [1.0], 64.0),  # more is what one job may use: two a core, as where nothing is said
        ([64_000.0], [1.0], 64.0),
        ([128_000.0], [1.0], 125.0),  # a node holds one of the largest jobs
        ([16_000.0, 64_000.0], [8.0, 1.0], 62.5),  # the other limit counts: 1.95 a core
        ([0.0], [8.0], 64.0),
        ([200_000.0], [64.0], 97.65625),  # a job that fits no node makes none larger
    ],
)
def test_what_one_job_may_use_is_not_what_each_core_has(
    maxrss_mb: list[float], cores: list[float], node_gb: float
) -> None:
    assert node_memory_gb(np.array(maxrss_mb), np.array(cores), 32) == pytest.approx(node_gb)


def test_the_work_and_the_hidden_speeds_are_drawn_by_seed(snapshot: Snapshot) -> None:
    grid = grid_of_snapshot(snapshot, SMALL, (("ages", FRESH),))
    first, again, other = grid(1), grid(1), grid(2)
    assert first == again != other
    assert first.tasks != other.tasks
    assert [one.hidden_speed for one in first.queues] != [one.hidden_speed for one in other.queues]
    assert first.ages == FRESH
    assert ClosedLoop(first, LeastLoaded, 1).run().tally.assigned_jobs > 20


def test_running_cores_count_where_more_than_pledged(snapshot: Snapshot) -> None:
    size = len(snapshot.unified)
    cores = np.full((size, 1), 4096.0)
    jobs = dataclasses.replace(snapshot.jobs, running_cores=cores, core_keys=(("atlas", "managed"),))
    made = grid_of_snapshot(dataclasses.replace(snapshot, jobs=jobs), SMALL)(1)
    assert {queue.cores for queue in made.queues} == {4096}


def offline(snapshot: Snapshot) -> Snapshot:
    status = np.array(["offline"] * len(snapshot.unified), dtype=object)
    return dataclasses.replace(snapshot, unified=dataclasses.replace(snapshot.unified, status=status))


def without_nuclei(snapshot: Snapshot) -> Snapshot:
    none = np.zeros(len(snapshot.nuclei), dtype=np.bool_)
    return dataclasses.replace(snapshot, nuclei=dataclasses.replace(snapshot.nuclei, is_nucleus=none))


@pytest.mark.parametrize(("broken", "message"), [(offline, "no queue is online"), (without_nuclei, "is a nucleus")])
def test_a_snapshot_without_a_grid_is_refused(snapshot: Snapshot, broken: object, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        grid_of_snapshot(broken(snapshot), SMALL)  # type: ignore[operator]
