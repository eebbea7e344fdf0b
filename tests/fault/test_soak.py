"""A day's cycles of a service with pilots show no growth in memory, descriptors, threads, sessions or run rows.

``SOAK_CYCLES`` sets the number of brokerage cycles: `make soak` runs 2,880, a day of cycles at one each 30 s; the slow
tests run a small part. Runs are kept for seconds here instead of days. Decisions and their snapshots are removed by
whole days, and finished jobs after two days: their disk usage is printed and must not grow faster with time.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from subprocess import Popen

import pytest

from broker.store.connection.database import Database
from tests.fault.history import violations, watch
from tests.fault.processes import AGENT, PATIENCE_S, broker, load_grid, wait_until
from tests.fault.traffic import Traffic

A_DAY, PART_OF_A_DAY = 2880, 150
SAMPLES = 30
AGENTS = (AGENT, "activation", "completion", "timeouts", "submit_pool_refresh")
SECTION = "{period_s: 0.2, cycle_budget_s: 60}"
KEEP_DAYS = 10 / 86_400
RETENTION = f"agent_runs_days: {KEEP_DAYS}, snapshots_days: {KEEP_DAYS}, decisions_days: {KEEP_DAYS}, brake_share: 1"
CONFIG = "\n".join(
    [
        "service: {retry_first_s: 0.2, heartbeat_every_s: 1}",
        "agents:",
        *(f"  {one}: {SECTION}" for one in AGENTS),
        f"  cleanup: {{period_s: 1, cycle_budget_s: 60, options: {{{RETENTION}}}}}",
    ]
)
_SESSIONS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name ~ '^gridbroker'"""
_NEWEST = "SELECT coalesce(max(id), 0) FROM broker.agent_runs"
_CYCLES = "SELECT coalesce(max(id), 0) FROM broker.agent_runs WHERE agent = 'production_job'"
MORE_MEMORY_MB = 12.0
"""By which the last third of a run may be above the second: caches of functions fill up slowly."""
MORE_ROWS = 1.5
"""Times as many rows of runs in the last third as in the second: cycles go faster and slower."""
MORE_DISK, MORE_DISK_MB = 2.0, 16.0
"""Times as much, and MB, by which the last third may add to the disk what the second did: a table grows by blocks."""

_EXPECTED_FINDING = "a decision names no run"


@dataclass(frozen=True)
class Sample:
    """Resource usage at one moment."""

    memory_mb: float
    descriptors: int
    threads: int
    sessions: int
    runs: int
    snapshots: int
    disk_mb: float


def number(database: Database, query: str) -> int:
    with database.begin() as connection:
        return int(connection.exec_driver_sql(query).scalar_one())


def sample(database: Database, process: Popen[str]) -> Sample:
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
    status = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.split()}
    return Sample(
        int(status["VmRSS"]) / 1024,
        len(list(Path(f"/proc/{process.pid}/fd").iterdir())),
        int(status["Threads"]),
        number(database, _SESSIONS),
        number(database, "SELECT count(*) FROM broker.agent_runs"),
        number(database, "SELECT count(*) FROM broker.snapshots"),
        number(database, "SELECT pg_database_size(current_database())") / 2**20,
    )


def thirds(samples: Sequence[Sample], name: str) -> tuple[float, float]:
    """Return the medians of the second and the last third of a run; the first third is the warm-up."""
    values, third = [float(getattr(moment, name)) for moment in samples], len(samples) // 3
    return statistics.median(values[third : 2 * third]), statistics.median(values[2 * third :])


def growth_findings(samples: Sequence[Sample]) -> list[str]:
    """Describe each figure that did not stay flat."""
    findings = []
    for name in ("descriptors", "threads", "sessions"):
        before, after = thirds(samples, name)
        if after > before + 2:
            findings.append(f"{name}: {before:g}, then {after:g}")
    before, after = thirds(samples, "memory_mb")
    if after > before + MORE_MEMORY_MB:
        findings.append(f"memory: {before:.1f} MB, then {after:.1f} MB")
    before, after = thirds(samples, "runs")
    if after > MORE_ROWS * before + 20:
        findings.append(f"runs: {before:g} rows, then {after:g}")
    steps = [later.disk_mb - earlier.disk_mb for earlier, later in pairwise(samples)]
    third = len(steps) // 3
    before, after = (sum(part) for part in (steps[third : 2 * third], steps[2 * third : 3 * third]))
    if after > MORE_DISK * before + MORE_DISK_MB:
        findings.append(f"disk: {before:.1f} MB more, then {after:.1f} MB more")
    return findings


def soak(database: Database, folder: Path, cycles: int) -> None:
    """Run this many brokerage cycles with pilots; nothing grows, and no work is lost or duplicated."""
    last, samples = watch(database), []
    with database.sibling("pilots", 6) as pilot_database, broker(database.url, "serve", log=folder / "log") as service:
        traffic = Traffic(pilot_database, seed=1)
        with traffic.running(pilots=3):
            wait_until(lambda: number(database, _CYCLES) > 0, "the service brokers")
            first = number(database, _NEWEST)
            for step in range(1, SAMPLES + 1):
                due = first + step * cycles * len(AGENTS) // SAMPLES
                wait_until(lambda: number(database, _NEWEST) >= due, f"cycle {due}", PATIENCE_S + cycles)  # noqa: B023
                samples.append(sample(database, service))
                assert service.poll() is None
        service.send_signal(signal.SIGTERM)
        assert service.wait(PATIENCE_S) == 0
    figures = {name: thirds(samples, name) for name in asdict(samples[0])}
    print(json.dumps({"cycles": cycles, "ended": traffic.final_reports} | figures))
    assert (traffic.errors, growth_findings(samples)) == ([], [])
    assert [
        violation
        for violation in violations(database, last, traffic.assigned_jobs)
        if not violation.startswith(_EXPECTED_FINDING)
    ] == []


@pytest.fixture
def grid(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    (tmp_path / "agents.yaml").write_text(CONFIG)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    load_grid(database, datetime.now(UTC).replace(microsecond=0))
    return database


@pytest.mark.slow
def test_a_part_of_a_day_leaves_no_growth(grid: Database, tmp_path: Path) -> None:
    soak(grid, tmp_path, PART_OF_A_DAY)


@pytest.mark.soak
def test_a_day_leaves_no_growth(grid: Database, tmp_path: Path) -> None:
    soak(grid, tmp_path, int(os.environ.get("SOAK_CYCLES", A_DAY)))


STEADY = Sample(100.0, 20, 12, 5, 300, 30, 50.0)


def test_each_growing_figure_is_reported() -> None:
    assert growth_findings([STEADY] * SAMPLES) == []
    leaking = [
        replace(STEADY, memory_mb=100.0 + 2 * step, descriptors=20 + step, runs=100 * step, disk_mb=float(step**3))
        for step in range(SAMPLES)
    ]
    assert growth_findings(leaking) == [
        "descriptors: 34.5, then 44.5",
        "memory: 129.0 MB, then 149.0 MB",
        "runs: 1450 rows, then 2450",
        "disk: 5103.0 MB more, then 13851.0 MB more",
    ]
