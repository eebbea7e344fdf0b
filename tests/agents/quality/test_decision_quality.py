"""The agent that measures cycles: mistakes are noticed within three cycles, and correct cycles raise no alarm."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from agents.quality.decision_quality import DecisionQualityOptions
from broker.domain.arrays import RowsByKind
from broker.flow.answers.quality import Quality, quality, worse_cycles
from broker.rules.production_job.weights.data_availability import DataAvailability
from broker.service.answers.alarm_limits import AlarmLimits
from broker.service.answers.alarms import alarms
from broker.store.connection.database import Database
from broker.store.gdpconfig_rows import TuningStore
from broker.store.scenarios.load_dump import load
from tests.agents.quality.measuring_cycles import IN_PROCESS, answer_at, cycle_of, fill, work
from tests.brokerages.small_grid import NOW

LIMITS = AlarmLimits().drift
RIGHT, WRONG = 5, LIMITS.cycles


@contextmanager
def inverted_data_availability(database: Database) -> Iterator[None]:
    """Prefer queues without the input to queues that have it."""
    right = DataAvailability.factor

    def factor(self: DataAvailability, pairs: Any) -> Any:
        result = right(self, pairs)
        return 1.0 / np.asarray(result.every if isinstance(result, RowsByKind) else result) ** 4

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(DataAvailability, "factor", factor)
        yield


@contextmanager
def wrong_key(database: Database) -> Iterator[None]:
    """Set a least weight that leaves out nearly every queue, and unset it at the end."""
    store, key = TuningStore(database.names), "MIN_WEIGHT_managed_MC Simulation"
    with database.begin() as connection:
        store.set_value(connection, key, 1000.0, vo="atlas", editor="ann", reason="a mistake")
    yield
    with database.begin() as connection:
        store.unset(connection, key, vo="atlas", editor="ann", reason="a mistake")


def cycles(database: Database, first: int, count: int) -> None:
    """Run cycles a minute apart, and measure each after it ended."""
    for minute in range(first, first + count):
        assert cycle_of(database, "production_job", minute).outcome == "done"
        assert cycle_of(database, "decision_quality", minute + 0.5, **IN_PROCESS).outcome == "done"


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "figure"), [(inverted_data_availability, "bytes"), (wrong_key, "cost")])
def test_a_planted_mistake_and_its_end_are_noticed_within_three_cycles(
    database: Database, mistake: Callable[[Database], AbstractContextManager[None]], figure: str
) -> None:
    load(database, work())
    cycles(database, 0, RIGHT)
    assert answer_at(database, RIGHT, worse_cycles, LIMITS) == ()
    with mistake(database):
        cycles(database, RIGHT, WRONG - 1)
        assert answer_at(database, RIGHT + WRONG - 1, worse_cycles, LIMITS) == (), "two cycles may be chance"
        cycles(database, RIGHT + WRONG - 1, 1)
    by_figure = {item.figure: item for item in answer_at(database, RIGHT + WRONG, worse_cycles, LIMITS)}
    assert by_figure[figure].cycles == WRONG
    assert by_figure[figure].since == NOW + timedelta(minutes=RIGHT)
    quality_alarms = [
        item for item in answer_at(database, RIGHT + WRONG, alarms).alarms if item.code == "decisions_worse"
    ]
    assert {item.about for item in quality_alarms} == {"production_job"}
    assert all(item.value > item.limit for item in quality_alarms)
    cycles(database, RIGHT + WRONG, WRONG)
    assert answer_at(database, RIGHT + 2 * WRONG, worse_cycles, LIMITS) == ()


def test_a_cycle_is_measured_once_with_its_shares_causes_and_rules(database: Database, tmp_path: Path) -> None:
    fill(database, tmp_path)
    first = cycle_of(database, "decision_quality", 1, **IN_PROCESS)
    second = cycle_of(database, "decision_quality", 2, **IN_PROCESS)
    assert (first.counts["cycles"], second.counts["cycles"]) == (1, 0)
    answer: Quality = answer_at(database, 3, quality, LIMITS)
    (cycle,) = answer.cycles
    assert (cycle.state, cycle.placer, cycle.jobs) == ("measured", "ours", 120)
    assert cycle.regret_hs06h == pytest.approx(cycle.cost_hs06h - cycle.best_hs06h, abs=0.01)
    assert sum(line.regret_hs06h for line in cycle.shares) == pytest.approx(cycle.regret_hs06h, abs=0.01)
    parts = sum(line.cost_hs06h - line.best_hs06h for line in cycle.causes)
    assert parts == pytest.approx(cycle.regret_hs06h, abs=0.01)
    assert {line.code for line in cycle.rules} <= {"status"}


def test_a_dry_run_measures_and_writes_nothing(database: Database, tmp_path: Path) -> None:
    fill(database, tmp_path)
    assert cycle_of(database, "decision_quality", 1, dry_run=True, **IN_PROCESS).counts["cycles"] == 1
    assert answer_at(database, 2, quality, LIMITS).cycles == ()


@pytest.mark.slow
def test_a_separate_process_measures_the_same(database: Database, tmp_path: Path) -> None:
    fill(database, tmp_path)
    cycle_of(database, "decision_quality", 1, **IN_PROCESS)
    (expected,) = answer_at(database, 2, quality, LIMITS).cycles
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.decision_quality"))
    cycle_of(database, "decision_quality", 1)
    (cycle,) = answer_at(database, 2, quality, LIMITS).cycles
    assert cycle.state == "measured" and cycle.regret_percent is not None
    assert cycle.model_copy(update={"measure_s": expected.measure_s}) == expected


def test_without_the_solver_nothing_is_measured_and_the_extra_is_named(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, tmp_path)
    monkeypatch.setitem(sys.modules, "highspy", None)
    record = cycle_of(database, "decision_quality", 1, **IN_PROCESS)
    assert record.outcome == "done" and "gridbroker[flow]" in "".join(record.notes)


def test_a_key_that_is_no_price_is_refused() -> None:
    with pytest.raises(ValueError, match="FLOW_TIME_LIMIT"):
        DecisionQualityOptions(prices={"FLOW_TIME_LIMIT": 1.0})
