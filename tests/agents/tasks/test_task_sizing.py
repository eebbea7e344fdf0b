"""The needs of tasks are worked out from their finished jobs, and their requests change where keys say so."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.sizing.answers.requests import TaskRequests, task_requests
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
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
    usage = {"maxpss": 1024 * (1000 + number), "cpuconsumptiontime": 7000, "outputfilebytes": 10**6}
    return job(number, "finished", corecount=1, **usage, **ENDED)


def prepare_task(
    database: Database, finished: int, *keys: dict[str, Any], killed: int = 0, asks: dict[str, Any] | None = None
) -> None:
    """Store task 1, whose finished jobs used 1001, 1002 .. MB and whose killed jobs had 5000 MB."""
    numbers = range(1, finished + 1)
    killed_jobs = [job(5000 + n, "failed", piloterrorcode=1212, maxpss=1024 * 5000, **ENDED) for n in range(killed)]
    fill(
        database, [*map(finished_job, numbers), *killed_jobs], config=list(keys),
        jedi_tasks=[task(**ASKS | (asks or {}))],
        jedi_datasets=[dataset(nfiles=999, nfilesfinished=finished)],
        jedi_dataset_contents=[content(n, n, status="finished", fsize=10**8, nevents=1000) for n in numbers],
        filestable4=[record(n, n) for n in numbers],
        schedconfig_json=[{**QUEUES[0], "data": {**QUEUES[0]["data"], "corepower": 10}}, *QUEUES[1:]],
    )  # fmt: skip


def size(database: Database, **arguments: Any) -> tuple[Any, list[dict[str, Any]]]:
    run_record, objects = run_agent(database, "task_sizing", **arguments)
    assert run_record.outcome == "done", run_record.error
    return run_record, objects


def request_of_task(database: Database) -> dict[str, Any]:
    return row(database, "SELECT * FROM doma_panda.jedi_tasks WHERE jeditaskid = 1")


def show(database: Database) -> TaskRequests:
    with database.read_snapshot() as connection:
        return task_requests(QueryContext(connection, database.names, NOW + timedelta(minutes=1)), 1)


def test_without_keys_the_values_of_scouts_are_only_recorded(shared_database: Database) -> None:
    prepare_task(shared_database, 5)
    run_record, objects = size(shared_database)
    assert (run_record.counts["looked_at"], run_record.counts["changed"], run_record.counts["passive"]) == (1, 0, 1)
    assert request_of_task(shared_database)["ramcount"] == 4000
    values = {value.column: value for value in show(shared_database).values}
    assert (values["ramcount"].source, values["ramcount"].value, values["ramcount"].scouts) == (
        "submission",
        4000,
        1104,
    )
    learned = show(shared_database).learned
    assert learned is not None and learned.ask is None and "40 are needed" in learned.unknown
    assert [item["active"] for item in objects] == [False]


def test_scouts_set_the_request_of_the_task(shared_database: Database) -> None:
    prepare_task(shared_database, 5, SCOUTS)
    size(shared_database)
    request = request_of_task(shared_database)
    assert (request["ramcount"], request["ramunit"], request["resource_type"]) == (
        1104,
        "MBPerCore",
        None,
    )  # p75, + 10 %
    assert (request["cputime"], request["cputimeunit"]) == (108, "HS06sPerEvent")
    assert (request["walltime"], request["outdiskcount"]) == (111, 10)
    ramcount = {value.column: value for value in show(shared_database).values}["ramcount"]
    assert (ramcount.source, ramcount.value) == ("scouts", 1104) and "5 finished jobs" in ramcount.reason


@pytest.mark.parametrize(("finished", "looked_at"), [(4, 0), (5, 1)])
def test_a_task_is_looked_at_from_five_finished_jobs(shared_database: Database, finished: int, looked_at: int) -> None:
    prepare_task(shared_database, finished, SCOUTS)
    assert size(shared_database)[0].counts["looked_at"] == looked_at


@pytest.mark.parametrize(
    ("finished_before", "unit", "looked_at"), [(6, "s", 0), (5, "s", 1), (6, None, 1), (10, None, 0)]
)
def test_a_task_is_looked_at_again_when_its_jobs_doubled_or_its_walltime_unit_is_null(
    shared_database: Database, finished_before: int, unit: str | None, looked_at: int
) -> None:
    prepare_task(shared_database, 10, asks={"walltimeunit": unit})
    size(shared_database)
    with shared_database.begin() as connection:
        connection.exec_driver_sql(f"UPDATE broker.request_learned SET finished = {finished_before}")
    assert size(shared_database)[0].counts["looked_at"] == looked_at


def test_the_learned_quantile_counts_killed_jobs(shared_database: Database) -> None:
    prepare_task(shared_database, 50, LEARNED)
    size(shared_database)
    assert request_of_task(shared_database)["ramcount"] == 1153  # 95 % of 50: 1048 MB, + 10 %
    prepare_task(shared_database, 50, LEARNED, killed=20)
    size(shared_database)
    assert request_of_task(shared_database)["ramcount"] == 4000
    learned = show(shared_database).learned
    assert learned is not None and (learned.killed, learned.ask) == (20, None) and "killed" in learned.unknown


def test_memory_that_is_fixed_stays(shared_database: Database) -> None:
    prepare_task(shared_database, 50, LEARNED, SCOUTS, asks={"ramunit": "MBPerCoreFixed"})
    size(shared_database)
    assert (request_of_task(shared_database)["ramcount"], request_of_task(shared_database)["ramunit"]) == (
        4000,
        "MBPerCoreFixed",
    )


@pytest.mark.parametrize(("known", "expected"), [(4, 4000), (5, 1650)])
def test_a_new_task_requests_the_memory_that_its_kind_needed(
    shared_database: Database, known: int, expected: int
) -> None:
    prepare_task(shared_database, 0, LEARNED)
    with shared_database.begin() as connection:
        for number in range(100, 100 + known):
            connection.exec_driver_sql(
                "INSERT INTO broker.request_learned (jeditaskid, evaluated_at, processingtype, transformation, "
                "release, cores, ramunit, finished, killed, scouts, ask_mb, unknown) VALUES "
                f"({number}, '2026-07-30', 'simul', 'Sim_tf.py', '', 1, 'MBPerCore', 50, 0, '{{}}', 1500, '')"
            )
        connection.exec_driver_sql("UPDATE doma_panda.jedi_tasks SET status = 'ready'")
    size(shared_database)
    assert request_of_task(shared_database)["ramcount"] == expected
    assert size(shared_database)[1] == []


PRIOR = key("LEARNED_REQUESTS_PRIOR", "True")


def add_known_tasks(database: Database, *tasks: tuple[int, str, str | None, str]) -> None:
    """Store tasks with ten jobs each: MB that each job used, transformation, unit, and time of the evaluation."""
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
def test_a_new_task_requests_memory_by_the_prior_of_its_kind(
    shared_database: Database, keys: list[dict[str, Any]], known: list[Any], expected: int
) -> None:
    prepare_task(shared_database, 0, *keys)
    add_known_tasks(shared_database, *known)
    size(shared_database)
    assert request_of_task(shared_database)["ramcount"] == expected
    ramcount = {value.column: value for value in show(shared_database).values}["ramcount"]
    assert ramcount.source == ("submission" if expected == 4000 else "kind")
    if expected == 1556:
        sentence = "2 tasks and 20 jobs of the kind need 1000 MB at p90"
        assert ramcount.reason.startswith(
            "ramcount 4000 -> 1556 MB: prior of kind (processingtype simul, transformation"
        )
        assert (
            sentence in ramcount.reason
            and "drawn towards the request of 4000 MB: 1414 MB, plus 10 %" in ramcount.reason
        )
    assert ("bounded by 0.25 times the request" in ramcount.reason) == (expected == 1100)
    assert ("bounded by 4 times the request" in ramcount.reason) == (expected == 17_600)
    assert size(shared_database)[1] == []


def test_the_prior_does_not_change_a_request_that_equals_the_learned_one(shared_database: Database) -> None:
    prepare_task(shared_database, 0, PRIOR, LEARNED, asks={"ramcount": 1100})
    add_known_tasks(shared_database, *[(500, *OWN[1:])] * 5)
    with shared_database.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.request_learned SET ask_mb = 1000")
    size(shared_database)
    assert request_of_task(shared_database)["ramcount"] == 1100


def test_the_memory_that_jobs_used_is_kept_for_later_tasks(shared_database: Database) -> None:
    prepare_task(shared_database, 5, killed=1)
    size(shared_database)
    logs = [math.log(1000 + number) for number in range(1, 6)] + [math.log(5000)]
    [usage] = rows(shared_database, "SELECT used_jobs, used_ln_sum, used_ln_square_sum FROM broker.request_learned")
    assert usage == (6, pytest.approx(sum(logs)), pytest.approx(sum(log * log for log in logs)))


def test_the_own_scouts_of_a_task_decide_after_the_prior(shared_database: Database) -> None:
    prepare_task(shared_database, 0, PRIOR, SCOUTS)
    add_known_tasks(shared_database, OWN, OWN)
    size(shared_database)
    assert request_of_task(shared_database)["ramcount"] == 1556
    changes = rows(shared_database, "SELECT source, reason FROM broker.request_changes")
    assert [source for source, _ in changes] == ["kind"]
    prepare_task(shared_database, 5, PRIOR, SCOUTS)
    add_known_tasks(shared_database, OWN, OWN)
    size(shared_database)
    assert request_of_task(shared_database)["ramcount"] == 1104


def test_a_dry_run_writes_nothing(shared_database: Database) -> None:
    prepare_task(shared_database, 5, SCOUTS)
    _, objects = size(shared_database, dry=True)
    assert [item["after"]["ramcount"] for item in objects] == [1104]
    assert (
        request_of_task(shared_database)["ramcount"],
        rows(shared_database, "SELECT FROM broker.request_learned"),
    ) == (4000, [])
