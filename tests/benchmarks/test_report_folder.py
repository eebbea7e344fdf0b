"""Where the report of a benchmark goes: never to a folder that is named after an option."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from benchmarks import bench_forecast_cycle, bench_specs, measuring
from benchmarks.measuring import RESULTS, asked_folder, report

BENCHMARKS = Path(measuring.__file__).parent


@pytest.mark.parametrize("words", [["--hours"], ["--hours", "3"], ["--", "--hours"], ["a", "b"], [""]])
def test_what_is_no_folder_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        asked_folder(words)
    assert refused.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_the_folder_is_the_one_argument(tmp_path: Path) -> None:
    assert asked_folder([]) == RESULTS
    assert asked_folder([str(tmp_path)]) == tmp_path


def test_a_benchmark_refuses_an_option_before_it_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench_specs.py", "--hours", "3"])
    monkeypatch.setattr(bench_specs, "measure", lambda *_: pytest.fail("it measures"))
    with pytest.raises(SystemExit) as refused:
        bench_specs.main()
    assert refused.value.code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_folder_stands_beside_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench_forecast_cycle.py", "--hours", "3", str(tmp_path), "--no-such"])
    monkeypatch.setattr(bench_forecast_cycle, "loaded", lambda *_: pytest.fail("it measures"))
    with pytest.raises(SystemExit) as refused:
        bench_forecast_cycle.main()
    assert refused.value.code == 2


def test_a_report_is_written_into_the_folder_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench.py", "--hours", "3"])
    report(tmp_path / "reports", "speed", [{"cpu_s": 1.0}], target="quick")
    assert [path.name for path in tmp_path.iterdir()] == ["reports"]
    assert "cpu_s" in (tmp_path / "reports/speed.json").read_text(encoding="utf-8")


def test_no_benchmark_takes_its_folder_from_the_words_of_the_process() -> None:
    """Those that report ask for the folder by the one way that refuses options."""
    wrong = [
        path.name
        for path in sorted(BENCHMARKS.glob("bench_*.py"))
        if "benchmarks.measuring import" in (text := path.read_text("utf-8"))
        and re.search(r"import .*\breport\b", text)
        and not re.search(r"asked_folder\(\)|folder_argument\(", text)
    ]
    assert wrong == []
