"""The benchmarks of the three brokerages run, and the cycle they time brokers tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from benchmarks import bench_analysis, bench_decide, bench_task_decide
from benchmarks.columns import ColumnScenario
from broker.store.connection.database import Database


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "size"), [(bench_decide, (12, 20)), (bench_analysis, (12, 20)), (bench_task_decide, (12, 4, 20))]
)
def test_a_small_run_brokers_and_reports_every_stage(
    module: ModuleType,
    size: tuple[int, ...],
    make_database: Callable[..., Database],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def loaded(scenario: ColumnScenario) -> Iterator[Database]:
        database = make_database()
        with database.begin() as connection:
            scenario.copy_into(Database.raw(connection), database.names)
        yield database

    monkeypatch.setattr(module, "loaded", loaded)
    monkeypatch.setattr(module, "ROUNDS", 1)
    row: dict[str, Any] = module.measure(*size)
    assert row["tasks"] == 12 and row["brokered"] > 0
    stages = [row[name] for name in ("constructor_s", "decide_s", "cut_s", "pack_s") if name in row]
    assert row["total_s"] == pytest.approx(sum(stages)) and min(stages) > 0
    assert row["times_reference"] > 0 and row["keep_work_s"] > 0
    assert row.get("jobs", 1) > 0
