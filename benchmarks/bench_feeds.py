"""How fast feeds are: CRIC's documents of 1,000 queues and 3,000 endpoints, and 10,000 datasets kept fresh from Rucio.

The documents are imported into an empty database, then unchanged, then with every queue, site and endpoint changed.
The datasets are requested at 20 requests per second on a clock that advances only while the agent waits: the age of the
oldest answer is that of an installation running for two hours, and the seconds are those that the agent itself takes.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import sqlalchemy as sa

from agents.feeds.cric import CricAgent, CricOptions
from agents.feeds.rucio_replicas import ReplicaOptions, RucioReplicasAgent
from agents.service.base import CycleContext
from agents.service.configuration import ProcessSettings
from benchmarks.measuring import NOW, asked_folder, report
from broker.feeds.model.rucio.answers import Did
from broker.simulation.model.demo.grid_documents import GridSize, cric_documents
from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.schema.migrate import upgrade
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms

SIZE = GridSize(queues=1000, queues_of_a_site=1, endpoints_of_a_site=3)
DATASETS, REQUESTS_PER_S = 10_000, 20.0
WARM_UP_MIN, LASTS_MIN, PERIOD_S = 45, 120, 30.0
LONG_LEASE = LeaseTerms(length_s=3600.0, longest_s=3600.0)


class VirtualClock(threading.Event):
    """A clock in seconds that advances only when a caller waits."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        return False


class ManyDatasets:
    """A stand-in for Rucio that knows any closed dataset, each on one disk."""

    def metadata(self, did: Did) -> Mapping[str, Any]:
        return {"did_type": "DATASET", "length": 5, "is_open": False}

    def dataset_replicas(self, did: Did, *, deep: bool) -> list[Mapping[str, Any]]:
        sizes = {"length": 5, "available_length": 5, "bytes": 500, "available_bytes": 500}
        return [{"rse": "DISK", "state": "AVAILABLE", **sizes}]

    def rule_groupings(self, did: Did) -> tuple[str, ...]:
        return ("DATASET",)

    def tape_endpoints(self) -> dict[str, bool]:
        return {"DISK": False}


def change_documents(documents: dict[str, Any]) -> dict[str, Any]:
    """Change a value in every queue, site and endpoint of the documents."""
    for queue in documents["queues"].values():
        queue["corepower"] += 1
    for site in documents["sites"].values():
        site["tier_level"] = 3
    for endpoint in documents["endpoints"].values():
        endpoint["token"] = "OTHER"  # noqa: S105 - a space token
    return documents


def imports(database: Database, folder: Path) -> list[dict[str, Any]]:
    """Measure the three imports."""
    documents = cric_documents(SIZE, NOW)
    rows = []
    for hours, name in enumerate(("first", "unchanged", "all changed")):
        if name == "all changed":
            documents = change_documents(documents)
        paths = {}
        for document, content in documents.items():
            (folder / document).write_text(json.dumps(content))
            paths[document] = str(folder / document)
        agent = CricAgent(CricOptions(documents=paths), ProcessSettings())
        context = context_of(database, "cric", hours * 3600.0)
        start_s = perf_counter()
        outcome = agent.cycle(context)
        rows.append({"import": name, **outcome.counts, "total_s": perf_counter() - start_s})
    return rows


def context_of(database: Database, name: str, at_s: float, **changes: Any) -> CycleContext:
    """Make the context of a cycle ``at_s`` seconds after the start, under a new lease."""
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases WHERE name = :name"), {"name": name})
        lease = leases.acquire(connection, name, "benchmark", LONG_LEASE).lease
    return CycleContext(database, NOW + timedelta(seconds=at_s), 1, 120.0, lease=lease, **changes)


def fill(database: Database) -> None:
    """Insert a task for each dataset."""
    statements = (
        "INSERT INTO {panda}.jedi_tasks (jeditaskid, status, currentpriority) SELECT n, 'ready', n FROM {numbers}",
        "INSERT INTO {panda}.jedi_datasets (jeditaskid, datasetid, datasetname, type) "
        "SELECT n, n, 'mc:mc.' || n, 'input' FROM {numbers}",
        "INSERT INTO {panda}.jedi_dataset_contents (jeditaskid, datasetid, fileid, status) "
        "SELECT n, n, n, 'ready' FROM {numbers}",
    )
    numbers = f"generate_series(1, {DATASETS}) AS n"
    with database.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(database.names.sql(statement).replace("{numbers}", numbers)))


def freshness(database: Database) -> dict[str, Any]:
    """Measure the age of the oldest answer after the warm-up, and the cost of keeping it."""
    fill(database)
    clock = VirtualClock()
    options = ReplicaOptions(requests_per_s=REQUESTS_PER_S, requests_in_flight=1)
    agent = RucioReplicasAgent(options, ProcessSettings(), lambda _: ManyDatasets())  # type: ignore[arg-type,return-value]
    oldest_s, busy_s, request_count, cycles = 0.0, 0.0, 0, 0
    while clock.now_s < LASTS_MIN * 60:
        cycle_start_s, wall_start_s = clock.now_s, perf_counter()
        context = context_of(
            database, agent.name, cycle_start_s, ending=clock, monotonic=lambda: clock.now_s, started=cycle_start_s
        )
        request_count += agent.cycle(context).counts["requests"]
        busy_s += perf_counter() - wall_start_s
        cycles += 1
        clock.now_s = max(clock.now_s, cycle_start_s + PERIOD_S)
        if clock.now_s >= WARM_UP_MIN * 60:
            oldest_s = max(oldest_s, oldest_answer_s(database, clock.now_s))
    return {
        "datasets": DATASETS,
        "requests_per_s": request_count / clock.now_s,
        "oldest_answer_min": oldest_s / 60,
        "cycles": cycles,
        "busy_s": busy_s,
    }


def oldest_answer_s(database: Database, at_s: float) -> float:
    """Return the age of the oldest answer, or the age of the benchmark if a dataset has no answer yet."""
    query = "SELECT count(*), min(answered_at) FROM broker.replica_requests HAVING count(answered_at) = :datasets"
    with database.begin() as connection:
        row = connection.execute(sa.text(query), {"datasets": DATASETS}).first()
    return at_s if row is None else (NOW + timedelta(seconds=at_s) - row[1]).total_seconds()


def main() -> None:
    """Measure and report."""
    reports = asked_folder()
    with tempfile.TemporaryDirectory(prefix="gridbroker-bench-") as folder:
        server = EmbeddedServer(Path(folder) / "home")
        with Database(server.start(), on_close=server.stop) as database:
            upgrade(database)
            report(
                reports, "feeds_import", imports(database, Path(folder)), queues=SIZE.queues, endpoints=3 * SIZE.sites
            )
            report(reports, "feeds_replicas", [freshness(database)])


if __name__ == "__main__":
    main()
