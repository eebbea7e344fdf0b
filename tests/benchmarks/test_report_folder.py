"""Where a benchmark writes its report: never into a folder named after an option."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks import bench_forecast_cycle, bench_specs, bench_unchanged, measuring
from benchmarks.measuring import RESULTS, asked_folder, report

BENCHMARKS = Path(measuring.__file__).parent


@pytest.mark.parametrize("words", [["--hours"], ["--hours", "3"], ["--", "--hours"], ["a", "b"], [""]])
def test_arguments_that_are_no_folder_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        asked_folder(words)
    assert exit_info.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_the_folder_is_the_only_argument(tmp_path: Path) -> None:
    assert asked_folder([]) == RESULTS
    assert asked_folder([str(tmp_path)]) == tmp_path


def test_a_benchmark_refuses_an_option_before_it_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench_specs.py", "--hours", "3"])
    monkeypatch.setattr(bench_specs, "measure", lambda *_: pytest.fail("it measures"))
    with pytest.raises(SystemExit) as exit_info:
        bench_specs.main()
    assert exit_info.value.code == 2
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_beside_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench_forecast_cycle.py", "--hours", "3", str(tmp_path), "--no-such"])
    monkeypatch.setattr(bench_forecast_cycle, "loaded", lambda *_: pytest.fail("it measures"))
    with pytest.raises(SystemExit) as exit_info:
        bench_forecast_cycle.main()
    assert exit_info.value.code == 2


def test_a_folder_beside_a_valid_option_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench_unchanged.py", "--chunks", "3", str(tmp_path)])
    monkeypatch.setattr(bench_unchanged, "measure_day", lambda chunks, _: {"chunks": chunks, "mb_of_rows": 1.0})
    bench_unchanged.main()
    assert [row["chunks"] for row in json.loads((tmp_path / "unchanged.json").read_text("utf-8"))["rows"]] == [3, 3]


def test_a_report_is_written_into_the_given_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench.py", "--hours", "3"])
    report(tmp_path / "reports", "speed", [{"cpu_s": 1.0}], target="quick")
    assert [path.name for path in tmp_path.iterdir()] == ["reports"]
    assert "cpu_s" in (tmp_path / "reports/speed.json").read_text(encoding="utf-8")


def test_no_benchmark_reads_its_folder_from_argv_itself() -> None:
    """Benchmarks with a report get their folder from the functions that refuse options."""
    offenders = [
        path.name
        for path in sorted(BENCHMARKS.glob("bench_*.py"))
        if "benchmarks.measuring import" in (text := path.read_text("utf-8"))
        and re.search(r"import .*\breport\b", text)
        and not re.search(r"asked_folder\(\)|folder_argument\(", text)
    ]
    assert offenders == []
