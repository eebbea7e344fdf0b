"""Brokers as real processes on a loaded example grid; environment variables arm the faults."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType

import sqlalchemy as sa

from agents.service import registry
from agents.service.base import CycleContext
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker import resources
from broker.simulation.model.demo.facts import facts_from_texts
from broker.simulation.model.demo.grid import build_scenario
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import Lease, LeaseTerms

AGENT = "production_job"
NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
SEED = 1
PATIENCE_S = 150.0
_CHECKOUT = Path(__file__).parents[2]


_TASKS = 16
_OLD_JOBS = 400


@cache
def scenario(now: datetime = NOW) -> Scenario:
    """Return the example grid at an instant, reduced to a few of its tasks and jobs."""
    full_scenario = _whole_scenario(now)
    tables = dict(full_scenario.tables)
    tasks = [row["jeditaskid"] for row in tables["jedi_tasks"] if row.get("nucleus") and row["status"] == "running"]
    for name in ("jedi_tasks", "jedi_taskparams", "jedi_datasets", "jedi_dataset_contents"):
        tables[name] = [row for row in tables[name] if row["jeditaskid"] in tasks[:_TASKS]]
    for name in ("jobsactive4", "jobsdefined4"):
        tables[name] = tables[name][:_OLD_JOBS]
    return Scenario(full_scenario.now, tables)


def _whole_scenario(now: datetime) -> Scenario:
    texts = [path.read_text(encoding="utf-8") for path in sorted(resources.path("config/demo").glob("*.yaml"))]
    return Scenario.of(build_scenario(facts_from_texts(texts), now, SEED, quick=True))


def load_grid(database: Database, now: datetime = NOW) -> None:
    """Load the example grid into an empty database."""
    load(database, scenario(now))


@contextmanager
def broker(
    url: str,
    *arguments: str,
    fault: str = "",
    markers: Path | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
    log: Path | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run a ``broker`` command as a process that ends with the block.

    ``variables`` are added to its environment. A long-running process needs a log file: a pipe without a reader fills
    up.
    """
    environment = {**os.environ, **variables, "BROKER_FAULT": fault, "PYTHONPATH": str(_CHECKOUT)}
    if markers is not None:
        environment["BROKER_FAULT_MARKERS"] = str(markers)
    command = [sys.executable, "-m", "broker.cli.main", "--db", url, *arguments]
    with contextlib.ExitStack() as stack:
        out = subprocess.PIPE if log is None else stack.enter_context(log.open("a"))
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, text=True, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def on_clock(file: Path) -> dict[str, str]:
    """Return variables that shift a process's wall clock by the offset in ``file``, but not its monotonic clocks."""
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def run_arguments(*more: str) -> tuple[str, ...]:
    """Return the arguments of one cycle with the seed of these tests."""
    return ("run", AGENT, "--seed", str(SEED), *more)


def wait_until(condition: Callable[[], bool], event: str, patience_s: float = PATIENCE_S) -> None:
    """Poll ``condition`` until it holds.

    Raises:
        AssertionError: it did not hold in time.
    """
    deadline = time.monotonic() + patience_s
    pacer = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {event}"
        pacer.wait(0.05)


def free_leases(database: Database) -> None:
    """Expire the leases of dead processes."""
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.leases SET expires_at = clock_timestamp()"))


def take_lease(database: Database, holder: str = "other") -> Lease:
    """Acquire the agent's lease for the test."""
    with database.begin() as connection:
        lease = leases.acquire(connection, AGENT, holder, LeaseTerms()).lease
    assert lease is not None
    return lease


def cycle_here(database: Database, seed: int = SEED) -> RunRecord:
    """Run one cycle inside the test's own process."""
    lease = take_lease(database, "test")
    agent = registry.make(AGENT, {}, ProcessSettings())
    context = CycleContext(database, NOW, seed, 600.0, lease=lease, run_id=open_run(database, AGENT, lease))
    record = run_cycle(agent, context)
    with database.begin() as connection:
        leases.release(connection, lease)
    return record


def made_jobs(database: Database) -> int:
    """Return the number of jobs that brokers created."""
    highest = max(row["pandaid"] for table in ("jobsdefined4", "jobsactive4") for row in scenario().tables[table])
    with database.begin() as connection:
        result = connection.execute(
            sa.text("SELECT count(*) FROM doma_panda.jobsdefined4 WHERE pandaid > :highest"), {"highest": highest}
        )
        return int(result.scalar_one())


def last_outcome(database: Database) -> str:
    """Return the outcome of the newest run."""
    with database.begin() as connection:
        return str(
            connection.execute(sa.text("SELECT outcome FROM broker.agent_runs ORDER BY id DESC LIMIT 1")).scalar()
        )
