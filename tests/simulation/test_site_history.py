"""The history of a site: read from its tables, fitted, replayed, and compared with a simulation."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
import yaml

from benchmarks.hidden_truth import START, compared, rows_of, store, truth
from broker.cli.main import main
from broker.simulation.commands.checking import words
from broker.simulation.model.calibration.estimate import Checked, Estimate
from broker.simulation.model.calibration.site_fit import SiteFit, SiteQueue, anonymous, fit_site, speeds_of
from broker.simulation.model.calibration.site_grid import traced_scenario
from broker.simulation.model.calibration.site_history import (
    History,
    QueueRecord,
    SampleQuantiles,
    TaskAtQueue,
    TaskRecord,
)
from broker.simulation.model.calibration.trace import Trace, TraceTask, read_trace, trace_of, without_names, write_trace
from broker.simulation.model.calibration.week_check import Forecast, checked, forecasts, queue_records
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.base import find_policy
from broker.simulation.statements.site_history import site_history
from broker.store.connection.database import Database
from tests.conftest import TestServer

SMALL = GridParameters(
    days=1.5, queues=3, cores=200, nuclei=1, load=0.7, outage_mean_days=0.0, warm_up_s=0.0, median_jobs=10.0,
    spread_jobs=0.8,
)  # fmt: skip
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def run() -> object:
    return ClosedLoop(truth(3, SMALL), find_policy("least_loaded"), 3).run()


@pytest.fixture(scope="module")
def database(test_server: TestServer, run: object) -> Iterator[Database]:
    with test_server.opened(test_server.create()) as database:
        with database.begin() as connection:
            store(connection, database, rows_of(run))  # type: ignore[arg-type]
        yield database


def read_history(database: Database, begin: datetime, end: datetime) -> History:
    with database.read_snapshot() as connection:
        return site_history(connection, database.names, begin, end)


@pytest.mark.parametrize(("begin", "end"), [(0.0, 1.0), (0.25, 0.75)])
def test_tables_agree_with_the_simulation(database: Database, run: object, begin: float, end: float) -> None:
    actual = read_history(database, START + begin * DAY, START + end * DAY)
    expected = queue_records(run, begin * 86_400.0, end * 86_400.0)  # type: ignore[arg-type]
    assert len(actual.queues) == len(expected) == 3
    for actual_queue, expected_queue in zip(actual.queues, sorted(expected, key=lambda queue: queue.name), strict=True):
        assert (actual_queue.name, actual_queue.jobs, actual_queue.failed) == (
            expected_queue.name,
            expected_queue.jobs,
            expected_queue.failed,
        )
        assert close(actual_queue.wall_s, expected_queue.wall_s) and close(actual_queue.wait_s, expected_queue.wait_s)
        assert actual_queue.core_s <= expected_queue.core_s * 1.0001, (
            "what still ran at the end of the simulation is in no table"
        )
        assert 0 < actual_queue.most_cores <= expected_queue.most_cores
        assert actual_queue.corepower and actual_queue.corepower > 1


def close(first: SampleQuantiles | None, second: SampleQuantiles | None) -> bool:
    if first is None or second is None:
        return first is second
    return first.n == second.n and np.allclose(
        [first.p10, first.p50, first.p90], [second.p10, second.p50, second.p90], atol=0.01
    )


def test_tasks_agree_with_the_arrivals(database: Database, run: object) -> None:
    actual = read_history(database, START, START + DAY)
    arrivals = [task for task in truth(3, SMALL).tasks if task.arrival_s < 86_400.0]
    by_number = {task.number: task for task in arrivals}
    assert 0.8 * len(arrivals) < len(actual.tasks) <= len(arrivals), "tasks without a job that ended are not there"
    for task_record in actual.tasks:
        assert task_record.arrival_s == pytest.approx(by_number[task_record.task].arrival_s, abs=0.01)
        assert 1 <= task_record.jobs <= by_number[task_record.task].jobs and task_record.failed <= task_record.attempts
    assert [task_record.arrival_s for task_record in actual.tasks] == sorted(
        task_record.arrival_s for task_record in actual.tasks
    )


def test_jobs_in_the_archive_count_once(database: Database) -> None:
    before = read_history(database, START, START + DAY)
    copy_rows = "INSERT INTO doma_pandaarch.jobsarchived SELECT * FROM {panda}.jobsarchived4 WHERE pandaid % 2 = 0"
    delete_rows = "DELETE FROM {panda}.jobsarchived4 WHERE pandaid % 4 = 0"
    with database.begin() as connection:
        for statement in (copy_rows, delete_rows):
            connection.execute(sa.text(database.names.sql(statement)))
    assert read_history(database, START, START + DAY).queues == before.queues


def history(speeds: dict[str, float], failures: dict[str, float], tasks: int = 12) -> History:
    """Tasks that ran at each queue with exactly these speeds and failures, plus 2 % of their own failures."""
    failed = {queue: round(1000 * (rate + 0.02)) for queue, rate in failures.items()}
    cells = [
        TaskAtQueue(
            task,
            "k",
            queue,
            1000,
            failed[queue],
            100.0 * (task + 1) / speed,
        )
        for task in range(tasks)
        for queue, speed in speeds.items()
    ]
    queues = [QueueRecord(name, 1000 * tasks, 0, 4e5, 64.0) for name in speeds]
    records = [
        TaskRecord(task, "k", 3600.0 * task, "S", task % 2 == 1, task, 500.0, 3000, 3000, 150, 1, 2000.0,
                   SampleQuantiles(2850, (50.0, 100.0 * (task + 1), 1e4)), None, 2.0, None)
        for task in range(tasks)
    ]  # fmt: skip
    return History(START.timestamp(), (START + DAY).timestamp(), tuple(queues), tuple(cells), tuple(records))


def test_speeds_and_failures_are_estimated() -> None:
    fit = fit_site(history({"A": 0.5, "B": 1.0, "C": 2.0}, {"A": 0.0, "B": 0.05, "C": 0.3}))
    assert [queue.speed.value for queue in fit.queues] == pytest.approx([0.5, 1.0, 2.0])
    rates = [queue.failure.value for queue in fit.queues]
    assert np.diff(rates) == pytest.approx([0.05, 0.25], abs=1e-3), "only differences of queues can be told"
    assert fit.queues[0].speed_of_kind["k"].value == pytest.approx(0.5)
    assert (fit.queues[0].cores, fit.tasks, fit.days) == (64, 12, 1.0)
    assert sum(fit.arrivals_production) == sum(fit.arrivals_analysis) == 6
    assert fit.arrivals_production[:3] == (1, 0, 1), "3 August 2026 is a Monday"
    assert fit.sizes_gb == {"input_gb": SampleQuantiles(12, (2.0, 2.0, 2.0))}


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "has_speed"), [(2, False), (3, True)])
def test_a_type_of_processing_has_its_speed_from_three_tasks_on(tasks: int, has_speed: bool) -> None:
    fit = fit_site(history({"A": 0.5, "B": 1.0}, {"A": 0.0, "B": 0.0}, tasks))
    assert ("k" in fit.queues[0].speed_of_kind) is has_speed
    assert speeds_of(fit).get(("A", "k")) == (pytest.approx(math.sqrt(0.5)) if has_speed else None)


def test_a_queue_without_a_comparison_has_a_wide_interval() -> None:
    both = history({"A": 1.0, "B": 1.0}, {"A": 0.0, "B": 0.0})
    alone = dataclasses.replace(both, at_queues=tuple(cell for cell in both.at_queues if cell.queue == "A"))
    speed = fit_site(alone).queues[0].speed
    assert (speed.value, speed.n) == (1.0, 0) and speed.high / speed.low > 3


def test_the_failures_of_a_trace_exclude_those_of_the_queues() -> None:
    fit = fit_site(history({"A": 0.5, "B": 1.0, "C": 2.0}, {"A": 0.0, "B": 0.05, "C": 0.3}))
    trace = trace_of(history({"A": 0.5, "B": 1.0, "C": 2.0}, {"A": 0.0, "B": 0.05, "C": 0.3}), fit)
    assert len(trace.tasks) == 12 and trace.left_out == 0
    mean_failure = float(np.mean([queue.failure.value for queue in fit.queues]))
    assert trace.tasks[0].failure == pytest.approx(max(0.0, 0.05 - mean_failure), abs=1e-6)
    text = write_trace(trace)
    assert write_trace(read_trace(text, "f")) == text


def trace_task(**changes: object) -> TraceTask:
    usual = TraceTask(0.0, "k", "S", False, 3, 500.0, 20, 1, 2000.0, 0.0, 50.0, 100.0, 200.0, 90.0)
    return dataclasses.replace(usual, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("wall_p50_s", "wall"), "no column wall_p50_s"),
        ((",20,", ",-1,"), "jobs is '-1'"),
        ((",20,", ",0,"), "at least 1 of each"),
        ((",20,", ",many,"), "jobs is 'many'"),
        ((",50,100,", ",150,100,"), "rising quantiles"),
    ],
)
def test_a_wrong_trace_is_refused_with_its_fault(change: tuple[str, str], message: str) -> None:
    text = write_trace(Trace((trace_task(),))).replace(*change)
    with pytest.raises(SimulationError, match=message):
        read_trace(text, "f")
    with pytest.raises(SimulationError, match="no task"):
        read_trace(write_trace(Trace(())), "f")


def site(*queues: SiteQueue) -> SiteFit:
    return SiteFit(8.0, 10, queues, 0.5, (0,) * 168, (0,) * 168)


def queue_fit(name: str, cores: int, speed: float, failure: float = 0.0) -> SiteQueue:
    return SiteQueue(name, cores, 1000, Estimate(speed, speed, speed, 9), Estimate(failure, failure, failure, 9))


def test_a_trace_runs_with_the_speeds_of_the_queues_of_the_site() -> None:
    fit = site(queue_fit("fast", 64, 2.0), queue_fit("slow", 64, 0.5))
    parameters = GridParameters(days=0.2, nuclei=1, warm_up_s=0.0)
    scenario = traced_scenario(
        fit, Trace((trace_task(jobs=200, wall_p10_s=100.0, wall_p90_s=100.0),)), parameters, "t", 1
    )
    run = ClosedLoop(scenario, find_policy("random"), 1).run()
    records = queue_records(run, 0.0, 0.2 * 86_400.0)
    walls = {record.name: record.wall_s.p50 for record in records if record.wall_s}
    assert walls == pytest.approx({"fast": 50.0, "slow": 200.0}, rel=0.05)
    assert [queue.cores for queue in scenario.queues] == [64, 64]


def test_anonymous_fits_and_traces_have_no_names() -> None:
    fit = anonymous(site(queue_fit("small-site", 8, 1.0), queue_fit("large-site", 64, 1.0)))
    assert [(queue.name, queue.cores) for queue in fit.queues] == [("queue-001", 64), ("queue-002", 8)]
    text = write_trace(without_names(Trace((trace_task(share="Secret", kind="own", user=7), trace_task(jobs=90)))))
    assert "Secret" not in text and "own" not in text and ",7," not in text
    assert "share-01" in text and "kind-02" in text


def record(wall: float, wait: float, jobs: int = 500, failed: int = 50, core_s: float = 3.2e6) -> QueueRecord:
    return QueueRecord(
        "Q",
        jobs,
        failed,
        core_s,
        64.0,
        SampleQuantiles(jobs, (wall / 2, wall, 2 * wall)),
        SampleQuantiles(jobs, (1.0, wait, 2 * wait)),
    )


def test_an_interval_predicts_the_next_value() -> None:
    simulations = [[record(wall, 600.0)] for wall in (90.0, 100.0, 110.0, 105.0, 95.0)]
    by_figure = {cell.figure: cell for cell in forecasts([record(103.0, 600.0)], simulations, 86_400.0)}
    wall = by_figure["wall_p50_s"]
    # Student's t of 4 degrees, 1.533, times the spread of ln, times sqrt(6/5)
    logs = np.log([90.0, 100.0, 110.0, 105.0, 95.0])
    reach = 1.5332 * logs.std(ddof=1) * math.sqrt(1.2)
    assert (wall.low, wall.high) == pytest.approx(
        (math.exp(logs.mean() - reach), math.exp(logs.mean() + reach)), rel=1e-3
    )
    assert wall.inside and not dataclasses.replace(wall, measured=wall.high * 1.01).inside
    assert dataclasses.replace(wall, measured=wall.simulated / 2).error == pytest.approx(math.log(2))
    assert by_figure["use"].measured == pytest.approx(3.2e6 / 64 / 86_400)


@pytest.mark.parametrize(("measured", "inside"), [(1.0, True), (59.0, True), (61.0, False), (120.0, False)])
def test_waits_below_a_minute_count_as_equal(measured: float, inside: bool) -> None:
    simulations = [[record(100.0, wait)] for wait in (20.0, 30.0, 40.0)]
    (cell,) = (
        forecast
        for forecast in forecasts([record(100.0, measured)], simulations, 86_400.0)
        if forecast.figure == "wait_p50_s"
    )
    assert cell.inside is inside


@pytest.mark.parametrize(("jobs", "cells"), [(199, 0), (200, 1)])
def test_cells_of_two_hundred_jobs_count(jobs: int, cells: int) -> None:
    verdict = checked([Forecast("Q", "use", jobs, 0.5, 0.6, 0.4, 0.7)], "span", "panda", 10)
    assert (verdict.cells, verdict.holds) == (cells, bool(cells))
    assert "no cell" in words(verdict) if not cells else "100 % of 1 cells" in words(verdict)


@pytest.mark.parametrize(("inside", "holds"), [(0.69, False), (0.70, True)])
def test_seventy_percent_must_lie_inside(inside: float, holds: bool) -> None:
    assert Checked("s", "p", 10, 100, inside, {}, {}).holds is holds


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_info:
        main(list(arguments))
    output = capsys.readouterr()
    return int(str(exit_info.value.code)), output.out, output.err


@pytest.mark.slow
def test_the_commands_calibrate_replay_and_check(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, trace, checked_grid = tmp_path / "grid.yaml.gz", tmp_path / "trace.csv", tmp_path / "checked.yaml"
    span = ("--from", "2026-08-03T00:00", "--to", "2026-08-04T00:00")
    status, out, err = command(
        capsys, "--db", database.url, "calibrate", *span, "--out", str(grid), "--trace", str(trace), "--json"
    )
    assert status == 0, err
    summary = json.loads(out)["site"]
    assert (summary["queues"], summary["days"]) == (3, 1.0) and summary["use"] > 0.1
    assert len(read_trace(trace.read_text(encoding="utf-8"), "t").tasks) > 5

    policy = ("--policy", "least_loaded", "--seeds")
    size = ("--days", "0.2", "--processes", "1", "--json")
    status, out, err = command(capsys, "simulate", "--grid", str(grid), "--trace", str(trace), *policy, "1", *size)
    assert status == 0, err
    assert json.loads(out)["figures"]["use"]["mean"] > 0
    status, out, err = command(capsys, "simulate", "--grid", str(grid), *policy, "1", *size)
    assert status == 0 and json.loads(out)["figures"]["finished"]["mean"] > 0, err

    later = ("--from", "2026-08-04T00:00", "--to", "2026-08-04T06:00")
    status, out, err = command(
        capsys, "--db", database.url, "calibrate", "--check", "--grid", str(grid), *later, *policy, "2",
        "--out", str(checked_grid), "--json",
    )  # fmt: skip
    lines = [json.loads(line) for line in out.splitlines()]
    assert status in (0, 1) and lines[-1]["kind"] == "checked", err
    assert {line["figure"] for line in lines[:-1]} >= {"wall_p50_s", "wait_p50_s", "use", "failed"}

    document = yaml.safe_load(checked_grid.read_text(encoding="utf-8"))
    document["calibration"]["checked"]["error"]["use"] = 0.03
    checked_grid.write_text(yaml.safe_dump(document), encoding="utf-8")
    both = ("--policy", "least_loaded", "--policy", "random", "--seeds", "1", "--days", "0.2", "--processes", "1")
    status, _, err = command(capsys, "simulate", "--grid", str(checked_grid), *both)
    assert status == 0, err
    assert "random: its gap in use" in err and "that error (+3.0 points)" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("calibrate", "--share"), "are of own jobs"),
        (("calibrate", "--trace", "t.csv"), "are of own jobs"),
        (("simulate", "--policy", "seed", "--trace", "nowhere.csv"), "cannot be read"),
    ],
)
def test_incompatible_options_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    status, _, err = command(capsys, *arguments)
    assert status == 3 and message in err


def test_a_trace_needs_queues_of_a_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(write_trace(Trace((trace_task(),))), encoding="utf-8")
    status, _, err = command(capsys, "simulate", "--policy", "seed", "--trace", str(path))
    assert status == 3 and "needs a calibrated grid" in err


@pytest.mark.slow
def test_the_ninth_day_of_a_hidden_truth_is_where_eight_days_predict() -> None:
    cells, verdict = compared(1, "least_loaded", 10)
    assert verdict.cells >= 20
    assert verdict.inside >= 0.7, [cell for cell in cells if cell.counts and not cell.inside]
