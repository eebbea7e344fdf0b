"""The benchmarks of comparisons run, on a small day."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import bench_sweep, bench_what_if


def test_small_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["bench", str(tmp_path)])
    for module in (bench_what_if, bench_sweep):
        for name, small in (("CYCLES", 2), ("TASKS", 10), ("QUEUES", 20), ("JOBS", 20)):
            monkeypatch.setattr(module, name, small)
    monkeypatch.setattr(bench_what_if, "PROCESSES", 1)
    monkeypatch.setattr(bench_what_if, "CHANGES", {"one": "MIN_WEIGHT_managed=0.7"})
    monkeypatch.setattr(bench_sweep, "PROCESSES", (1,))
    bench_what_if.main()
    bench_sweep.main()
    (row,) = json.loads((tmp_path / "what_if.json").read_text(encoding="utf-8"))["rows"]
    assert row["cycles"] == 2 and row["ms_per_cycle"] > 0
    (row,) = json.loads((tmp_path / "sweep.json").read_text(encoding="utf-8"))["rows"]
    assert row["speed_up"] == 1.0
