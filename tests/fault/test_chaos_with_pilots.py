"""The faults and clock jumps of :mod:`tests.fault.test_chaos` while pilots take, run and report jobs.

Jobs end here, so a different history is checked: :mod:`tests.fault.history`. ``CHAOS_S`` sets the duration in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.store.connection.embedded import EmbeddedServer
from tests.fault.history import fenced_commits, violations, watch
from tests.fault.test_chaos import CONFIG, SECTION, UNAFFECTED_AGENTS, Chaos, prepare, suffer
from tests.fault.traffic import Traffic

COMPLETION = "completion"


@dataclass
class ChaosWithPilots(Chaos):
    """A chaos run in which traffic adds the work and takes the jobs."""

    unaffected_agents: tuple[str, ...] = (*UNAFFECTED_AGENTS, COMPLETION)
    traffic: Traffic | None = None
    last: int = 0

    def add_work(self) -> None:
        """Only count the round: traffic adds the work."""
        self.rounds += 1

    def judge(self, fault: str) -> None:
        """Compare the tables with the jobs that pilots received and with the leases at each commit."""
        assert self.traffic is not None
        findings = violations(self.database, self.last, list(self.traffic.assigned_jobs))
        self.violations += [f"round {self.rounds}, {fault}: {line}" for line in findings]


@pytest.fixture
def chaos(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[ChaosWithPilots]:
    with prepare(ChaosWithPilots, own_server, tmp_path, f"{CONFIG}  {COMPLETION}: {SECTION}\n") as run:
        run.last = watch(run.database)
        yield run


@pytest.mark.soak
def test_no_job_is_assigned_or_ended_twice_under_faults_and_clock_jumps(chaos: ChaosWithPilots) -> None:
    with chaos.database.sibling("pilots", 6) as pilot_database:
        chaos.traffic = Traffic(pilot_database, seed=1)
        with chaos.traffic.running(pilots=4):
            suffer(chaos)
    print(
        {
            "given": len(chaos.traffic.assigned_jobs),
            "ended": chaos.traffic.final_reports,
            "commits": fenced_commits(chaos.database),
        }
    )
    assert chaos.traffic.errors == []
    assert violations(chaos.database, chaos.last, chaos.traffic.assigned_jobs) == []
    assert 0 < chaos.traffic.final_reports <= len(chaos.traffic.assigned_jobs)
    assert fenced_commits(chaos.database) > 0
