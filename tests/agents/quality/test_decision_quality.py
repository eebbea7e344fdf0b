"""The agent that measures cycles: what is wrong is seen within three cycles, what is right is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.quality.decision_quality import DecisionQualityOptions
from broker.domain.arrays import RowsByKind
from broker.flow.answers.quality import Quality, quality, worse_cycles
from broker.rules.production_job.weights.data_availability import DataAvailability
from broker.service.answers.alarm_limits import AlarmLimits
from broker.service.answers.alarms import alarms
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.tuning.statements.gdpconfig_rows import TuningStore
from tests.agents.quality.measuring_cycles import IN_PROCESS, asked, fill, one, work
from tests.brokerages.small_grid import NOW

LIMITS = AlarmLimits().drift
RIGHT, WRONG = 5, LIMITS.cycles


def inverted(monkeypatch: pytest.MonkeyPatch, database: Database) -> None:
    """Queues that have no input are preferred, where those that have it should be."""
    right = DataAvailability.factor

    def factor(self: DataAvailability, pairs: Any) -> Any:
        found = right(self, pairs)
        return 1.0 / np.asarray(found.every if isinstance(found, RowsByKind) else found) ** 4

    monkeypatch.setattr(DataAvailability, "factor", factor)


def wrong_key(monkeypatch: pytest.MonkeyPatch, database: Database) -> None:
    """A weight below which nearly every queue is left out."""
    with database.begin() as connection:
        TuningStore(database.names).set_value(
            connection, "MIN_WEIGHT_managed_MC Simulation", 1000.0, vo="atlas", editor="ann", reason="a mistake"
        )


def cycles(database: Database, first: int, count: int) -> None:
    """Cycles a minute apart, each measured after it ended."""
    for minute in range(first, first + count):
        assert one(database, "production_job", minute).outcome == "done"
        assert one(database, "decision_quality", minute + 0.5, **IN_PROCESS).outcome == "done"


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "figure"), [(inverted, "bytes"), (wrong_key, "cost")])
def test_a_planted_mistake_is_seen_within_three_cycles_and_its_end_too(
    database: Database, monkeypatch: pytest.MonkeyPatch, plant: Callable[..., None], figure: str
) -> None:
    load(database, work())
    cycles(database, 0, RIGHT)
    assert asked(database, RIGHT, worse_cycles, LIMITS) == ()
    with monkeypatch.context() as planted:
        plant(planted, database)
        cycles(database, RIGHT, WRONG - 1)
        assert asked(database, RIGHT + WRONG - 1, worse_cycles, LIMITS) == (), "two cycles may be chance"
        cycles(database, RIGHT + WRONG - 1, 1)
    found = {one.figure: one for one in asked(database, RIGHT + WRONG, worse_cycles, LIMITS)}
    assert found[figure].cycles == WRONG
    assert found[figure].since == NOW + timedelta(minutes=RIGHT)
    told = [one for one in asked(database, RIGHT + WRONG, alarms).alarms if one.code == "decisions_worse"]
    assert {one.about for one in told} == {"production_job"}
    assert all(one.value > one.limit for one in told)


def test_a_cycle_is_measured_once_with_its_shares_causes_and_rules(database: Database, tmp_path: Path) -> None:
    fill(database, tmp_path)
    first = one(database, "decision_quality", 1, **IN_PROCESS)
    again = one(database, "decision_quality", 2, **IN_PROCESS)
    assert (first.counts["cycles"], again.counts["cycles"]) == (1, 0)
    found: Quality = asked(database, 3, quality, LIMITS)
    (measured,) = found.cycles
    assert (measured.state, measured.placer, measured.jobs) == ("measured", "ours", 120)
    assert measured.regret_hs06h == pytest.approx(measured.cost_hs06h - measured.best_hs06h, abs=0.01)
    assert sum(line.regret_hs06h for line in measured.shares) == pytest.approx(measured.regret_hs06h, abs=0.01)
    parts = sum(line.cost_hs06h - line.best_hs06h for line in measured.causes)
    assert parts == pytest.approx(measured.regret_hs06h, abs=0.01)
    assert {line.code for line in measured.rules} <= {"status"}


def test_a_dry_run_measures_and_writes_nothing(database: Database, tmp_path: Path) -> None:
    fill(database, tmp_path)
    assert one(database, "decision_quality", 1, dry_run=True, **IN_PROCESS).counts["cycles"] == 1
    assert asked(database, 2, quality, LIMITS).cycles == ()


@pytest.mark.slow
def test_a_process_of_its_own_measures_the_same(database: Database, tmp_path: Path) -> None:
    fill(database, tmp_path)
    one(database, "decision_quality", 1, dry_run=True)
    one(database, "decision_quality", 1)
    (measured,) = asked(database, 2, quality, LIMITS).cycles
    assert measured.state == "measured" and measured.regret_percent is not None


def test_without_the_solver_nothing_is_measured_and_the_extra_is_named(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, tmp_path)
    monkeypatch.setitem(sys.modules, "highspy", None)
    record = one(database, "decision_quality", 1, **IN_PROCESS)
    assert record.outcome == "done" and "gridbroker[flow]" in "".join(record.notes)


def test_prices_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="FLOW_TIME_LIMIT"):
        DecisionQualityOptions(prices={"FLOW_TIME_LIMIT": 1.0})
