"""Tape and workers of a calibrated grid: fitted to the site, off with a reason, or set by its file."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import sqlalchemy as sa

from broker.simulation.model.calibration.calibrated_grid import CalibratedChoice
from broker.simulation.model.calibration.calibration_file import write_calibration
from broker.simulation.model.calibration.estimate import Estimate
from broker.simulation.model.calibration.fit import Calibration, KindFit
from broker.simulation.model.calibration.quantile_fits import TwoPiece
from broker.simulation.model.calibration.site_fit import SiteFit, SiteQueue, fit_site
from broker.simulation.model.calibration.site_history import (
    History,
    QueueRecord,
    SampleQuantiles,
    TapeRecord,
    WorkersRecord,
)
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.simple import LeastLoaded
from broker.simulation.model.scenario import Scenario
from broker.simulation.model.scenario_file import read_scenario
from broker.simulation.model.scenario_parts import Tape, Workers
from broker.simulation.statements.site_history import site_history
from broker.simulation.statements.site_tape import NOT_THERE, site_tape
from broker.store.connection.database import Database

BEGIN = datetime(2026, 8, 3)  # noqa: DTZ001 - PanDA stores naive times
CREATE = """
CREATE TABLE {panda}.data_carousel_requests (request_id bigint, status text, total_files bigint, staged_files bigint,
    start_time timestamp, end_time timestamp);
