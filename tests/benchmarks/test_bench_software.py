"""The benchmark of matching runs, and its work is neither all accepted nor all refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import bench_software
from benchmarks.bench_software import main, measure


def test_the_figures() -> None:
    stats = measure(queues=30, tags=60, count=40, seed=1)
    assert stats["requirements"] == 40
    assert 0.05 < stats["accepted_share"] < 0.95
    assert stats["match_again_s"] < stats["match_s"]
    assert measure(queues=30, tags=60, count=40, seed=1)["accepted_share"] == stats["accepted_share"]


def test_it_writes_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, small in (("QUEUES", 5), ("TAGS", 20), ("REQUIREMENTS", 5)):
        monkeypatch.setattr(bench_software, name, small)
    monkeypatch.setattr("sys.argv", ["bench_software.py", str(tmp_path)])
    main()
    written = json.loads((tmp_path / "software.json").read_text(encoding="utf-8"))
    assert written["rows"][0]["queues"] == 5
    assert {"match_s", "match_again_s", "peak_mb"} <= written["rows"][0].keys()
    assert "match_s" in capsys.readouterr().out
