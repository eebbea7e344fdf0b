"""The faults and clock jumps of :mod:`tests.fault.test_chaos` while pilots take, run and report jobs.

Jobs end here, so another history is checked: :mod:`tests.fault.history`. ``CHAOS_S`` says for how many seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.store.connection.embedded import EmbeddedServer
from tests.fault.history import fenced_commits, violations, watch
from tests.fault.test_chaos import CONFIG, GOING_ON, SECTION, Chaos, prepared, suffer
from tests.fault.traffic import Traffic

COMPLETION = "completion"


@dataclass
class ChaosWithPilots(Chaos):
    """As the other, but traffic brings the work and takes the jobs."""

    going_on: tuple[str, ...] = (*GOING_ON, COMPLETION)
    traffic: Traffic | None = None
    last: int = 0

    def add_work(self) -> None:
        """Traffic does it."""
        self.rounds += 1

    def judge(self, fault: str) -> None:
        """Compare what there is with what pilots got, and with the leases at each commit."""
        assert self.traffic is not None
        found = violations(self.database, self.last, list(self.traffic.given))
        self.violations += [f"round {self.rounds}, {fault}: {line}" for line in found]


@pytest.fixture
def chaos(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[ChaosWithPilots]:
    with prepared(ChaosWithPilots, own_server, tmp_path, f"{CONFIG}  {COMPLETION}: {SECTION}\n") as made:
        made.last = watch(made.database)
        yield made


@pytest.mark.soak
def test_no_job_is_given_or_ended_twice_under_faults_and_clock_jumps(chaos: ChaosWithPilots) -> None:
    with chaos.database.sibling("pilots", 6) as own:
        chaos.traffic = Traffic(own, seed=1)
        with chaos.traffic.going_on(pilots=4):
            suffer(chaos)
    print(
        {"given": len(chaos.traffic.given), "ended": chaos.traffic.reported, "commits": fenced_commits(chaos.database)}
    )
    assert chaos.traffic.errors == []
    assert violations(chaos.database, chaos.last, chaos.traffic.given) == []
    assert 0 < chaos.traffic.reported <= len(chaos.traffic.given)
    assert fenced_commits(chaos.database) > 0
