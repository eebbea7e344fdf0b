"""What tasks need is worked out from their finished jobs, and what they ask for changes where keys say so."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.sizing.answers.requests import TaskRequests, task_requests
from broker.store.connection.database import Database
from broker.store.query_context import Asking
from tests.pilots.panda.pilot_grid import NOW, QUEUES, content, dataset, fill, job, record, row, rows, run_agent, task

AT = "2026-08-01T10:00:00"
ENDED = {"starttime": "2026-08-01T08:00:00", "endtime": AT, "modificationtime": AT}
ASKS = {"ramcount": 4000, "ramunit": "MBPerCore", "walltimeunit": "kSI2kseconds", "cputime": 999,
        "cputimeunit": "HS06sPerEvent", "creationdate": "2026-08-01T09:00:00", "processingtype": "simul",
        "transpath": "Sim_tf.py", "corecount": 1, "cpuefficiency": 100, "basewalltime": 0}  # fmt: skip


def key(name: str, value: str, kind: str = "bool", component: str = "jobbroker") -> dict[str, Any]:
    return {"app": "jedi", "component": component, "key": name, "value": value, "type": kind, "vo": "atlas"}


SCOUTS, LEARNED = key("SCOUT_REQUESTS", "True", component="dbproxy"), key("LEARNED_REQUESTS", "True")


def finished_job(number: int) -> dict[str, Any]:
    used = {"maxpss": 1024 * (1000 + number), "cpuconsumptiontime": 7000, "outputfilebytes": 10**6}
    return job(number, "finished", corecount=1, **used, **ENDED)


def worked(
    database: Database, finished: int, *keys: dict[str, Any], killed: int = 0, asks: dict[str, Any] | None = None
) -> None:
    """Task 1, whose finished jobs used 1001, 1002 .. MB; killed ones had 5000 MB."""
    numbers = range(1, finished + 1)
    dead = [job(5000 + n, "failed", piloterrorcode=1212, maxpss=1024 * 5000, **ENDED) for n in range(killed)]
    fill(
        database, [*map(finished_job, numbers), *dead], config=list(keys),
        jedi_tasks=[task(**ASKS | (asks or {}))],
        jedi_datasets=[dataset(nfiles=999, nfilesfinished=finished)],
        jedi_dataset_contents=[content(n, n, status="finished", fsize=10**8, nevents=1000) for n in numbers],
        filestable4=[record(n, n) for n in numbers],
        schedconfig_json=[{**QUEUES[0], "data": {**QUEUES[0]["data"], "corepower": 10}}, *QUEUES[1:]],
    )  # fmt: skip


def size(database: Database, **how: Any) -> tuple[Any, list[dict[str, Any]]]:
    found, emitted = run_agent(database, "task_sizing", **how)
    assert found.outcome == "done", found.error
    return found, emitted


def asked(database: Database) -> dict[str, Any]:
    return row(database, "SELECT * FROM doma_panda.jedi_tasks WHERE jeditaskid = 1")


def show(database: Database) -> TaskRequests:
    with database.read_snapshot() as connection:
        return task_requests(Asking(connection, database.names, NOW + timedelta(minutes=1)), 1)


def test_without_keys_it_is_only_recorded_what_scouts_say(shared: Database) -> None:
    worked(shared, 5)
    found, emitted = size(shared)
    assert (found.counts["looked_at"], found.counts["changed"], found.counts["passive"]) == (1, 0, 1)
    assert asked(shared)["ramcount"] == 4000
    shown = {one.column: one for one in show(shared).values}
    assert (shown["ramcount"].source, shown["ramcount"].value, shown["ramcount"].scouts) == ("submission", 4000, 1104)
    learned = show(shared).learned
    assert learned is not None and learned.ask is None and "40 are needed" in learned.unknown
    assert [one["active"] for one in emitted] == [False]


def test_scouts_say_what_the_task_asks_for(shared: Database) -> None:
    worked(shared, 5, SCOUTS)
    size(shared)
    found = asked(shared)
    assert (found["ramcount"], found["ramunit"], found["resource_type"]) == (1104, "MBPerCore", None)  # p75, + 10 %
    assert (found["cputime"], found["cputimeunit"]) == (108, "HS06sPerEvent")
    assert (found["walltime"], found["outdiskcount"]) == (111, 10)
    shown = {one.column: one for one in show(shared).values}["ramcount"]
    assert (shown.source, shown.value) == ("scouts", 1104) and "5 finished jobs" in shown.reason


@pytest.mark.parametrize(("finished", "looked_at"), [(4, 0), (5, 1)])
def test_a_task_is_looked_at_from_five_finished_jobs(shared: Database, finished: int, looked_at: int) -> None:
    worked(shared, finished, SCOUTS)
    assert size(shared)[0].counts["looked_at"] == looked_at


@pytest.mark.parametrize(("then", "unit", "again"), [(6, "s", 0), (5, "s", 1), (6, None, 1), (10, None, 0)])
def test_it_is_looked_at_again_when_its_jobs_doubled_or_somebody_asks(
    shared: Database, then: int, unit: str | None, again: int
) -> None:
    worked(shared, 10, asks={"walltimeunit": unit})
    size(shared)
    with shared.begin() as connection:
        connection.exec_driver_sql(f"UPDATE broker.request_learned SET finished = {then}")
    assert size(shared)[0].counts["looked_at"] == again


def test_the_learned_quantile_counts_killed_jobs(shared: Database) -> None:
    worked(shared, 50, LEARNED)
    size(shared)
    assert asked(shared)["ramcount"] == 1153  # 95 % of 50: 1048 MB, + 10 %
    worked(shared, 50, LEARNED, killed=20)
    size(shared)
    assert asked(shared)["ramcount"] == 4000
    learned = show(shared).learned
    assert learned is not None and (learned.killed, learned.ask) == (20, None) and "killed" in learned.unknown


def test_memory_that_is_fixed_stays(shared: Database) -> None:
    worked(shared, 50, LEARNED, SCOUTS, asks={"ramunit": "MBPerCoreFixed"})
    size(shared)
    assert (asked(shared)["ramcount"], asked(shared)["ramunit"]) == (4000, "MBPerCoreFixed")


@pytest.mark.parametrize(("known", "expected"), [(4, 4000), (5, 1650)])
def test_a_new_task_asks_for_what_its_kind_needed(shared: Database, known: int, expected: int) -> None:
    worked(shared, 0, LEARNED)
    with shared.begin() as connection:
        for number in range(100, 100 + known):
            connection.exec_driver_sql(
                "INSERT INTO broker.request_learned (jeditaskid, evaluated_at, processingtype, transformation, "
                "release, cores, ramunit, finished, killed, scouts, ask_mb, unknown) VALUES "
                f"({number}, '2026-07-30', 'simul', 'Sim_tf.py', '', 1, 'MBPerCore', 50, 0, '{{}}', 1500, '')"
            )
        connection.exec_driver_sql("UPDATE doma_panda.jedi_tasks SET status = 'ready'")
    size(shared)
    assert asked(shared)["ramcount"] == expected
    assert size(shared)[1] == []


PRIOR = key("LEARNED_REQUESTS_PRIOR", "True")


def others(database: Database, *tasks: tuple[int, str, str | None, str]) -> None:
    """Tasks with ten jobs each: MB that every one used, transformation, unit, and when they were looked at."""
    with database.begin() as connection:
        for number, (mb, transformation, unit, at) in enumerate(tasks, 100):
            values = {"n": number, "tf": transformation, "unit": unit, "at": at, "ln": math.log(mb)}
            connection.execute(
                sa.text(
                    "INSERT INTO broker.request_learned (jeditaskid, evaluated_at, processingtype, transformation,"
                    " release, cores, ramunit, finished, killed, scouts, unknown, used_jobs, used_ln_sum,"
                    " used_ln_square_sum) VALUES (:n, :at, 'simul', :tf, '', 1, :unit, 10, 0, '{}', '-', 10, 10 * :ln,"
                    " 10 * :ln * :ln)"
                ),
                values,
            )
        connection.exec_driver_sql("UPDATE doma_panda.jedi_tasks SET status = 'ready'")


OWN = (1000, "Sim_tf.py", "MBPerCore", "2026-07-30")
WIDER = (1000, "Other_tf.py", "MBPerCore", "2026-07-30")


@pytest.mark.parametrize(
    ("keys", "known", "expected"),
    [
        ([PRIOR], [OWN] * 2, 1556),  # 4000, 1000 and 1000 MB, each half of what is above: 1414 MB, + 10 %
        ([PRIOR], [WIDER] * 2, 2200),
        ([PRIOR], [OWN], 4000),
        ([PRIOR], [OWN, WIDER], 2200),
        ([PRIOR, LEARNED], [OWN] * 2, 1556),
        ([LEARNED], [OWN] * 2, 4000),
        ([], [OWN] * 2, 4000),
        ([PRIOR], [(1000, "Sim_tf.py", "MB", "2026-07-30")] * 2, 4000),
        ([PRIOR], [(1000, "Sim_tf.py", "MBPerCore", "2026-07-01")] * 2, 4000),
        ([PRIOR], [(20, "Sim_tf.py", "MBPerCore", "2026-07-30")] * 9, 1100),  # no less than a quarter
        ([PRIOR], [(90_000, "Sim_tf.py", "MBPerCore", "2026-07-30")] * 9, 17_600),  # no more than four times
    ],
)
def test_a_new_task_asks_by_the_prior_of_its_kind(
    shared: Database, keys: list[dict[str, Any]], known: list[Any], expected: int
) -> None:
    worked(shared, 0, *keys)
    others(shared, *known)
    size(shared)
    assert asked(shared)["ramcount"] == expected
    shown = {one.column: one for one in show(shared).values}["ramcount"]
    assert shown.source == ("submission" if expected == 4000 else "kind")
    if expected == 1556:
        said = "2 tasks and 20 jobs of the kind need 1000 MB at p90"
        assert shown.reason.startswith("ramcount 4000 -> 1556 MB: prior of kind (processingtype simul, transformation")
        assert said in shown.reason and "drawn towards the request of 4000 MB: 1414 MB, plus 10 %" in shown.reason
    assert ("bounded by 0.25 times the request" in shown.reason) == (expected == 1100)
    assert ("bounded by 4 times the request" in shown.reason) == (expected == 17_600)
    assert size(shared)[1] == []


def test_what_is_known_of_the_kind_stands_where_a_task_asks_for_just_that(shared: Database) -> None:
    worked(shared, 0, PRIOR, LEARNED, asks={"ramcount": 1100})
    others(shared, *[(500, *OWN[1:])] * 5)
    with shared.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.request_learned SET ask_mb = 1000")
    size(shared)
    assert asked(shared)["ramcount"] == 1100


def test_what_jobs_used_is_kept_for_the_tasks_after_it(shared: Database) -> None:
    worked(shared, 5, killed=1)
    size(shared)
    logs = [math.log(1000 + number) for number in range(1, 6)] + [math.log(5000)]
    [kept] = rows(shared, "SELECT used_jobs, used_ln_sum, used_ln_square_sum FROM broker.request_learned")
    assert kept == (6, pytest.approx(sum(logs)), pytest.approx(sum(one * one for one in logs)))


def test_its_own_scouts_decide_after_the_prior(shared: Database) -> None:
    worked(shared, 0, PRIOR, SCOUTS)
    others(shared, OWN, OWN)
    size(shared)
    assert asked(shared)["ramcount"] == 1556
    changed = rows(shared, "SELECT source, reason FROM broker.request_changes")
    assert [source for source, _ in changed] == ["kind"]
    worked(shared, 5, PRIOR, SCOUTS)
    others(shared, OWN, OWN)
    size(shared)
    assert asked(shared)["ramcount"] == 1104


def test_a_dry_run_writes_nothing(shared: Database) -> None:
    worked(shared, 5, SCOUTS)
    _, emitted = size(shared, dry=True)
    assert [one["after"]["ramcount"] for one in emitted] == [1104]
    assert (asked(shared)["ramcount"], rows(shared, "SELECT FROM broker.request_learned")) == (4000, [])
