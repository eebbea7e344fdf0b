"""The benchmark of matching runs, and its work is neither all accepted nor all refused."""

from __future__ import annotations

from pathlib import Path

from benchmarks.matching import main, measure


def test_the_figures() -> None:
    figures = measure(queues=30, tags=60, count=40, seed=1)
    assert figures["requirements"] == 40
    assert 0.05 < figures["accepted_share"] < 0.95
    assert figures["match_again_s"] < figures["match_s"]
    assert measure(queues=30, tags=60, count=40, seed=1)["accepted_share"] == figures["accepted_share"]


def test_it_writes_what_it_prints(tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    assert main(["--queues", "5", "--tags", "20", "--requirements", "5", "--json", str(target)]) in (0, 1)
    assert '"peak_mb"' in target.read_text(encoding="utf-8")
