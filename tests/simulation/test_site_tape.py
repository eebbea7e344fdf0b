"""Tape and workers of a calibrated grid: as the site has them, off with the reason, or as its file says."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
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
from broker.simulation.model.calibration.site_history import Counted, History, QueueRecord, TapeRecord, WorkersRecord
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.simple import LeastLoaded
from broker.simulation.model.scenario import Scenario
from broker.simulation.model.scenario_file import read_scenario
from broker.simulation.model.scenario_parts import Tape, Workers
from broker.simulation.statements.site_history import site_history
from broker.simulation.statements.site_tape import NOT_THERE, site_tape
from broker.store.connection.database import Database
from tests.conftest import TestServer

BEGIN = datetime(2026, 8, 3)  # noqa: DTZ001 - as PanDA stores it
CREATE = """
CREATE TABLE {panda}.data_carousel_requests (request_id bigint, status text, total_files bigint, staged_files bigint,
    start_time timestamp, end_time timestamp);
CREATE TABLE {panda}.data_carousel_relations (request_id bigint, task_id bigint)"""


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[Database]:
    url = test_server.create()
    with Database(url) as database:
        yield database
    test_server.drop(sa.make_url(url).database or "")


def test_what_the_data_carousel_staged(database: Database) -> None:
    span = (BEGIN.astimezone(), (BEGIN + timedelta(days=9)).astimezone())
    with database.begin() as connection:
        assert site_tape(connection, database.names, *span) == (None, NOT_THERE)
        for statement in CREATE.split(";"):
            connection.execute(sa.text(database.names.sql(statement)))
        found, why = site_tape(connection, database.names, *span)
        assert found is None and "0 requests of the Data Carousel were done" in why
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
        types = ["input", "input", "input", "input", "pseudo_input", "output"]  # the last two tasks have none
        connection.execute(
            sa.text(database.names.sql(dataset)), [{"n": n, "type": of} for n, of in enumerate(types, start=1)]
        )
        connection.execute(
            sa.text(database.names.sql("INSERT INTO {panda}.data_carousel_relations VALUES (1, 1), (2, 1), (3, 2)"))
        )
        found, why = site_tape(connection, database.names, *span)
        assert found == TapeRecord(41, 7500, 1500, Counted(40, (3600.0, 3600.0, 3600.0)), 0.5) and why == ""


#: Minutes from the beginning of the span: submitted, started, ended; whether it found a slot free.
WORKERS = [
    ("Q", 0, 5, 60, True),  # nobody has left yet
    ("Q", 50, 60, 300, False),  # as another leaves
    ("Q", 10, 62, 300, False),  # two minutes after that
    ("Q", 30, 63, 300, True),
    ("R", 55, 61, None, True),  # who leaves another queue gives no slot
    ("Q", -60, -30, 100, None),  # submitted before the span
    ("Q", 90, 101, 300, False),  # as that one leaves
    ("Q", 1400, 1450, None, None),  # starts after the span
]


def test_workers_that_found_a_slot_free_are_told_from_those_that_waited_for_one(database: Database) -> None:
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
        found = site_history(connection, database.names, begin, begin + timedelta(days=1)).workers
    for one in found:
        own = [
            (60.0 * (started - submitted), free) for queue, submitted, started, _, free in WORKERS if queue == one.queue
        ]
        waits, of_free = [w for w, free in own if free is not None], [w for w, free in own if free]
        assert one.delay_s and (one.delay_s.n, one.delay_s.p50) == (len(waits), np.median(waits))
        assert one.free_delay_s and (one.free_delay_s.n, one.free_delay_s.p50) == (len(of_free), np.median(of_free))
    assert [(one.queue, one.workers) for one in found] == [("Q", 6), ("R", 1)]


@pytest.mark.parametrize(("free", "taken"), [(10, 120.0), (9, 900.0), (0, 900.0)])
def test_what_workers_wait_is_of_those_with_a_free_slot_where_these_are_enough(free: int, taken: float) -> None:
    of_free = Counted(free, (60.0, 120.0, 240.0)) if free else None
    record = WorkersRecord("Q", 100, 0, Counted(90, (60.0, 900.0, 9000.0)), 0, of_free)
    (queue,) = fit_site(history(workers=(record,))).queues
    assert queue.worker_delay_s and queue.worker_delay_s.p50 == taken


def history(**changes: object) -> History:
    made = History(BEGIN.timestamp(), BEGIN.timestamp() + 86_400.0, (QueueRecord("Q", 100, 0, 4e5, 64.0),), (), ())
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_tape_and_workers_are_fitted_or_off() -> None:
    none = fit_site(history(without_tape="no tables"))
    assert (none.read_tape, none.workers, none.without_tape) == (Tape(), Workers(), "no tables")
    delay = Counted(90, (60.0, 300.0, 900.0))
    seen = fit_site(
        history(
            tape=TapeRecord(50, 4000, 400, Counted(40, (600.0, 1200.0, 2400.0)), 0.25),
            workers=(WorkersRecord("Q", 100, 9, delay, 2),),
        )
    )
    tape = seen.read_tape
    assert (tape.part, tape.median_s, tape.failure) == (0.25, 1200.0, 0.1)
    assert tape.spread == pytest.approx(math.log(2.0) / 1.2815515655446004)
    assert seen.workers == Workers(enabled=True, lost=0.02)
    few = fit_site(history(workers=(WorkersRecord("Q", 10, 0, Counted(10, (60.0, 300.0, 900.0))),)))
    at_once = fit_site(history(workers=(WorkersRecord("Q", 100, 0, Counted(90, (0.0, 0.0, 0.0))),)))
    assert not few.workers.enabled and not at_once.workers.enabled


def calibration(**changes: object) -> Calibration:
    wall = TwoPiece(600.0, 0.3, 0.3)
    quantities = {"wall_s": wall, "cpu_s": wall, "cpu_efficiency": TwoPiece(0.8, 0.1, 0.1)}
    kind = KindFit(1000, 0, quantities, 1, {}, {2048.0: 1.0})
    sure = Estimate(1.0, 1.0, 1.0, 9)
    queue = SiteQueue("Q", 64, 1000, sure, Estimate(0.0, 0.0, 0.0, 9), worker_delay_s=Counted(90, (60.0, 300.0, 900.0)))
    site = SiteFit(1.0, 10, (queue,), 0.5, (0,) * 168, (0,) * 168)
    return Calibration("own", (kind,), (), {}, site=dataclasses.replace(site, **changes))  # type: ignore[arg-type]


def made(found: Calibration, changes: str = "") -> Scenario:
    text = write_calibration(found, {"days": 0.2, "nuclei": 1, "warm_up_s": 3600.0, "load": 0.6, "median_jobs": 8.0})
    choice = read_scenario(text + changes, "own.yaml")
    assert isinstance(choice, CalibratedChoice)
    return choice(1)


def test_the_file_of_a_fit_switches_tape_and_workers() -> None:
    plain = made(calibration())
    assert (plain.tape, plain.workers) == (Tape(), Workers())
    changes = "changes: {tape: {part: 0.9, median_s: 60}, workers: {enabled: true}, cycle_s: 30}\n"
    scenario = made(calibration(), changes)
    assert (scenario.tape, scenario.workers) == (Tape(part=0.9, median_s=60.0), Workers(enabled=True))
    assert scenario.cycle_s == 30.0
    wait = scenario.queues[0].worker_wait
    assert wait is not None and wait == pytest.approx((300.0, math.log(3.0) / 1.2815515655446004))
    run = ClosedLoop(scenario, LeastLoaded, 1).run()
    assert run.tally.recalled_files > 20 and run.tally.workers > 20 and np.isfinite(run.runs.start_s).any()
    with pytest.raises(SimulationError, match=r"a calibrated grid takes .*tape.*workers"):
        made(calibration(), "changes: {queues: []}\n")


def test_what_was_fitted_stays_where_the_file_says_nothing() -> None:
    took = Counted(40, (600.0, 1200.0, 2400.0))
    found = calibration(tape=TapeRecord(50, 4000, 400, took, 0.25), lost_workers=0.03)
    assert made(found).workers == Workers(enabled=True, lost=0.03) and made(found).tape.part == 0.25
    changed = made(found, "changes: {tape: {part: 0.5}, workers: {enabled: false}}\n")
    assert (changed.tape.part, changed.tape.median_s, changed.tape.failure) == (0.5, 1200.0, 0.1)
    assert changed.workers == Workers(enabled=False, lost=0.03)