CREATE TABLE {panda}.data_carousel_relations (request_id bigint, task_id bigint)"""


@pytest.fixture(scope="module")
def database(shared_database: Database) -> Database:
    return shared_database


def test_the_tape_record_of_the_data_carousel(database: Database) -> None:
    span = (BEGIN.astimezone(), (BEGIN + timedelta(days=9)).astimezone())
    with database.begin() as connection:
        assert site_tape(connection, database.names, *span) == (None, NOT_THERE)
        for statement in CREATE.split(";"):
            connection.execute(sa.text(database.names.sql(statement)))
        tape, reason = site_tape(connection, database.names, *span)
        assert tape is None and "0 requests of the Data Carousel were done" in reason
        insert = "INSERT INTO {panda}.data_carousel_requests VALUES (:n, :status, :files, :staged, :start, :end)"
        start = BEGIN + timedelta(days=1)
        rows = [
            # 150 files are two hundreds: an hour for each
            {"n": n, "status": "done", "files": 150, "staged": 150, "start": start, "end": start + timedelta(hours=2)}
            for n in range(40)
        ]
        rows.append({"n": 40, "status": "cancelled", "files": 1500, "staged": 0, "start": start, "end": rows[0]["end"]})
        rows.append({**rows[0], "n": 41, "status": "staging"})
        connection.execute(sa.text(database.names.sql(insert)), rows)
        task = "INSERT INTO {panda}.jedi_tasks (jeditaskid, taskname, status, username, creationdate, modificationtime)"
        values = " SELECT n, 't' || n, 'done', 'u', :at, :at FROM generate_series(1, 8) AS n"
        connection.execute(sa.text(database.names.sql(task + values)), {"at": start})
        dataset = "INSERT INTO {panda}.jedi_datasets (jeditaskid, datasetid, type) VALUES (:n, :n, :type)"
        types = ["input", "input", "input", "input", "pseudo_input", "output"]  # the last two tasks have no dataset
        connection.execute(
            sa.text(database.names.sql(dataset)),
            [{"n": n, "type": dataset_type} for n, dataset_type in enumerate(types, start=1)],
        )
        connection.execute(
            sa.text(database.names.sql("INSERT INTO {panda}.data_carousel_relations VALUES (1, 1), (2, 1), (3, 2)"))
        )
        tape, reason = site_tape(connection, database.names, *span)
        assert tape == TapeRecord(41, 7500, 1500, SampleQuantiles(40, (3600.0, 3600.0, 3600.0)), 0.5) and reason == ""


#: Minutes from the beginning of the span: submitted, started, ended; whether a slot was free.
WORKERS = [
    ("Q", 0, 5, 60, True),  # no worker has ended yet
    ("Q", 50, 60, 300, False),  # as another worker ends
    ("Q", 10, 62, 300, False),  # two minutes after that
    ("Q", 30, 63, 300, True),
    ("R", 55, 61, None, True),  # the end of a worker at another queue frees no slot
    ("Q", -60, -30, 100, None),  # submitted before the span
    ("Q", 90, 101, 300, False),  # as that worker ends
    ("Q", 1400, 1450, None, None),  # starts after the span
]


def test_workers_with_a_free_slot_are_separated_from_those_that_waited_for_one(database: Database) -> None:
    def at(minute: int | None) -> datetime | None:
        return None if minute is None else BEGIN + timedelta(minutes=minute)

    columns = "harvesterid, workerid, status, computingsite, submittime, starttime, endtime"
    values = "'h', :n, 'finished', :queue, :submitted, :started, :ended"
    insert = f"INSERT INTO {{panda}}.harvester_workers ({columns}) VALUES ({values})"
    rows = [
        {"n": n, "queue": queue, "submitted": at(submitted), "started": at(started), "ended": at(ended)}
        for n, (queue, submitted, started, ended, _) in enumerate(WORKERS)
    ]
    with database.begin() as connection:
        connection.execute(sa.text(database.names.sql(insert)), rows)
        begin = BEGIN.replace(tzinfo=UTC)
        records = site_history(connection, database.names, begin, begin + timedelta(days=1)).workers
    for record in records:
        delays = [
            (60.0 * (started - submitted), free)
            for queue, submitted, started, _, free in WORKERS
            if queue == record.queue
        ]
        waits, free_waits = [w for w, free in delays if free is not None], [w for w, free in delays if free]
        assert record.delay_s and (record.delay_s.n, record.delay_s.p50) == (len(waits), np.median(waits))
        assert record.free_delay_s and (record.free_delay_s.n, record.free_delay_s.p50) == (
            len(free_waits),
            np.median(free_waits),
        )
    assert [(record.queue, record.workers) for record in records] == [("Q", 6), ("R", 1)]


@pytest.mark.parametrize(("free", "expected_s"), [(10, 120.0), (9, 900.0), (0, 900.0)])
def test_worker_delays_are_of_those_with_a_free_slot_if_there_are_enough(free: int, expected_s: float) -> None:
    of_free = SampleQuantiles(free, (60.0, 120.0, 240.0)) if free else None
    record = WorkersRecord("Q", 100, 0, SampleQuantiles(90, (60.0, 900.0, 9000.0)), 0, of_free)
    (queue,) = fit_site(history(workers=(record,))).queues
    assert queue.worker_delay_s and queue.worker_delay_s.p50 == expected_s


def history(**changes: object) -> History:
    base = History(BEGIN.timestamp(), BEGIN.timestamp() + 86_400.0, (QueueRecord("Q", 100, 0, 4e5, 64.0),), (), ())
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def test_tape_and_workers_are_fitted_or_off() -> None:
    unmeasured = fit_site(history(without_tape="no tables"))
    assert (unmeasured.read_tape, unmeasured.workers, unmeasured.without_tape) == (Tape(), Workers(), "no tables")
    delay = SampleQuantiles(90, (60.0, 300.0, 900.0))
    measured = fit_site(
        history(
            tape=TapeRecord(50, 4000, 400, SampleQuantiles(40, (600.0, 1200.0, 2400.0)), 0.25),
            workers=(WorkersRecord("Q", 100, 9, delay, 2),),
        )
    )
    tape = measured.read_tape
    assert (tape.part, tape.median_s, tape.failure) == (0.25, 1200.0, 0.1)
    assert tape.spread == pytest.approx(math.log(2.0) / 1.2815515655446004)
    assert measured.workers == Workers(enabled=True, lost=0.02)
    few = fit_site(history(workers=(WorkersRecord("Q", 10, 0, SampleQuantiles(10, (60.0, 300.0, 900.0))),)))
    at_once = fit_site(history(workers=(WorkersRecord("Q", 100, 0, SampleQuantiles(90, (0.0, 0.0, 0.0))),)))
    assert not few.workers.enabled and not at_once.workers.enabled


def calibration(**changes: object) -> Calibration:
    wall = TwoPiece(600.0, 0.3, 0.3)
    quantities = {"wall_s": wall, "cpu_s": wall, "cpu_efficiency": TwoPiece(0.8, 0.1, 0.1)}
    kind = KindFit(1000, 0, quantities, 1, {}, {2048.0: 1.0})
    sure = Estimate(1.0, 1.0, 1.0, 9)
    queue = SiteQueue(
        "Q", 64, 1000, sure, Estimate(0.0, 0.0, 0.0, 9), worker_delay_s=SampleQuantiles(90, (60.0, 300.0, 900.0))
    )
    site = SiteFit(1.0, 10, (queue,), 0.5, (0,) * 168, (0,) * 168)
    return Calibration("own", (kind,), (), {}, site=dataclasses.replace(site, **changes))  # type: ignore[arg-type]


def scenario_of(fit: Calibration, changes: str = "") -> Scenario:
    text = write_calibration(fit, {"days": 0.2, "nuclei": 1, "warm_up_s": 3600.0, "load": 0.6, "median_jobs": 8.0})
    choice = read_scenario(text + changes, "own.yaml")
    assert isinstance(choice, CalibratedChoice)
    return choice(1)


def test_the_file_of_a_fit_switches_tape_and_workers() -> None:
    plain = scenario_of(calibration())
    assert (plain.tape, plain.workers) == (Tape(), Workers())
    changes = "changes: {tape: {part: 0.9, median_s: 60}, workers: {enabled: true}, cycle_s: 30}\n"
    scenario = scenario_of(calibration(), changes)
    assert (scenario.tape, scenario.workers) == (Tape(part=0.9, median_s=60.0), Workers(enabled=True))
    assert scenario.cycle_s == 30.0
    wait = scenario.queues[0].worker_wait
    assert wait is not None and wait == pytest.approx((300.0, math.log(3.0) / 1.2815515655446004))
    run = ClosedLoop(scenario, LeastLoaded, 1).run()
    assert run.tally.recalled_files > 20 and run.tally.workers > 20 and np.isfinite(run.runs.start_s).any()
    with pytest.raises(SimulationError, match=r"a calibrated grid takes .*tape.*workers"):
        scenario_of(calibration(), "changes: {queues: []}\n")


def test_fitted_values_stay_where_the_file_sets_none() -> None:
    durations = SampleQuantiles(40, (600.0, 1200.0, 2400.0))
    fit = calibration(tape=TapeRecord(50, 4000, 400, durations, 0.25), lost_workers=0.03)
    assert scenario_of(fit).workers == Workers(enabled=True, lost=0.03) and scenario_of(fit).tape.part == 0.25
    changed = scenario_of(fit, "changes: {tape: {part: 0.5}, workers: {enabled: false}}\n")
    assert (changed.tape.part, changed.tape.median_s, changed.tape.failure) == (0.5, 1200.0, 0.1)
    assert changed.workers == Workers(enabled=False, lost=0.03)
