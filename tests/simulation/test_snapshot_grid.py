"""A simulation on the grid of a snapshot."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import SHARES, GridParameters, generate
from broker.simulation.model.grids import FRESH
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.simple import LeastLoaded
from broker.simulation.model.real.grid_rows import START, sources_of, static_snapshot
from broker.simulation.model.scenario import Scenario
from broker.simulation.model.snapshot_grid import grid_of_snapshot, node_memory_gb
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.global_share_targets import SHARE_TARGETS

SMALL = GridParameters(days=0.2, queues=8, cores=600, nuclei=2, users=10, warm_up_s=3600.0)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return generate(SMALL, 3)


@pytest.fixture
def snapshot(scenario: Scenario) -> Snapshot:
    return static_snapshot(scenario)


def test_queues_sites_and_links_are_those_of_the_snapshot(scenario: Scenario, snapshot: Snapshot) -> None:
    grid = grid_of_snapshot(snapshot, SMALL)(1)
    originals = {queue.name: queue for queue in scenario.queues}
    assert sorted(queue.name for queue in grid.queues) == sorted(originals)
    for queue in grid.queues:
        original = originals[queue.name]
        assert queue.cores == pytest.approx(original.cores, abs=32)
        assert (queue.corepower, queue.mode) == (original.corepower, original.mode)
        assert queue.node_memory_gb == pytest.approx(original.node_memory_gb / original.node_cores * queue.node_cores)
        assert grid.sites[queue.site].name == scenario.sites[original.site].name
    for site in grid.sites:
        before = next(original_site for original_site in scenario.sites if original_site.name == site.name)
        assert site.storage_total == pytest.approx(before.storage_total, rel=1e-6)
        assert site.storage_used == pytest.approx(before.storage_used, rel=1e-5)
    numbers = {site.name: place for place, site in enumerate(scenario.sites)}
    assert grid.link_bytes_s
    for (a, b), rate in grid.link_bytes_s.items():
        # the network matrix has whole MB/s
        original = scenario.link_bytes_s[numbers[grid.sites[a].name], numbers[grid.sites[b].name]]
        assert rate == pytest.approx(1e6 * round(original / 1e6), rel=1e-12)


@pytest.mark.parametrize(
    ("maxrss_mb", "cores", "node_gb"),
    [
        ([6144.0], [1.0], 192.0),  # the most that a core has
        ([6145.0], [1.0], 64.0),  # more is the limit of one job: two per core, the default
        ([64_000.0], [1.0], 64.0),
        ([128_000.0], [1.0], 125.0),  # a node holds one of the largest jobs
        ([16_000.0, 64_000.0], [8.0, 1.0], 62.5),  # the other limit counts: 1.95 per core
        ([0.0], [8.0], 64.0),
        ([200_000.0], [64.0], 97.65625),  # a job that fits no node does not enlarge the nodes
    ],
)
def test_the_memory_limit_of_a_job_is_not_the_memory_of_each_core(
    maxrss_mb: list[float], cores: list[float], node_gb: float
) -> None:
    assert node_memory_gb(np.array(maxrss_mb), np.array(cores), 32) == pytest.approx(node_gb)


def test_the_work_and_the_hidden_speeds_are_drawn_by_seed(snapshot: Snapshot) -> None:
    grid = grid_of_snapshot(snapshot, SMALL, (("ages", FRESH),))
    first, repeated, other_seed = grid(1), grid(1), grid(2)
    assert first == repeated != other_seed
    assert first.tasks != other_seed.tasks
    assert [queue.hidden_speed for queue in first.queues] != [queue.hidden_speed for queue in other_seed.queues]
    assert first.ages == FRESH
    assert ClosedLoop(first, LeastLoaded, 1).run().tally.assigned_jobs > 20


def test_running_cores_count_where_they_exceed_the_pledge(snapshot: Snapshot) -> None:
    size = len(snapshot.unified)
    cores = np.full((size, 1), 4096.0)
    jobs = dataclasses.replace(snapshot.jobs, running_cores=cores, core_keys=(("atlas", "managed"),))
    grid = grid_of_snapshot(dataclasses.replace(snapshot, jobs=jobs), SMALL)(1)
    assert {queue.cores for queue in grid.queues} == {4096}


def offline(snapshot: Snapshot) -> Snapshot:
    status = np.array(["offline"] * len(snapshot.unified), dtype=object)
    return dataclasses.replace(snapshot, unified=dataclasses.replace(snapshot.unified, status=status))


def without_nuclei(snapshot: Snapshot) -> Snapshot:
    no_nuclei = np.zeros(len(snapshot.nuclei), dtype=np.bool_)
    return dataclasses.replace(snapshot, nuclei=dataclasses.replace(snapshot.nuclei, is_nucleus=no_nuclei))


@pytest.mark.parametrize(("broken", "message"), [(offline, "no queue is online"), (without_nuclei, "is a nucleus")])
def test_a_snapshot_without_a_grid_is_refused(snapshot: Snapshot, broken: object, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        grid_of_snapshot(broken(snapshot), SMALL)  # type: ignore[operator]


def with_rules(snapshot: Snapshot, scenario: Scenario) -> tuple[Snapshot, dict[str, RawSource]]:
    """The snapshot of a grid where exactly one queue has its own limits, hardware and software."""
    sources = {raw_source.name: raw_source for raw_source in sources_of(scenario)}
    rows = list(sources["queues"].rows("schedconfig_json").records())
    changes = {
        "type": "analysis", "maxinputsize": 777, "mintime": 60, "maxwdir": 4321, "wnconnectivity": "none",
        "is_cvmfs": False, "fairsharepolicy": "type=managed:50%", "jobseed": "std", "transferringlimit": 11,
        "params": {"max_io_intensity": 5.0}, "catchall": "excluded_processing=pile",
    }  # fmt: skip
    queue_rows = [
        {**row, "data": json.dumps(json.loads(row["data"]) | changes)} if n == 0 else row for n, row in enumerate(rows)
    ]
    tags = {"cmtconfigs": ["x86_64-centos7-gcc11-opt"], "cvmfs": ["atlas"], "containers": [], "tags": [],
            "architectures": [{"type": "gpu", "vendor": ["nvidia"], "model": ["kt100"]}]}  # fmt: skip
    software_rows = [
        {"panda_queue": rows[0]["panda_queue"], "data": json.dumps(tags), "last_update": rows[0]["last_update"]}
    ]
    levels = [{"panda_queue": rows[0]["panda_queue"], "cpu_architecture_level": "x86_64-v2", "pct_within_pq": 100.0}]
    shares = [{"name": name, "value": value, "parent": None} for name, value in (("User Analysis", 1), ("Upgrade", 3))]

    def source(name: str, table: str, entries: list[dict[str, Any]], base: RawSource | None = None) -> None:
        table_rows = Rows(tuple(entries[0]), tuple(tuple(entry.values()) for entry in entries))
        sources[name] = RawSource(name, {**(base.tables if base else {}), table: table_rows}, START)

    source("queues", "schedconfig_json", queue_rows, sources["queues"])
    source("software", "sw_tags", software_rows)
    source("worker_nodes", "mv_worker_node_summary", levels)
    source(SHARE_TARGETS, "global_shares", shares)
    return build_snapshot("kept", START, sources, ()), sources


def test_a_grid_of_a_snapshot_keeps_its_rules(scenario: Scenario) -> None:
    snapshot, sources = with_rules(static_snapshot(scenario), scenario)
    grid = grid_of_snapshot(snapshot, SMALL, sources=sources)(1)
    second_snapshot = static_snapshot(grid)
    for column in dataclasses.fields(snapshot.queues):
        before, after = getattr(snapshot.queues, column.name), getattr(second_snapshot.queues, column.name)
        assert np.array_equal(before, after, equal_nan=before.dtype == np.float64), column.name
    assert second_snapshot.unified.software == snapshot.unified.software
    assert second_snapshot.unified.cpu_levels == snapshot.unified.cpu_levels
    assert sum(software is not None for software in second_snapshot.unified.software) == 1
    uniform = static_snapshot(grid_of_snapshot(snapshot, SMALL)(1))
    assert set(uniform.queues.type) == {"unified"}, "without its sources a grid is alike but for its size"


def test_shares_keep_their_targets_and_have_work_by_their_jobs(scenario: Scenario) -> None:
    snapshot, sources = with_rules(static_snapshot(scenario), scenario)
    idle = grid_of_snapshot(snapshot, SMALL, sources=sources)
    assert [(name, target, kinds) for name, target, _, kinds in idle.shares] == [
        ("Upgrade", 0.75, ("simul", "digi_reco")), ("User Analysis", 0.25, ("analysis",)),
    ]  # fmt: skip
    assert [part for _, _, part, _ in idle.shares] == [0.75, 0.25], (
        "without jobs the targets say how much work there is"
    )
    counts = np.zeros((len(snapshot.unified), 1, snapshot.jobs.total.shape[1]))
    counts[0, 0, 0] = 9.0
    jobs = dataclasses.replace(snapshot.jobs, accounting_keys=("User Analysis",), by_accounting_key=counts)
    busy = grid_of_snapshot(dataclasses.replace(snapshot, jobs=jobs), SMALL, sources=sources)
    assert [part for _, _, part, _ in busy.shares] == [0.0, 1.0]
    assert {task.kind for task in busy(1).tasks} == {"analysis"}
    del sources[SHARE_TARGETS]
    assert grid_of_snapshot(snapshot, SMALL, sources=sources).shares == SHARES
