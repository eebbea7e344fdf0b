"""The benchmark of the spec index reports all its figures."""

from __future__ import annotations

from benchmarks.bench_specs import measure


def test_a_small_run_reports_every_figure() -> None:
    row = measure(50, 5)
    assert row["groups"] == 50 and 0 < row["fitting_groups"] < 50
    assert all(row[name] >= 0 for name in ("index_s", "new_node_ms", "seen_node_ms"))
