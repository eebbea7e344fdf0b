"""From an empty database to assigned jobs, with every fact from a feed and none from a scenario."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from agents.feeds.by_hand import WorkersImport, WorkersOptions
from agents.feeds.network import NetworkAgent, NetworkOptions
from agents.feeds.rucio_replicas import ReplicaOptions, RucioReplicasAgent
from agents.feeds.rucio_usage import QuotaOptions, RucioQuotaAgent, RucioSpaceAgent, SpaceOptions
from agents.service import registry
from agents.service.base import CycleRequest
from broker.simulation.model.demo.grid_documents import (
    GridSize,
    cric_documents,
    endpoint_name,
    network_metrics,
    queue_name,
    site_name,
    worker_reports,
)
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import dump, load
from broker.store.scenarios.scenario_file import read_scenario, write_scenario
from tests.agents.feeds.running import PROCESS, Feeding
from tests.agents.feeds.wanting import insert
from tests.brokerages import small_grid
from tests.rucio.conftest import RucioServer

SIZE = GridSize(200)
FILES = 6
NUCLEI = (0, 4, 8)


def run_brokerage(feeding: Feeding, agent: str, now: datetime) -> list[dict[str, object]]:
    decisions: list[dict[str, object]] = []
    request = CycleRequest(emit=decisions.append, by_hand=True)
    feeding.run(registry.make(agent, {}, PROCESS), now, request=request)
    return decisions


def policy_and_tasks(feeding: Feeding, now: datetime) -> None:
    """Insert what no feed delivers: resource types, pilot requests, and submitted tasks."""
    insert(
        feeding.database,
        "resource_types",
        [
            {"resource_name": "SCORE", "mincore": 1, "maxcore": 1, "maxrampercore": 2000},
            {"resource_name": "MCORE", "mincore": 2, "maxrampercore": 2000},
        ],
    )
    pilots = {"flag": "production", "hours": 3, "getjob": 50, "updatejob": 50, "laststart": now, "lastmod": now}
    insert(feeding.database, "sitedata", [{**pilots, "site": queue_name(number)} for number in range(SIZE.queues)])
    stamp = (now - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%S")
    for number, name in enumerate(("mc23.first", "mc23.second", "mc23.never"), 1):
        task = small_grid.task(
            jeditaskid=number, status="assigning", nucleus=None, creationdate=stamp, modificationtime=stamp
        )
        insert(feeding.database, "jedi_tasks", [task])
        identity = {"jeditaskid": number, "datasetid": 10 * number, "datasetname": f"mc23:{name}"}
        output = {
            "jeditaskid": number,
            "type": "output",
            "status": "defined",
            "storagetoken": "ATLASDATADISK",
            "nfiles": 0,
        }
        insert(
            feeding.database,
            "jedi_datasets",
            [
                small_grid.dataset(FILES, **identity),
                {**output, "datasetid": 10 * number + 1, "datasetname": f"mc23.{number}.out"},
            ],
        )
        files = small_grid.input_files(FILES, 10**9, jeditaskid=number, datasetid=10 * number, scope="mc23")
        named_files = [
            {**row, "lfn": f"{name}.{index}", "fileid": 1000 * number + index} for index, row in enumerate(files)
        ]
        insert(feeding.database, "jedi_dataset_contents", named_files)


@pytest.fixture
def fed(rucio: RucioServer, feeding: Feeding, now: datetime) -> Feeding:
    """An empty database filled by all feeds."""
    feeding.cric(cric_documents(SIZE, now), now)
    for site in NUCLEI:
        rucio.add_endpoint(endpoint_name(site, 0))
    rucio.add_dataset("mc23.first", FILES, {endpoint_name(NUCLEI[0], 0): FILES})
    rucio.add_dataset("mc23.second", FILES, {endpoint_name(NUCLEI[1], 0): FILES, endpoint_name(NUCLEI[2], 0): 2})
    policy_and_tasks(feeding, now)
    config = rucio.configuration
    feeding.run(RucioSpaceAgent(SpaceOptions(rucio_config=config, requests_per_s=1000), PROCESS), now)
    feeding.run(NetworkAgent(NetworkOptions(address=feeding.write("net", network_metrics(SIZE, now))), PROCESS), now)
    reports = {"reports": feeding.write("workers", worker_reports(SIZE))}
    feeding.run(WorkersImport(WorkersOptions(documents=reports), PROCESS), now)
    feeding.run(RucioQuotaAgent(QuotaOptions(rucio_config=config), PROCESS), now)
    return feeding


def test_tasks_are_brokered_from_feeds_alone(
    rucio: RucioServer, fed: Feeding, now: datetime, tmp_path: Path, make_database: object
) -> None:
    early_decisions = run_brokerage(fed, "production_task", now)
    early_outcomes = {decision["jeditaskid"]: decision["outcome"] for decision in early_decisions}
    assert early_outcomes == {1: "pending", 2: "pending", 3: "pending"}, early_decisions
    replicas = RucioReplicasAgent(ReplicaOptions(rucio_config=rucio.configuration, requests_per_s=1000), PROCESS)
    replica_report = fed.run(replicas, now)
    assert (replica_report.counts["found"], replica_report.counts["not_found"]) == (2, 1)

    later = now + timedelta(hours=1)
    fed.cric(cric_documents(SIZE, later), later)
    fed.run(NetworkAgent(NetworkOptions(address=fed.write("net", network_metrics(SIZE, later))), PROCESS), later)
    reports = {"reports": fed.write("workers", worker_reports(SIZE))}
    fed.run(WorkersImport(WorkersOptions(documents=reports), PROCESS), later)
    late_decisions = run_brokerage(fed, "production_task", later)
    outcomes = {decision["jeditaskid"]: (decision["outcome"], decision["reason"]) for decision in late_decisions}
    nuclei = dict(fed.rows("SELECT jeditaskid, nucleus FROM {panda}.jedi_tasks ORDER BY 1"))  # type: ignore[arg-type]
    assert nuclei[1] in {site_name(site) for site in range(0, SIZE.sites, 4)}, outcomes
    assert nuclei[2] is not None and nuclei[3] is None
    assert outcomes[3][1] == "unknown_dataset"

    fed.rows("UPDATE {panda}.jedi_tasks SET status = 'ready' WHERE nucleus IS NOT NULL RETURNING 1")
    job_decisions = run_brokerage(fed, "production_job", later)
    assert {decision["jeditaskid"] for decision in job_decisions} == {1, 2}
    assert all(decision["outcome"] == "brokered" for decision in job_decisions), job_decisions
    assert fed.count("jobsdefined4") >= 2

    file = tmp_path / "dump.json.gz"
    write_scenario(file, dump(fed.database, later))
    second_database: Database = make_database()  # type: ignore[operator]
    counts = load(second_database, read_scenario(file))
    assert counts["schedconfig_json"] == 200 and counts["ddm_endpoint"] == 300 and counts["dataset_replicas"] == 3
