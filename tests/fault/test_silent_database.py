"""A database stops answering without closing connections: work resumes within 20 s, here or on a standby."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from broker.store.connection.database import Database
from broker.store.service import leases, services
from tests.fault.auditor import audit, baseline
from tests.fault.processes import AGENT, PATIENCE_S, broker, load_grid, take_lease, wait_until
from tests.fault.silent_proxy import SilentProxy, silent_proxy
from tests.fault.test_services import holder, runs

BUDGET_S = 5.0
SHORT = f"agents:\n  {AGENT}: {{period_s: 0.5, cycle_budget_s: {BUDGET_S}}}\n"
WITHIN_S = 20.0
POINT = "after_write_before_commit"
PRESENT = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def grid(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    (tmp_path / "agents.yaml").write_text(SHORT)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    load_grid(database, PRESENT)
    return database


@dataclass(frozen=True)
class Service:
    """A service behind its own proxy; it pauses in its first write until the file ``go`` exists."""

    proxy: SilentProxy
    process: subprocess.Popen[str]
    reached: Path


def start_service(grid: Database, stack: contextlib.ExitStack, folder: Path, go: Path) -> Service:
    folder.mkdir()
    proxy = stack.enter_context(silent_proxy(grid.url))
    process = stack.enter_context(broker(proxy.url, "serve", fault=f"{POINT}:pause:{go}", markers=folder))
    return Service(proxy, process, folder / POINT)


@pytest.mark.slow
@pytest.mark.parametrize("standby", [False, True])
def test_the_next_cycle_is_done_within_twenty_seconds(grid: Database, tmp_path: Path, standby: bool) -> None:
    before, go = baseline(grid), tmp_path / "go"
    with contextlib.ExitStack() as stack:
        lease = take_lease(grid)
        all_services = [start_service(grid, stack, tmp_path / name, go) for name in ("one", "two")[: 1 + standby]]
        wait_until(lambda: services_of(grid) == len(all_services), "all services run")
        release(grid, lease)
        wait_until(lambda: any(service.reached.exists() for service in all_services), "a service is writing")
        (leader,) = [service for service in all_services if service.reached.exists()]
        runs_before = runs(grid)
        leader.proxy.silence(new_ones_too=standby)
        fell_silent = time.monotonic()
        go.touch()
        wait_until(lambda: runs(grid) > runs_before, "the next cycle", WITHIN_S)
        assert time.monotonic() - fell_silent < WITHIN_S
        assert leader.proxy.swallowed > 0
        assert (f":{leader.process.pid}:" in (holder(grid) or "")) is not standby
        leader.process.send_signal(signal.SIGTERM)
        stopping = time.monotonic()
        _, log = leader.process.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - stopping < 10
        assert leader.process.returncode == 0
    assert "cycle overdue" in log
    assert audit(grid, before) == []


def release(database: Database, lease: leases.Lease) -> None:
    with database.begin() as connection:
        leases.release(connection, lease)


def services_of(database: Database) -> int:
    with database.begin() as connection:
        return len(services.find_all(connection))
