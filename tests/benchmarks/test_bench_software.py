"""The matching benchmark runs, and its work is partly accepted and partly refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import bench_software
from benchmarks.bench_software import main, measure
from broker.domain.arrays import Ints
from broker.matching.match_queue import SoftwareMatcher
from broker.matching.need import Need


def test_the_share_of_accepted_work_is_realistic_and_reproducible() -> None:
    stats = measure(queues=30, tags=60, count=40, seed=1)
    assert stats["requirements"] == 40
    assert 0.05 < stats["accepted_share"] < 0.95
    assert measure(queues=30, tags=60, count=40, seed=1)["accepted_share"] == stats["accepted_share"]


def test_the_second_cycle_judges_no_requirement_again(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Need] = []
    judge = SoftwareMatcher._judged

    def note_and_judge(matcher: SoftwareMatcher, need: Need) -> Ints:
        judged.append(need)
        return judge(matcher, need)

    monkeypatch.setattr(SoftwareMatcher, "_judged", note_and_judge)
    measure(queues=5, tags=60, count=40, seed=1)
    assert len(judged) == len(set(judged)) == 40


def test_the_report_is_written_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("QUEUES", 5), ("TAGS", 20), ("REQUIREMENTS", 5)):
        monkeypatch.setattr(bench_software, name, value)
    monkeypatch.setattr("sys.argv", ["bench_software.py", str(tmp_path)])
    main()
    document = json.loads((tmp_path / "software.json").read_text(encoding="utf-8"))
    assert document["rows"][0]["queues"] == 5
    assert {"match_s", "match_again_s", "peak_mb"} <= document["rows"][0].keys()
    assert "match_s" in capsys.readouterr().out
