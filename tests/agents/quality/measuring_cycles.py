"""A grid whose cycles are decided again and again, and measured."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms
from tests.brokerages.small_grid import GB, NOW, TASK, jobs, replica, scenario, task
from tests.brokerages.stored_grids import input_of

#: JEDI makes the jobs, so that waiting work goes on waiting and every cycle decides about it.
ONLY_RECORDED = ProcessSettings(job_generation="jedi")
FILES = 60
IN_PROCESS: dict[str, Any] = {"own_process": False}


def work() -> Scenario:
    """Two tasks that read large files, one at each of two sites; the third site has none. All queues run alike."""
    inputs = [input_of(TASK + number, FILES) for number in range(2)]
    return scenario(
        jedi_tasks=[task(ramcount=500), task(jeditaskid=TASK + 1, ramcount=500)],
        jedi_datasets=[master for master, _ in inputs],
        jedi_dataset_contents=[{**row, "fsize": 20 * GB} for _, rows in inputs for row in rows],
        dataset_replicas=[replica("BETA", FILES, FILES), replica("GAMMA", FILES, FILES)],
        jobsactive4=[
            *jobs("ALPHA_MCORE", 1, running=60), *jobs("BETA", 100, running=60), *jobs("GAMMA_MCORE", 200, running=60)
        ],
    )  # fmt: skip


def cycle_of(
    database: Database,
    agent: str,
    minute: float,
    process: ProcessSettings = ONLY_RECORDED,
    dry_run: bool = False,
    **options: Any,
) -> RunRecord:
    """One cycle of an agent, ``minute`` minutes after noon."""
    with database.begin() as connection:
        lease = leases.acquire(connection, agent, "test", LeaseTerms(length_s=60.0)).lease
    assert lease is not None
    instance = registry.make(agent, options, process)
    context = CycleContext(
        database,
        NOW + timedelta(minutes=minute),
        1,
        600.0,
        request=CycleRequest(dry_run=dry_run),
        lease=lease,
        run_id=None if dry_run else open_run(database, agent, lease),
    )
    record = run_cycle(instance, context)
    with database.begin() as connection:
        leases.release(connection, lease)
    return record


def fill(database: Database, folder: Path) -> dict[str, Any]:
    """Run a cycle that is not measured yet."""
    load(database, work())
    assert cycle_of(database, "production_job", 0).outcome == "done"
    return IN_PROCESS


def answer_at(database: Database, minute: float, answer: Any, *arguments: Any, **keywords: Any) -> Any:
    """An answer, ``minute`` minutes after noon."""
    with database.read_snapshot() as connection:
        return answer(QueryContext(connection, database.names, NOW + timedelta(minutes=minute)), *arguments, **keywords)
