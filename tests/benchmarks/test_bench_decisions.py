"""The benchmarks of the three brokerages run, and time a cycle that brokers."""

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
def test_a_small_case(
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
    found: dict[str, Any] = module.measure(*size)
    assert found["tasks"] == 12 and found["brokered"] > 0
    stages = [found[name] for name in ("constructor_s", "decide_s", "cut_s", "pack_s") if name in found]
    assert found["total_s"] == pytest.approx(sum(stages)) and min(stages) > 0
    assert found["times_reference"] > 0 and found["keep_work_s"] > 0
    assert found.get("jobs", 1) > 0
