"""A cycle uses one version of the tuning, even if the tuning changes in the middle of it."""

from __future__ import annotations

import pytest

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.store.connection.database import Database
from broker.store.gdpconfig_rows import TuningStore
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms
from tests.fault.processes import NOW, SEED, load_grid

BY_TUNING = (
    "production_task", "production_job", "analysis_job", "task_class", "timeouts", "fast_rebrokerage",
    "analysis_rebrokerage", "activation",
)  # fmt: skip
READS = ("read_current", "sync_outside_changes")


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the outermost calls that read the values in force."""
    calls: list[str] = []
    nested: list[str] = []

    def watch(name: str) -> None:
        original = getattr(TuningStore, name)

        def read(self: TuningStore, *arguments: object, **named: object) -> object:
            if not nested:
                calls.append(name)
            nested.append(name)
            try:
                return original(self, *arguments, **named)
            finally:
                nested.pop()

        monkeypatch.setattr(TuningStore, name, read)

    for name in READS:
        watch(name)
    return calls


@pytest.fixture(scope="module")
def grid(shared_database: Database) -> Database:
    load_grid(shared_database)
    return shared_database


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("name", BY_TUNING)
def test_tuning_is_read_once_a_cycle(grid: Database, readings: list[str], name: str, writes: bool) -> None:
    agent = registry.make(name, {}, ProcessSettings())
    with grid.begin() as connection:
        lease = leases.acquire(connection, name, "test", LeaseTerms()).lease if writes else None
    run_id = None if lease is None else open_run(grid, name, lease)
    request = CycleRequest(dry_run=not writes)
    record = run_cycle(agent, CycleContext(grid, NOW, SEED, 600.0, request, lease=lease, run_id=run_id))
    assert record.outcome in ("done", "refused"), record.error
    needs_none = name == "activation" and not writes  # it only weighs the task queues that it writes
    assert len(readings) == (0 if needs_none else 1)
